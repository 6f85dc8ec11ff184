//! A restricting path pattern from the root on, as an automaton for a directory walk.
//!
//! A walk passes the states of a directory to its entries, so an entry costs one comparison of its
//! name. If no state is left, nothing below can match, and the walk skips the directory.

use std::path::{Component, Path};

use super::{CASE_INSENSITIVE, Facts, PathPattern, Side, Step, normalize_lexically};
use crate::glob::Glob;

/// Which components may come next: bit `n` is component `n`. The bit after the last component means
/// that the path, or a directory above it, has matched.
pub(crate) type States = u128;

/// Maximum number of components; the rest is truncated. A prefix of a pattern matches all that the
/// whole matches.
const MAX_STEPS: usize = 127;

/// A pattern from the root on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AbsolutePattern(Vec<Step>);

/// What a directory must be searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Search {
    /// Entries of these names alone, see [`AbsolutePattern::names`].
    Names,
    /// All entries, without recursion.
    Entries,
    /// Everything at any depth.
    Tree,
}

impl PathPattern {
    /// Returns the absolute patterns that it restricts, for each base, as written and resolved.
    /// `None` if a base is not known, or is not UTF-8.
    pub(in crate::pattern) fn absolute(&self, facts: &Facts<'_>) -> Option<Vec<AbsolutePattern>> {
        let leads = |path: &Path| facts.context.resolver.resolve(path).ok();
        let steps = self.steps_on(Side::Restrict);
        let mut all: Vec<AbsolutePattern> = Vec::new();
        for base in self.restricting_bases(facts)? {
            let start = normalize_lexically(&self.up_from(&base));
            let literal = leads(&self.start(&base)).map(|at| (at, &self.steps[self.literal..]));
            let resolved = leads(&start).map(|at| (at, steps));
            for (start, steps) in [literal, resolved, Some((start, steps))].into_iter().flatten() {
                let pattern = AbsolutePattern::new(&start, steps)?;
                if !all.contains(&pattern) {
                    all.push(pattern);
                }
            }
        }
        Some(all)
    }
}

impl AbsolutePattern {
    fn new(start: &Path, steps: &[Step]) -> Option<Self> {
        let mut all = Vec::new();
        for part in start.components() {
            match part {
                Component::RootDir => {}
                Component::Normal(name) => {
                    all.push(Step::Name(Glob::Text(name.to_str()?.to_owned())));
                }
                _ => return None,
            }
        }
        all.extend(steps.iter().cloned());
        all.truncate(MAX_STEPS);
        start.is_absolute().then_some(Self(all))
    }

    /// Returns the states of the root directory.
    pub(crate) fn root(&self) -> States {
        self.closed(1)
    }

    /// Returns the states of an entry.
    pub(crate) fn next(&self, states: States, name: &str) -> States {
        let mut next = states & (1 << self.0.len());
        let mut left = states;
        while left != 0 {
            let n = left.trailing_zeros() as usize;
            left &= left - 1;
            match self.0.get(n) {
                Some(Step::Any) => next |= 1 << n,
                Some(Step::Name(glob)) if glob.matches(name, CASE_INSENSITIVE) => {
                    next |= 1 << (n + 1)
                }
                _ => {}
            }
        }
        self.closed(next)
    }

    /// `**` also matches no component.
    fn closed(&self, mut states: States) -> States {
        for (n, step) in self.0.iter().enumerate() {
            if *step == Step::Any && states >> n & 1 == 1 {
                states |= 1 << (n + 1);
            }
        }
        states
    }

    /// Returns whether the path has matched.
    pub(crate) fn is_matched(&self, states: States) -> bool {
        states >> self.0.len() & 1 == 1
    }

    fn pending(&self, states: States) -> impl Iterator<Item = &Step> {
        self.0.iter().enumerate().filter(move |(n, _)| states >> n & 1 == 1).map(|(_, step)| step)
    }

    /// Returns what a directory with these states must be searched for.
    pub(crate) fn search(&self, states: States) -> Search {
        if self.is_matched(states) {
            return Search::Tree;
        }
        let each = self.pending(states).map(|step| match step {
            Step::Any => Search::Tree,
            Step::Name(glob) if glob.literal().is_some() && !CASE_INSENSITIVE => Search::Names,
            Step::Name(_) => Search::Entries,
        });
        each.max().unwrap_or(Search::Names)
    }

    /// Returns the names that entries must have, for [`Search::Names`].
    pub(crate) fn names(&self, states: States) -> impl Iterator<Item = &str> {
        self.pending(states).filter_map(Step::literal)
    }

    /// Writes it as an absolute pattern.
    pub(crate) fn written(&self) -> String {
        let step = |step: &Step| match step {
            Step::Any => "/**".to_owned(),
            Step::Name(glob) => format!("/{}", glob.written()),
        };
        if self.0.is_empty() { "/**".to_owned() } else { self.0.iter().map(step).collect() }
    }
}
