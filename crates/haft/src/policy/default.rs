//! The two policies there are without rules: the strict default, and its loud opposite.

use std::path::{Component, Path, PathBuf};

use haft_core::{Capability, Effects, Operation, Permission, Scope, Verdict};

use super::{Policy, facts::Facts, rules::Ground};
use crate::turn::Admitted;

/// What holds when no rule matches: a read-only call without network or secrets, inside the
/// workspace, is allowed; everything else asks.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultPolicy;

const SOURCE: &str = "the default";

impl Policy for DefaultPolicy {
    fn judge(&self, call: &Admitted) -> Verdict {
        let spec = call.tool().spec();
        if spec.permission == Permission::None {
            return Verdict::allow("the tool says `permission = \"none\"`").by(SOURCE);
        }
        match must_ask(call) {
            // A hook that speaks for the call stands in for the rule that is missing.
            Some(why) => call.vouched().cloned().unwrap_or_else(|| Verdict::ask(why).by(SOURCE)),
            None => Verdict::allow("it only reads, without network or secrets").by(SOURCE),
        }
    }
}

/// Judges by the default alone, for rules that have nothing to say.
pub(super) fn judge(call: &Admitted, _facts: &Facts<'_>, _ground: &Ground) -> Verdict {
    DefaultPolicy.judge(call)
}

fn must_ask(call: &Admitted) -> Option<&'static str> {
    let claim = call.claim();
    let spec = call.tool().spec();
    if !claim.read_only {
        return Some(match spec.read_only {
            None => "it does not say that it only reads",
            Some(_) => "it does more than read",
        });
    }
    let Some(capabilities) = spec.capabilities else {
        return Some("it does not say what it reaches; `capabilities()` would say nothing");
    };
    if capabilities.has(Capability::Network) {
        return Some("it reaches the network");
    }
    if capabilities.has(Capability::Secrets) {
        return Some("it reads secrets");
    }
    match &claim.effects {
        Effects::Declared(effects) => {
            for effect in effects.iter() {
                if effect.operation != Operation::Read {
                    return Some("it has an effect that does more than read");
                }
                if let Some(target) = &effect.target
                    && !inside(call.context().scope(), target)
                {
                    return Some("it reads outside the workspace");
                }
            }
            None
        }
        Effects::Undeclared if capabilities.has(Capability::Filesystem) => {
            Some("it reads files and does not say which")
        }
        Effects::Undeclared => None,
    }
}

/// Whether a path lies below the working directory, by its components.
fn inside(scope: &Scope, target: &str) -> bool {
    let root = tidy(&scope.working_directory);
    let target = tidy(&scope.working_directory.join(target));
    match root.as_os_str().is_empty() {
        true => target.is_relative() && !target.starts_with(".."),
        false => target.starts_with(root),
    }
}

/// Takes `.` and `..` out of a path without touching the disk.
fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // FAIL CLOSED: `..` above the start stays visible, so it is never "inside".
            Component::ParentDir => {
                if out.ends_with("..") || !out.pop() {
                    out.push("..");
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// Allows every call that no guard refuses. For hosts that judge elsewhere; it says so in every
/// verdict, so that nobody overlooks it.
#[derive(Debug, Clone, Copy)]
pub struct AllowEverything;

impl Policy for AllowEverything {
    fn judge(&self, _: &Admitted) -> Verdict {
        Verdict::allow("EVERYTHING IS ALLOWED by the host").by("allow everything")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inside_is_judged_by_components() {
        let scope =
            |root: &str| Scope { working_directory: Path::new(root).into(), ..Scope::default() };
        for (root, target, is) in [
            ("/w", "a", true),
            ("/w", "/w/a", true),
            ("/w", "../w/a", true),
            ("/w", "/wevil/a", false),
            ("/w", "../a", false),
            ("/w", "a/../../b", false),
            ("/w", "/etc/passwd", false),
            (".", "a", true),
            (".", "../a", false),
            (".", "/etc/passwd", false),
        ] {
            assert_eq!(inside(&scope(root), target), is, "{root} {target}");
        }
    }
}
