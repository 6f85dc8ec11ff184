//! The self-test in every tier. `as_ordinary_user` runs it again as an ordinary user.

use std::collections::BTreeSet;

use haft_sandbox::{DoctorReport, ExpectedResult, ObservedResult};

use crate::kit::*;

#[tokio::test]
async fn self_test_refuses_forbidden_acts_and_allows_the_others() {
    for sandbox in sandboxes().await {
        let directory = tempfile::tempdir().unwrap();
        let found = sandbox.self_test(directory.path()).await.unwrap();
        let level = sandbox.tier().level;
        let bad: Vec<_> =
            found.bad().filter(|finding| !is_declared(&found, &finding.name)).collect();
        assert!(bad.is_empty(), "{level}: {bad:#?}\n{:#?}", found.tier);
        assert!(found.findings.len() >= 100, "{level}: {}", found.findings.len());
        for skipped in found.skipped() {
            eprintln!("NOT TRIED at {level}: {} ({:?})", skipped.name, skipped.observed);
        }
        let forbidden = found.skipped().filter(|finding| finding.group != "programs");
        assert!(forbidden.count() <= 4, "{level}");
        let names: BTreeSet<_> = found.findings.iter().map(|finding| &finding.name).collect();
        assert_eq!(names.len(), found.findings.len(), "names are unique");
        assert_eq!(
            std::fs::read_dir(directory.path()).unwrap().count(),
            0,
            "nothing is left behind"
        );
    }
}

/// Returns whether the tier declares the finding: uid 0 without capabilities can read files of
/// root.
fn is_declared(found: &DoctorReport, name: &str) -> bool {
    name == "read-shadow" && !found.tier.fs.is_enforced()
}

#[tokio::test]
async fn self_test_runs_real_programs_and_refuses_planted_configuration() {
    for sandbox in sandboxes().await {
        let directory = tempfile::tempdir().unwrap();
        let found = sandbox.self_test(directory.path()).await.unwrap();
        let level = sandbox.tier().level;
        let of = |name: &str| {
            let finding = found.findings.iter().find(|finding| finding.name == name);
            finding.unwrap_or_else(|| panic!("{level}: no `{name}`")).clone()
        };
        let is_allowed = |name: &str| matches!(of(name).observed, ObservedResult::Allowed);
        assert!(is_allowed("pipe"), "{level}: {:?}", of("pipe"));
        assert!(is_allowed("listing-afterwards"), "{level}");
        assert!(is_allowed("project-no-set-id"), "{level}");
        let has_git = std::process::Command::new("git").arg("--version").output().is_ok();
        for name in ["git-status", "git-log"] {
            assert!(!has_git || is_allowed(name), "{level}: {:?}", of(name));
        }
        if level == haft_sandbox::Level::Namespaces {
            for name in ["git-add", "git-commit"] {
                assert!(!has_git || is_allowed(name), "{level}: {:?}", of(name));
            }
        }
        let planted = found.findings.iter().filter(|finding| finding.group == "planted");
        assert!(planted.count() >= 20, "{level}");
        for name in ["plant-haft-toml", "plant-hook", "plant-git-config", "plant-servers"] {
            let finding = of(name);
            assert_eq!(finding.expected, ExpectedResult::Refused);
            assert!(matches!(finding.observed, ObservedResult::Refused(_)), "{level}: {finding:?}");
        }
    }
}

#[tokio::test]
async fn findings_round_trip_through_json() {
    let sandbox = sandboxes().await.remove(0);
    let directory = tempfile::tempdir().unwrap();
    let found = sandbox.self_test(directory.path()).await.unwrap();
    let back: DoctorReport = serde_json::from_str(&serde_json::to_string(&found).unwrap()).unwrap();
    assert_eq!(back.findings, found.findings);
    let ptrace = found.findings.iter().find(|finding| finding.name == "trace").unwrap();
    assert_eq!(
        (ptrace.expected, &ptrace.observed),
        (ExpectedResult::Refused, &ObservedResult::Refused(1))
    );
}
