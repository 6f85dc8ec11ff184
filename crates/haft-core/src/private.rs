//! Support for code that the macros generate: re-exports, and the conversion of a function's return
//! value into an `Output`. Not for handwritten code.
//!
//! The conversion is picked by method resolution on references (autoref specialization): the more
//! `&` an implementation needs, the later it is tried. So a type alias of `Result` works as well.

/// All names of this crate, under one path that `haft` has too.
pub mod api {
    pub use crate::*;
}

/// The trait without the derive of the same name, which `haft` has as its own.
pub mod traits {
    pub use crate::tool::Tool;
}

pub use schemars;
pub use serde;
pub use serde_json;

pub use crate::into_output::{ListItem, list_of_data};

use std::{any::Any, fmt::Display, marker::PhantomData, sync::Arc};

use serde::Serialize;
use serde_json::Value;

use crate::{
    Dependency, Failure, FailureCode, IntoOutput, IntoVerdict, Output, ResourceKey, RunState,
    State, ToolContext, ToolError, ToolSpec, UncheckedJson, Verdict, failure::first_line,
};

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

/// Runs a function that blocks as the whole body, on one of the runtime's threads.
///
/// # Errors
/// Fails when no thread is available; the body did not start then.
pub async fn run_blocking<T: Send + 'static>(
    cx: &ToolContext,
    work: impl FnOnce(&ToolContext) -> T + Send + 'static,
) -> Result<T, Failure> {
    crate::context::run_blocking(cx, work).await
}

/// A return value that is not converted yet.
#[derive(Debug)]
pub struct Returned<T>(pub Option<T>);

impl<T> Returned<T> {
    fn take(&mut self) -> Result<T, Failure> {
        self.0.take().ok_or_else(|| {
            Failure::new(FailureCode::NotRun, "the return value was converted twice")
        })
    }
}

type Read = Result<Output, Failure>;

macro_rules! reading {
    ($(#[$doc:meta])* $name:ident for [$($amp:tt)*] $type:ty where [$($generics:tt)*] |$value:ident, $cx:ident| $body:expr) => {
        $(#[$doc])*
        #[doc(hidden)]
        pub trait $name {
            fn read(&mut self, cx: &ToolContext) -> impl Future<Output = Read> + Send;
        }

        impl<$($generics)*> $name for $($amp)* Returned<$type> {
            async fn read(&mut self, $cx: &ToolContext) -> Read {
                let $value = self.take()?;
                $body
            }
        }
    };
}

reading! {
    /// `Result<impl IntoOutput, impl Into<Failure>>`: `Failure`, and errors whose author converts
    /// them.
    ReadResult for [&mut &mut &mut &mut &mut &mut &mut &mut &mut] Result<T, E> where [T: IntoOutput, E: Into<Failure> + Send]
    |value, cx| value.map_err(Into::into)?.into_output(cx).await
}
reading! {
    /// `Result<impl IntoOutput, impl Error>`.
    ReadError for [&mut &mut &mut &mut &mut &mut &mut &mut] Result<T, E> where [T: IntoOutput, E: Into<ToolError> + Send]
    |value, cx| value.map_err(Into::<ToolError>::into)?.into_output(cx).await
}
reading! {
    /// `Result<impl IntoOutput, impl Display>`, such as an opaque error of another crate.
    ReadShown for [&mut &mut &mut &mut &mut &mut &mut] Result<T, E> where [T: IntoOutput, E: Display + Send]
    |value, cx| match value {
        Ok(value) => value.into_output(cx).await,
        Err(e) => Err(Failure::failed(first_line(&e))),
    }
}
reading! {
    /// `Result<impl Serialize, impl Into<Failure>>`.
    ReadRawResult for [&mut &mut &mut &mut &mut &mut] Result<T, E> where [T: Serialize + Send, E: Into<Failure> + Send]
    |value, cx| UncheckedJson(value.map_err(Into::into)?).into_output(cx).await
}
reading! {
    /// `Result<impl Serialize, impl Error>`.
    ReadRawError for [&mut &mut &mut &mut &mut] Result<T, E> where [T: Serialize + Send, E: Into<ToolError> + Send]
    |value, cx| UncheckedJson(value.map_err(Into::<ToolError>::into)?).into_output(cx).await
}
reading! {
    /// `Result<impl Serialize, impl Display>`.
    ReadRawShown for [&mut &mut &mut &mut] Result<T, E> where [T: Serialize + Send, E: Display + Send]
    |value, cx| match value {
        Ok(value) => UncheckedJson(value).into_output(cx).await,
        Err(e) => Err(Failure::failed(first_line(&e))),
    }
}
reading! {
    /// `impl IntoOutput`.
    ReadOutput for [&mut &mut] T where [T: IntoOutput]
    |value, cx| value.into_output(cx).await
}
reading! {
    /// `impl Serialize`: wrapped for the author.
    ReadRaw for [&mut] T where [T: Serialize + Send]
    |value, cx| UncheckedJson(value).into_output(cx).await
}

/// No type implements this. It is the bound of the fallback conversions, so that an unsupported
/// return type gives a clear compile error.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a tool cannot return `{Self}`",
    label = "cannot be sent to a model",
    note = "return text, `()`, `Json<T>`, `UncheckedJson<T>`, `Output`, `StreamOutput<S>` or anything that is `Serialize + Send`, or a `Result` of these"
)]
pub trait ToolReturn {}

/// No type implements this either. It gives the compile error for unsupported error types.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the error `{Self}` cannot be sent to a model, or the `Ok` type cannot be returned",
    label = "cannot be sent to a model",
    note = "use `Failure`, `ToolError`, or an error that implements `std::error::Error` or `Display` and is `Send`",
    note = "the `Ok` type can be text, `()`, `Json<T>`, `UncheckedJson<T>`, `Output`, `StreamOutput<S>` or anything that is `Serialize + Send`"
)]
pub trait SupportedError {}

/// Any other `Result`. Without it, serde would serialize an error as a success.
#[doc(hidden)]
pub trait ReadAnyResult {
    type Error;
    #[expect(async_fn_in_trait, reason = "it never runs")]
    async fn read(&mut self, _: &ToolContext) -> Read
    where
        Self::Error: SupportedError,
    {
        Err(Failure::new(FailureCode::NotRun, "the return value cannot be converted"))
    }
}

impl<T, E> ReadAnyResult for &mut &mut &mut Returned<Result<T, E>> {
    type Error = E;
}

/// Anything else.
#[doc(hidden)]
pub trait ReadAnything {
    type Value;
    #[expect(async_fn_in_trait, reason = "it never runs")]
    async fn read(&mut self, _: &ToolContext) -> Read
    where
        Self::Value: ToolReturn,
    {
        Err(Failure::new(FailureCode::NotRun, "the return value cannot be converted"))
    }
}

impl<T> ReadAnything for Returned<T> {
    type Value = T;
}

/// A return type, to get its output schema.
#[derive(Debug)]
pub struct Returns<T>(pub PhantomData<T>);

/// Infers the return type of an async method, which cannot be named.
pub fn returns<A, F: Future>(_: impl Fn(A, &'static ToolContext) -> F) -> Returns<F::Output> {
    Returns(PhantomData)
}

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

/// Converts the return value of a guard function. An error denies the call.
pub fn verdict(returned: impl IntoVerdict) -> Result<Option<Verdict>, Failure> {
    returned.into_verdict().map_err(|e| Failure::new(FailureCode::GuardFailed, e))
}

/// What a `check` function may return.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a `check` function cannot return `{Self}`",
    label = "not a result of a check",
    note = "return `Result<(), Failure>`, or `Result<(), E>` with an error that is shown to the model"
)]
pub trait CheckResult {
    fn into_check(self) -> Result<(), Failure>;
}

impl<E: Display + Send + 'static> CheckResult for Result<(), E> {
    fn into_check(self) -> Result<(), Failure> {
        let Err(error) = self else { return Ok(()) };
        // A `Failure` keeps its code and its next step. Any other error is shown.
        let shown = Failure::invalid(first_line(&error));
        let mut error = Some(error);
        let any = &mut error as &mut dyn Any;
        if let Some(failure) = any.downcast_mut::<Option<Failure>>().and_then(Option::take) {
            return Err(failure);
        }
        let own = any.downcast_mut::<Option<ToolError>>().and_then(Option::take);
        // Without a type, the author made the failure: no other error was converted.
        let own = own.map(Failure::from).filter(|failure| failure.error_type().is_none());
        Err(own.unwrap_or(shown))
    }
}

/// Converts the return value of a `check` function. An error stops the call.
pub fn check_result(returned: impl CheckResult) -> Result<(), Failure> {
    returned.into_check()
}

/// Collects the return value of a `keys` function.
pub fn keys<K: Into<ResourceKey>>(returned: impl IntoIterator<Item = K>) -> Vec<ResourceKey> {
    returned.into_iter().map(Into::into).collect()
}

/// Parses the JSON text of an example. The macro has checked its syntax. Text that is still invalid
/// JSON becomes a string, which the registry rejects.
#[must_use]
pub fn example(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
}

/// The method `run` of an argument struct that has none. An own method of the struct is found
/// before this one, so that only a missing method reaches the bound, and its compile error.
#[doc(hidden)]
pub trait MissingRun: Sized {
    #[expect(async_fn_in_trait, reason = "it never runs")]
    async fn run(self, _: &ToolContext) -> Read
    where
        Self: HasRun,
    {
        Err(Failure::new(FailureCode::NotRun, "the tool has no method `run`"))
    }
}

impl<T> MissingRun for T {}

/// No type implements this. It gives the compile error for an argument struct without `run`.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no method `run`, so the tool would do nothing",
    label = "needs a method `run`",
    note = "add `impl {Self} {{ async fn run(self, cx: &ToolContext) -> Result<String, ToolError> {{ … }} }}`"
)]
pub trait HasRun {}

/// A parameter that the model fills in.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a model cannot fill in `{Self}`",
    label = "not an argument",
    note = "an argument is text, a number, a list, or an own type marked `#[haft::arguments]`",
    note = "what the host supplies is `&ToolContext`, `State<T>`, `RunState<T>`, or marked `#[inject]`"
)]
pub trait Argument {}

#[diagnostic::do_not_recommend]
impl<T: serde::de::DeserializeOwned + schemars::JsonSchema + Send + Sync + 'static> Argument for T {}

/// Rejects a parameter type that a model cannot fill in, at compile time.
pub const fn argument<T: Argument>() {}

/// Returns whether a type is `State` or `RunState`, also behind an alias that the macro cannot see
/// through. The constants of these types are found before the one of the trait [`ModelValue`].
#[derive(Debug)]
pub struct Parameter<T>(PhantomData<T>);

impl<T: ?Sized> Parameter<State<T>> {
    pub const IS_HOST_VALUE: bool = true;
}

impl<T: ?Sized> Parameter<RunState<T>> {
    pub const IS_HOST_VALUE: bool = true;
}

/// Any other type comes from the model.
#[doc(hidden)]
pub trait ModelValue {
    const IS_HOST_VALUE: bool = false;
}

impl<T> ModelValue for Parameter<T> {}

/// A parameter that the host supplies (dependency injection).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the host cannot supply `{Self}`",
    label = "cannot be injected",
    note = "the host supplies `&ToolContext`, `ToolContext`, `State<T>` (also as `Arc<T>`) and `RunState<T>`"
)]
pub trait Inject: Sized {
    fn need() -> Option<Dependency>;
    fn inject(cx: &ToolContext) -> Result<Self, Failure>;
}

impl Inject for ToolContext {
    fn need() -> Option<Dependency> {
        None
    }

    fn inject(cx: &ToolContext) -> Result<Self, Failure> {
        Ok(cx.clone())
    }
}

impl<T: Send + Sync + 'static> Inject for State<T> {
    fn need() -> Option<Dependency> {
        Some(Dependency::state::<T>())
    }

    fn inject(cx: &ToolContext) -> Result<Self, Failure> {
        cx.state()
    }
}

impl<T: Send + Sync + 'static> Inject for Arc<T> {
    fn need() -> Option<Dependency> {
        Some(Dependency::state::<T>())
    }

    fn inject(cx: &ToolContext) -> Result<Self, Failure> {
        Ok(cx.state()?.0)
    }
}

impl<T: Send + Sync + 'static> Inject for RunState<T> {
    fn need() -> Option<Dependency> {
        Some(Dependency::run_state::<T>())
    }

    fn inject(cx: &ToolContext) -> Result<Self, Failure> {
        cx.run_state()
    }
}

/// Declares the dependency of a parameter, once.
pub fn need<T: Inject>(spec: &mut ToolSpec) {
    spec.needs.extend(T::need().filter(|need| !spec.needs.contains(need)));
}
