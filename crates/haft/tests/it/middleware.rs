//! Middleware: order, timeouts, replaced outcomes, and that no started body is lost.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use haft::{
    BoxFuture, Config, FailureCode, Output, Runtime, RuntimeBuilder, ToolResult,
    events::Event,
    middleware::{Middleware, Next, Outcome, middleware_fn},
    registry::ToolView,
    taint::Trust,
    tool::{DynTool, Execution},
    turn::AuthorizedCall,
};
use serde_json::json;

use crate::kit::*;

type Lines = Arc<Mutex<Vec<String>>>;

/// A middleware that records when it is entered and left.
fn logs(name: &'static str, lines: &Lines) -> impl Middleware {
    let lines = Arc::clone(lines);
    middleware_fn(name, move |_, next| {
        let lines = Arc::clone(&lines);
        Box::pin(async move {
            lines.lock().unwrap().push(format!("> {name}"));
            let outcome = next.run().await;
            lines.lock().unwrap().push(format!("< {name}"));
            outcome
        })
    })
}

/// A middleware with its own timeout.
struct Timed<F>(Duration, F);

impl<F> Middleware for Timed<F>
where
    F: for<'a> Fn(Next<'a>) -> BoxFuture<'a, Outcome> + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        "timed"
    }

    fn timeout(&self) -> Option<Duration> {
        Some(self.0)
    }

    fn call<'a>(&'a self, _: &'a AuthorizedCall, next: Next<'a>) -> BoxFuture<'a, Outcome> {
        (self.1)(next)
    }
}

fn timed<F>(seconds: u64, call: F) -> Timed<F>
where
    F: for<'a> Fn(Next<'a>) -> BoxFuture<'a, Outcome> + Send + Sync + 'static,
{
    Timed(Duration::from_secs(seconds), call)
}

async fn one(builder: RuntimeBuilder) -> ToolResult {
    let turn = builder.build().unwrap().run().turn().await.unwrap();
    turn.run(calls("t:x")).await.pop().unwrap()
}

fn code(answer: &ToolResult) -> (FailureCode, Execution) {
    let failure = answer.failure().unwrap();
    (failure.code(), failure.execution())
}

#[tokio::test]
async fn first_added_middleware_is_outermost_and_tool_middleware_keeps_its_order() {
    let lines = Lines::default();
    let runtime = permissive(vec![quick(read("mail_send")), quick(read("t"))])
        .middleware(logs("all", &lines))
        .middleware_for("mail_*", logs("mail", &lines))
        .middleware(logs("inner", &lines))
        .build()
        .unwrap();
    let entry = |name: &str| runtime.registry().own().find(|e| *e.name() == name).unwrap().clone();
    assert_eq!(runtime.middleware_of(&entry("mail_send")), ["all", "mail", "inner"]);
    assert_eq!(runtime.middleware_of(&entry("t")), ["all", "inner"]);
    let run = runtime.run();
    run.turn().await.unwrap().run(calls("mail_send:x")).await;
    assert_eq!(
        std::mem::take(&mut *lines.lock().unwrap()),
        ["> all", "> mail", "> inner", "< inner", "< mail", "< all"]
    );
    run.turn().await.unwrap().run(calls("t:x")).await;
    assert_eq!(lines.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn renaming_in_a_view_does_not_bypass_middleware() {
    let lines = Lines::default();
    let runtime = permissive(vec![quick(read("mail_send"))])
        .middleware_for("mail_*", logs("mail", &lines))
        .build()
        .unwrap();
    let view = ToolView::all().rename("mail_send", "post");
    let run = runtime.run_builder().view(view).start();
    let answers = run.turn().await.unwrap().run(calls("post:x")).await;
    assert_eq!(ends(&answers), ["c1 ok"]);
    assert_eq!(lines.lock().unwrap().len(), 2);
}

#[test]
fn middleware_names_are_unique_and_valid() {
    let passes = |name: &'static str| middleware_fn(name, |_, next| next.run());
    for names in [["", "x"], ["x", "x"], ["x", "  "]] {
        let [one, two] = names.map(passes);
        let built = Runtime::builder().middleware(one).middleware_for("a*", two).build();
        assert!(built.is_err(), "{names:?}");
    }
    struct Breaks;
    impl Middleware for Breaks {
        fn name(&self) -> &str {
            panic!("no name")
        }
        fn call<'a>(&'a self, _: &'a AuthorizedCall, next: Next<'a>) -> BoxFuture<'a, Outcome> {
            next.run()
        }
    }
    assert!(Runtime::builder().middleware(Breaks).build().is_err());
    let never = timed(0, |next| next.run());
    assert!(Runtime::builder().middleware(never).build().is_err());
}

#[tokio::test]
async fn middleware_that_skips_the_body_is_named_and_reported_not_started() {
    let ran = Arc::new(AtomicUsize::new(0));
    let tool = || {
        let ran = Arc::clone(&ran);
        DynTool::new(read("t"), open_schema(), move |_, _| {
            ran.fetch_add(1, Ordering::SeqCst);
            async { "body" }
        })
    };
    let instead =
        middleware_fn("replacement", |_, _| Box::pin(async { Ok(Output::text("from elsewhere")) }));
    let runtime = permissive(vec![tool()]).middleware(instead).build().unwrap();
    let run = runtime.run();
    let answer = run.turn().await.unwrap().run(calls("t:x")).await.pop().unwrap();
    assert_eq!(answer.text(), "from elsewhere");
    assert_eq!(
        (answer.execution(), answer.replaced_by()),
        (Execution::NotStarted, Some("middleware `replacement`"))
    );
    assert_eq!(run.label().trust, Trust::Untrusted, "it may be what the tool said before");
    let refuses =
        middleware_fn("no", |_, _| Box::pin(async { Err(haft::Failure::failed("not today")) }));
    let answer = one(permissive(vec![tool()]).middleware(refuses)).await;
    assert_eq!(code(&answer), (FailureCode::ToolFailed, Execution::NotStarted));
    assert_eq!(ran.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn replaced_outcome_is_bounded_and_execution_stays_recorded() {
    let floods = middleware_fn("floods", |_, next| {
        Box::pin(async move {
            next.run().await?;
            Ok(Output::text("x".repeat(1 << 20)))
        })
    });
    let answer = one(permissive(vec![quick(read("t"))]).middleware(floods)).await;
    assert!(answer.truncation().is_some() && answer.text().len() < 1 << 19);
    assert_eq!((answer.execution(), answer.replaced_by()), (Execution::Completed, None));
    let spoils = middleware_fn("spoils", |_, next| {
        Box::pin(async move {
            next.run().await?;
            Err(haft::Failure::new(FailureCode::Denied, "not for you"))
        })
    });
    let answer = one(permissive(vec![quick(read("t"))]).middleware(spoils)).await;
    assert_eq!(code(&answer), (FailureCode::Denied, Execution::Completed));
}

#[tokio::test(start_paused = true)]
async fn middleware_timeout_is_paused_while_the_body_runs() {
    let slow = || permissive(vec![slow(read("t"), 50_000)]);
    let wait = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
    let begun = tokio::time::Instant::now();
    let answer = one(slow().middleware(timed(5, |next| next.run()))).await;
    assert!(!answer.is_error(), "{}", answer.text());
    let around = timed(5, move |next| {
        Box::pin(async move {
            wait(2).await;
            let outcome = next.run().await;
            wait(2).await;
            outcome
        })
    });
    assert!(!one(slow().middleware(around)).await.is_error());
    assert_eq!(begun.elapsed().as_secs(), 104);
    let before = timed(5, move |next| {
        Box::pin(async move {
            wait(6).await;
            next.run().await
        })
    });
    assert_eq!(
        code(&one(slow().middleware(before)).await),
        (FailureCode::HookFailed, Execution::NotStarted)
    );
    // Two periods of three seconds are more than five.
    let after = timed(5, move |next| {
        Box::pin(async move {
            wait(3).await;
            let outcome = next.run().await;
            wait(3).await;
            outcome
        })
    });
    let answer = one(slow().middleware(after)).await;
    assert_eq!(code(&answer), (FailureCode::HookFailed, Execution::Completed));
    assert_eq!(begun.elapsed().as_secs(), 104 + 5 + 55);
}

#[tokio::test]
async fn middleware_panic_is_a_failure_that_says_whether_the_body_ran() {
    let before = middleware_fn("x", |_, _| panic!("before"));
    let answer = one(permissive(vec![quick(read("t"))]).middleware(before)).await;
    assert_eq!(code(&answer), (FailureCode::HookFailed, Execution::NotStarted));
    let after = middleware_fn("x", |_, next| {
        Box::pin(async move {
            let _ = next.run().await;
            panic!("after")
        })
    });
    let answer = one(permissive(vec![quick(read("t"))]).middleware(after)).await;
    assert_eq!(code(&answer), (FailureCode::HookFailed, Execution::Completed));
    assert_eq!(answer.failure().unwrap().cause().unwrap(), "middleware `x`: it panicked: after");
    assert!(!answer.text().contains("panicked"), "the operator's to know");
}

/// A middleware that waits a second for the body and then returns a result itself.
fn impatient() -> impl Middleware {
    middleware_fn("impatient", |_, next| {
        Box::pin(async move {
            match tokio::time::timeout(Duration::from_secs(1), next.run()).await {
                Ok(outcome) => outcome,
                Err(_) => Ok(Output::text("too slow; here is yesterday's")),
            }
        })
    })
}

#[tokio::test(start_paused = true)]
async fn abandoned_body_is_cancelled_and_awaited() {
    let ended = Arc::new(AtomicBool::new(false));
    let saw = Arc::clone(&ended);
    let tool = DynTool::new(read("t"), open_schema(), move |_, cx| {
        let saw = Arc::clone(&saw);
        async move {
            cx.cancelled().await;
            // It cleans up within its grace period.
            tokio::time::sleep(Duration::from_millis(100)).await;
            saw.store(true, Ordering::SeqCst);
            Err::<(), _>(haft::Failure::failed("stopped"))
        }
    });
    let answer = one(permissive(vec![tool]).middleware(impatient())).await;
    assert_eq!(answer.text(), "too slow; here is yesterday's");
    assert!(ended.load(Ordering::SeqCst), "the answer came after the body's end");
    assert_eq!((answer.execution(), answer.replaced_by()), (Execution::Completed, None));
}

#[tokio::test(start_paused = true)]
async fn no_result_is_returned_while_the_body_still_runs() {
    let (go, wait) = mpsc::channel::<()>();
    let wait = Arc::new(Mutex::new(wait));
    let began = Arc::new(AtomicBool::new(false));
    let begins = Arc::clone(&began);
    let tool = DynTool::new(read("t"), open_schema(), move |_, cx| {
        let (wait, begins) = (Arc::clone(&wait), Arc::clone(&begins));
        async move {
            let job = move |_: &haft::ToolContext| {
                begins.store(true, Ordering::SeqCst);
                wait.lock().unwrap().recv().is_ok()
            };
            cx.spawn_blocking(job).await.map(|_| "done")
        }
    });
    let leaves = middleware_fn("leaves", move |_, next| {
        let began = Arc::clone(&began);
        Box::pin(async move {
            let seen = async {
                while !began.load(Ordering::SeqCst) {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                outcome = next.run() => outcome,
                () = seen => Ok(Output::text("never mind")),
            }
        })
    });
    let answer = one(permissive(vec![tool]).middleware(leaves)).await;
    assert_eq!(code(&answer), (FailureCode::UnknownOutcome, Execution::Unknown));
    drop(go);
}

#[tokio::test(start_paused = true)]
async fn cancellation_reaches_a_hanging_middleware() {
    let hangs = timed(3_000, |next| {
        Box::pin(async move {
            std::future::pending::<()>().await;
            next.run().await
        })
    });
    let runtime = permissive(vec![quick(read("t"))]).middleware(hangs).build().unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let control = turn.handle();
    let began = tokio::time::Instant::now();
    let (answers, ()) = tokio::join!(turn.run(calls("t:x")), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        control.abort();
    });
    assert_eq!(code(&answers[0]), (FailureCode::Cancelled, Execution::NotStarted));
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[tokio::test(start_paused = true)]
async fn middleware_that_drops_a_started_body_ends_at_the_call_timeout() {
    let forgets = timed(5, |next| {
        Box::pin(async move {
            let mut going = next.run();
            // Once, and never again.
            assert!(polled_once(&mut going).await.is_none());
            std::future::pending::<()>().await;
            going.await
        })
    });
    let mut config = Config::default();
    config.deadline = Duration::from_secs(20);
    let tool = slow(read("t"), 5_000);
    let began = tokio::time::Instant::now();
    let answer = one(permissive(vec![tool]).config(config).middleware(forgets)).await;
    assert_eq!(answer.failure().unwrap().code(), FailureCode::DeadlinePassed);
    assert_eq!(answer.execution(), Execution::Completed);
    assert!(began.elapsed() < Duration::from_secs(25));
}

async fn polled_once(going: &mut BoxFuture<'_, Outcome>) -> Option<Outcome> {
    std::future::poll_fn(|task| {
        std::task::Poll::Ready(match going.as_mut().poll(task) {
            std::task::Poll::Ready(outcome) => Some(outcome),
            std::task::Poll::Pending => None,
        })
    })
    .await
}

#[tokio::test]
async fn every_call_through_middleware_has_one_terminal_event() {
    let last = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&last);
    let runtime = permissive(vec![quick(read("t")), failing(read("fails"))])
        .middleware(middleware_fn("x", |_, next| next.run()))
        .observer(move |event: &Event| {
            counts.fetch_add(usize::from(event.is_terminal()), Ordering::SeqCst);
        })
        .build()
        .unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t:x fails nosuch")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 tool_failed", "c3 unknown_tool"]);
    assert_eq!(last.load(Ordering::SeqCst), 3);
    assert_eq!(runtime.call("t", json!({"x": "y"})).await.unwrap().to_text(), "t(y)");
}
