//! The two policies without rules: the strict default, and `AllowAll`.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use haft_core::{
    CallProfile, Capability, Decision, Effect, Effects, Operation, Permission, Scope, SharedStr,
    Verdict,
};
use haft_shell::{CommandEffect, Kind, SimpleCommand, Word};
use serde_json::Value;

use super::{
    HidesRevision, Policy, PolicyRequest, PolicyTool,
    context::PolicyContext,
    facts::{self, Facts, Part},
    path_resolver::{start, works_in},
};

/// The policy when no rule matches: a read-only call without network or secrets, inside the
/// workspace, is allowed; everything else needs approval.
#[derive(Debug, Clone, Copy, Default)]
pub struct DefaultPolicy;

const SOURCE: &str = "the default";
/// The context when there are no rules.
static NO_RULES: LazyLock<PolicyContext> = LazyLock::new(PolicyContext::default);

impl Policy for DefaultPolicy {
    fn decide(&self, call: &PolicyRequest<'_>) -> Verdict {
        // Arguments that name files are checked; most tools have none.
        if call.tool.traits().is_marked() {
            return decide_without_rules(call, &Facts::of(call, &NO_RULES), &NO_RULES);
        }
        or_confined(call, by_default(call, &NO_RULES, None))
    }

    fn hides_revision(&self) -> Option<HidesRevision> {
        Some(HidesRevision::NOTHING)
    }
}

impl DefaultPolicy {
    /// Returns the verdict on every call of a tool that does what it declares, if the call is
    /// allowed whatever its arguments are and wherever the run works.
    #[must_use]
    pub fn always_allows(tool: PolicyTool<'_>, declared: &CallProfile) -> Option<Verdict> {
        let has_target = |effects: &[Effect]| effects.iter().any(|effect| effect.target.is_some());
        let names_files = tool.traits().is_marked()
            || matches!(&declared.effects, Effects::Declared(effects) if has_target(effects));
        if names_files {
            return None;
        }
        let (arguments, scope) = (Value::Null, Scope::default());
        let call = PolicyRequest::new(tool, &arguments, declared, &scope);
        Some(by_default(&call, &NO_RULES, None)).filter(|v| v.decision == Decision::Allow)
    }
}

/// The source of an allow that relies on the sandbox.
pub(super) const CONFINEMENT: &str = "confinement";

/// Judges by the default alone, when no rule matches. A call that would need approval is allowed if
/// its body confines it.
pub(super) fn decide_without_rules(
    call: &PolicyRequest<'_>,
    facts: &Facts<'_>,
    context: &PolicyContext,
) -> Verdict {
    or_confined(call, unconfined(call, facts, context))
}

/// Allows a call that would need approval, if its body confines it.
fn or_confined(call: &PolicyRequest<'_>, verdict: Verdict) -> Verdict {
    // A command that declares its reads and needs approval names a file that it would not see.
    if verdict.decision != Decision::Ask || call.declares_reads() || not_confined(call).is_some() {
        return verdict;
    }
    let reason = "it is not known to write, and its sandbox allows no writes and no network";
    Verdict::allow(reason).by(CONFINEMENT).confine()
}

/// Allows a command that only reads the workspace, if its sandbox masks what rules deny there.
pub(super) fn masked(call: &PolicyRequest<'_>) -> Option<Verdict> {
    let reason = "it only reads the workspace, and its sandbox masks what rules deny there";
    let verdict = || Verdict::allow(reason).by(CONFINEMENT).confine();
    (call.declares_reads() && not_confined(call).is_none()).then(verdict)
}

/// Returns why a call cannot be allowed by confinement; `None` if it can.
///
/// FAIL CLOSED: the body must run in a sandbox, the profile must declare these arguments
/// confinable, and the check of this machine must have succeeded.
pub(super) fn not_confined(call: &PolicyRequest<'_>) -> Option<String> {
    let secrets = call.tool.spec.effective_capabilities().has(Capability::Secrets);
    match call.confinement() {
        _ if !call.tool.is_isolated => Some("the tool has no sandbox".to_owned()),
        _ if secrets => Some("the tool may read secrets".to_owned()),
        None => Some("the tool does not support confinement".to_owned()),
        Some(Err(why)) => Some(why),
        Some(Ok(_)) if !call.profile.confinable => Some("this call cannot run confined".to_owned()),
        Some(Ok(_)) => None,
    }
}

fn unconfined(call: &PolicyRequest<'_>, facts: &Facts<'_>, context: &PolicyContext) -> Verdict {
    let verdict = by_default(call, context, Some(facts));
    if verdict.decision != Decision::Allow || call.tool.spec.permission == Permission::None {
        return verdict;
    }
    match parts_ask(facts, call.declares_reads()) {
        Some(why) => ask(call, why),
        None => verdict,
    }
}

/// Asks for approval, unless a hook vouches for the call in place of a rule.
pub(super) fn ask(call: &PolicyRequest<'_>, why: impl Into<SharedStr>) -> Verdict {
    call.hook_allow.cloned().unwrap_or_else(|| Verdict::ask(why).by(SOURCE))
}

/// Returns why a call that is declared read-only needs approval because of its arguments. A command
/// that is limited to the files it declares counts as these files only.
fn parts_ask(facts: &Facts<'_>, declares_reads: bool) -> Option<SharedStr> {
    facts.parts.iter().find_map(|part| match part {
        Part::Path { operation: Operation::Read, spelled, resolved: Ok(path) } => {
            (!facts.is_inside(path)).then(|| outside(Some(facts), &spelled.to_string_lossy()))
        }
        Part::Path { spelled, resolved, .. } => {
            let cause = cause(Some(facts), &spelled.to_string_lossy());
            Some(match resolved {
                Ok(_) => format!("{cause} writes a file").into(),
                Err(why) => format!("{cause} names a path that cannot be resolved: {why}").into(),
            })
        }
        Part::Command(_) if declares_reads => None,
        Part::Command(_) => Some(format!("it runs {}", part.quoted()).into()),
        Part::Unreadable(why) => Some(format!("its command cannot be parsed: {why}").into()),
        Part::Host(Ok(host)) => Some(format!("it reaches `{host}`").into()),
        Part::Host(Err(_)) => Some("it reaches the network".into()),
        Part::Call | Part::Reach(_) => None,
    })
}

fn outside(facts: Option<&Facts<'_>>, path: &str) -> SharedStr {
    format!("{} reads outside the workspace", cause(facts, path)).into()
}

/// Names the command that names a path. The model reads this, so the directories of the path are
/// left out.
fn cause(facts: Option<&Facts<'_>>, path: &str) -> String {
    let mut parts = facts.into_iter().flat_map(|facts| &facts.parts);
    let found = parts.find(|part| matches!(part, Part::Command(command) if names(command, path)));
    found.map_or_else(|| "it".to_owned(), Part::quoted)
}

/// Returns whether a word or a redirection of a command is the end of a path.
fn names(command: &SimpleCommand, path: &str) -> bool {
    let targets = command.redirects.iter().map(|redirect| &redirect.target);
    let mut texts = command.words.iter().skip(1).chain(targets).filter_map(Word::literal);
    texts.any(|text| {
        let end = text.trim_start_matches("./").trim_start_matches("../");
        !end.is_empty() && path.ends_with(end)
    })
}

fn by_default(
    call: &PolicyRequest<'_>,
    context: &PolicyContext,
    facts: Option<&Facts<'_>>,
) -> Verdict {
    if call.tool.spec.permission == Permission::None {
        return Verdict::allow("the tool declares `permission = \"none\"`").by(SOURCE);
    }
    match must_ask(call, context, facts) {
        Some(why) => ask(call, why),
        None => Verdict::allow("it is read-only, without network or secrets").by(SOURCE),
    }
}

/// Names the command whose files are not known.
fn reads_undeclared(facts: Option<&Facts<'_>>) -> SharedStr {
    let unclear = facts.and_then(|facts| {
        let harmless = facts.harmless().parts;
        let mut parts = facts.parts.iter().enumerate().filter(|(at, _)| !harmless.has(*at));
        parts.find_map(|(_, part)| matches!(part, Part::Command(_)).then(|| part.quoted()))
    });
    match unclear {
        Some(command) => format!("the files that {command} reads are not known").into(),
        None => "it reads files and does not declare which".into(),
    }
}

/// Describes the known effects of commands that are not classified as read-only, and names the
/// command that has them.
fn effects_of_commands(facts: Option<&Facts<'_>>) -> SharedStr {
    let Some(known) = facts.and_then(|facts| facts.effects_known.as_ref()) else {
        return "it is not known to be read-only".into();
    };
    let unparseable =
        facts.into_iter().flat_map(|facts| &facts.parts).find_map(|part| match part {
            Part::Unreadable(why) => Some(why),
            _ => None,
        });
    if let (Kind::Unparseable, Some(why)) = (known.kind, unparseable) {
        return format!("its command cannot be parsed: {why}").into();
    }
    let cause = known.cause.as_deref().unwrap_or("its command");
    match (known.kind, known.effect) {
        (Kind::Unparseable, _) => "its command cannot be parsed".into(),
        (Kind::Destructive, _) => format!("{cause} is known to be destructive").into(),
        (_, CommandEffect::Network) => format!("{cause} is known to use the network").into(),
        (_, CommandEffect::Writes) => format!("{cause} is known to write").into(),
        (_, CommandEffect::Unknown) => format!("{cause} is not known to be read-only").into(),
        // The command line is read-only, but the tool does not trust the program.
        (_, CommandEffect::ReadOnly) => {
            "its program may not be the one that its name suggests".into()
        }
    }
}

fn must_ask(
    call: &PolicyRequest<'_>,
    context: &PolicyContext,
    facts: Option<&Facts<'_>>,
) -> Option<SharedStr> {
    let is_path = |part: &Part| matches!(part, Part::Path { .. });
    let says_which = facts.is_some_and(|facts| facts.parts.iter().any(is_path));
    let profile = call.profile;
    let spec = call.tool.spec;
    if !profile.read_only {
        return Some(match spec.read_only {
            None if spec.per_call.contains(&"read_only") => effects_of_commands(facts),
            None => "it is not declared read-only".into(),
            Some(_) => "it is not read-only".into(),
        });
    }
    let Some(capabilities) = spec.capabilities else {
        return Some("it does not declare its capabilities; `capabilities()` declares none".into());
    };
    // The capabilities of the tool do not apply to a call that is limited to its declared files.
    if capabilities.has(Capability::Network) && !call.declares_reads() {
        return Some("it reaches the network".into());
    }
    if capabilities.has(Capability::Secrets) {
        return Some("it reads secrets".into());
    }
    let files = capabilities.has(Capability::Filesystem);
    match &profile.effects {
        Effects::Declared(effects) => {
            let here = CallWorkspace {
                work: &call.scope.working_directory,
                own: call.tool.roots,
                context,
            };
            for effect in effects.iter() {
                if effect.operation != Operation::Read {
                    return Some("it has an effect other than reading".into());
                }
                let target = effect.target.as_deref();
                if let Some(target) = target.filter(|target| !here.holds(target, files)) {
                    return Some(outside(facts, target));
                }
            }
            None
        }
        Effects::Undeclared if files && !says_which => Some(reads_undeclared(facts)),
        Effects::Undeclared => None,
    }
}

/// The workspace as a call sees it.
struct CallWorkspace<'a> {
    /// The working directory of the run.
    work: &'a Path,
    /// The directories that the tool is limited to.
    own: &'a [PathBuf],
    context: &'a PolicyContext,
}

impl CallWorkspace<'_> {
    /// Returns whether a target resolves into the workspace, compared component by component
    /// against path traversal. A target that is not a path (`table:users`) is not outside either.
    fn holds(&self, target: &str, files: bool) -> bool {
        let Some(target) = facts::as_path(target, files) else { return true };
        // Some tools expand `~` to the home directory, which is outside; so is `..` after a name.
        if target.starts_with('~') || target.contains(":..") {
            return false;
        }
        let resolver = &self.context.resolver;
        let Ok(root) = resolver.resolve(self.work) else { return false };
        let Ok(base) = start(self.own, &root, &**resolver) else { return false };
        let Ok(leads) = resolver.resolve(&base.join(target)) else { return false };
        // FAIL CLOSED: a path that leaves the known directories with `..` resolves to nothing.
        if leads.starts_with("..") {
            return false;
        }
        let below =
            |root: &PathBuf| resolver.resolve(root).is_ok_and(|root| leads.starts_with(root));
        // The working directory is inside for the tools that work there.
        leads.starts_with(&root) && works_in(self.own, self.work, &**resolver)
            || self.context.roots.iter().chain(self.own).any(below)
    }
}

/// Allows every call that no guard refuses. For hosts that authorize elsewhere. Every verdict says
/// so, so that it is not overlooked.
#[derive(Debug, Clone, Copy)]
pub struct AllowAll;

impl Policy for AllowAll {
    fn decide(&self, _: &PolicyRequest<'_>) -> Verdict {
        Verdict::allow("EVERYTHING IS ALLOWED by the host").by("allow everything")
    }

    fn hides_revision(&self) -> Option<HidesRevision> {
        Some(HidesRevision::NOTHING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inside(work: &Path, own: &[PathBuf], target: &str, files: bool) -> bool {
        CallWorkspace { work, own, context: &PolicyContext::default() }.holds(target, files)
    }

    #[test]
    fn workspace_check_compares_components() {
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
            assert_eq!(inside(Path::new(root), &[], target, false), is, "{root} {target}");
        }
    }

    #[test]
    fn roots_of_a_tool_are_inside_wherever_the_run_works() {
        let own = [PathBuf::from("/no/garden")];
        for (target, is) in [
            ("/no/garden/plan", true),
            ("/no/garden", true),
            ("/no/gardens/plan", false),
            ("/no/garden/../x", false),
            ("plan", true),
            ("../x", false),
            ("/w/a", false),
            ("/x", false),
        ] {
            assert_eq!(inside(Path::new("/w"), &own, target, true), is, "{target}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn symlink_out_of_the_workspace_is_outside() {
        let directory = crate::testing::TestDirectory::new("inside");
        directory.dir("w/src");
        directory.dir("secret");
        directory.link("w/out", "../secret");
        directory.link("w/in", "src");
        directory.link("way", "w");
        let inside = |root: &str, target: &str| inside(&directory.at(root), &[], target, true);
        assert!(!inside("w", "out/key"));
        assert!(inside("w", "in/new"));
        assert!(inside("way", "src/a"), "a workspace may itself be reached by a link");
        assert!(inside("way", directory.at("w/src").to_str().unwrap()));
    }
}
