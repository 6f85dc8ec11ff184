//! Compares a rule about a program with the file that a command runs.
//!
//! In: a pattern such as `./deploy.sh *` and what a command launches. Out: whether some spelling of
//! the same file matches, symlinks included. For restricting rules only.

use std::path::{Component, Path, PathBuf};

use haft_shell::{SimpleCommand, Word, WordPiece};

use super::{CommandPattern, Ternary};
use crate::{
    facts::{Facts, Launch},
    path_resolver::normalize_lexically,
};

const UNCLEAR: &str = "haft cannot determine which file runs";

/// Returns whether the pattern matches a command that launches this.
pub(super) fn matches(pattern: &CommandPattern, launch: &Launch, facts: &Facts<'_>) -> Ternary {
    // A script is also compared by its name: `bash deploy.sh` is `deploy.sh`.
    if let (true, Some(name)) = (launch.is_script, launch.name()) {
        let found = pattern.restricts(&command(Word::text(name), launch));
        if found != Ternary::No {
            return found;
        }
    }
    if !pattern.names_a_path() {
        return Ternary::No;
    }
    let mut answers = Vec::new();
    for (spelled, leads) in launch.spelled().zip(launch.leads(&*facts.context.resolver)) {
        answers.push(match leads {
            Ok(leads) => one(pattern, launch, &spelled, leads, facts),
            Err(_) => unclear(pattern, launch),
        });
    }
    if !launch.is_certain && answers.is_empty() {
        return unclear(pattern, launch);
    }
    let all_match = !answers.is_empty() && answers.iter().all(|answer| *answer == Ternary::Yes);
    let any_may = answers.iter().any(|answer| *answer != Ternary::No);
    match (all_match && launch.is_certain, any_may) {
        (true, _) => Ternary::Yes,
        (false, true) => Ternary::Unknown(UNCLEAR.to_owned()),
        (false, false) => Ternary::No,
    }
}

/// Compares one file, under every name that a rule may use for it.
fn one(
    pattern: &CommandPattern,
    launch: &Launch,
    spelled: &Path,
    leads: &Path,
    facts: &Facts<'_>,
) -> Ternary {
    let base = facts.base().ok();
    let root = facts.root().ok();
    let home = facts.context.home.as_deref();
    if let (Some(first), Some(base)) = (pattern.first_word().filter(|w| w.contains('/')), base) {
        let whole = match first.strip_prefix("~/").zip(home) {
            Some((rest, home)) => home.join(rest),
            None => base.join(first),
        };
        let same = facts.context.resolver.resolve(&whole).is_ok_and(|own| own == leads);
        if same || normalize_lexically(&whole) == spelled {
            return pattern.compare(&command(Word::text(first), launch), false);
        }
    }
    let mut doubt = Ternary::No;
    for (file, base) in [(spelled, base), (leads, root), (leads, base)] {
        for name in names(file, base, home) {
            match pattern.compare(&command(Word::text(name), launch), false) {
                Ternary::Yes => return Ternary::Yes,
                Ternary::No => {}
                unknown => doubt = unknown,
            }
        }
    }
    doubt
}

/// Returns the names that a rule may use for a file.
fn names(file: &Path, base: Option<&Path>, home: Option<&Path>) -> Vec<String> {
    let text = |path: &Path| path.to_str().map(str::to_owned);
    let mut names: Vec<String> = text(file).into_iter().collect();
    if let Some(below) = base.and_then(|base| relative(file, base)).as_deref().and_then(text) {
        if !below.starts_with("../") {
            names.push(format!("./{below}"));
        }
        names.push(below);
    }
    let below = home.and_then(|home| file.strip_prefix(home).ok()).and_then(text);
    names.extend(below.map(|below| format!("~/{below}")));
    names
}

/// Returns the relative path from a directory to a file, with `..` if needed.
fn relative(file: &Path, base: &Path) -> Option<PathBuf> {
    if !file.is_absolute() || !base.is_absolute() {
        return None;
    }
    let shared = file.components().zip(base.components()).take_while(|(a, b)| a == b).count();
    let up = base.components().skip(shared).map(|_| Component::ParentDir);
    Some(up.chain(file.components().skip(shared)).collect())
}

/// Compares an unknown file: only its name can be compared.
fn unclear(pattern: &CommandPattern, launch: &Launch) -> Ternary {
    let name = launch.name();
    let own = pattern.first_word().and_then(|word| word.rsplit('/').next());
    if let (Some(name), Some(own)) = (name, own)
        && name != own
    {
        return Ternary::No;
    }
    let word = match pattern.first_word() {
        Some(first) => Word::text(first),
        None => {
            let name = name.map(|name| WordPiece::Text(format!("/{name}")));
            let pieces = [WordPiece::Unknown].into_iter().chain(name).collect();
            Word { pieces, may_be_option: true, ..Word::default() }
        }
    };
    match pattern.compare(&command(word, launch), false) {
        Ternary::No => Ternary::No,
        Ternary::Yes | Ternary::Unknown(_) => Ternary::Unknown(UNCLEAR.to_owned()),
    }
}

/// Returns the command that launches it by this name.
fn command(name: Word, launch: &Launch) -> SimpleCommand {
    let mut words = vec![name];
    words.extend_from_slice(&launch.arguments);
    SimpleCommand { words, ..SimpleCommand::default() }
}
