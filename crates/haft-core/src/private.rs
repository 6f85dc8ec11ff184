//! What generated code needs and nobody should write: re-exports, and the conversions that pick
//! the best reading of a function's return value.
//!
//! The picking is by method resolution on references ("autoref"): the more `&` a reading needs,
//! the later it is tried. So a type alias of `Result` is still seen as a `Result`.

pub use schemars;
pub use serde;
pub use serde_json;

use std::{fmt::Display, marker::PhantomData};

use serde::Serialize;
use serde_json::Value;

use crate::{Code, Context, Failure, IntoOutput, IntoVerdict, Output, Raw, Verdict};

/// Unwraps a compile-time parse, with its message as the compile error.
#[macro_export]
#[doc(hidden)]
macro_rules! __parsed {
    ($parse:expr) => {
        match $parse {
            ::core::result::Result::Ok(value) => value,
            ::core::result::Result::Err(message) => ::core::panic!("{}", message),
        }
    };
}
pub use __parsed as parsed;

/// Returns the schema of an argument type.
#[must_use]
pub fn schema_of<T: schemars::JsonSchema>() -> Value {
    crate::schema::of::<T>()
}

/// A return value, waiting to be read.
#[derive(Debug)]
pub struct Returned<T>(pub Option<T>);

impl<T> Returned<T> {
    fn take(&mut self) -> Result<T, Failure> {
        self.0.take().ok_or_else(|| Failure::new(Code::NotRun, "the answer was read twice"))
    }
}

type Read = Result<Output, Failure>;

macro_rules! reading {
    ($(#[$doc:meta])* $name:ident for [$($amp:tt)*] $type:ty where [$($generics:tt)*] |$value:ident, $cx:ident| $body:expr) => {
        $(#[$doc])*
        #[doc(hidden)]
        pub trait $name {
            fn read(&mut self, cx: &Context) -> impl Future<Output = Read> + Send;
        }

        impl<$($generics)*> $name for $($amp)* Returned<$type> {
            async fn read(&mut self, $cx: &Context) -> Read {
                let $value = self.take()?;
                $body
            }
        }
    };
}

reading! {
    /// `Result<impl IntoOutput, impl Into<Failure>>`.
    ReadResult for [&mut &mut &mut &mut &mut] Result<T, E> where [T: IntoOutput, E: Into<Failure> + Send]
    |value, cx| value.map_err(Into::into)?.into_output(cx).await
}
reading! {
    /// `Result<impl IntoOutput, impl Display>`, such as an opaque error of another crate.
    ReadShown for [&mut &mut &mut &mut] Result<T, E> where [T: IntoOutput, E: Display + Send]
    |value, cx| match value {
        Ok(value) => value.into_output(cx).await,
        Err(e) => Err(Failure::failed(top_line(&e))),
    }
}
reading! {
    /// `Result<impl Serialize, impl Into<Failure>>`.
    ReadRawResult for [&mut &mut &mut] Result<T, E> where [T: Serialize + Send, E: Into<Failure> + Send]
    |value, cx| Raw(value.map_err(Into::into)?).into_output(cx).await
}
reading! {
    /// `Result<impl Serialize, impl Display>`.
    ReadRawShown for [&mut &mut] Result<T, E> where [T: Serialize + Send, E: Display + Send]
    |value, cx| match value {
        Ok(value) => Raw(value).into_output(cx).await,
        Err(e) => Err(Failure::failed(top_line(&e))),
    }
}
reading! {
    /// `impl IntoOutput`.
    ReadOutput for [&mut] T where [T: IntoOutput]
    |value, cx| value.into_output(cx).await
}
reading! {
    /// `impl Serialize`: wrapped for the author.
    ReadRaw for [] T where [T: Serialize + Send]
    |value, cx| Raw(value).into_output(cx).await
}

fn top_line(error: &impl Display) -> String {
    let text = error.to_string();
    let top = text.lines().next().unwrap_or_default();
    if top.trim().is_empty() { "the tool failed without saying why" } else { top }.to_owned()
}

/// A return type, waiting to be asked for its schema.
#[derive(Debug)]
pub struct Returns<T>(pub PhantomData<T>);

/// Types with an output schema.
#[doc(hidden)]
pub trait SchemaOfResult {
    fn output_schema(&self) -> Option<Value>;
}

impl<T: IntoOutput, E> SchemaOfResult for &&Returns<Result<T, E>> {
    fn output_schema(&self) -> Option<Value> {
        T::schema()
    }
}

/// Types with an output schema.
#[doc(hidden)]
pub trait SchemaOfOutput {
    fn output_schema(&self) -> Option<Value>;
}

impl<T: IntoOutput> SchemaOfOutput for &Returns<T> {
    fn output_schema(&self) -> Option<Value> {
        T::schema()
    }
}

/// Everything else has none.
#[doc(hidden)]
pub trait SchemaOfNothing {
    fn output_schema(&self) -> Option<Value>;
}

impl<T> SchemaOfNothing for Returns<T> {
    fn output_schema(&self) -> Option<Value> {
        None
    }
}

/// Reads what a guard function said; an error is a refusal.
pub fn verdict(said: impl IntoVerdict) -> Result<Option<Verdict>, Failure> {
    said.into_verdict().map_err(|e| Failure::new(Code::GuardFailed, e))
}
