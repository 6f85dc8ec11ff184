//! Finds the few rules that may match a call among many that cannot.
//!
//! Every rule is filed under what its pattern names: a tool, the first word of a command, a file name,
//! a folder, a host. A call looks under what it has. Parts that cannot be read look at everything of
//! their kind, so that no deny is missed.

use std::{
    collections::HashMap,
    ffi::OsStr,
    hash::Hash,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use smallvec::SmallVec;

use super::super::{
    facts::{Facts, Part},
    pattern::Key,
    rule::Rule,
};

/// The numbers of rules.
pub(super) type Found = SmallVec<[u32; 16]>;

type Drawer<K> = HashMap<K, Vec<u32>, ahash::RandomState>;

/// Rules of one decision, filed by what they name.
#[derive(Debug, Default)]
pub(super) struct Index {
    tools: Drawer<Box<str>>,
    sources: Drawer<Box<str>>,
    words: Drawer<Box<str>>,
    names: Drawer<Box<OsStr>>,
    folders: Drawer<PathBuf>,
    hosts: Drawer<Box<str>>,
    any_command: Vec<u32>,
    commands: Vec<u32>,
    paths: Vec<u32>,
    addresses: Vec<u32>,
    any: Vec<u32>,
    count: usize,
    /// For a working directory: the rules whose path leads elsewhere than its words say.
    strays: RwLock<Vec<(PathBuf, Arc<[u32]>)>>,
}

/// So many working directories are remembered.
const MOST_FOLDERS: usize = 64;

impl Index {
    /// Files a rule.
    pub(super) fn add(&mut self, rule: usize, key: Key<'_>) {
        let Ok(rule) = u32::try_from(rule) else { return };
        self.count += 1;
        match key {
            Key::Tool(name) => put(&mut self.tools, name.into(), rule),
            Key::Source(name) => put(&mut self.sources, name.into(), rule),
            Key::Command(word) => {
                self.commands.push(rule);
                match word {
                    Some(word) => put(&mut self.words, word.into(), rule),
                    None => self.any_command.push(rule),
                }
            }
            Key::FileName(name) => {
                self.paths.push(rule);
                put(&mut self.names, OsStr::new(name).into(), rule);
            }
            Key::Below(folder) => {
                self.paths.push(rule);
                put(&mut self.folders, folder.to_owned(), rule);
            }
            Key::Host(host) => {
                self.addresses.push(rule);
                put(&mut self.hosts, host.into(), rule);
            }
            Key::Any => self.any.push(rule),
        }
    }

    /// Returns how many patterns are filed.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Finds the rules that may match, each once, in their order.
    pub(super) fn find(&self, facts: &Facts<'_>, rules: &[Rule]) -> Found {
        let mut found = Found::new();
        if self.count == 0 {
            return found;
        }
        found.extend_from_slice(&self.any);
        take(&mut found, &self.tools, facts.names.own);
        for name in &facts.names.known_as {
            take(&mut found, &self.tools, *name);
        }
        if let Some((source, _)) = facts.names.remote {
            self.find_source(&mut found, source);
        }
        if !self.paths.is_empty() && facts.parts.iter().any(|p| matches!(p, Part::Path { .. })) {
            found.extend_from_slice(&self.strays(facts, rules));
        }
        for part in &facts.parts {
            match part {
                Part::Command(command) => self.find_command(&mut found, command),
                Part::Unreadable(_) => found.extend_from_slice(&self.commands),
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
                Part::Call | Part::Reach(_) => {}
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// A rule's text is cut at its first `__`, and its source may be only the beginning of one.
    fn find_source(&self, found: &mut Found, source: &str) {
        take(found, &self.sources, source);
        let start = match source.find("__") {
            Some(end) => &source[..end],
            // The last `_` of a source and the two behind it can be cut before as well as after.
            None => source.strip_suffix('_').unwrap_or(source),
        };
        if start != source {
            take(found, &self.sources, start);
        }
    }

    /// Returns the rules that what they name does not find. What leads where is looked up once for
    /// each working directory: whoever can put a link there later can move the file as well.
    fn strays(&self, facts: &Facts<'_>, rules: &[Rule]) -> Arc<[u32]> {
        let Ok(work) = facts.base() else { return self.paths.as_slice().into() };
        let known = |list: &Vec<(PathBuf, Arc<[u32]>)>| {
            list.iter().find(|(folder, _)| folder == work).map(|(_, strays)| Arc::clone(strays))
        };
        if let Some(strays) = known(&self.strays.read().unwrap_or_else(PoisonError::into_inner)) {
            return strays;
        }
        let world = &*facts.ground.world;
        let stray = |at: &u32| {
            let rule = rules.get(*at as usize);
            rule.is_none_or(|rule| rule.matches.iter().any(|p| p.strays(world, work)))
        };
        let strays: Arc<[u32]> = self.paths.iter().copied().filter(stray).collect();
        let mut list = self.strays.write().unwrap_or_else(PoisonError::into_inner);
        if list.len() < MOST_FOLDERS {
            list.push((work.to_owned(), Arc::clone(&strays)));
        }
        strays
    }

    fn find_command(&self, found: &mut Found, command: &haft_shell::Command) {
        if self.commands.is_empty() {
            return;
        }
        found.extend_from_slice(&self.any_command);
        // Looking through wrappers finds other first words; so does a word nobody knows.
        let mut words = command.first_words();
        match words.iter().all(Option::is_some) {
            true => {
                words.sort_unstable();
                words.dedup();
                for word in words.into_iter().flatten() {
                    // A word may hold a blank, and a pattern does not tell it from two words.
                    take(found, &self.words, word.split(' ').next().unwrap_or_default());
                }
            }
            false => found.extend_from_slice(&self.commands),
        }
    }

    fn find_path(&self, found: &mut Found, path: &Path) {
        if self.paths.is_empty() {
            return;
        }
        // What no pattern can be compared with is a doubt for all of them.
        if !path.is_absolute() || path.to_str().is_none() {
            found.extend_from_slice(&self.paths);
            return;
        }
        // A pattern that names a folder covers what is below it, so every component may be named.
        if !self.names.is_empty() {
            for name in path.iter() {
                take(found, &self.names, name);
            }
        }
        if !self.folders.is_empty() {
            for folder in path.ancestors() {
                take(found, &self.folders, folder);
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

fn put<K: Hash + Eq>(drawer: &mut Drawer<K>, key: K, rule: u32) {
    drawer.entry(key).or_default().push(rule);
}

fn take<K, Q>(found: &mut Found, drawer: &Drawer<K>, key: &Q)
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
