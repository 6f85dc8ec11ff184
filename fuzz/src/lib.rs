//! Shared by the fuzz targets: schemas and values drawn from bytes, and the check of an export.

mod draw;
mod judge;

pub use self::{
    draw::{Draw, case},
    judge::agrees,
};
