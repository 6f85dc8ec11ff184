//! `IntoOutput`: the values that a body may return, and how each becomes an `Output`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    fmt::Display,
    future::ready,
};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Block, BoxError, Failure, FailureCode, Output, ToolContext, ToolError, failure::first_line,
    schema,
};

/// What a body may return. Implemented for text, `()`, numbers, `bool`, [`Output`], blocks,
/// [`Value`], [`Json`], [`UncheckedJson`] and [`StreamOutput`](crate::StreamOutput), for options,
/// lists and maps of data, and for a `Result` of these with [`Failure`], [`ToolError`], any error
/// type or text. `#[haft::output]` implements it for an own type.
///
/// `Conversion` is inferred and only keeps implementations apart: see [`TextError`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the result of a tool",
    label = "cannot be sent to a model",
    note = "for own data, write `#[haft::output]` on its type, or wrap it: `Json(value)` exports its schema, `UncheckedJson(value)` needs only `Serialize`",
    note = "the error of a `Result` is `Failure`, `ToolError`, text, or implements `std::error::Error`; for other errors, write `.map_err(|e| e.to_string())`"
)]
pub trait IntoOutput<Conversion = ()>: Send {
    /// Returns the schema of the structured part, if there is one.
    #[must_use]
    fn schema() -> Option<Value> {
        None
    }

    /// Converts the value into an output. Streams are read to the end here, and each chunk is sent.
    fn into_output(self, cx: &ToolContext) -> impl Future<Output = Result<Output, Failure>> + Send;
}

macro_rules! into_output {
    ($($(#[$doc:meta])* $type:ty: |$value:ident| $make:expr;)*) => {$(
        impl IntoOutput for $type {
            fn into_output(
                self,
                _: &ToolContext,
            ) -> impl Future<Output = Result<Output, Failure>> + Send {
                let $value = self;
                ready(Ok($make))
            }
        }
    )*};
}

into_output! {
    Output: |output| output;
    Block: |block| block.into();
    String: |text| Output::text(text);
    Box<str>: |text| Output::text(text);
    &str: |text| Output::text(text);
    Cow<'_, str>: |text| Output::text(text);
    Value: |json| Output::json(json);
    (): |_unit| Output::text("done");
    bool: |flag| Output::json(flag.into());
    u8: |number| Output::json(number.into());
    u16: |number| Output::json(number.into());
    u32: |number| Output::json(number.into());
    u64: |number| Output::json(number.into());
    usize: |number| Output::json(number.into());
    i8: |number| Output::json(number.into());
    i16: |number| Output::json(number.into());
    i32: |number| Output::json(number.into());
    i64: |number| Output::json(number.into());
    isize: |number| Output::json(number.into());
    f32: |number| Output::json(number.into());
    f64: |number| Output::json(number.into());
}

/// An item of a list that a body returns. Content blocks become the blocks of the result, other
/// items one JSON array.
#[doc(hidden)]
pub trait ListItem: Send + Sized {
    /// Converts the list.
    fn list_output(items: Vec<Self>) -> Result<Output, Failure>;
}

impl ListItem for Block {
    fn list_output(blocks: Vec<Self>) -> Result<Output, Failure> {
        Ok(Output { blocks, structured: None })
    }
}

/// Converts a list of data into one JSON array.
///
/// # Errors
/// Fails when an item cannot be serialized.
#[doc(hidden)]
pub fn list_of_data<T: Serialize>(items: &[T]) -> Result<Output, Failure> {
    Ok(Output::json(to_value(&items)?))
}

macro_rules! list_item {
    ([$($generics:tt)*] $type:ty) => {
        impl<$($generics)*> ListItem for $type {
            fn list_output(items: Vec<Self>) -> Result<Output, Failure> {
                list_of_data(&items)
            }
        }
    };
    ($($type:ty),* $(,)?) => {
        $(list_item!([] $type);)*
    };
}

list_item!([T: Serialize + Send] Vec<T>);
list_item!([T: Serialize + Send] Option<T>);
list_item!([K: Serialize + Send, V: Serialize + Send] BTreeMap<K, V>);
list_item!([K: Serialize + Send, V: Serialize + Send, S: Send] HashMap<K, V, S>);
list_item!(bool, u8, u16, u32, u64, usize, i8, i16, i32, i64, isize, f32, f64);
list_item!(String, Box<str>, &str, Cow<'_, str>, Value);

#[diagnostic::do_not_recommend]
impl<T: ListItem> IntoOutput for Vec<T> {
    async fn into_output(self, _: &ToolContext) -> Result<Output, Failure> {
        T::list_output(self)
    }
}

/// `None` is JSON `null`.
#[diagnostic::do_not_recommend]
impl<T: Serialize + Send> IntoOutput for Option<T> {
    async fn into_output(self, _: &ToolContext) -> Result<Output, Failure> {
        Ok(Output::json(to_value(&self)?))
    }
}

#[diagnostic::do_not_recommend]
impl<K: Serialize + Send, V: Serialize + Send> IntoOutput for BTreeMap<K, V> {
    async fn into_output(self, _: &ToolContext) -> Result<Output, Failure> {
        Ok(Output::json(to_value(&self)?))
    }
}

#[diagnostic::do_not_recommend]
impl<K: Serialize + Send, V: Serialize + Send, S: Send> IntoOutput for HashMap<K, V, S> {
    async fn into_output(self, _: &ToolContext) -> Result<Output, Failure> {
        Ok(Output::json(to_value(&self)?))
    }
}

/// A body that can fail: with [`Failure`], [`ToolError`], or any error type.
#[diagnostic::do_not_recommend]
impl<T: IntoOutput, E: Into<ToolError> + Send> IntoOutput for Result<T, E> {
    fn schema() -> Option<Value> {
        T::schema()
    }

    async fn into_output(self, cx: &ToolContext) -> Result<Output, Failure> {
        match self {
            Ok(value) => value.into_output(cx).await,
            Err(error) => Err(error.into().into()),
        }
    }
}

/// The [`IntoOutput`] conversion of a `Result` whose error is text, such as `String`, or a
/// boxed error. Text is not an error type, and the standard library may make it one. So the
/// two implementations for `Result` need a type parameter that differs.
#[derive(Debug, Clone, Copy)]
pub enum TextError {}

/// An error that is only text. The model reads its first line.
#[doc(hidden)]
pub trait ErrorText: Display + Send + Sized {
    /// Converts the error.
    fn into_failure(self) -> Failure {
        Failure::failed(first_line(&self))
    }
}

impl ErrorText for String {}
impl ErrorText for Box<str> {}
impl ErrorText for &str {}
impl ErrorText for Cow<'_, str> {}

impl ErrorText for BoxError {
    fn into_failure(self) -> Failure {
        self.into()
    }
}

/// A body that can fail with a text.
#[diagnostic::do_not_recommend]
impl<T: IntoOutput, E: ErrorText> IntoOutput<TextError> for Result<T, E> {
    fn schema() -> Option<Value> {
        T::schema()
    }

    async fn into_output(self, cx: &ToolContext) -> Result<Output, Failure> {
        match self {
            Ok(value) => value.into_output(cx).await,
            Err(error) => Err(error.into_failure()),
        }
    }
}

/// Data with a schema: the schema is exported, and the data is validated against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Json<T>(pub T);

impl<T: Serialize + JsonSchema + Send> IntoOutput for Json<T> {
    fn schema() -> Option<Value> {
        Some(schema::of::<T>())
    }

    async fn into_output(self, _: &ToolContext) -> Result<Output, Failure> {
        let json = to_value(&self.0)?;
        let structured = Some(Box::new(json.clone()));
        Ok(Output { blocks: vec![Block::Json { json }], structured })
    }
}

/// Data without a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UncheckedJson<T>(pub T);

impl<T: Serialize + Send> IntoOutput for UncheckedJson<T> {
    async fn into_output(self, _: &ToolContext) -> Result<Output, Failure> {
        Ok(Output::json(to_value(&self.0)?))
    }
}

fn to_value(data: &impl Serialize) -> Result<Value, Failure> {
    serde_json::to_value(data).map_err(|e| {
        Failure::new(FailureCode::BadOutput, "the tool's result cannot be serialized as JSON")
            .with_source(e)
    })
}
