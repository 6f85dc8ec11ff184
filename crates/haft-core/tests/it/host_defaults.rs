//! What a host that implements only the required methods allows: nothing.

use std::path::Path;

use haft_core::{FailureCode, HardLinkedFile, Operation, OtherNames, host::HostContext};

use crate::host::cx;

#[test]
fn a_host_without_rules_denies_every_path() {
    let cx = cx();
    let linked = HardLinkedFile { device: 1, inode: 2, links: 2, changed: (0, 0) };
    assert!(cx.is_path_denied(Operation::Read, Path::new("/a")));
    assert!(!cx.may_change_protected(Path::new("/a/.git/config")));
    assert_eq!(cx.other_names(Operation::Read, Path::new("/a"), &linked), OtherNames::Unknown);
    assert!(cx.denied_paths(&[]).is_err());
}

#[test]
fn a_host_without_secrets_and_budget_refuses_both() {
    let cx = cx();
    assert_eq!(cx.secret("token").unwrap_err().code(), FailureCode::Denied);
    assert_eq!(cx.charge(1, 1).unwrap_err().code(), FailureCode::BudgetExhausted);
}
