//! Index of rules: finds the few rules that may match a call.
//!
//! Every rule is indexed by what its pattern names: a tool, the first word of a command, a file
//! name, a directory, a host. A call looks up what it has. Parts that cannot be parsed look up
//! everything of their kind, so that no deny is missed.

use std::{
    collections::{HashMap, HashSet},
    ffi::OsStr,
    hash::Hash,
    path::{Path, PathBuf},
    sync::{Arc, RwLock},
};

use haft_core::{Capability, host::RandomState, sync};
use serde_json::Value;
use smallvec::SmallVec;

use crate::{
    facts::{Facts, Names, Part, find},
    pattern::{Affix, Key, MAX_VALUE_BYTES, Start, starts},
    rule::Rule,
};

/// Indexes of rules.
pub(super) type Found = SmallVec<[u32; 16]>;

type Bucket<K> = HashMap<K, Vec<u32>, RandomState>;

/// Rules of one decision, indexed by what they name.
#[derive(Debug, Default)]
pub(super) struct Index {
    tools: Bucket<Box<str>>,
    arguments: HashMap<Box<str>, Vec<Argument>, RandomState>,
    sources: Bucket<Box<str>>,
    /// Commands by first word, with any second word.
    words: Bucket<Box<str>>,
    /// By both words, separated by a space.
    pairs: Bucket<Box<str>>,
    /// All of `pairs`, by first word alone.
    started: Bucket<Box<str>>,
    names: Bucket<Box<OsStr>>,
    directories: Bucket<PathBuf>,
    hosts: Bucket<Box<str>>,
    any_command: Vec<u32>,
    /// Commands whose first word is a path: a command may spell the same file in another way.
    programs: Vec<u32>,
    commands: Vec<u32>,
    paths: Vec<u32>,
    addresses: Vec<u32>,
    any: Vec<u32>,
    count: usize,
    /// For a working directory: the rules whose path contains a symlink.
    symlinked: RwLock<Vec<(PathBuf, Arc<[u32]>)>>,
}

/// Maximum number of cached working directories.
const MAX_DIRECTORIES: usize = 64;

/// Rules about one argument of one tool.
#[derive(Debug, Default)]
struct Argument {
    name: Box<str>,
    values: Bucket<Box<str>>,
    /// Texts with wildcards, by how they start, or else by how they end, or else by what they
    /// contain.
    starts: Affixes,
    ends: Affixes,
    middles: Affixes,
    /// All of `starts`, `ends` and `middles`.
    wildcards: Vec<u32>,
    all: Vec<u32>,
}

/// Rules by a literal part of a text.
#[derive(Debug, Default)]
struct Affixes {
    texts: Bucket<Box<str>>,
    /// The lengths of the texts; each is looked up.
    lengths: Vec<usize>,
}

/// Longer starts and ends are truncated, which bounds the number of lookups.
const MAX_AFFIX_BYTES: usize = 64;
/// Longer parts from the middle are truncated: every place of a text is looked up once per length.
const MAX_MIDDLE_BYTES: usize = 8;

impl Index {
    /// Adds a rule.
    pub(super) fn add(&mut self, rule: usize, key: Key<'_>) {
        let Ok(rule) = u32::try_from(rule) else { return };
        self.count += 1;
        match key {
            Key::Tool(name) => put(&mut self.tools, name.into(), rule),
            Key::Source(name) => put(&mut self.sources, name.into(), rule),
            Key::Argument { tool, name, value } => {
                if let Some(own) = self.argument(tool, name, rule) {
                    put(&mut own.values, value.into(), rule);
                }
            }
            Key::ArgumentLike { tool, name, value } => {
                if let Some(own) = self.argument(tool, name, rule) {
                    own.wildcards.push(rule);
                    match &value {
                        Affix::Start(text) => own.starts.add(short_start(text), rule),
                        Affix::End(text) => own.ends.add(short_end(text), rule),
                        Affix::Middle(text) => own.middles.add(short_middle(text), rule),
                    }
                }
            }
            Key::Command(first, second) => {
                self.commands.push(rule);
                if first.is_some_and(|first| first.contains('/')) {
                    self.programs.push(rule);
                }
                match (first, second) {
                    (Some(first), Some(second)) => {
                        put(&mut self.pairs, format!("{first} {second}").into(), rule);
                        put(&mut self.started, first.into(), rule);
                    }
                    (Some(first), None) => put(&mut self.words, first.into(), rule),
                    (None, _) => self.any_command.push(rule),
                }
            }
            Key::FileName(name) => {
                self.paths.push(rule);
                put(&mut self.names, OsStr::new(name).into(), rule);
            }
            Key::Below(directory) => {
                self.paths.push(rule);
                put(&mut self.directories, directory.to_owned(), rule);
            }
            Key::Host(host) => {
                self.addresses.push(rule);
                put(&mut self.hosts, host.into(), rule);
            }
            Key::Any => self.any.push(rule),
        }
    }

    /// Returns the rules about an argument, with one more.
    fn argument(&mut self, tool: &str, name: &str, rule: u32) -> Option<&mut Argument> {
        let own = self.arguments.entry(tool.into()).or_default();
        // Linear search: tools have few arguments.
        let at = own.iter().position(|own| &*own.name == name).unwrap_or_else(|| {
            own.push(Argument { name: name.into(), ..Argument::default() });
            own.len() - 1
        });
        let argument = own.get_mut(at)?;
        argument.all.push(rule);
        Some(argument)
    }

    /// Returns whether any rule is about paths, or may be.
    pub(super) fn has_paths(&self) -> bool {
        !self.paths.is_empty() || !self.any.is_empty() || !self.tools.is_empty()
    }

    /// Returns how many patterns are indexed.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Finds the rules that may match, without duplicates, in order.
    pub(super) fn find(&self, facts: &Facts<'_>, rules: &[Rule]) -> Found {
        let mut found = Found::new();
        if self.count == 0 {
            return found;
        }
        found.extend_from_slice(&self.any);
        for name in std::iter::once(facts.names.own).chain(facts.names.known_as.iter().copied()) {
            take(&mut found, &self.tools, name);
            self.find_arguments(&mut found, name, facts.arguments);
        }
        if let Some((source, _)) = facts.names.remote {
            self.find_source(&mut found, source);
        }
        if !facts.beginnings.is_empty() {
            found.extend_from_slice(&self.paths);
        }
        if !self.paths.is_empty() && facts.has_paths() {
            found.extend_from_slice(&self.symlinked(facts, rules));
        }
        for part in facts.parts.iter().chain(facts.named_files().map(|(_, part)| part)) {
            match part {
                Part::Command(command) => self.find_command(&mut found, command),
                Part::Unreadable(_) => {
                    found.extend_from_slice(&self.commands);
                    found.extend_from_slice(&self.paths);
                }
                Part::Path { spelled, resolved, .. } => {
                    self.find_path(&mut found, spelled);
                    match resolved {
                        Ok(resolved) if resolved == spelled => {}
                        Ok(resolved) => self.find_path(&mut found, resolved),
                        Err(_) => found.extend_from_slice(&self.paths),
                    }
                }
                Part::Host(Ok(host)) => self.find_host(&mut found, host),
                Part::Host(Err(_)) => found.extend_from_slice(&self.addresses),
                Part::Reach(Capability::Filesystem) => found.extend_from_slice(&self.paths),
                Part::Reach(Capability::Network) => found.extend_from_slice(&self.addresses),
                Part::Call | Part::Reach(_) => {}
            }
        }
        for (_, launch) in &facts.launches {
            found.extend_from_slice(&self.programs);
            // A script is also looked up by its name.
            if let Some(name) = launch.name() {
                let words = std::iter::once(haft_shell::Word::text(name));
                let words = words.chain(launch.arguments.iter().cloned()).collect();
                let command =
                    haft_shell::SimpleCommand { words, ..haft_shell::SimpleCommand::default() };
                self.find_command(&mut found, &command);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Finds the rules that may match every call of a tool, without duplicates, in order.
    pub(super) fn find_tool(&self, names: &Names<'_>) -> Found {
        let mut found = Found::from_slice(&self.any);
        for name in std::iter::once(names.own).chain(names.known_as.iter().copied()) {
            take(&mut found, &self.tools, name);
        }
        if let Some((source, _)) = names.remote {
            self.find_source(&mut found, source);
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// A rule's text is split at its first `__`, and its source may be only a prefix of one.
    fn find_source(&self, found: &mut Found, source: &str) {
        take(found, &self.sources, source);
        let start = match source.find("__") {
            Some(end) => &source[..end],
            // The last `_` of a source and the two after it can be split before as well as after.
            None => source.strip_suffix('_').unwrap_or(source),
        };
        if start != source {
            take(found, &self.sources, start);
        }
    }

    /// Returns the rules that their key does not find. Symlinks are resolved once for each working
    /// directory: an attacker who can add a symlink later can move the file as well.
    fn symlinked(&self, facts: &Facts<'_>, rules: &[Rule]) -> Arc<[u32]> {
        let Ok(work) = facts.base() else { return self.paths.as_slice().into() };
        let known = |list: &Vec<(PathBuf, Arc<[u32]>)>| {
            list.iter()
                .find(|(directory, _)| directory == work)
                .map(|(_, symlinked)| Arc::clone(symlinked))
        };
        if let Some(symlinked) = known(&sync::read(&self.symlinked)) {
            return symlinked;
        }
        let resolver = &*facts.context.resolver;
        let stray = |at: &u32| {
            let rule = rules.get(*at as usize);
            rule.is_none_or(|rule| {
                rule.matches.iter().any(|p| p.has_symlink_prefix(resolver, work))
            })
        };
        let symlinked: Arc<[u32]> = self.paths.iter().copied().filter(stray).collect();
        let mut list = sync::write(&self.symlinked);
        if list.len() < MAX_DIRECTORIES {
            list.push((work.to_owned(), Arc::clone(&symlinked)));
        }
        symlinked
    }

    fn find_arguments(&self, found: &mut Found, tool: &str, arguments: &Value) {
        if self.arguments.is_empty() {
            return;
        }
        for own in self.arguments.get(tool).into_iter().flatten() {
            for value in find(arguments, &own.name) {
                // A list counts as its items.
                match value {
                    Value::Array(list) => list.iter().for_each(|item| own.take(found, item)),
                    other => own.take(found, other),
                }
            }
        }
    }

    fn find_command(&self, found: &mut Found, command: &haft_shell::SimpleCommand) {
        if self.commands.is_empty() {
            return;
        }
        found.extend_from_slice(&self.any_command);
        // Unwrapping yields other first words; so does an unknown word.
        let mut both = String::new();
        starts(command, |start| match start {
            Start::Unknown => found.extend_from_slice(&self.commands),
            Start::First(first) => {
                take(found, &self.words, first);
                take(found, &self.started, first);
            }
            Start::Two(first, second) => {
                take(found, &self.words, first);
                if let Some(second) = second.filter(|_| !self.pairs.is_empty()) {
                    both.clear();
                    both.extend([first, " ", second]);
                    take(found, &self.pairs, both.as_str());
                }
            }
        });
    }

    fn find_path(&self, found: &mut Found, path: &Path) {
        if self.paths.is_empty() {
            return;
        }
        // A path that no pattern can be compared with is `Unknown` for all of them.
        if !path.is_absolute() || path.to_str().is_none() {
            found.extend_from_slice(&self.paths);
            return;
        }
        // A pattern that names a directory covers what is below it, so every component is looked
        // up.
        if !self.names.is_empty() {
            for name in path.iter() {
                take(found, &self.names, name);
            }
        }
        if !self.directories.is_empty() {
            for directory in path.ancestors() {
                take(found, &self.directories, directory);
            }
        }
    }

    fn find_host(&self, found: &mut Found, host: &str) {
        if self.hosts.is_empty() {
            return;
        }
        let mut rest = host;
        loop {
            take(found, &self.hosts, rest);
            match rest.split_once('.') {
                Some((_, parent)) => rest = parent,
                None => return,
            }
        }
    }
}

impl Argument {
    /// Adds the rules that may match one value.
    fn take(&self, found: &mut Found, value: &Value) {
        match value {
            Value::String(text) => self.take_text(found, text),
            // `1.0` is compared as `1` as well.
            Value::Number(number) if number.is_f64() => found.extend_from_slice(&self.all),
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.take_text(found, &value.to_string());
            }
            // It cannot be compared, so it is `Unknown`.
            Value::Array(_) | Value::Object(_) => found.extend_from_slice(&self.all),
        }
    }
}

impl Argument {
    fn take_text(&self, found: &mut Found, text: &str) {
        take(found, &self.values, text);
        // A longer text is not compared with wildcards, so it is `Unknown`.
        if text.len() > MAX_VALUE_BYTES {
            found.extend_from_slice(&self.wildcards);
            return;
        }
        for length in &self.starts.lengths {
            if let Some(start) = text.get(..*length) {
                take(found, &self.starts.texts, start);
            }
        }
        for length in &self.ends.lengths {
            if let Some(end) = text.len().checked_sub(*length).and_then(|from| text.get(from..)) {
                take(found, &self.ends.texts, end);
            }
        }
        self.take_middles(found, text);
    }

    /// Adds the rules about a part of the text, each part once.
    fn take_middles(&self, found: &mut Found, text: &str) {
        if self.middles.lengths.is_empty() {
            return;
        }
        let mut seen: HashSet<&str, RandomState> = HashSet::default();
        for (at, _) in text.char_indices() {
            for length in &self.middles.lengths {
                if let Some(part) = text.get(at..at + length)
                    && self.middles.texts.contains_key(part)
                    && seen.insert(part)
                {
                    take(found, &self.middles.texts, part);
                }
            }
        }
    }
}

impl Affixes {
    fn add(&mut self, text: &str, rule: u32) {
        if !self.lengths.contains(&text.len()) {
            self.lengths.push(text.len());
        }
        put(&mut self.texts, text.into(), rule);
    }
}

fn short_start(text: &str) -> &str {
    &text[..text.ceil_char_boundary(MAX_AFFIX_BYTES)]
}

fn short_middle(text: &str) -> &str {
    &text[..text.ceil_char_boundary(MAX_MIDDLE_BYTES)]
}

fn short_end(text: &str) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(MAX_AFFIX_BYTES))..]
}

fn put<K: Hash + Eq>(drawer: &mut Bucket<K>, key: K, rule: u32) {
    drawer.entry(key).or_default().push(rule);
}

fn take<K, Q>(found: &mut Found, drawer: &Bucket<K>, key: &Q)
where
    K: Hash + Eq + std::borrow::Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    if !drawer.is_empty()
        && let Some(rules) = drawer.get(key)
    {
        found.extend_from_slice(rules);
    }
}
