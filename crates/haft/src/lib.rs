//! The runtime between a language model and the world.

mod error;
mod config;
mod near;
mod watch;
mod fit;
mod catalog;
mod export;
mod runtime;
mod run;
mod turn;
mod lifecycle;
mod policy;
mod hooks;
mod journal;
mod envelope;
mod event;

pub use haft_core::*;
pub use haft_macros::{Tool, tool, tools};

pub use catalog::{Catalog, CatalogBuilder, Entry, Snapshot, Source, View, Withheld};
pub use config::Config;
pub use envelope::{Cut, Envelope};
pub use error::{Error, ErrorKind};
pub use event::{Event, Observer};
pub use export::{
    Asked, Choice, Definition, Dialect, Ended, Export, Hints, Keep, Loss, LossKind, Options,
    Response, Search, Shown, Stream, Strict, Transcript, history,
};
pub use fit::{Formats, Problem, Repair, RepairKind, Repairs, Schema};
pub use hooks::{Before, Hook};
pub use journal::{End, Intended, Intention, Journal, MemoryJournal, Record, Settled, Written};
pub use policy::{AllowEverything, Answer, Approver, DefaultPolicy, Guard, Policy, Question};
pub use run::{Run, RunBuilder};
pub use runtime::{Runtime, RuntimeBuilder};
pub use turn::{
    Admitted, Arguments, Call, Control, Heard, Intake, Listening, Place, Planned, Stop,
    THREAD_NAME, Turn, Why,
};

// The programs in the documents run as doc tests, so that a page cannot say what is no longer true.
#[cfg(doctest)]
mod doctests {
    #[doc = include_str!("../../../README.md")]
    pub struct Readme;
    #[doc = include_str!("../../../docs/guide/first-tool.md")]
    pub struct FirstTool;
    #[doc = include_str!("../../../docs/guide/turns.md")]
    pub struct Turns;
    #[doc = include_str!("../../../docs/guide/arguments.md")]
    pub struct Arguments;
    #[doc = include_str!("../../../docs/guide/judging.md")]
    pub struct Judging;
    #[doc = include_str!("../../../docs/guide/dialects.md")]
    pub struct Dialects;
    #[doc = include_str!("../../../docs/guide/history.md")]
    pub struct History;
}
