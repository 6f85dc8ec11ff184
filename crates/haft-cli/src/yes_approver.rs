//! The approvers of `--yes`: one approves what was not known to be special, the other denies the
//! rest.

use std::path::Path;

use haft::{
    BoxFuture, Failure,
    approval::{ApprovalRequest, ApprovalResponse, Approver},
    host::protected_names::ProtectedNames,
    policy::Decision,
    tool::{Effects, Operation},
};

/// The call that a running command makes when it contacts a host that is not listed.
const CONTACT: &str = "contact_host";

/// The approver of `--yes`: approves everything except protected files and unlisted hosts.
pub(crate) struct YesApprover;

impl Approver for YesApprover {
    fn name(&self) -> &str {
        "--yes"
    }

    fn is_person(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        let answer = match &question.verdict.decision {
            Decision::NeedInput(name) => ApprovalResponse::Deny(Some(format!(
                "`{name}` needs a value, and `--yes` cannot give one"
            ))),
            // `--yes` lifts no deny, and so no doubt about one.
            _ if question.explanation.deciding.as_ref().is_some_and(|r| r.decision == "deny") => {
                ApprovalResponse::Deny(Some(format!(
                    "{}; `--yes` does not answer this",
                    question.verdict.reason
                )))
            }
            // The approval was given before the host was known, so it does not cover it.
            _ if question.call.tool().name() == CONTACT => {
                let host = question.call.arguments()["host"].as_str().unwrap_or_default();
                ApprovalResponse::Deny(Some(format!(
                    "`--yes` does not cover a host that was not named; name it with \
                     `--network {host}`"
                )))
            }
            // The approval was given before the file was known, so it does not cover it.
            _ if protected_file(question).is_some() => return Box::pin(std::future::pending()),
            _ => ApprovalResponse::allow(),
        };
        Box::pin(async { Ok(answer) })
    }
}

/// Denies what `--yes` does not cover: writes to protected files.
pub(crate) struct ProtectedFilesApprover;

impl Approver for ProtectedFilesApprover {
    fn name(&self) -> &str {
        "protected names"
    }

    fn is_person(&self) -> bool {
        false
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        match protected_file(question) {
            Some(why) => Box::pin(async { Ok(ApprovalResponse::Deny(Some(why))) }),
            None => Box::pin(std::future::pending()),
        }
    }
}

/// The reason for the denial if a call would write protected files. It names a rule for each: a
/// git subcommand may need several, and one rule alone would lead to the same denial.
fn protected_file(question: &ApprovalRequest<'_>) -> Option<String> {
    let names = ProtectedNames::standard();
    let Effects::Declared(effects) = &question.call.profile().effects else { return None };
    let here = &question.call.context().scope().working_directory;
    let writes = effects.iter().filter(|effect| effect.operation == Operation::Write);
    let mut files = writes.filter_map(|effect| {
        let path = Path::new(effect.target.as_deref()?);
        let reason = names.reason(path)?;
        Some((path.strip_prefix(here).unwrap_or(path).display(), reason))
    });
    let (shown, reason) = files.next()?;
    let mut rules = format!("the file with the rule `Edit({shown})`");
    for (at, (other, _)) in files.enumerate() {
        if at == 0 {
            rules = format!("the files with the rules `Edit({shown})`");
        }
        rules.extend([", `Edit(", &other.to_string(), ")`"]);
    }
    // The rule of a file covers a file tool. A command needs a rule of its own.
    if question.call.tool().name() == "shell" {
        rules.push_str(" and the command with a rule for `Bash`");
    }
    Some(format!(
        "`{shown}` is protected: {reason}; an approval in advance does not cover protected files. \
         Approve the call at a terminal, or allow {rules}"
    ))
}
