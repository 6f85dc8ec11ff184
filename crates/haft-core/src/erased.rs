//! `DynTool`: the type-erased form of every tool.
//!
//! It is a spec, its schemas and an object-safe body. `DynTool::of` wraps a typed tool;
//! `DynTool::new` builds a tool whose schema is known only at run time.

use std::{borrow::Cow, fmt, future::ready, path::PathBuf, sync::Arc};

use serde::{Deserialize, de::value::MapDeserializer};
use serde_json::Value;

use crate::{
    Args, Body, BoxFuture, CallProfile, Failure, FailureCode, IntoOutput, Manifest, Output,
    Preview, Tool, ToolContext, ToolSpec, Verdict, decode_error, schema,
};

struct Typed<T>(T);

impl<T: Tool> Body for Typed<T> {
    fn decode(&self, json: &Arc<Value>) -> Result<Args, Failure> {
        match T::Args::deserialize(&**json) {
            Ok(args) => Ok(Box::new(args)),
            // The schema accepts it and the type does not: report where, and what the type expects.
            Err(e) => Err(decode_error::explained(json, &e.to_string(), &|json: &Value| {
                T::Args::deserialize(json).err().map(|e| e.to_string())
            })),
        }
    }

    fn decodes_scalars(&self) -> bool {
        true
    }

    fn decode_scalars(
        &self,
        members: &mut dyn Iterator<Item = (Cow<'_, str>, Value)>,
    ) -> Option<Args> {
        let args = T::Args::deserialize(MapDeserializer::new(members)).ok()?;
        Some(Box::new(args))
    }

    fn profiles(&self) -> bool {
        T::PROFILES
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
            None => Box::pin(async { Err(wrong_type()) }),
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
            None => Box::pin(async { Err(wrong_type()) }),
        }
    }

    fn preview<'a>(
        &'a self,
        args: &'a Args,
        cx: &'a ToolContext,
    ) -> BoxFuture<'a, Option<Preview>> {
        match args.downcast_ref() {
            Some(args) => Box::pin(self.0.preview(args, cx)),
            None => Box::pin(ready(None)),
        }
    }

    fn call(
        self: Arc<Self>,
        args: Args,
        cx: ToolContext,
    ) -> BoxFuture<'static, Result<Output, Failure>> {
        match args.downcast::<T::Args>() {
            Ok(args) => {
                Box::pin(async move { self.0.call(*args, &cx).await?.into_output(&cx).await })
            }
            Err(_) => Box::pin(async { Err(wrong_type()) }),
        }
    }
}

fn wrong_type() -> Failure {
    Failure::new(FailureCode::NotRun, "the arguments were decoded for another tool")
}

type ProfileFn = Arc<dyn Fn(CallProfile, &Value, &ToolContext) -> CallProfile + Send + Sync>;
type CheckFn = Arc<
    dyn for<'a> Fn(&'a Value, &'a ToolContext) -> BoxFuture<'a, Result<(), Failure>> + Send + Sync,
>;
type GuardFn = Arc<dyn Fn(&Value, &ToolContext) -> Result<Option<Verdict>, Failure> + Send + Sync>;
type CallFn = Arc<
    dyn Fn(Arc<Value>, ToolContext) -> BoxFuture<'static, Result<Output, Failure>> + Send + Sync,
>;

#[derive(Clone)]
struct Closures {
    profile: Option<ProfileFn>,
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

    fn profiles(&self) -> bool {
        self.profile.is_some()
    }

    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile {
        match (&self.profile, json(args)) {
            (Some(profile), Some(json)) => profile(declared, json, cx),
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
            (_, None) => Box::pin(async { Err(wrong_type()) }),
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
            (_, None) => Err(wrong_type()),
        };
        Box::pin(ready(verdict))
    }

    fn call(
        self: Arc<Self>,
        args: Args,
        cx: ToolContext,
    ) -> BoxFuture<'static, Result<Output, Failure>> {
        match args.downcast::<Arc<Value>>() {
            Ok(json) => (self.call)(*json, cx),
            Err(_) => Box::pin(async { Err(wrong_type()) }),
        }
    }
}

/// A type-erased tool: what the registry stores.
///
/// ```
/// use haft_core::{DynTool, ToolSpec};
/// use serde_json::json;
///
/// let echo = DynTool::new(
///     ToolSpec::new("echo", "Says it back.").read_only(),
///     json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
///     |args, _cx| async move { args["text"].as_str().unwrap_or_default().to_owned() },
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
    /// Wraps a typed tool.
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

    /// Builds a tool from a schema that is known only at run time. The schema validates the
    /// arguments; the closure gets them with defaults filled in. It may return everything that is
    /// [`IntoOutput`]. A closure that uses `?` names the error type: `Ok::<_, ToolError>(…)`.
    #[must_use]
    pub fn new<F, R, C>(spec: ToolSpec, input_schema: Value, call: F) -> Self
    where
        F: Fn(Arc<Value>, ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output: IntoOutput<C>> + Send + 'static,
    {
        let call: CallFn = Arc::new(move |json, cx: ToolContext| {
            let work = call(json, cx.clone());
            Box::pin(async move { work.await.into_output(&cx).await })
        });
        let closures = Closures { profile: None, check: None, guard: None, call, isolated: false };
        Self {
            spec,
            input: input_schema,
            output: R::Output::schema(),
            body: Arc::new(closures.clone()),
            closures: Some(closures),
            roots: Arc::default(),
        }
    }

    /// Sets a function that returns what a call would do.
    #[must_use]
    pub fn with_profile(
        self,
        profile: impl Fn(CallProfile, &Value, &ToolContext) -> CallProfile + Send + Sync + 'static,
    ) -> Self {
        self.with(|c| c.profile = Some(Arc::new(profile)))
    }

    /// Sets a function that checks what the schema cannot express.
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

    /// Sets a guard: a function that decides whether a call may run.
    #[must_use]
    pub fn with_guard(
        self,
        guard: impl Fn(&Value, &ToolContext) -> Result<Option<Verdict>, Failure> + Send + Sync + 'static,
    ) -> Self {
        self.with(|c| c.guard = Some(Arc::new(guard)))
    }

    /// Declares that the body only works in a sandboxed process. The author guarantees it. Only
    /// such a tool may declare `isolation = "required"`.
    #[must_use]
    pub fn in_sandbox(self) -> Self {
        self.with(|c| c.isolated = true)
    }

    /// Sets the workspace directories of its calls, as absolute paths without symlinks. The author
    /// guarantees that the body stays inside. For the policy, paths below them are inside the
    /// workspace. Relative paths start in the first one, unless the run's working directory is one
    /// of them. A run without a working directory uses the first one.
    ///
    /// ```
    /// use haft_core::{DynTool, ToolSpec};
    /// use serde_json::json;
    ///
    /// let spec = ToolSpec::new("list", "Lists files.");
    /// let list = DynTool::new(spec, json!({}), |_, _| async { "no files" });
    /// assert!(list.roots().is_empty(), "not declared");
    /// assert_eq!(list.within(["/srv/project"]).roots().len(), 1);
    /// ```
    #[must_use]
    pub fn within<P: Into<PathBuf>>(mut self, roots: impl IntoIterator<Item = P>) -> Self {
        self.roots = roots.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the schema of structured results; results are validated against it.
    #[must_use]
    pub fn with_output_schema(mut self, schema: Value) -> Self {
        self.output = Some(schema);
        self
    }

    /// Changes the spec.
    #[must_use]
    pub fn with_spec(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        self.spec = change(self.spec);
        self
    }

    /// Replaces the input schema. The macro uses it for constraints that a derived schema cannot
    /// express.
    #[must_use]
    pub fn with_input_schema(mut self, schema: Value) -> Self {
        self.input = schema;
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Closures)) -> Self {
        // A typed tool has its own profile, check and guard; closures are for `DynTool::new`.
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

    /// Returns the workspace directories of its calls, in order; empty if not declared.
    #[must_use]
    pub fn roots(&self) -> &[PathBuf] {
        &self.roots
    }

    /// Returns whether it was built from a Rust type with a derived schema.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        self.closures.is_none()
    }

    /// Returns everything the tool declares, as data.
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

/// What the registry's `add` accepts: a tool, a `DynTool`, or a struct with several (`#[tools]`).
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a tool and contains none",
    label = "not a tool",
    note = "for an argument struct with `#[derive(Tool)]`, add `{Self}::tool()`: the struct itself is the arguments of one call",
    note = "otherwise put `#[tool]` on a function, `#[tools]` on an impl block, or implement `Tool`"
)]
pub trait IntoTools {
    /// Returns the tools, type-erased.
    fn into_tools(self) -> Vec<DynTool>;
}

#[diagnostic::do_not_recommend]
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
