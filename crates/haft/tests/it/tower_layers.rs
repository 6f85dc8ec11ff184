//! Real tower layers around calls.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    Failure, FailureCode, Output,
    tool::{DynTool, Execution},
    tower::adapt,
};
use tower::{limit::ConcurrencyLimitLayer, timeout::TimeoutLayer, util::MapResponseLayer};

use crate::kit::*;

/// A tool that records its maximum concurrency.
fn counting(most: &Arc<AtomicUsize>) -> DynTool {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::clone(most));
    DynTool::new(read("t"), open_schema(), move |_, _| {
        let (now, most) = (Arc::clone(&now), Arc::clone(&most));
        async move {
            let here = now.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(here, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_secs(1)).await;
            now.fetch_sub(1, Ordering::SeqCst);
            Ok("done")
        }
    })
}

#[tokio::test(start_paused = true)]
async fn tower_layer_limits_across_all_calls() {
    let most = Arc::default();
    let runtime = permissive(vec![counting(&most)])
        .middleware(adapt("two at once", ConcurrencyLimitLayer::new(2)))
        .build()
        .unwrap();
    let began = tokio::time::Instant::now();
    let answers = runtime.run().turn().await.unwrap().run(calls("t t t t t t")).await;
    assert!(answers.iter().all(|a| !a.is_error()));
    assert_eq!((most.load(Ordering::SeqCst), began.elapsed().as_secs()), (2, 3));
}

#[tokio::test(start_paused = true)]
async fn tower_layer_that_waits_beyond_the_timeout_runs_nothing() {
    let layer = adapt("one", ConcurrencyLimitLayer::new(1)).timeout(Duration::from_secs(2));
    let runtime = permissive(vec![slow(read("t"), 10_000)]).middleware(layer).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t t")).await;
    assert_eq!(ends(&answers), ["c1 ok", "c2 hook_failed"]);
    assert_eq!(answers[1].execution(), Execution::NotStarted);
}

#[tokio::test(start_paused = true)]
async fn tower_layer_error_stops_the_body_and_is_readable() {
    let layer = adapt("patience", TimeoutLayer::new(Duration::from_secs(3))).on_error(|e| {
        Failure::new(FailureCode::TimedOut, "nobody waited any longer").with_source(e)
    });
    let runtime = permissive(vec![slow(read("t"), 10_000)]).middleware(layer).build().unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t")).await;
    let failure = answers[0].failure().unwrap();
    assert_eq!(
        (failure.code(), failure.execution()),
        (FailureCode::TimedOut, Execution::Completed)
    );
    assert_eq!(failure.cause().unwrap(), "request timed out");
}

#[tokio::test]
async fn tower_layer_may_change_the_output_and_failures_pass_unchanged() {
    let loud =
        MapResponseLayer::new(|output: Output| Output::text(output.as_text().to_uppercase()));
    let runtime = permissive(vec![quick(read("t")), failing(read("fails"))])
        .middleware(adapt("loud", loud))
        .build()
        .unwrap();
    let answers = runtime.run().turn().await.unwrap().run(calls("t:x fails")).await;
    assert_eq!(answers[0].text(), "T(X)");
    assert_eq!(answers[1].text(), "tool_failed: no luck");
}
