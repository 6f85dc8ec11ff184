//! What the fuzz targets share: schemas and values drawn from bytes, and how an export is judged.

mod draw;
mod judge;

pub use self::{
    draw::{Draw, case},
    judge::agrees,
};
