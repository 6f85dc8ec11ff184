//! Tool sources, views, and the tools that a turn offers.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use haft::{
    BoxFuture, Failure, Runtime, ToolRegistry,
    policy::AllowAll,
    registry::{ToolSource, ToolView},
    tool::{BoxError, DynTool, RunState, ToolSpec},
};
use serde_json::json;

use crate::kit::*;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn say(&self, text: String) {
        self.0.lock().unwrap().push(text);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct Remote {
    name: &'static str,
    log: Log,
    opens: bool,
    tools: Arc<Mutex<Result<Vec<DynTool>, String>>>,
}

impl Remote {
    fn new(name: &'static str, log: &Log, tools: Vec<DynTool>) -> Self {
        Self { name, log: log.clone(), opens: true, tools: Arc::new(Mutex::new(Ok(tools))) }
    }
}

impl ToolSource for Remote {
    fn name(&self) -> &str {
        self.name
    }

    fn open(&self) -> BoxFuture<'_, Result<(), BoxError>> {
        self.log.say(format!("open {}", self.name));
        let opens = self.opens;
        Box::pin(async move { if opens { Ok(()) } else { Err("no route".into()) } })
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        let tools = self.tools.lock().unwrap().clone();
        Box::pin(async move { tools.map_err(Into::into) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        self.log.say(format!("close {}", self.name));
        Box::pin(async {})
    }
}

fn runtime(builder: haft::registry::ToolRegistryBuilder) -> Runtime {
    Runtime::builder().registry(builder.build().unwrap()).policy(AllowAll).build().unwrap()
}

fn names(turn: &haft::Turn) -> Vec<String> {
    turn.snapshot().entries().map(|e| e.name().to_string()).collect()
}

#[tokio::test]
async fn own_tools_come_first_then_sorted_and_prefixed_sources() {
    let log = Log::default();
    let b = Remote::new("beta", &log, vec![quick(read("z")), quick(read("a"))]);
    let a = Remote::new("alpha", &log, vec![quick(read("m"))]);
    let registry = ToolRegistry::builder()
        .source(b)
        .source(a)
        .add(quick(read("own2")))
        .add(quick(read("own1")));
    let runtime = runtime(registry);
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    assert_eq!(names(&turn), ["own1", "own2", "beta__a", "beta__z", "alpha__m"]);
    assert_eq!(turn.snapshot().fingerprint(), run.turn().await.unwrap().snapshot().fingerprint());
    let answers = turn.run(calls("beta__a:1")).await;
    assert_eq!(answers[0].text(), "a(1)");
    runtime.close().await;
    runtime.close().await;
    assert_eq!(log.lines(), ["open beta", "open alpha", "close alpha", "close beta"]);
}

/// A source whose close waits for that of another one.
struct Meeting(&'static str, Arc<tokio::sync::Barrier>);

impl ToolSource for Meeting {
    fn name(&self) -> &str {
        self.0
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.1.wait().await;
        })
    }
}

#[tokio::test]
async fn sources_do_not_wait_for_each_other_when_they_close() {
    let both = Arc::new(tokio::sync::Barrier::new(2));
    let registry = ToolRegistry::builder()
        .source(Meeting("a", Arc::clone(&both)))
        .source(Meeting("b", both))
        .build()
        .unwrap();
    let runtime = Runtime::builder().registry(registry).build().unwrap();
    drop(runtime.run().turn().await.unwrap());
    let closed = tokio::time::timeout(Duration::from_secs(5), runtime.close());
    assert!(closed.await.is_ok(), "one waits for the other");
}

#[tokio::test]
async fn opened_sources_are_closed_in_reverse_when_a_later_one_fails() {
    let log = Log::default();
    let mut third = Remote::new("c", &log, vec![]);
    third.opens = false;
    let registry = ToolRegistry::builder()
        .source(Remote::new("a", &log, vec![]))
        .source(Remote::new("b", &log, vec![]))
        .source(third);
    let error = runtime(registry).run().turn().await.unwrap_err();
    assert!(error.to_string().contains("source `c` did not open: no route"), "{error}");
    assert_eq!(log.lines(), ["open a", "open b", "open c", "close b", "close a"]);
}

#[tokio::test]
async fn dropping_the_runtime_closes_its_sources() {
    let log = Log::default();
    let runtime = runtime(ToolRegistry::builder().source(Remote::new("a", &log, vec![])));
    runtime.run().turn().await.unwrap();
    drop(runtime);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(log.lines(), ["open a", "close a"]);
}

#[tokio::test]
async fn source_change_takes_effect_between_turns_only() {
    let log = Log::default();
    let remote = Remote::new("r", &log, vec![quick(read("t"))]);
    let tools = Arc::clone(&remote.tools);
    let runtime = runtime(ToolRegistry::builder().source(remote));
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    let changed = DynTool::new(read("t").title("new"), json!({}), |_, _| async { "new body" });
    *tools.lock().unwrap() = Ok(vec![changed, quick(read("u"))]);
    assert_eq!(names(&turn), ["r__t"]);
    let before = turn.snapshot().fingerprint();
    assert_eq!(turn.run(calls("r__t:x")).await[0].text(), "t(x)", "the advertised body");
    let turn = run.turn().await.unwrap();
    assert_eq!(names(&turn), ["r__t", "r__u"]);
    assert_ne!(turn.snapshot().fingerprint(), before);
    assert_eq!(turn.run(calls("r__t")).await[0].text(), "new body");
}

#[tokio::test]
async fn failing_source_keeps_its_last_tools_and_an_invalid_tool_is_skipped() {
    let log = Log::default();
    let bad = DynTool::new(read("bad"), json!({"type": "nonsense"}), |_, _| async {});
    let remote = Remote::new("r", &log, vec![quick(read("t")), bad]);
    let tools = Arc::clone(&remote.tools);
    let runtime = runtime(ToolRegistry::builder().source(remote));
    let run = runtime.run();
    let turn = run.turn().await.unwrap();
    assert_eq!(names(&turn), ["r__t"]);
    assert!(turn.snapshot().problems()[0].contains("`r__bad`"), "{:?}", turn.snapshot().problems());
    *tools.lock().unwrap() = Err("gone".into());
    let turn = run.turn().await.unwrap();
    assert_eq!(names(&turn), ["r__t"]);
    assert!(turn.snapshot().problems()[0].contains("gone"));
}

#[tokio::test]
async fn aliases_resolve_to_own_tools_only() {
    let log = Log::default();
    let remote = Remote::new("r", &log, vec![quick(read("t").alias("theirs"))]);
    let registry = ToolRegistry::builder().add(quick(read("own").alias("ours"))).source(remote);
    let runtime = runtime(registry);
    let answers = runtime.run().turn().await.unwrap().run(calls("ours:1 theirs:2")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 unknown_tool"]);
}

#[tokio::test]
async fn source_cannot_take_over_an_alias_through_a_view() {
    let log = Log::default();
    let remote = Remote::new("r", &log, vec![quick(read("t").alias("ours"))]);
    let registry = ToolRegistry::builder().add(quick(read("own").alias("ours"))).source(remote);
    let run = runtime(registry).run_builder().view(ToolView::all().hide("nothing")).start();
    let answers = run.turn().await.unwrap().run(calls("ours:1")).await;
    assert_eq!((answers[0].tool_name().as_str(), &*answers[0].text()), ("own", "own(1)"));
}

#[tokio::test]
async fn source_tool_without_its_state_is_not_offered() {
    let log = Log::default();
    let remote = Remote::new(
        "r",
        &log,
        vec![quick(read("t").need(haft::tool::Dependency::state::<User>()))],
    );
    let turn = runtime(ToolRegistry::builder().source(remote)).run().turn().await.unwrap();
    assert!(names(&turn).is_empty());
}

#[tokio::test]
async fn a_view_filters_renames_and_hides_and_refuses_what_it_hides() {
    let tools = vec![quick(read("look")), quick(read("debug_x")), quick(write("change"))];
    let runtime = runtime(ToolRegistry::builder().add(tools));
    let view = ToolView::all().filter(ToolSpec::is_read_only).hide("debug_*").prefix("fs_");
    let run = runtime.run_builder().view(view).start();
    let turn = run.turn().await.unwrap();
    assert_eq!(names(&turn), ["fs_look"]);
    let answers = turn.run(calls("fs_look:1 change look")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 unknown_tool", "c3 unknown_tool"]);
}

struct User(&'static str);

#[tokio::test]
async fn tool_requirements_decide_whether_it_is_offered() {
    let needs = DynTool::new(
        read("who").need(haft::tool::Dependency::run_state::<User>()),
        json!({}),
        |_, cx| async move {
            let user: RunState<User> = cx.run_state()?;
            Ok::<_, Failure>(user.0)
        },
    );
    let off = quick(read("off").enabled(|scope| scope.user.is_some()));
    let panics = quick(read("panics").enabled(|_| panic!("on purpose")));
    let person = quick(read("person").requires_user_interaction(true));
    let runtime = runtime(ToolRegistry::builder().add(vec![needs, off, panics, person]));
    let turn = runtime.run().turn().await.unwrap();
    assert!(names(&turn).is_empty());
    assert_eq!(turn.snapshot().withheld().count(), 4);
    let answers = turn.run(calls("who off panics person")).await;
    assert_eq!(
        ends(&answers),
        ["c1 not_offered", "c2 not_offered", "c3 not_offered", "c4 needs_interaction"]
    );
    let run = runtime.run_builder().run_state(User("ada")).user("u1").start();
    let turn = run.turn().await.unwrap();
    assert_eq!(names(&turn), ["off", "who"]);
    assert_eq!(turn.run(calls("who")).await[0].text(), "ada");
}

#[tokio::test]
async fn missing_state_is_a_build_error_naming_tool_and_type() {
    let tool = quick(read("t").need(haft::tool::Dependency::state::<User>()));
    let registry = || ToolRegistry::builder().add(tool.clone()).build().unwrap();
    let error = Runtime::builder().registry(registry()).build().unwrap_err();
    assert!(error.to_string().contains("tool `t` needs a `State<"), "{error}");
    assert!(error.to_string().contains("User"), "{error}");
    assert!(Runtime::builder().registry(registry()).state(User("x")).build().is_ok());
}

/// What a hostile source does instead of listing its tools.
struct Hostile(&'static str);

impl ToolSource for Hostile {
    fn name(&self) -> &str {
        "hostile"
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        match self.0 {
            "panics at once" => panic!("on purpose"),
            "panics later" => Box::pin(async { panic!("on purpose") }),
            _ => Box::pin(std::future::pending()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_or_panicking_source_does_not_block_a_turn() {
    for way in ["panics at once", "panics later", "hangs"] {
        let registry = ToolRegistry::builder().add(quick(read("own"))).source(Hostile(way));
        let turn = runtime(registry).run().turn().await.unwrap();
        assert_eq!(names(&turn), ["own"], "{way}");
        assert!(turn.snapshot().problems()[0].contains("`hostile`"), "{way}");
    }
}

/// A source that takes two minutes, and says how long it may take.
struct Slow(Option<Duration>);

impl ToolSource for Slow {
    fn name(&self) -> &str {
        "slow"
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        Box::pin(async {
            tokio::time::sleep(Duration::from_secs(120)).await;
            Ok(vec![quick(read("late"))])
        })
    }

    fn list_timeout(&self) -> Option<Duration> {
        self.0
    }
}

#[tokio::test(start_paused = true)]
async fn slow_source_may_take_as_long_as_it_says_and_no_longer() {
    for (limit, tools) in [(None, &[][..]), (Some(60), &[]), (Some(180), &["slow__late"])] {
        let source = Slow(limit.map(Duration::from_secs));
        let turn = runtime(ToolRegistry::builder().source(source)).run().turn().await.unwrap();
        assert_eq!(names(&turn), tools, "{limit:?}");
        assert_eq!(turn.snapshot().problems().is_empty(), !tools.is_empty());
    }
}

#[tokio::test]
async fn a_filter_that_panics_hides_the_tool() {
    let runtime = runtime(ToolRegistry::builder().add(quick(read("t"))));
    let run = runtime.run_builder().view(ToolView::all().filter(|_| panic!("on purpose"))).start();
    assert!(names(&run.turn().await.unwrap()).is_empty());
}

#[tokio::test]
async fn cached_tools_of_a_failing_source_may_not_collide() {
    let log = Log::default();
    let late = Remote::new("a", &log, vec![]);
    let early = Remote::new("a__b", &log, vec![quick(read("c"))]);
    let (late_tools, early_tools) = (Arc::clone(&late.tools), Arc::clone(&early.tools));
    let runtime = runtime(ToolRegistry::builder().source(late).source(early));
    let run = runtime.run();
    assert_eq!(names(&run.turn().await.unwrap()), ["a__b__c"]);
    *late_tools.lock().unwrap() = Ok(vec![quick(read("b__c"))]);
    *early_tools.lock().unwrap() = Err("gone".into());
    let turn = run.turn().await.unwrap();
    assert_eq!(names(&turn), ["a__b__c"], "one name, one tool");
    assert!(turn.snapshot().problems().iter().any(|p| p.contains("two tools are called")));
}
