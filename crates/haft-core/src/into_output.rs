//! `IntoOutput`: the values that a body may return, and how each becomes an `Output`.

use std::{borrow::Cow, future::ready};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{Block, Failure, FailureCode, Output, ToolContext, ToolError, schema};

/// What a body may return. Implemented for text, `()`, numbers, `bool`, [`Output`], blocks,
/// [`Value`], [`Json`], [`UncheckedJson`] and [`StreamOutput`](crate::StreamOutput), and for a
/// `Result` of these with [`Failure`], [`ToolError`] or any error type.
pub trait IntoOutput: Send {
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
    Vec<Block>: |blocks| Output { blocks, structured: None };
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

/// A body that can fail: with [`Failure`], [`ToolError`], or any error type.
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
