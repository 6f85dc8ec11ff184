//! Every option of `#[tool]`, checked in the manifest, the profile and the guard.

use haft_core::{
    Backoff, Capabilities, Capability, ConcurrencyClass, Confidentiality, Decision, DynTool,
    Effect, Effects, Exposure, Failure, FailureCode, Interrupt, Isolation, Permission, Rate,
    ResourceKey, ResultLimit, RetryPolicy, Scope, Tool, ToolContext, Trust, UnknownFields, Verdict,
    Window, tool, tools,
};
use serde_json::json;

use crate::host::{guard, profile};

fn is_offered(scope: &Scope) -> bool {
    scope.depth == 0
}

/// Is not read.
#[tool(
    name = "loud",
    type_name = "Loud",
    description = "  Says everything.  ",
    title = "Loud one",
    alias = "shout",
    alias("cry", "call"),
    read_only = false,
    destructive,
    idempotent,
    open_world = false,
    class = WriteExclusive,
    keys("file:/a", "file:/b"),
    effects(read("/a"), write("/b"), execute("sh"), external("example.org")),
    capabilities(network, filesystem, subprocess),
    permission = "none",
    interrupt = "cancel",
    requires_user_interaction,
    exposure = "deferred",
    enabled = is_offered,
    concurrency = 4,
    abort_siblings,
    isolation = "auto",
    timeout = "20s",
    deadline = "5m",
    rate = "10/second",
    cache(ttl = "5m", scope = "user"),
    retry(
        max_attempts = 5,
        backoff = "linear",
        initial_delay = "100ms",
        max_delay = "1h",
        jitter = false,
        retry_on("rate_limited", "timed_out"),
    ),
    max_result = 20_000,
    trust = "workspace",
    confidentiality = "secret",
    unknown = "ignore",
    examples(r#"{"n": 1}"#, r#"{"n": 2}"#),
    crate = haft_core
)]
async fn says_everything(n: u8) -> u8 {
    n
}

#[test]
fn every_constant_option_is_in_the_manifest() {
    let it = Loud.manifest();
    assert_eq!((&*it.name, it.title.as_deref()), ("loud", Some("Loud one")));
    assert_eq!(it.description, "Says everything.");
    assert_eq!(it.aliases, ["shout", "cry", "call"]);
    assert_eq!((it.read_only, it.destructive), (false, Some(true)));
    assert_eq!((it.idempotent, it.open_world), (true, false));
    assert_eq!(it.class, ConcurrencyClass::WriteExclusive);
    assert_eq!(it.keys, [ResourceKey::new("file:/a"), ResourceKey::new("file:/b")]);
    let effects = [
        Effect::read("/a"),
        Effect::write("/b"),
        Effect::execute("sh"),
        Effect::external("example.org"),
    ];
    assert_eq!(it.effects, effects.into());
    let capabilities = [Capability::Network, Capability::Filesystem, Capability::Subprocess];
    assert_eq!(it.capabilities, Some(capabilities.into()));
    assert_eq!(it.permission, Permission::None);
    assert_eq!(it.interrupt, Interrupt::Cancel);
    assert!(it.requires_user_interaction && it.abort_siblings);
    assert_eq!(it.exposure, Exposure::Deferred);
    assert_eq!(it.concurrency, Some(4));
    assert_eq!(it.isolation, Isolation::Auto);
    assert_eq!((it.timeout_ms, it.deadline_ms), (Some(20_000), Some(300_000)));
    assert_eq!(it.rate, Some(Rate { count: 10, per: Window::Second }));
    let cache = it.cache.unwrap();
    assert_eq!((cache.ttl.as_secs(), cache.scope.as_deref()), (300, Some("user")));
    let retry = it.retry.unwrap();
    assert_eq!((retry.max_attempts, retry.backoff), (5, Backoff::Linear));
    assert_eq!((retry.initial_delay.as_millis(), retry.max_delay.as_secs()), (100, 3_600));
    assert!(!retry.jitter);
    assert_eq!(retry.retry_on, ["rate_limited", "timed_out"]);
    assert_eq!(it.max_result, ResultLimit::Chars(20_000));
    assert_eq!(it.label.trust, Trust::Workspace);
    assert_eq!(it.label.confidentiality, Confidentiality::Secret);
    assert_eq!(it.unknown, UnknownFields::Ignore);
    assert_eq!(it.examples, [json!({"n": 1}), json!({"n": 2})]);
    assert!(it.per_call.is_empty());
    assert_eq!(Loud.spec().problems(), Vec::<String>::new());

    let enabled = Loud.spec().enabled.unwrap();
    assert!(enabled(&Scope::default()));
    assert!(!enabled(&Scope { depth: 1, ..Scope::default() }));
}

/// Says little.
#[tool(
    read_only,
    class = "write_exclusive",
    keys(),
    effects(),
    capabilities(),
    enabled = false,
    cache = "1d",
    retry = 2,
    max_result = "unbounded",
    trust = "trusted",
    confidentiality = "public",
    permission = "required",
    exposure = "always",
    interrupt = "block",
    unknown = "refuse",
    idempotent = false,
    abort_siblings = false
)]
async fn says_little() {}

#[test]
fn alternative_spellings_are_accepted() {
    let it = SaysLittleTool.manifest();
    assert!(it.read_only && !it.idempotent && !it.abort_siblings);
    assert_eq!((it.class, it.destructive), (ConcurrencyClass::WriteExclusive, Some(false)));
    assert_eq!(it.effects, Effects::none());
    assert_eq!(it.capabilities, Some(Capabilities::NONE));
    assert_eq!(it.cache.unwrap().ttl.as_secs(), 86_400);
    assert_eq!(it.retry, Some(RetryPolicy { max_attempts: 2, ..RetryPolicy::default() }));
    assert_eq!(it.max_result, ResultLimit::Unbounded);
    assert_eq!(it.label.trust, Trust::Trusted);
    assert_eq!((it.exposure, it.interrupt), (Exposure::Always, Interrupt::Block));
    let enabled = SaysLittleTool.spec().enabled.unwrap();
    assert!(!enabled(&Scope::default()));
}

/// Says nothing.
#[tool]
async fn says_nothing() {}

#[test]
fn defaults_are_strict() {
    let it = SaysNothingTool.manifest();
    assert_eq!((it.class, it.read_only, it.destructive), (ConcurrencyClass::Unsafe, false, None));
    assert_eq!((it.capabilities, it.effects), (None, Effects::Undeclared));
    assert_eq!(it.permission, Permission::Required);
    assert!(it.cache.is_none() && it.retry.is_none() && it.timeout_ms.is_none());
    assert!(SaysNothingTool.spec().enabled.is_none());
}

mod per_call {
    use super::*;

    // The arguments by reference, in order; text can also be `&str`.
    pub(super) fn class(command: &str, timeout: &Option<u64>) -> ConcurrencyClass {
        match command {
            "ls" if timeout.is_none() => ConcurrencyClass::ReadOnly,
            "touch" => ConcurrencyClass::WriteExclusive,
            _ => ConcurrencyClass::Unsafe,
        }
    }

    pub(super) fn reads(command: &str, _: &Option<u64>) -> bool {
        command == "ls"
    }

    pub(super) fn destroys(command: &String, _: &Option<u64>) -> bool {
        command == "rm"
    }

    pub(super) fn keys(command: &str, _: &Option<u64>) -> Vec<String> {
        vec![format!("command:/{command}")]
    }

    pub(super) fn effects(command: &str, _: &Option<u64>) -> [Effect; 1] {
        [if command == "ls" { Effect::read("/") } else { Effect::execute(command) }]
    }

    pub(super) fn guard(command: &str, _: &Option<u64>) -> Result<Option<Verdict>, String> {
        match command {
            "rm" => Ok(Some(Verdict::deny("no"))),
            "??" => Err("cannot decide".into()),
            _ => Ok(None),
        }
    }
}

/// Runs a command.
#[tool(
    class = per_call::class,
    read_only = per_call::reads,
    destructive = per_call::destroys,
    keys = per_call::keys,
    effects = per_call::effects,
    guard = per_call::guard,
    cache = "5m"
)]
async fn bash(command: String, timeout: Option<u64>) -> String {
    let _ = timeout;
    command
}

#[test]
fn functions_of_the_arguments_decide_per_call() {
    let tool = DynTool::of(BashTool);
    let ls = profile(&tool, json!({"command": "ls"}));
    assert_eq!(
        (ls.class, ls.read_only, ls.destructive),
        (ConcurrencyClass::ReadOnly, true, Some(false))
    );
    assert_eq!(ls.keys, [ResourceKey::new("command:/ls")]);
    assert_eq!(ls.effects, [Effect::read("/")].into());
    let slow = profile(&tool, json!({"command": "ls", "timeout": 3}));
    assert_eq!(slow.class, ConcurrencyClass::Unsafe);
    let rm = profile(&tool, json!({"command": "rm"}));
    assert_eq!(
        (rm.class, rm.read_only, rm.destructive),
        (ConcurrencyClass::Unsafe, false, Some(true))
    );
    let per_call = &tool.spec().per_call;
    for option in ["class", "read_only", "destructive", "keys", "effects", "guard"] {
        assert!(per_call.contains(&option), "{option}");
    }
    assert_eq!(per_call.len(), 6);
    assert_eq!(tool.spec().problems(), Vec::<String>::new());
}

#[tokio::test]
async fn a_guard_decides_and_its_error_denies() {
    let tool = DynTool::of(BashTool);
    let verdict = guard(&tool, json!({"command": "rm"})).await.unwrap().unwrap();
    assert_eq!(verdict.decision, Decision::Deny);
    assert_eq!(guard(&tool, json!({"command": "ls"})).await.unwrap(), None);
    let failure = guard(&tool, json!({"command": "??"})).await.unwrap_err();
    assert_eq!(failure.code(), FailureCode::GuardFailed);
}

fn small(n: &u8) -> bool {
    *n < 10
}

/// Reads when the number is small.
#[tool(read_only = small)]
async fn reads_small(n: u8) -> u8 {
    n
}

/// Reads when the number is small, and runs alone anyway.
#[tool(read_only = small, class = ConcurrencyClass::WriteExclusive, capabilities(destructive))]
async fn reads_small_alone(n: u8) -> u8 {
    n
}

#[test]
fn a_read_only_call_is_not_destructive_and_runs_concurrently_unless_declared_otherwise() {
    let tool = DynTool::of(ReadsSmallTool);
    let (yes, no) = (profile(&tool, json!({"n": 1})), profile(&tool, json!({"n": 11})));
    assert_eq!(
        (yes.class, yes.read_only, yes.destructive),
        (ConcurrencyClass::ReadOnly, true, Some(false))
    );
    assert_eq!((no.class, no.read_only, no.destructive), (ConcurrencyClass::Unsafe, false, None));
    let alone = profile(&DynTool::of(ReadsSmallAloneTool), json!({"n": 1}));
    assert_eq!(alone.class, ConcurrencyClass::WriteExclusive);
    assert_eq!((alone.destructive, alone.read_only), (Some(true), false), "the strict side");
}

fn end_after_start(start: &u32, end: &u32) -> Result<(), String> {
    if start <= end { Ok(()) } else { Err("the end is before the start".into()) }
}

fn known_start(start: &u32, _: &u32) -> Result<(), Failure> {
    match start {
        0 => Err(Failure::new(FailureCode::RateLimited, "later").with_next("wait")),
        _ => Ok(()),
    }
}

/// Lists the lines of a range.
#[tool(check = end_after_start)]
async fn lines(start: u32, end: u32) -> String {
    format!("{start}-{end}")
}

/// Lists the pages of a range.
#[derive(Tool)]
#[tool(check = known_start)]
struct Pages {
    start: u32,
    end: u32,
}

impl Pages {
    async fn run(self, _: &ToolContext) -> String {
        format!("{}-{}", self.start, self.end)
    }
}

struct Book;

#[tools]
impl Book {
    /// Lists the chapters of a range.
    #[tool(check = Self::in_order)]
    async fn chapters(&self, start: u32, end: u32) -> String {
        format!("{start}-{end}")
    }

    fn in_order(start: &u32, end: &u32) -> Result<(), String> {
        end_after_start(start, end)
    }
}

async fn check(tool: &DynTool, arguments: serde_json::Value) -> Result<(), Failure> {
    assert!(tool.body().checks(), "the pipeline runs the check");
    let args = tool.body().decode(&std::sync::Arc::new(arguments)).unwrap();
    tool.body().check(&args, &crate::host::cx()).await
}

#[tokio::test]
async fn a_check_function_rejects_what_the_schema_cannot_express() {
    for tool in [DynTool::of(LinesTool), crate::host::only(Book)] {
        check(&tool, json!({"start": 1, "end": 2})).await.unwrap();
        let failure = check(&tool, json!({"start": 2, "end": 1})).await.unwrap_err();
        assert_eq!(failure.code(), FailureCode::InvalidValue);
        assert_eq!(failure.message(), "the end is before the start");
        assert_eq!(tool.spec().per_call, ["check"]);
    }
    let failure =
        check(&DynTool::of(Pages::tool()), json!({"start": 0, "end": 1})).await.unwrap_err();
    assert_eq!((failure.code(), failure.next()), (FailureCode::RateLimited, Some("wait")));
    assert!(!DynTool::of(BashTool).body().checks(), "no check, no cost");
}
