//! What is known about a call when it is judged, split into parts that rules match.
//!
//! In: a `PolicyRequest`, or an example of a rule. Out: its parts. A shell command has one part for
//! each simple command and each redirection; a call that names paths or hosts has one for each;
//! undeclared effects are a part of their own. A deny matches any part, and an allow must cover
//! all.
//!
//! INVARIANT: there is at least one part, and what a call may do beyond its named parts is a part.

mod commands;
mod expand;
mod launch;
mod marked;
mod named_files;
mod harmless;
mod known_effects;
mod sample;
mod visible_files;
mod workspace;

use std::{
    cell::{Cell, OnceCell, RefCell},
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use haft_core::{Capabilities, Capability, Effect, Effects, Operation, Scope};
use haft_shell::{SimpleCommand, Word};
use serde_json::Value;
use smallvec::SmallVec;

pub(crate) use self::{
    commands::CommandText, harmless::HarmlessParts, known_effects::KnownEffects, launch::Launch,
    sample::Sample,
};
use super::{
    context::{ArgumentKind, PolicyContext},
    glob::NameGlob,
    host,
    network::HostEntry,
    path_resolver::{MAX_SEARCHED_ENTRIES, normalize_lexically},
    request::{PolicyRequest, PolicyTool, Subject, traits},
    taint::TaintTracker,
};

/// Maximum number of files in one command.
const MAX_MENTIONS: usize = 256;

/// What is known about a call.
#[derive(Debug, Clone)]
pub(crate) struct Facts<'a> {
    /// The names that rules can use for it.
    pub(crate) names: Names<'a>,
    /// Its arguments.
    pub(crate) arguments: &'a Value,
    /// What kind of call it is.
    pub(crate) subject: Subject,
    /// What it may reach; undeclared means everything.
    pub(crate) capabilities: Capabilities,
    /// Whether it declares what it may reach.
    pub(crate) declared: bool,
    /// What it does to its targets; undeclared is `UnknownFields`.
    pub(crate) operations: SmallVec<[Operation; 2]>,
    /// Whether it is read-only.
    pub(crate) read_only: bool,
    /// Whether it must be judged as destructive.
    pub(crate) destructive: bool,
    /// Whether the tool declares that these arguments delete or overwrite.
    pub(crate) is_known_destructive: bool,
    /// What is known about its commands, the strictest of each, unless the call is read-only.
    pub(crate) effects_known: Option<KnownEffects>,
    /// The run it belongs to, and its working directory.
    pub(crate) scope: &'a Scope,
    /// What the run has read.
    pub(crate) seen: &'a Arc<TaintTracker>,
    /// Its parts, at most [`Parts::MAX`]; `overflow` is set if there were more.
    pub(crate) parts: SmallVec<[Part; 2]>,
    /// There are more parts than can be judged; callers take the strict side.
    pub(crate) overflow: bool,
    /// Its commands start in another directory than the run, so relative paths in them cannot be
    /// resolved.
    starts_elsewhere: bool,
    /// Files that its commands name, each with the index of the command's part. Only restricting
    /// rules use them.
    pub(crate) mentions: Vec<(usize, Part)>,
    /// Files that its commands may touch, as `mentions`, each with the reason for the doubt.
    pub(crate) possible: Vec<(usize, Part, &'static str)>,
    /// The command texts, for what only a few decisions need.
    pub(crate) texts: Vec<CommandText>,
    /// Programs that its commands run by a path or by an interpreter, each with the index of the
    /// command's part. Only restricting rules use them.
    pub(crate) launches: Vec<(usize, Launch)>,
    /// Hosts that its argument requests for a command, each with the index of its part; `None` is
    /// the whole network.
    pub(crate) requested_hosts: Vec<(usize, Option<HostEntry>)>,
    /// Prefixes of names that only a running shell completes: the part, the operation, the
    /// directory, and the prefix.
    pub(crate) beginnings: Vec<(usize, Operation, PathBuf, String)>,
    /// It runs a confined command that declares all that it reads, see [`declares_reads`].
    pub(crate) declares_reads: bool,
    /// Entries below directories, listed on first use.
    listings: DirectoryListings,
    /// The directories that the tool is limited to, if it declares any.
    pub(crate) roots: &'a [PathBuf],
    /// The context of the rules.
    pub(crate) context: &'a PolicyContext,
    /// The base of relative paths, determined on first use.
    base: OnceCell<Result<PathBuf, String>>,
    /// The base with symlinks resolved.
    root: OnceCell<Result<PathBuf, String>>,
}

/// The entries below a directory; `None` if they cannot be listed.
type Listing = Option<Rc<[PathBuf]>>;

/// Entries below some directories, with one limit on all of them together.
#[derive(Debug, Clone)]
struct DirectoryListings {
    left: Cell<usize>,
    directories: RefCell<Vec<(PathBuf, Listing)>>,
}

impl Default for DirectoryListings {
    fn default() -> Self {
        Self { left: Cell::new(MAX_SEARCHED_ENTRIES), directories: RefCell::default() }
    }
}

/// The names that rules can use for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names<'a> {
    /// The name that the tool was registered by, whatever alias or view it is called by.
    pub(crate) own: &'a str,
    /// The source it comes from and its name there, for tools from an external source.
    pub(crate) remote: Option<(&'a str, &'a str)>,
    /// The names that other programs use for such a tool: `Bash`, `Read`, `Edit`, `WebFetch`, ….
    pub(crate) known_as: SmallVec<[&'static str; 2]>,
}

impl<'a> Names<'a> {
    /// Returns the names of a tool.
    pub(crate) fn of(tool: &PolicyTool<'a>) -> Self {
        Self {
            own: tool.registered.as_str(),
            remote: tool.remote,
            known_as: tool.traits().known_as.clone(),
        }
    }
}

/// One part of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Part {
    /// The call as such: what it does beyond its other parts, or its only part.
    Call,
    /// One simple command.
    Command(haft_shell::SimpleCommand),
    /// A command that cannot be parsed, and why.
    Unreadable(String),
    /// A file or directory.
    Path {
        /// Reads or writes; anything else is judged as writing.
        operation: Operation,
        /// The absolute path as written, normalized lexically; relative only if no base directory
        /// is known.
        spelled: PathBuf,
        /// What it resolves to (symlinks followed), or why it cannot be resolved.
        resolved: Result<PathBuf, String>,
    },
    /// A host that is reached, typed and in lower case, or why it cannot be determined.
    Host(Result<String, String>),
    /// A capability whose target is not declared.
    Reach(Capability),
}

/// A set of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Parts(pub(crate) u64);

impl Parts {
    /// Maximum number of parts.
    pub(crate) const MAX: usize = 64;
    /// No part.
    pub(crate) const NONE: Self = Self(0);

    /// Returns the set of the first `n` parts.
    pub(crate) fn first(n: usize) -> Self {
        Self(if n >= Self::MAX { u64::MAX } else { (1 << n) - 1 })
    }

    /// Returns this set with one more part.
    pub(crate) fn with(self, part: usize) -> Self {
        Self(self.0 | 1 << (part % Self::MAX))
    }

    /// Returns whether a part is among them.
    pub(crate) fn has(self, part: usize) -> bool {
        self.0 & 1 << (part % Self::MAX) != 0
    }

    /// Returns the parts of either.
    pub(crate) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the parts of both.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the parts of this that are not in the other.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the index of the first of them; zero if there is none.
    pub(crate) fn first_index(self) -> usize {
        if self.0 == 0 { 0 } else { self.0.trailing_zeros() as usize }
    }

    /// Returns whether there is none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl<'a> Facts<'a> {
    /// Gathers what is known about a call.
    pub(crate) fn of(call: &PolicyRequest<'a>, context: &'a PolicyContext) -> Self {
        let tool = &call.tool;
        let spec = tool.spec;
        let profile = call.profile;
        let traits = tool.traits();
        let mut facts = Self {
            names: Names::of(tool),
            arguments: call.arguments,
            subject: match (spec.requires_user_interaction, traits.delegates) {
                (true, _) => Subject::Interaction,
                (false, true) => Subject::SubagentCall,
                (false, false) => Subject::ToolCall,
            },
            capabilities: spec.effective_capabilities(),
            declared: spec.capabilities.is_some(),
            operations: SmallVec::new(),
            read_only: profile.read_only,
            destructive: profile.may_destroy(),
            is_known_destructive: profile.destructive == Some(true),
            effects_known: None,
            scope: call.scope,
            seen: call.taint,
            parts: SmallVec::new(),
            overflow: false,
            starts_elsewhere: false,
            mentions: Vec::new(),
            possible: Vec::new(),
            texts: Vec::new(),
            launches: Vec::new(),
            requested_hosts: Vec::new(),
            beginnings: Vec::new(),
            declares_reads: call.declares_reads(),
            listings: DirectoryListings::default(),
            roots: tool.roots,
            context,
            base: OnceCell::new(),
            root: OnceCell::new(),
        };
        let declares_reads = facts.declares_reads;
        let mut whole = match &profile.effects {
            Effects::Declared(_) if declares_reads => false,
            Effects::Declared(list) => facts.add_effects(list),
            Effects::Undeclared => true,
        };
        facts.add_marked(tool.input_schema, traits);
        if let (true, Effects::Declared(list)) = (declares_reads, &profile.effects) {
            // Without a command to belong to, they are parts like any other.
            if facts.parts.iter().any(|part| matches!(part, Part::Command(_))) {
                facts.add_declared_reads(list)
            } else {
                whole = facts.add_effects(list)
            }
        }
        facts.add_named();
        if profile.effects == Effects::Undeclared {
            // Marked arguments are a declaration, if the tool declares its capabilities.
            if facts.declared && !facts.parts.is_empty() {
                whole = false
            } else {
                facts.does(Operation::Unknown)
            }
        }
        facts.add_undeclared(&traits.silent);
        facts.add_rest(whole);
        facts
    }

    /// Returns the set of all its parts.
    pub(crate) fn all(&self) -> Parts {
        Parts::first(self.parts.len())
    }

    /// Returns whether it names files.
    pub(crate) fn has_paths(&self) -> bool {
        !self.mentions.is_empty()
            || !self.possible.is_empty()
            || !self.beginnings.is_empty()
            || self.parts.iter().any(|p| matches!(p, Part::Path { .. }))
    }

    /// Returns the entries at any depth below a directory, without following symlinks. `None` if
    /// they cannot be listed, or if there are too many.
    pub(crate) fn entries_below(&self, directory: &Path) -> Listing {
        let mut known = self.listings.directories.borrow_mut();
        if let Some((_, entries)) = known.iter().find(|(own, _)| own == directory) {
            return entries.clone();
        }
        let mut left = self.listings.left.get();
        let entries = self.context.resolver.entries(directory, &mut left);
        self.listings.left.set(left);
        let entries: Listing = entries.ok().map(Into::into);
        known.push((directory.to_owned(), entries.clone()));
        entries
    }

    fn add(&mut self, part: Part) {
        if self.parts.contains(&part) {
            return;
        }
        if self.parts.len() < Parts::MAX { self.parts.push(part) } else { self.overflow = true }
    }

    fn does(&mut self, operation: Operation) {
        if !self.operations.contains(&operation) {
            self.operations.push(operation);
        }
    }

    /// Adds the declared effects; returns whether something stays undeclared.
    fn add_effects(&mut self, list: &[Effect]) -> bool {
        let mut unsaid = false;
        let files = self.declared && self.capabilities.has(Capability::Filesystem);
        for effect in list.iter() {
            self.does(effect.operation);
            let Some(target) = effect.target.as_deref() else {
                unsaid = true;
                continue;
            };
            match effect.operation {
                Operation::Read | Operation::Write => match as_path(target, files) {
                    Some(path) => self.add_path(effect.operation, path),
                    None => unsaid = true,
                },
                Operation::Execute => self.add_command(target),
                Operation::External => self.add(Part::Host(host::host(target))),
                Operation::Unknown => unsaid = true,
            }
        }
        unsaid
    }

    /// Adds the files that a confined command reads. Allowing the command allows them, so they are
    /// not parts of their own; restricting rules check them.
    fn add_declared_reads(&mut self, list: &[Effect]) {
        let Some(at) = self.parts.len().checked_sub(1) else { return };
        self.does(Operation::Read);
        for target in list.iter().filter_map(|effect| effect.target.as_deref()) {
            if self.mentions.len() >= MAX_MENTIONS {
                self.overflow = true;
                return;
            }
            let Ok(base) = self.base() else { continue };
            let whole = base.join(target);
            let resolved = self.context.resolver.resolve(&whole);
            let path = Part::Path {
                operation: Operation::Read,
                spelled: normalize_lexically(&whole),
                resolved,
            };
            self.mentions.push((at, path));
        }
    }

    /// Returns the files that its commands name or may name, each with the index of its part.
    pub(crate) fn named_files(&self) -> impl Iterator<Item = (usize, &Part)> {
        let possible = self.possible.iter().map(|(at, part, _)| (*at, part));
        self.mentions.iter().map(|(at, part)| (*at, part)).chain(possible)
    }

    /// Adds what the policy context declares about its arguments.
    fn add_named(&mut self) {
        let context = self.context;
        for (tool, about) in &context.argument_kinds {
            if !self.is_called(tool) {
                continue;
            }
            for (name, about) in about {
                for value in find(self.arguments, name) {
                    self.add_about(value, *about);
                }
            }
        }
    }

    /// Whether a key of the policy context names this tool.
    fn is_called(&self, key: &str) -> bool {
        if names_tool(key, self.names.own) {
            return true;
        }
        let (Some(key), Some((source, tool))) = (key.strip_prefix("mcp__"), self.names.remote)
        else {
            return false;
        };
        let rest = key.strip_prefix(source).and_then(|rest| rest.strip_prefix("__"));
        key == source || rest.is_some_and(|rest| names_tool(rest, tool))
    }

    /// Adds one value, or each of a list.
    fn add_about(&mut self, value: &Value, about: ArgumentKind) {
        match value {
            Value::Null => {}
            Value::String(text) => {
                self.does(traits::operation(about));
                match about {
                    ArgumentKind::ReadPath | ArgumentKind::WritePath => {
                        self.add_path(traits::operation(about), text);
                    }
                    ArgumentKind::Url => self.add(Part::Host(host::host(text))),
                    ArgumentKind::Command => self.add_command(text),
                }
            }
            Value::Array(list) if list.iter().all(Value::is_string) => {
                for value in list {
                    self.add_about(value, about);
                }
                // A list may be several commands or the argv of one: it is judged as both.
                if about == ArgumentKind::Command && list.len() > 1 {
                    let words = list.iter().filter_map(Value::as_str).map(Word::text).collect();
                    self.add(Part::Command(SimpleCommand { words, ..SimpleCommand::default() }));
                }
            }
            _ => self.add_unknown(about, "it is neither a string nor a list of strings"),
        }
    }

    fn add_unknown(&mut self, about: ArgumentKind, why: &str) {
        let operation = traits::operation(about);
        self.does(operation);
        self.add(match about {
            ArgumentKind::ReadPath | ArgumentKind::WritePath => {
                let resolved = Err(why.to_owned());
                Part::Path { operation, spelled: PathBuf::new(), resolved }
            }
            ArgumentKind::Url => Part::Host(Err(why.to_owned())),
            ArgumentKind::Command => Part::Unreadable(why.to_owned()),
        });
    }

    /// Adds a part of every kind that cannot be inspected.
    fn add_all_unknown(&mut self, why: &str) {
        for about in [
            ArgumentKind::ReadPath,
            ArgumentKind::WritePath,
            ArgumentKind::Url,
            ArgumentKind::Command,
        ] {
            self.add_unknown(about, why);
        }
    }

    /// Adds what a tool of this name must touch, if nothing is declared about it.
    fn add_undeclared(&mut self, silent: &[ArgumentKind]) {
        for about in silent {
            let is_declared = self.parts.iter().any(|part| {
                matches!(
                    (part, about),
                    (Part::Command(_) | Part::Unreadable(_), ArgumentKind::Command)
                        | (Part::Path { .. }, ArgumentKind::ReadPath | ArgumentKind::WritePath)
                        | (Part::Host(_), ArgumentKind::Url)
                )
            });
            if !is_declared {
                self.add_unknown(
                    *about,
                    "the tool does not declare which of its arguments that is",
                );
            }
        }
    }

    fn add_path(&mut self, operation: Operation, path: &str) {
        self.add_path_at(operation, Path::new(path));
        // Some tools expand `~` to the home directory and some do not, so it counts as both.
        if let Some(rest) = path.strip_prefix('~') {
            let rest = rest.strip_prefix('/').or(rest.is_empty().then_some(""));
            match rest.zip(self.context.home.clone()) {
                Some((rest, home)) => self.add_path_at(operation, &home.join(rest)),
                None => self.add(Part::Path {
                    operation,
                    spelled: PathBuf::from(path),
                    resolved: Err(format!("the base directory of `{path}` is not known")),
                }),
            }
        }
    }

    fn add_path_at(&mut self, operation: Operation, path: &Path) {
        let (spelled, resolved) = match self.base() {
            // As the kernel does: `..` applies after symlinks are followed.
            Ok(base) => {
                let whole = base.join(path);
                let spelled = normalize_lexically(&whole);
                let known = |part: &Part| {
                    matches!(part, Part::Path { operation: same, spelled: at, resolved: Ok(_) }
                        if *same == operation && *at == spelled && whole == spelled)
                };
                if self.parts.iter().any(known) {
                    return;
                }
                (spelled, self.context.resolver.resolve(&whole))
            }
            Err(why) => (normalize_lexically(path), Err(why.to_owned())),
        };
        self.add(Part::Path { operation, spelled, resolved });
    }

    /// Adds what the call may do beyond its named parts.
    fn add_rest(&mut self, unsaid: bool) {
        // Allowing the command of a shell allows what the command reaches. Another tool with an
        // argument called `command` may do more than run it.
        let called = matches!(self.names.own, "shell" | "Bash");
        let shell = called && self.names.known_as.contains(&"Bash");
        let command = |part: &Part| matches!(part, Part::Command(_) | Part::Unreadable(_));
        let is_command = shell && self.parts.iter().any(command);
        if self.declared {
            for capability in self.capabilities.iter() {
                if !self.parts.iter().any(|part| accounts(part, capability, shell)) {
                    self.add(Part::Reach(capability));
                }
            }
        }
        if (!is_command && (unsaid || !self.declared)) || self.parts.is_empty() {
            // FAIL CLOSED: one slot is reserved for the part that only the whole call covers.
            if self.parts.len() == Parts::MAX {
                self.parts.pop();
                self.overflow = true;
            }
            self.add(Part::Call);
        }
    }
}

/// Whether a key of the policy context, which may have wildcards, names a tool.
fn names_tool(key: &str, tool: &str) -> bool {
    if key.contains(['*', '?']) { NameGlob::new(key).matches(tool) } else { key == tool }
}

/// Whether a part accounts for a capability.
fn accounts(part: &Part, capability: Capability, shell: bool) -> bool {
    let command = matches!(part, Part::Command(_) | Part::Unreadable(_));
    match capability {
        Capability::Network => matches!(part, Part::Host(_)) || shell && command,
        Capability::Filesystem => matches!(part, Part::Path { .. }) || shell && command,
        Capability::Subprocess => command,
        Capability::Destructive => matches!(part, Part::Path { .. }) || command,
        Capability::Database | Capability::Email | Capability::Payment | Capability::Secrets => {
            false
        }
    }
}

/// Returns the target of an effect as a path, unless it is a name of another kind: `table:users`. A
/// tool that declares file access has no other names.
pub(crate) fn as_path(target: &str, files: bool) -> Option<&str> {
    let Some((kind, rest)) = target.split_once(':') else { return Some(target) };
    if kind == "file" {
        return Some(rest);
    }
    let is_kind = kind.len() > 1
        && kind.len() <= 32
        && kind.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'-');
    // FAIL CLOSED: a name with `..` is treated as a path (path traversal).
    let climbs = rest.split(['/', '\\']).any(|step| step == "..");
    (files || !is_kind || climbs).then_some(target)
}

/// Returns the values that a dotted name refers to: a key with this exact name, and step by step,
/// through lists into each of their items.
pub(crate) fn find<'v>(value: &'v Value, name: &str) -> SmallVec<[&'v Value; 2]> {
    let mut found = SmallVec::new();
    let mut open: SmallVec<[(&Value, &str); 4]> = SmallVec::from_iter([(value, name)]);
    while let Some((value, name)) = open.pop() {
        match value {
            Value::Object(map) => {
                // Both readings: a key with a dot in it must not hide what is nested.
                found.extend(map.get(name));
                for (at, _) in name.match_indices('.') {
                    if let Some(below) = map.get(&name[..at]) {
                        open.push((below, &name[at + 1..]));
                    }
                }
            }
            Value::Array(list) => open.extend(list.iter().rev().map(|item| (item, name))),
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests;
