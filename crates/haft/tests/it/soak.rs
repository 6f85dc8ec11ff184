//! A short soak test: every call gets one result, and nothing leaks.

use std::{cell::Cell, path::Path, time::Duration};

use crate::soak_support::{MAX_ARTIFACT_BYTES, Plan, Report, quiet_panics, soak};

fn bytes_in(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}

#[tokio::test(start_paused = true)]
async fn random_calls_get_one_result_each_and_leak_nothing() {
    quiet_panics();
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("soak");
    let _ = std::fs::remove_dir_all(&directory);
    let plan = Plan { calls: 10_000, seed: 7, directory: directory.clone() };
    let most = Cell::new(0);
    let report: Report =
        soak(&plan, &|_| most.set(most.get().max(bytes_in(&directory)))).await.unwrap();

    assert_eq!(report.mistakes, Vec::<String>::new());
    assert_eq!(report.asked, report.ended);
    // The submitted calls, and the nested ones.
    assert!(report.asked > plan.calls, "{report:?}");
    // A control: a soak in which nothing fails proves nothing.
    for code in [
        "ok",
        "tool_failed",
        "panicked",
        "timed_out",
        "not_offered",
        "unknown_tool",
        "cancelled",
        "circuit_open",
    ] {
        assert!(report.answers.contains_key(code), "no call was {code}: {:?}", report.answers);
    }
    assert!(report.late > 0 && report.read > 0 && report.missed > 0, "{report:?}");
    assert!(most.get() > 0 && most.get() <= MAX_ARTIFACT_BYTES, "{} bytes were stored", most.get());
    // Dropped bodies need a moment to end.
    let metrics = tokio::runtime::Handle::current().metrics();
    for _ in 0..1_000 {
        if metrics.num_alive_tasks() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(metrics.num_alive_tasks(), 0);
    let _ = std::fs::remove_dir_all(&directory);
}
