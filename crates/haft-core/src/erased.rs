//! The one erased form of a tool, which every way of writing one ends in.
//!
//! `DynTool` is a spec, its schemas and an object-safe body. Typed tools are wrapped by
//! `DynTool::of`; tools whose schema is known only at run time are built with `DynTool::new`.

use std::{any::Any, fmt, path::PathBuf, sync::Arc};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    BoxFuture, CallProfile, Failure, FailureCode, IntoOutput, Manifest, Output, Tool, ToolContext,
    ToolSpec, Verdict, schema,
};

/// Decoded arguments, erased.
pub type Args = Box<dyn Any + Send + Sync>;

/// A tool's body behind one pointer. Implemented here for every [`Tool`] and for closures.
///
/// `checks` and `guards` say beforehand whether there is anything to ask: the walk does not even
/// make a future otherwise.
pub trait Body: Send + Sync + 'static {
    /// Decodes the frozen JSON into what the body wants.
    fn decode(&self, json: &Arc<Value>) -> Result<Args, Failure>;

    /// Says what this call would do.
    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile;

    /// Returns whether it does its work in a confined process, or not at all.
    fn is_isolated(&self) -> bool {
        false
    }

    /// Returns whether `check` does something.
    fn checks(&self) -> bool;

    /// Checks what a schema cannot say.
    fn check<'a>(
        &'a self,
        args: &'a Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<(), Failure>>;

    /// Returns whether `guard` does something.
    fn guards(&self) -> bool;

    /// Judges the call.
    fn guard<'a>(
        &'a self,
        args: &'a Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>>;

    /// Does the work.
    fn call<'a>(
        &'a self,
        args: Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Output, Failure>>;
}

/// How often a value is decoded again to find the place that its type refuses.
const MAX_DECODES: usize = 256;

/// Finds the place that a type refuses: the member without which the type says something else, and so
/// on below it. Returns a JSON pointer; empty for the whole.
fn refused_place(json: &Value, error: &str, refuses: &dyn Fn(&Value) -> Option<String>) -> String {
    let mut place = String::new();
    // A name that is missing or unknown is about the whole; without other names it says other things.
    if ["missing field", "unknown field", "duplicate field"].iter().any(|w| error.starts_with(w)) {
        return place;
    }
    let mut left = MAX_DECODES;
    loop {
        let children: Vec<String> = match json.pointer(&place) {
            Some(Value::Object(map)) => {
                map.keys().map(|key| key.replace('~', "~0").replace('/', "~1")).collect()
            }
            Some(Value::Array(list)) => (0..list.len()).map(|n| n.to_string()).collect(),
            _ => return place,
        };
        let blamed = children.into_iter().find(|child| {
            let Some(fewer) = left.checked_sub(1) else { return false };
            left = fewer;
            let mut without = json.clone();
            remove(&mut without, &place, child);
            refuses(&without).as_deref() != Some(error)
        });
        match blamed {
            Some(child) => place = format!("{place}/{child}"),
            None => return place,
        }
    }
}

fn remove(json: &mut Value, place: &str, child: &str) {
    match json.pointer_mut(place) {
        Some(Value::Object(map)) => {
            map.shift_remove(&child.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(list)) => {
            if let Some(n) = child.parse().ok().filter(|n| *n < list.len()) {
                list.remove(n);
            }
        }
        _ => {}
    }
}

/// Says what a type expects and what it got in the order of all other messages about arguments.
fn expected_and_got(error: &str) -> String {
    ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|opening| error.strip_prefix(opening)?.split_once(", expected "))
        .map_or_else(
            || error.to_owned(),
            |(got, expected)| format!("expected {expected}; got {got}"),
        )
}

struct Typed<T>(T);

impl<T: Tool> Body for Typed<T> {
    fn decode(&self, json: &Arc<Value>) -> Result<Args, Failure> {
        match T::Args::deserialize(&**json) {
            Ok(args) => Ok(Box::new(args)),
            // The schema let it pass and the type does not: say where, and what the type expects.
            Err(e) => {
                let error = e.to_string();
                let refuses =
                    |json: &Value| T::Args::deserialize(json).err().map(|e| e.to_string());
                let place = refused_place(json, &error, &refuses);
                let place = if place.is_empty() { "/" } else { &place };
                Err(Failure::new(
                    FailureCode::BadArguments,
                    format!("{place}: {}", expected_and_got(&error)),
                )
                .with_next("call it again with this fixed"))
            }
        }
    }

    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile {
        match args.downcast_ref() {
            Some(args) => self.0.profile(declared, args, cx),
            None => CallProfile::strictest(),
        }
    }

    fn is_isolated(&self) -> bool {
        T::ISOLATED
    }

    fn checks(&self) -> bool {
        T::CHECKS
    }

    fn check<'a>(
        &'a self,
        args: &'a Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        match args.downcast_ref() {
            Some(args) => Box::pin(self.0.check(args, cx)),
            None => Box::pin(async { Err(foreign()) }),
        }
    }

    fn guards(&self) -> bool {
        T::GUARDS
    }

    fn guard<'a>(
        &'a self,
        args: &'a Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        match args.downcast_ref() {
            Some(args) => Box::pin(self.0.guard(args, cx)),
            None => Box::pin(async { Err(foreign()) }),
        }
    }

    fn call<'a>(
        &'a self,
        args: Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Output, Failure>> {
        match args.downcast::<T::Args>() {
            Ok(args) => {
                Box::pin(async move { self.0.call(*args, cx).await?.into_output(cx).await })
            }
            Err(_) => Box::pin(async { Err(foreign()) }),
        }
    }
}

fn foreign() -> Failure {
    Failure::new(FailureCode::NotRun, "the arguments were decoded for another tool")
}

type ClaimFn = Arc<dyn Fn(CallProfile, &Value, &ToolContext) -> CallProfile + Send + Sync>;
type CheckFn = Arc<
    dyn for<'a> Fn(&'a Value, &'a ToolContext) -> BoxFuture<'a, Result<(), Failure>> + Send + Sync,
>;
type GuardFn = Arc<dyn Fn(&Value, &ToolContext) -> Result<Option<Verdict>, Failure> + Send + Sync>;
type CallFn = Arc<
    dyn Fn(Arc<Value>, ToolContext) -> BoxFuture<'static, Result<Output, Failure>> + Send + Sync,
>;

#[derive(Clone)]
struct Closures {
    claim: Option<ClaimFn>,
    check: Option<CheckFn>,
    guard: Option<GuardFn>,
    call: CallFn,
    isolated: bool,
}

/// For closures the decoded arguments are the frozen JSON itself.
fn json(args: &Args) -> Option<&Arc<Value>> {
    args.downcast_ref()
}

impl Body for Closures {
    fn decode(&self, json: &Arc<Value>) -> Result<Args, Failure> {
        Ok(Box::new(Arc::clone(json)))
    }

    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile {
        match (&self.claim, json(args)) {
            (Some(claim), Some(json)) => claim(declared, json, cx),
            (None, Some(_)) => declared,
            (_, None) => CallProfile::strictest(),
        }
    }

    fn is_isolated(&self) -> bool {
        self.isolated
    }

    fn checks(&self) -> bool {
        self.check.is_some()
    }

    fn check<'a>(
        &'a self,
        args: &'a Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<(), Failure>> {
        match (&self.check, json(args)) {
            (Some(check), Some(json)) => check(json, cx),
            (None, Some(_)) => Box::pin(async { Ok(()) }),
            (_, None) => Box::pin(async { Err(foreign()) }),
        }
    }

    fn guards(&self) -> bool {
        self.guard.is_some()
    }

    fn guard<'a>(
        &'a self,
        args: &'a Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Option<Verdict>, Failure>> {
        let verdict = match (&self.guard, json(args)) {
            (Some(guard), Some(json)) => guard(json, cx),
            (None, Some(_)) => Ok(None),
            (_, None) => Err(foreign()),
        };
        Box::pin(std::future::ready(verdict))
    }

    fn call<'a>(
        &'a self,
        args: Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Result<Output, Failure>> {
        match args.downcast::<Arc<Value>>() {
            Ok(json) => (self.call)(*json, cx.clone()),
            Err(_) => Box::pin(async { Err(foreign()) }),
        }
    }
}

/// A tool, erased: what the registry takes, whichever way it was written.
///
/// ```
/// use haft_core::{DynTool, ToolSpec};
/// use serde_json::json;
///
/// let echo = DynTool::new(
///     ToolSpec::new("echo", "Says it back.").read_only(),
///     json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
///     |args, _cx| async move { Ok(args["text"].as_str().unwrap_or_default().to_owned()) },
/// );
/// assert_eq!(echo.manifest().input_schema["required"][0], "text");
/// ```
#[derive(Clone)]
pub struct DynTool {
    spec: ToolSpec,
    input: Value,
    output: Option<Value>,
    body: Arc<dyn Body>,
    closures: Option<Closures>,
    roots: Arc<[PathBuf]>,
}

impl DynTool {
    /// Erases a typed tool.
    #[must_use]
    pub fn of<T: Tool>(tool: T) -> Self {
        Self {
            spec: tool.spec(),
            input: schema::of::<T::Args>(),
            output: T::Output::schema(),
            body: Arc::new(Typed(tool)),
            closures: None,
            roots: Arc::default(),
        }
    }

    /// Builds a tool from a schema known only at run time. The schema alone says what a call may
    /// look like; the closure gets the arguments with defaults written in.
    #[must_use]
    pub fn new<F, R, O>(spec: ToolSpec, input_schema: Value, call: F) -> Self
    where
        F: Fn(Arc<Value>, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<O, Failure>> + Send + 'static,
        O: IntoOutput,
    {
        let call: CallFn = Arc::new(move |json, cx: ToolContext| {
            let work = call(json, cx.clone());
            Box::pin(async move { work.await?.into_output(&cx).await })
        });
        let closures = Closures { claim: None, check: None, guard: None, call, isolated: false };
        Self {
            spec,
            input: input_schema,
            output: None,
            body: Arc::new(closures.clone()),
            closures: Some(closures),
            roots: Arc::default(),
        }
    }

    /// Decides per call what it would do.
    #[must_use]
    pub fn with_profile(
        self,
        claim: impl Fn(CallProfile, &Value, &ToolContext) -> CallProfile + Send + Sync + 'static,
    ) -> Self {
        self.with(|c| c.claim = Some(Arc::new(claim)))
    }

    /// Checks what the schema cannot say.
    #[must_use]
    pub fn with_check(
        self,
        check: impl for<'a> Fn(&'a Value, &'a ToolContext) -> BoxFuture<'a, Result<(), Failure>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        self.with(|c| c.check = Some(Arc::new(check)))
    }

    /// Judges each call.
    #[must_use]
    pub fn with_guard(
        self,
        guard: impl Fn(&Value, &ToolContext) -> Result<Option<Verdict>, Failure> + Send + Sync + 'static,
    ) -> Self {
        self.with(|c| c.guard = Some(Arc::new(guard)))
    }

    /// Says that the body does its work in a confined process, or not at all: a promise of whoever
    /// wrote it. Only such a tool may say `isolation = "required"`.
    #[must_use]
    pub fn in_sandbox(self) -> Self {
        self.with(|c| c.isolated = true)
    }

    /// Says which folders its calls work in, by absolute paths without links: a promise of whoever wrote
    /// it, which the body keeps. For judges what lies there is inside the workspace; relative paths
    /// start in the first of them, unless the run works in one of them; and a run that says nothing
    /// works in the first.
    ///
    /// ```
    /// use haft_core::{DynTool, ToolSpec};
    /// use serde_json::json;
    ///
    /// let look = DynTool::new(ToolSpec::new("look", "Looks."), json!({}), |_, _| async { Ok("nothing") });
    /// assert!(look.roots().is_empty(), "it does not say");
    /// assert_eq!(look.within(["/srv/garden"]).roots().len(), 1);
    /// ```
    #[must_use]
    pub fn within<P: Into<PathBuf>>(mut self, roots: impl IntoIterator<Item = P>) -> Self {
        self.roots = roots.into_iter().map(Into::into).collect();
        self
    }

    /// Declares what the structured part of results looks like; results are checked against it.
    #[must_use]
    pub fn with_output_schema(mut self, schema: Value) -> Self {
        self.output = Some(schema);
        self
    }

    /// Returns a tool that is the same but for its spec.
    #[must_use]
    pub fn with_spec(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        self.spec = change(self.spec);
        self
    }

    /// Returns a tool that is the same but for its input schema. The macro uses it for what a
    /// derived schema cannot say.
    #[must_use]
    pub fn with_input_schema(mut self, schema: Value) -> Self {
        self.input = schema;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Closures)) -> Self {
        // A typed tool brings its own claim, check and guard; closures are for `DynTool::new`.
        if let Some(closures) = &mut self.closures {
            change(closures);
            self.body = Arc::new(closures.clone());
        }
        self
    }

    /// Returns what it declares.
    #[must_use]
    pub fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    /// Returns the schema of its arguments.
    #[must_use]
    pub fn input_schema(&self) -> &Value {
        &self.input
    }

    /// Returns the schema of its structured output.
    #[must_use]
    pub fn output_schema(&self) -> Option<&Value> {
        self.output.as_ref()
    }

    /// Returns its body.
    #[must_use]
    pub fn body(&self) -> &Arc<dyn Body> {
        &self.body
    }

    /// Returns the folders that its calls work in, the first one first; none when it does not say.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns whether it was built from a Rust type, whose schema we derived ourselves.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.closures.is_none()
    }

    /// Returns everything declared, as data.
    #[must_use]
    pub fn manifest(&self) -> Manifest {
        Manifest::new(&self.spec, self.input.clone(), self.output.clone())
    }
}

impl fmt::Debug for DynTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// What the registry's `add` takes: a tool, an erased tool, or a struct with several (`#[tools]`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` brings no tools",
    label = "brings no tools",
    note = "put `#[tool]` on a function, `#[derive(Tool)]` on an argument struct, `#[tools]` on an impl block, or implement `Tool`"
)]
pub trait IntoTools {
    /// Returns the tools, erased.
    fn into_tools(self) -> Vec<DynTool>;
}

impl<T: Tool> IntoTools for T {
    fn into_tools(self) -> Vec<DynTool> {
        vec![DynTool::of(self)]
    }
}

impl IntoTools for DynTool {
    fn into_tools(self) -> Vec<DynTool> {
        vec![self]
    }
}

impl IntoTools for Vec<DynTool> {
    fn into_tools(self) -> Vec<DynTool> {
        self
    }
}
