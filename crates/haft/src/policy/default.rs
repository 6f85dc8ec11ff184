//! The two policies there are without rules: the strict default, and its loud opposite.

use std::path::PathBuf;

use haft_core::{Capability, Decision, Effects, Operation, Permission, Scope, Verdict};

use super::{
    Policy,
    facts::{self, Facts, Part},
    rules::Ground,
    world::{Disk, World, is_inside},
};
use crate::turn::Admitted;

/// What holds when no rule matches: a read-only call without network or secrets, inside the
/// workspace, is allowed; everything else asks.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultPolicy;

const SOURCE: &str = "the default";

impl Policy for DefaultPolicy {
    fn judge(&self, call: &Admitted) -> Verdict {
        // Arguments that name files are looked at; most tools have none.
        if call.tool().traits().is_marked() {
            let ground = Ground::default();
            return judge(call, &Facts::of(call, &ground), &ground);
        }
        by_default(call, &Disk, &[], false)
    }
}

/// Judges by the default alone, for rules that have nothing to say.
pub(super) fn judge(call: &Admitted, facts: &Facts<'_>, ground: &Ground) -> Verdict {
    let says_which = facts.parts.iter().any(|part| matches!(part, Part::Path { .. }));
    let verdict = by_default(call, &*ground.world, &ground.roots, says_which);
    if verdict.decision != Decision::Allow || call.tool().spec().permission == Permission::None {
        return verdict;
    }
    match parts_ask(facts, ground) {
        Some(why) => call.vouched().cloned().unwrap_or_else(|| Verdict::ask(why).by(SOURCE)),
        None => verdict,
    }
}

/// Why a call that says it only reads is asked about because of what its arguments name.
fn parts_ask(facts: &Facts<'_>, ground: &Ground) -> Option<&'static str> {
    facts.parts.iter().find_map(|part| match part {
        Part::Path { operation: Operation::Read, resolved: Ok(path), .. } => {
            (!is_inside(path, facts.scope, ground)).then_some("it reads outside the workspace")
        }
        Part::Path { .. } => Some("it touches a file it should not, or nobody can tell which"),
        Part::Command(_) | Part::Unreadable(_) => Some("it runs a command"),
        Part::Host(_) => Some("it reaches the network"),
        Part::Call | Part::Reach(_) => None,
    })
}

fn by_default(call: &Admitted, world: &dyn World, roots: &[PathBuf], says_which: bool) -> Verdict {
    if call.tool().spec().permission == Permission::None {
        return Verdict::allow("the tool says `permission = \"none\"`").by(SOURCE);
    }
    match must_ask(call, world, roots, says_which) {
        // A hook that speaks for the call stands in for the rule that is missing.
        Some(why) => call.vouched().cloned().unwrap_or_else(|| Verdict::ask(why).by(SOURCE)),
        None => Verdict::allow("it only reads, without network or secrets").by(SOURCE),
    }
}

fn must_ask(
    call: &Admitted,
    world: &dyn World,
    roots: &[PathBuf],
    says_which: bool,
) -> Option<&'static str> {
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
    let files = capabilities.has(Capability::Filesystem);
    match &claim.effects {
        Effects::Declared(effects) => {
            for effect in effects.iter() {
                if effect.operation != Operation::Read {
                    return Some("it has an effect that does more than read");
                }
                if let Some(target) = &effect.target
                    && !inside(call.context().scope(), target, files, (world, roots))
                {
                    return Some("it reads outside the workspace");
                }
            }
            None
        }
        Effects::Undeclared if files && !says_which => {
            Some("it reads files and does not say which")
        }
        Effects::Undeclared => None,
    }
}

/// Whether a target lies in the workspace: by where it leads, component by component. What is no
/// path (`table:users`) is not outside either.
fn inside(
    scope: &Scope,
    target: &str,
    files: bool,
    (world, roots): (&dyn World, &[PathBuf]),
) -> bool {
    let Some(target) = facts::as_path(target, files) else { return true };
    // Some tools take `~` for the home folder, and that is elsewhere; so is what climbs under a name.
    if target.starts_with('~') || target.contains(":..") {
        return false;
    }
    let Ok(root) = world.resolve(&scope.working_directory) else { return false };
    let Ok(leads) = world.resolve(&root.join(target)) else { return false };
    // FAIL CLOSED: a path that climbs out of what is known leads nowhere.
    if leads.starts_with("..") {
        return false;
    }
    let below = |root: &PathBuf| world.resolve(root).is_ok_and(|root| leads.starts_with(root));
    leads.starts_with(&root) || roots.iter().any(below)
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
    use std::path::Path;

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
            ("/w", "~/a", false),
            ("/w", "a\0b", false),
            (".", "a", true),
            (".", "../a", false),
            (".", "/etc/passwd", false),
            ("/w", "table:users", true),
            ("/w", "table:/../../etc", false),
        ] {
            assert_eq!(inside(&scope(root), target, false, (&Disk, &[])), is, "{root} {target}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_link_out_of_the_workspace_is_outside_and_one_into_it_inside() {
        let folder = crate::policy::testing::Folder::new("inside");
        folder.dir("w/src");
        folder.dir("secret");
        folder.link("w/out", "../secret");
        folder.link("w/in", "src");
        folder.link("way", "w");
        let inside = |root: &str, target: &str| {
            let working_directory = folder.at(root).into();
            let scope = Scope { working_directory, ..Scope::default() };
            inside(&scope, target, true, (&Disk, &[]))
        };
        assert!(!inside("w", "out/key"));
        assert!(inside("w", "in/new"));
        assert!(inside("way", "src/a"), "a workspace may itself be reached by a link");
        assert!(inside("way", folder.at("w/src").to_str().unwrap()));
    }
}
