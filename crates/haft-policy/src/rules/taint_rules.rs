//! Taint rules: built-in decisions that depend on what a run has read.
//!
//! Untrusted text may contain a prompt injection that steers the model. So destructive calls,
//! outbound calls, and values from that text need approval, even if a rule allows them, unless that
//! rule has `when = "tainted"`. Deterministic: no model has to cooperate.

use std::{path::Path, sync::LazyLock};

use haft_core::{
    Capability, Confidentiality, Operation, Trust,
    protected_names::{self, NameScope, ProtectedName, ProtectedNames, Protection},
    text::shortened,
};

use super::Rules;
use crate::{
    facts::{Facts, Part, Parts},
    taint::Taint,
};

/// Why approval is needed although a rule allows the call.
pub(super) struct Concern {
    pub(super) reason: String,
    pub(super) source: &'static str,
}

pub(super) const PROTECTED_NAME: &str = "built in: a protected name";
pub(super) const CHANGED: &str = "built in: a changed definition in a tainted run";

/// Names that need approval as components of a path, whatever is below them: more than the
/// [protected names](protected_names::PROTECTED), which the sandbox also write-protects.
const ASKED_NAMES: &[&str] = &[
    "haft.toml",
    "haft.local.toml",
    "haft.lock",
    ".haft",
    ".claude",
    "CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    "GEMINI.md",
    ".cursor",
    ".cursorrules",
    ".mcp.json",
    ".vscode",
    ".idea",
    ".envrc",
    ".git",
    ".gitmodules",
    ".github",
    ".gitlab-ci.yml",
    ".husky",
    ".bashrc",
    ".bash_profile",
    ".profile",
    ".zshrc",
    ".zprofile",
    ".ssh",
    ".npmrc",
    ".netrc",
];

/// The matcher of the protected names, made once.
static PROTECTED: LazyLock<ProtectedNames> = LazyLock::new(ProtectedNames::standard);

/// Denies a tool whose definition changed during a tainted run.
pub(super) fn definition_changed(facts: &Facts<'_>) -> Option<String> {
    let tainted = Rules::label_of(facts).trust == Trust::Untrusted;
    (tainted && facts.seen.has_changed(&facts.names.own.into())).then(|| {
        "the tool's definition has changed, and the run has read untrusted text".to_owned()
    })
}

/// Finds a write to a protected name, unless a rule that allows it names it.
pub(super) fn protected_write(facts: &Facts<'_>, named_there: Parts) -> Option<Concern> {
    let open = facts.protected().without(named_there);
    if open.is_empty() {
        return None;
    }
    let mut written = facts.written().filter(|(at, _)| open.has(*at));
    let reason = written.find_map(|(_, part)| protection(part, facts));
    let reason =
        reason.unwrap_or_else(|| "it writes a file that controls other programs".to_owned());
    Some(Concern { reason, source: PROTECTED_NAME })
}

/// Describes which protected file a part changes, and why it is protected.
pub(super) fn protection(part: &Part, facts: &Facts<'_>) -> Option<String> {
    let (path, reason) =
        written_paths(part).find_map(|path| Some((path, PROTECTED.reason(path)?)))?;
    let pattern = PROTECTED.pattern(path).unwrap_or_default();
    let below = |base: Result<&Path, &str>| path.strip_prefix(base.ok()?).ok().map(Path::to_owned);
    let shown = below(facts.base()).or_else(|| below(facts.root()));
    let shown = shown.unwrap_or_else(|| path.to_owned());
    let shown = shown.display();
    Some(match PROTECTED.protection(path) {
        Protection::Contains => {
            format!("it changes `{shown}`, which contains the protected `{pattern}`: {reason}")
        }
        _ => format!("it changes the protected file `{shown}`: {reason}"),
    })
}

/// Finds a reason for approval. `excused`: every part is allowed by a rule with `when = "tainted"`;
/// `hosts_known`: every host is named by a rule that allows it.
pub(super) fn concern(
    facts: &Facts<'_>,
    named_there: Parts,
    excused: bool,
    hosts_known: bool,
) -> Option<Concern> {
    let label = Rules::label_of(facts);
    let tainted = label.trust == Trust::Untrusted;
    let secret = label.confidentiality == Confidentiality::Secret;
    let say = |reason: String, source: &'static str| Some(Concern { reason, source });
    if let Some(concern) = protected_write(facts, named_there) {
        return Some(concern);
    }
    if excused || !(tainted || secret) {
        return None;
    }
    let outbound = is_outbound(facts);
    if secret && outbound && !hosts_known {
        return say(
            "the run has read a secret, and this call could exfiltrate it".to_owned(),
            "built in: a secret and outbound access",
        );
    }
    if !tainted || (facts.read_only && !outbound && !reaches(facts, Capability::Secrets)) {
        return None;
    }
    if let Some((value, taint)) = traced(facts) {
        return say(
            format!("`{}` comes from untrusted text: {}", shortened(&value, 60), named(&taint)),
            "built in: a value from untrusted text",
        );
    }
    if let Some(what) = sink(facts) {
        let by = facts.seen.taints().into_iter().find(|t| t.label.trust == Trust::Untrusted);
        let by = by.map_or_else(String::new, |taint| format!(" ({})", named(&taint)));
        return say(
            format!("the run has read untrusted text{by}, and this {what}"),
            "built in: a sink in a tainted run",
        );
    }
    if outbound && facts.seen.has_read_private() {
        return say(
            "the run has read untrusted text and private data, and this call can send data out"
                .to_owned(),
            "built in: untrusted text, private data and outbound access",
        );
    }
    None
}

/// What a tainted run may not do without approval.
fn sink(facts: &Facts<'_>) -> Option<&'static str> {
    if reaches(facts, Capability::Payment) {
        return Some("moves money");
    }
    if reaches(facts, Capability::Email) {
        return Some("sends mail");
    }
    if facts.destructive || reaches(facts, Capability::Destructive) {
        return Some("may destroy something");
    }
    if reaches(facts, Capability::Secrets) {
        return Some("reads secrets");
    }
    if reaches(facts, Capability::Subprocess) && reaches(facts, Capability::Network) {
        return Some("starts programs that reach the network");
    }
    None
}

fn reaches(facts: &Facts<'_>, capability: Capability) -> bool {
    facts.capabilities.has(capability)
}

fn is_outbound(facts: &Facts<'_>) -> bool {
    reaches(facts, Capability::Network)
        || reaches(facts, Capability::Email)
        || facts.operations.contains(&Operation::External)
        || facts.parts.iter().any(|part| matches!(part, Part::Host(_)))
}

/// Finds an argument value that comes from untrusted text and not from the user.
fn traced(facts: &Facts<'_>) -> Option<(String, Taint)> {
    let traced = facts.seen.trace([facts.arguments], 1);
    if let Some(found) = traced.found.into_iter().next() {
        return Some(found);
    }
    // FAIL CLOSED: an untraced value counts as untrusted.
    let taint = facts.seen.taints().into_iter().next().filter(|_| !traced.is_whole)?;
    Some(("one of too many values to trace".to_owned(), taint))
}

/// Describes the result that a run has read.
pub(super) fn named(taint: &Taint) -> String {
    match &taint.origin {
        Some(origin) => format!("call {} of `{}`, {origin}", taint.call, taint.tool),
        None => format!("call {} of `{}`", taint.call, taint.tool),
    }
}

impl Facts<'_> {
    /// Returns the parts that change a protected name.
    pub(super) fn protected(&self) -> Parts {
        self.written().fold(Parts::NONE, |set, (at, part)| {
            if required_names(part).next().is_some() { set.with(at) } else { set }
        })
    }

    /// Iterates over its parts, and the files that its commands name.
    fn written(&self) -> impl Iterator<Item = (usize, &Part)> {
        self.parts.iter().enumerate().chain(self.named_files())
    }

    /// Returns those of them whose protected name a pattern contains: its author intended it.
    pub(super) fn protected_in(&self, pattern: &str) -> Parts {
        self.written().fold(Parts::NONE, |set, (at, part)| {
            let mut names = required_names(part).peekable();
            let named = names.peek().is_some() && names.all(|name| has_component(pattern, name));
            if named { set.with(at) } else { set }
        })
    }
}

/// Returns whether a pattern contains a protected name.
pub(crate) fn names_protected(pattern: &str) -> bool {
    let is_path = |name: &&ProtectedName| name.scope == NameScope::Everywhere;
    let table = protected_names::PROTECTED.iter().filter(is_path).map(|name| name.pattern);
    ASKED_NAMES.iter().copied().chain(table).any(|name| has_component(pattern, name))
}

/// The paths that a part writes: as written, and resolved.
fn written_paths(part: &Part) -> impl Iterator<Item = &Path> {
    let paths = match part {
        Part::Path { operation, spelled, resolved } if *operation != Operation::Read => {
            [Some(spelled.as_path()), resolved.as_deref().ok()]
        }
        _ => [None, None],
    };
    paths.into_iter().flatten()
}

/// The names that a rule must contain to allow a part that writes. A protected name must be
/// complete (`.config/systemd`), unless its first component is sufficient (`.github`).
fn required_names(part: &Part) -> impl Iterator<Item = &str> {
    let components = written_paths(part).flat_map(Path::iter);
    let components = components.filter_map(|name| asked(name.to_str()?));
    let protected = written_paths(part).filter_map(|path| {
        let pattern = PROTECTED.pattern(path)?;
        let first = pattern.split('/').next()?;
        Some(asked(first).unwrap_or(pattern))
    });
    components.chain(protected)
}

fn asked(name: &str) -> Option<&'static str> {
    ASKED_NAMES.iter().copied().find(|asked| asked.eq_ignore_ascii_case(name))
}

/// Whether a pattern has this name as a whole component: `.github` does not contain `.git`.
fn has_component(pattern: &str, name: &str) -> bool {
    let ends = |c: char| !(c.is_alphanumeric() || "._-".contains(c));
    pattern.match_indices(name).any(|(at, _)| {
        let (before, behind) = (&pattern[..at], &pattern[at + name.len()..]);
        before.chars().next_back().is_none_or(ends) && behind.chars().next().is_none_or(ends)
    })
}

/// Returns the parts that write files inside the workspace, none of them protected: paths, and
/// commands that only edit what they name.
pub(super) fn edits_inside(facts: &Facts<'_>) -> Parts {
    let mut edits = facts.edits_inside(|part| required_names(part).next().is_some());
    for (at, part) in facts.parts.iter().enumerate() {
        if let Part::Path { resolved: Ok(path), .. } = part
            && required_names(part).next().is_none()
            && facts.is_inside(path)
        {
            edits = edits.with(at);
        }
    }
    edits
}

#[cfg(test)]
mod tests {
    use haft_core::config_files::{CONFIG_FILES, RESERVED_DIRECTORY};

    use super::*;

    #[test]
    fn every_file_that_configures_haft_is_a_protected_name() {
        let files = CONFIG_FILES.iter().map(|file| file.path);
        for path in files.chain([RESERVED_DIRECTORY]) {
            let is_protected = path.split('/').any(|name| ASKED_NAMES.contains(&name));
            assert!(is_protected, "{path}");
        }
    }
}
