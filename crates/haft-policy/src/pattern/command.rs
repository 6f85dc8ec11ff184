//! The specifier of `Bash(…)`: a pattern over one simple command.
//!
//! `*` matches any characters, including spaces. A trailing ` *` needs a word boundary; `x:*` means
//! the same. Words that only a running shell knows make the answer `Unknown` if it depends on them.
//!
//! Matching runs two automata in lockstep: the text of the command, in which an unknown piece may
//! be anything, and the pattern, which is deterministic. If some path ends in a match it is
//! possible, if all do it is certain. The cost is at most the product of the two lengths, and the
//! length of the text if everything is known.

use haft_shell::{SimpleCommand, UnwrappedCommand, Word, WordPiece, Wrappers};

use super::Ternary;

/// Which side an uncertain match counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// An allow: only harmless wrappers are unwrapped.
    Allow,
    /// A deny or an ask: every wrapper is unwrapped.
    Restrict,
}

/// Commands that start others in ways that a prefix cannot express.
const NEVER_BY_PREFIX: [&str; 4] = ["watch", "setsid", "ionice", "flock"];

/// Options that make `find` more than a search.
const FIND_ACTIONS: [&str; 9] =
    ["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprint0", "-fprintf", "-fls"];

/// Maximum bytes of patterns that are compared with each other.
const MAX_COMPARED_BYTES: usize = 256;

/// Operators that join commands or redirect.
const OPERATORS: [&str; 7] = ["&&", "||", ";", "|", "&", ">", "<"];

/// Replaces `*` while the quotes of a pattern are parsed. A private-use character.
const STAR: char = '\u{f8ff}';

/// Replaces `\*`, which is a literal character.
const LITERAL_STAR: char = '\u{f8fe}';

/// A pattern over one simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandPattern {
    /// As it was written.
    text: String,
    /// The first word of everything that matches.
    first: Option<String>,
    /// The second one, if the first is known.
    second: Option<String>,
    /// Whether it starts with an assignment, and so matches the command with its assignments.
    assigns: bool,
    machine: Machine,
}

/// The parts between stars, and how the pattern ends.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Machine {
    /// The texts between the stars; there is at least one.
    parts: Vec<Part>,
    /// It ends in ` *`: the last part is followed by the end, or by a space and anything.
    boundary: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    chars: Vec<char>,
    /// The failure function (KMP): for each matched length, how much still matches after a
    /// mismatch.
    back: Vec<usize>,
}

/// The position in a pattern: the part, and how many of its characters match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    In(usize, usize),
    /// Any continuation matches.
    Won,
    /// No continuation matches.
    Lost,
}

/// A step of the text of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Char(char),
    /// Any characters, or none.
    Any,
    /// An optional word: nothing, or a space and any characters.
    Word,
}

impl CommandPattern {
    /// Parses the text between the brackets.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() {
            return Err("a command pattern must not be empty; `*` matches every command".to_owned());
        }
        if text.chars().any(|c| c.is_control() || c == STAR || c == LITERAL_STAR) {
            return Err("a command pattern must be one line without control characters".to_owned());
        }
        let plain = unquoted(text);
        let (head, boundary) = match plain.strip_suffix(":*").or_else(|| plain.strip_suffix(" *")) {
            Some(head) => (head.trim_end(), true),
            None => (&*plain, false),
        };
        if boundary && head.is_empty() {
            return Err("a command is missing before `:*`".to_owned());
        }
        let machine = Machine { parts: head.split('*').map(Part::new).collect(), boundary };
        let word = head.split(' ').next().unwrap_or_default();
        let whole = boundary || word.len() < head.len() || !head.contains('*');
        let first = (whole && !word.contains('*') && !word.is_empty()).then(|| word.to_owned());
        let assigns = is_assignment(word);
        let first = first.filter(|word| !assigns && !word.contains(LITERAL_STAR));
        let second = head.split(' ').nth(1).filter(|word| !word.contains(['*', LITERAL_STAR]));
        let second = second.filter(|_| first.is_some()).map(str::to_owned);
        Ok(Self { text: text.to_owned(), first, second, assigns, machine })
    }

    /// Returns whether it certainly matches all that the other matches, both from this side.
    pub(super) fn covers(&self, other: &Self, side: Side) -> bool {
        if self.is_everything() || self.machine == other.machine && self.assigns == other.assigns {
            return true;
        }
        if self.assigns != other.assigns || self.is_long() || other.is_long() {
            return false;
        }
        // An allow is stricter about what starts other commands, and more so if the rule is loose.
        let plain = || {
            !other.assigns
                && other.first_word().is_some_and(|word| {
                    let command = alone(word);
                    let odd = NEVER_BY_PREFIX.contains(&word) || word == "find";
                    !odd && !command.may_wrap(Wrappers::Harmless)
                })
        };
        (side == Side::Restrict || plain()) && self.machine.walk(&other.machine.texts()).1
    }

    /// Returns whether certainly no command matches both.
    pub(super) fn is_disjoint(&self, other: &Self) -> bool {
        // Only restricting rules skip options before a subcommand.
        let plain =
            |word: &str| !alone(word).may_wrap(Wrappers::All) && !haft_shell::has_subcommands(word);
        !self.is_long()
            && !other.is_long()
            && self.first_word().is_some_and(plain)
            && self.first == other.first
            && !self.machine.walk(&other.machine.texts()).0
    }

    /// Comparing two patterns costs by the product of their lengths.
    fn is_long(&self) -> bool {
        self.text.len() > MAX_COMPARED_BYTES
    }

    /// Returns a shell operator in it, outside of quotes. Commands are matched one by one, so none
    /// of them contains it.
    pub(super) fn operator(&self) -> Option<&'static str> {
        if self.text.contains(['$', '`']) {
            return None;
        }
        let mut quote = None;
        let mut chars = self.text.char_indices();
        while let Some((at, c)) = chars.next() {
            match (quote, c) {
                (None | Some('"'), '\\') => drop(chars.next()),
                (None, '\'' | '"') => quote = Some(c),
                (Some(open), _) if open == c => quote = None,
                (None, _) => {
                    let rest = &self.text[at..];
                    let found = OPERATORS.iter().find(|op| rest.starts_with(**op));
                    if let Some(operator) = found {
                        return Some(operator);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// Returns the program whose behaviour it leaves open, if it names one: `sh *`, `python -c *`.
    pub(super) fn open_ended(&self, programs: &[&str]) -> Option<&str> {
        let word = self.first_word()?;
        let name = word.rsplit('/').next().unwrap_or(word);
        let rest: String = match &*self.machine.parts {
            [one] if self.machine.boundary => one.chars.iter().collect(),
            _ => return None,
        };
        // Options alone do not determine what runs: `bash -c *`.
        let options = rest.split(' ').skip(1).all(|word| word.starts_with('-'));
        (options && programs.contains(&name)).then_some(word)
    }

    /// Returns the first word of every command that can match, if there is one such word. Rules are
    /// indexed by it; see [`starts`] for the other side.
    pub(crate) fn first_word(&self) -> Option<&str> {
        self.first.as_deref()
    }

    /// Returns the second word of every command that can match, if there is one such word.
    pub(crate) fn second_word(&self) -> Option<&str> {
        self.second.as_deref()
    }

    /// Returns whether a command matches.
    pub(crate) fn matches(&self, command: &SimpleCommand, side: Side) -> Ternary {
        match side {
            Side::Allow => self.allows(command),
            Side::Restrict => self.restricts(command),
        }
    }

    /// Any view that matches counts, whatever the command sets before it.
    pub(super) fn restricts(&self, command: &SimpleCommand) -> Ternary {
        if self.assigns {
            return self.compare(command, true);
        }
        // The common command wraps nothing, and then nothing is copied.
        if !command.may_wrap(Wrappers::All) {
            return self.compare(command, false);
        }
        let mut doubt = None;
        for view in command.unwrapped(Wrappers::All) {
            match self.compare(&view.command, false) {
                Ternary::Yes => return Ternary::Yes,
                Ternary::No => {}
                Ternary::Unknown(why) => doubt = doubt.or(Some(why)),
            }
        }
        doubt.map_or(Ternary::No, Ternary::Unknown)
    }

    /// Only the command that finally runs counts, and nothing that could turn it into another one.
    fn allows(&self, command: &SimpleCommand) -> Ternary {
        if self.is_everything() {
            return Ternary::Yes;
        }
        if self.assigns {
            // The assignments must be literal: a `*` among them could set anything.
            let fixed = command.assignments.iter().all(|a| a.value.literal().is_some());
            let matched = self.compare(command, true);
            return if fixed && self.fixes(&assigned(command)) {
                self.cautious(command, matched)
            } else {
                doubtful(matched, "it sets variables that the rule does not name")
            };
        }
        // `'git status' x` starts a program of that name, not `git`.
        let name = command.words.first().and_then(Word::literal);
        if name.is_some_and(|name| name.contains(' ')) {
            return Ternary::No;
        }
        let answer = if command.may_wrap(Wrappers::Harmless) {
            self.allows_wrapped(command)
        } else {
            self.cautious(command, self.compare(command, false))
        };
        match command.unsafe_assignment() {
            Some(set) => doubtful(answer, &format!("it sets `{}` for the command", set.name)),
            None => answer,
        }
    }

    /// The command that finally runs must match; or the wrapper too, if the pattern names it.
    fn allows_wrapped(&self, command: &SimpleCommand) -> Ternary {
        let views = command.unwrapped(Wrappers::Harmless);
        let mut answer = match views.last() {
            Some(last) => self.cautious(&last.command, self.compare(&last.command, false)),
            None => Ternary::No,
        };
        // A pattern may name the wrapper, if it also names what is wrapped.
        let last_at = views.last().and_then(|view| view.at);
        for view in views.iter().rev().skip(1) {
            let matched = self.compare(&view.command, false);
            let named = named_through(view, last_at).is_some_and(|words| self.fixes(&words));
            let matched = if self.is_exact() || named {
                self.cautious(views.last().map_or(command, |v| &v.command), matched)
            } else {
                doubtful(matched, "the rule does not name what the wrapper may start")
            };
            answer = match (answer, matched) {
                (Ternary::Yes, _) | (_, Ternary::Yes) => Ternary::Yes,
                (Ternary::Unknown(why), _) | (_, Ternary::Unknown(why)) => Ternary::Unknown(why),
                (Ternary::No, Ternary::No) => Ternary::No,
            };
        }
        answer
    }

    /// Downgrades a match for commands that do more than their prefix says.
    fn cautious(&self, command: &SimpleCommand, matched: Ternary) -> Ternary {
        if self.is_exact() {
            return matched;
        }
        match command.words.first().and_then(Word::literal) {
            Some(name) if NEVER_BY_PREFIX.contains(&name) => {
                doubtful(matched, &format!("`{name}` starts other commands"))
            }
            Some("find") => {
                let acts = command.words.iter().any(|word| {
                    word.has_unknown() || word.literal().is_some_and(|t| FIND_ACTIONS.contains(&t))
                });
                if acts {
                    doubtful(matched, "this `find` may do more than search")
                } else {
                    matched
                }
            }
            _ => matched,
        }
    }

    pub(super) fn is_everything(&self) -> bool {
        !self.machine.boundary
            && self.machine.parts.len() > 1
            && self.machine.parts.iter().all(|part| part.chars.is_empty())
    }

    fn is_exact(&self) -> bool {
        !self.machine.boundary && self.machine.parts.len() == 1
    }

    /// Returns whether everything that matches starts with these words.
    fn fixes(&self, words: &str) -> bool {
        let Some(first) = self.machine.parts.first() else { return false };
        let fixed: String = first.chars.iter().collect();
        let ends = self.machine.boundary && self.machine.parts.len() == 1;
        match fixed.strip_prefix(words) {
            Some("") => self.is_exact() || ends,
            Some(rest) => rest.starts_with(' '),
            None => false,
        }
    }

    /// Returns whether the program that it names has a directory: `./deploy.sh *`.
    pub(super) fn names_a_path(&self) -> bool {
        let first = self.machine.parts.first();
        let program = first.into_iter().flat_map(|part| &part.chars).take_while(|c| **c != ' ');
        let starts = program.into_iter().any(|c| *c == '/');
        // `*/deploy.sh` too.
        starts || !self.assigns && self.first.is_none() && self.text.contains('/')
    }

    pub(super) fn compare(&self, command: &SimpleCommand, with_assignments: bool) -> Ternary {
        let known = command.words.iter().all(|word| !word.has_unknown());
        if known && !with_assignments {
            return if self.machine.accepts_words(&command.words) {
                Ternary::Yes
            } else {
                Ternary::No
            };
        }
        let (possible, certain) = self.machine.walk(&steps(command, with_assignments));
        match (possible, certain) {
            (true, true) => Ternary::Yes,
            (false, _) => Ternary::No,
            (true, false) => {
                Ternary::Unknown("a part of the command is known only when it runs".to_owned())
            }
        }
    }
}

/// Returns the text of a pattern without quotes: commands are compared without theirs.
fn unquoted(text: &str) -> String {
    if !text.contains(['\'', '"', '\\']) {
        // Words are compared with one space between them.
        return text.split_ascii_whitespace().collect::<Vec<_>>().join(" ");
    }
    let text = &*text.replace("\\*", &LITERAL_STAR.to_string());
    let Ok(script) = haft_shell::parse(&text.replace('*', &STAR.to_string())) else {
        return text.to_owned();
    };
    match &*script.commands {
        [command] if command.redirects.is_empty() => {
            let words: Option<Vec<&str>> = command.words.iter().map(Word::literal).collect();
            match words {
                Some(words) if command.assignments.is_empty() => words.join(" ").replace(STAR, "*"),
                _ => text.to_owned(),
            }
        }
        _ => text.to_owned(),
    }
}

/// Returns a command of this word alone.
fn alone(word: &str) -> SimpleCommand {
    SimpleCommand { words: vec![Word::text(word)], ..SimpleCommand::default() }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
        !name.is_empty()
            && name.chars().all(fits)
            && !name.starts_with(|c: char| c.is_ascii_digit())
    })
}

fn doubtful(matched: Ternary, why: &str) -> Ternary {
    match matched {
        Ternary::Yes | Ternary::Unknown(_) => Ternary::Unknown(why.to_owned()),
        Ternary::No => Ternary::No,
    }
}

/// Returns the words of a view up to the command that finally runs, its name included.
fn named_through(view: &UnwrappedCommand, last_at: Option<usize>) -> Option<String> {
    let until = last_at?.checked_sub(view.at?)?;
    let words: Option<Vec<&str>> =
        view.command.words.get(..=until)?.iter().map(Word::literal).collect();
    Some(words?.join(" "))
}

/// Returns the assignments of a command and its first word, as they are written.
fn assigned(command: &SimpleCommand) -> String {
    let mut words: Vec<String> = command
        .assignments
        .iter()
        .map(|a| format!("{}={}", a.name, a.value.literal().unwrap_or_default()))
        .collect();
    words.extend(command.words.first().and_then(Word::literal).map(str::to_owned));
    words.join(" ")
}

/// Returns the text of a command, step by step: words joined by one space.
fn steps(command: &SimpleCommand, with_assignments: bool) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut first = true;
    let mut add = |name: Option<&str>, word: &Word| {
        let vanishes = name.is_none() && *word == Word::unknown();
        if vanishes {
            // An unquoted variable may be empty, and then the word disappears with its space.
            steps.push(if first { Step::Any } else { Step::Word });
        } else if !first {
            steps.push(Step::Char(' '));
        }
        if let Some(name) = name {
            steps.extend(name.chars().chain(['=']).map(Step::Char));
        }
        for piece in word.pieces.iter().filter(|_| !vanishes) {
            match piece {
                WordPiece::Text(text) => steps.extend(text.chars().map(Step::Char)),
                WordPiece::Unknown => steps.push(Step::Any),
            }
        }
        // After a first word that may disappear, the next one may start the text.
        first &= vanishes;
    };
    if with_assignments {
        for assignment in &command.assignments {
            add(Some(&assignment.name), &assignment.value);
        }
    }
    for word in &command.words {
        add(None, word);
    }
    steps
}

impl Part {
    fn new(text: &str) -> Self {
        let chars: Vec<char> =
            text.chars().map(|c| if c == LITERAL_STAR { '*' } else { c }).collect();
        let mut back = vec![0; chars.len() + 1];
        let mut fit = 0;
        for n in 1..chars.len() {
            while fit > 0 && chars.get(n) != chars.get(fit) {
                fit = back.get(fit).copied().unwrap_or(0);
            }
            if chars.get(n) == chars.get(fit) {
                fit += 1;
            }
            if let Some(place) = back.get_mut(n + 1) {
                *place = fit;
            }
        }
        Self { chars, back }
    }
}

impl Machine {
    fn start(&self) -> State {
        self.settle(State::In(0, 0))
    }

    /// Advances to the next part when one matches fully. The leftmost match is always as good as
    /// any.
    fn settle(&self, mut state: State) -> State {
        while let State::In(part, fit) = state {
            let last = part + 1 == self.parts.len();
            let len = self.parts.get(part).map_or(0, |p| p.chars.len());
            if last && len == 0 && part > 0 && !self.boundary {
                return State::Won;
            }
            if last || fit < len {
                return state;
            }
            state = State::In(part + 1, 0);
        }
        state
    }

    fn step(&self, state: State, c: char) -> State {
        let State::In(part, mut fit) = state else { return state };
        let Some(this) = self.parts.get(part) else { return State::Lost };
        let last = part + 1 == self.parts.len();
        if last && self.boundary && fit == this.chars.len() && c == ' ' {
            return State::Won;
        }
        loop {
            if this.chars.get(fit) == Some(&c) {
                return self.settle(State::In(part, fit + 1));
            }
            // The text before the first star cannot be skipped.
            if part == 0 {
                return State::Lost;
            }
            if fit == 0 {
                return State::In(part, 0);
            }
            fit = this.back.get(fit).copied().unwrap_or(0);
        }
    }

    fn accepts(&self, state: State) -> bool {
        match state {
            State::Won => true,
            State::Lost => false,
            State::In(part, fit) => {
                part + 1 == self.parts.len()
                    && self.parts.get(part).is_some_and(|p| p.chars.len() == fit)
            }
        }
    }

    /// Returns whether fully known words match.
    fn accepts_words(&self, words: &[Word]) -> bool {
        let mut state = self.start();
        for (n, word) in words.iter().enumerate() {
            if n > 0 {
                state = self.step(state, ' ');
            }
            for piece in &word.pieces {
                let WordPiece::Text(text) = piece else { return false };
                for c in text.chars() {
                    state = self.step(state, c);
                    if matches!(state, State::Won | State::Lost) {
                        return state == State::Won;
                    }
                }
            }
        }
        self.accepts(state)
    }

    /// Returns whether some text matches, and whether all do.
    fn walk(&self, steps: &[Step]) -> (bool, bool) {
        // Unknown pieces may be empty. If that text does not match, it is settled that not all do.
        let known = steps.iter().filter_map(|step| match step {
            Step::Char(c) => Some(*c),
            Step::Any | Step::Word => None,
        });
        let may_be_certain = self.accepts(known.fold(self.start(), |state, c| self.step(state, c)));
        let mut states = States::new(self);
        states.add(self.start());
        for step in steps {
            match step {
                Step::Char(c) => states = states.after(*c),
                Step::Any => states.spread(),
                Step::Word => {
                    let mut there = states.after(' ');
                    there.spread();
                    states.join(&there);
                }
            }
            // Both answers are settled.
            if states.is_settled() {
                break;
            }
            if !may_be_certain && states.list.contains(&State::Won) {
                return (true, false);
            }
        }
        states.verdict()
    }
}

/// The possible states. Usually one; after something unknown, any of them.
#[derive(Clone)]
struct States<'m> {
    machine: &'m Machine,
    list: Vec<State>,
    seen: Vec<bool>,
}

impl<'m> States<'m> {
    fn new(machine: &'m Machine) -> Self {
        Self { machine, list: Vec::new(), seen: Vec::new() }
    }

    fn add(&mut self, state: State) {
        // One state is the common case and needs no table.
        match &*self.list {
            [] => {}
            [only] if *only == state => return,
            _ => {
                if self.seen.is_empty() {
                    self.seen = vec![false; self.machine.size()];
                    for at in self.list.iter().map(|s| self.machine.index(*s)) {
                        if let Some(place) = self.seen.get_mut(at) {
                            *place = true;
                        }
                    }
                }
                match self.seen.get_mut(self.machine.index(state)) {
                    Some(seen) if !*seen => *seen = true,
                    _ => return,
                }
            }
        }
        self.list.push(state);
    }

    fn join(&mut self, other: &Self) {
        other.list.iter().for_each(|state| self.add(*state));
    }

    fn after(&self, c: char) -> Self {
        let mut next = Self::new(self.machine);
        self.list.iter().for_each(|state| next.add(self.machine.step(*state, c)));
        next
    }

    /// Adds every state that some text leads to.
    fn spread(&mut self) {
        let alphabet = self.machine.alphabet();
        let mut at = 0;
        while let Some(&state) = self.list.get(at) {
            at += 1;
            alphabet.iter().for_each(|c| self.add(self.machine.step(state, *c)));
        }
    }

    fn is_settled(&self) -> bool {
        self.list.iter().all(|state| matches!(state, State::Won | State::Lost))
    }

    fn verdict(&self) -> (bool, bool) {
        let accepts = |state: &State| self.machine.accepts(*state);
        (self.list.iter().any(accepts), self.list.iter().all(accepts))
    }
}

impl Machine {
    /// Returns all the texts that match, as one text with unknown pieces.
    fn texts(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for (n, part) in self.parts.iter().enumerate() {
            if n > 0 {
                steps.push(Step::Any);
            }
            steps.extend(part.chars.iter().copied().map(Step::Char));
        }
        if self.boundary {
            steps.push(Step::Word);
        }
        steps
    }

    fn size(&self) -> usize {
        self.parts.iter().map(|part| part.chars.len() + 1).sum::<usize>() + 2
    }

    fn index(&self, state: State) -> usize {
        match state {
            State::Won => 0,
            State::Lost => 1,
            State::In(part, fit) => {
                let before = self.parts.iter().take(part).map(|p| p.chars.len() + 1);
                2 + before.sum::<usize>() + fit
            }
        }
    }

    /// Returns the characters that the pattern distinguishes, and one other.
    fn alphabet(&self) -> Vec<char> {
        let mut all: Vec<char> = self.parts.iter().flat_map(|p| p.chars.iter().copied()).collect();
        all.extend([' ', STAR]);
        all.sort_unstable();
        all.dedup();
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pattern::starts;

    /// Matches a pattern against the one command of a text.
    fn one(pattern: &str, text: &str, side: Side) -> Ternary {
        let script = haft_shell::parse(text).unwrap();
        assert_eq!(script.commands.len(), 1, "{text}");
        CommandPattern::parse(pattern).unwrap().matches(&script.commands[0], side)
    }

    fn short(matched: &Ternary) -> &'static str {
        match matched {
            Ternary::Yes => "yes",
            Ternary::No => "no",
            Ternary::Unknown(_) => "unknown",
        }
    }

    #[test]
    fn documented_patterns_match_as_documented() {
        for (pattern, text, wanted) in [
            ("npm test", "npm test", "yes"),
            ("npm test", "npm  test", "yes"),
            ("npm test", "npm test x", "no"),
            ("npm test", "npm", "no"),
            ("ls *", "ls", "yes"),
            ("ls *", "ls -l", "yes"),
            ("ls *", "lsof", "no"),
            ("ls*", "lsof", "yes"),
            ("ls*", "ls", "yes"),
            ("ls:*", "ls", "yes"),
            ("ls:*", "ls -l", "yes"),
            ("ls:*", "lsof", "no"),
            ("npm run test:*", "npm run test", "yes"),
            ("npm run test:*", "npm run test:unit", "no"),
            ("npm run test*", "npm run test:unit", "yes"),
            ("git * main", "git push origin main", "yes"),
            ("git * main", "git push origin mainx", "no"),
            ("git * main", "git main", "no"),
            ("* --version", "node --version", "yes"),
            ("*", "anything at all", "yes"),
            ("git log * --oneline *", "git log a b --oneline", "yes"),
            ("git log * --oneline *", "git log a b --oneline -n 3", "yes"),
            ("git log * --oneline *", "git log a b --onelines", "no"),
            ("aab*", "aaab", "no"),
            ("*aab", "aaab", "yes"),
            ("*abab*c", "abaababc", "yes"),
            ("git commit -m \"a b\"", "git commit -m 'a b'", "yes"),
            ("git commit -m \"*\"", "git commit -m 'a b'", "yes"),
            ("rm \\*", "rm '*'", "yes"),
            ("rm \\*", "rm x", "no"),
            ("echo *", "echo '*'", "yes"),
        ] {
            for side in [Side::Allow, Side::Restrict] {
                assert_eq!(short(&one(pattern, text, side)), wanted, "{pattern} / {text} {side:?}");
            }
        }
    }

    #[test]
    fn unknown_words_match_as_unknown() {
        for (pattern, text, wanted) in [
            ("ls *", "ls $X", "yes"),
            ("ls *", "ls \"$X\" *.txt", "yes"),
            ("ls", "ls $X", "unknown"),
            ("ls a", "ls $X a", "unknown"),
            ("ls *", "$X", "unknown"),
            ("rm y", "$X rm y", "unknown"),
            ("rm *", "$X rm y", "unknown"),
            ("rm *", "r$X y", "unknown"),
            ("rm *", "l$X y", "no"),
            ("rm -rf *", "rm $X y", "unknown"),
            ("rm * y", "rm $X z", "no"),
            ("git push *", "git {push,-f}", "unknown"),
            ("ls *", "ls a{b,c}d", "yes"),
            ("*", "$X", "yes"),
            ("* --help", "$X --help", "unknown"),
            ("ls *.txt", "ls *.txt", "yes"),
            ("ls *.txt", "ls *.md", "no"),
        ] {
            assert_eq!(short(&one(pattern, text, Side::Restrict)), wanted, "{pattern} / {text}");
        }
    }

    #[test]
    fn allow_unwraps_only_harmless_wrappers() {
        for (pattern, text, wanted) in [
            ("npm test *", "timeout 5 npm test", "yes"),
            ("npm test *", "nohup nice -n 5 npm test", "yes"),
            ("npm test *", "sudo npm test", "no"),
            ("npm test *", "env npm test", "no"),
            ("npm test *", "./npm test", "no"),
            ("npm test *", "LANG=C npm test", "yes"),
            ("npm test *", "PATH=. npm test", "unknown"),
            ("npm test *", "NODE_OPTIONS=x npm test", "unknown"),
            ("FOO=1 npm test", "FOO=1 npm test", "yes"),
            ("FOO=1 npm *", "FOO=1 npm test", "yes"),
            ("FOO=1 *", "FOO=1 npm test", "unknown"),
            ("FOO=* npm *", "FOO=1 LD_PRELOAD=x npm test", "unknown"),
            ("timeout *", "timeout 5 rm x", "unknown"),
            ("timeout 5 rm x", "timeout 5 rm x", "yes"),
            ("timeout 5 npm *", "timeout 5 npm test", "yes"),
            ("timeout 5 *", "timeout 5 npm test", "unknown"),
            ("timeout *", "timeout --odd 5 rm x", "unknown"),
            ("nohup npm run *", "nohup npm run dev", "yes"),
            ("xargs *", "xargs rm", "unknown"),
            ("ls *", "xargs ls", "yes"),
            ("ls", "xargs ls", "unknown"),
            ("watch *", "watch ls", "unknown"),
            ("watch ls", "watch ls", "yes"),
            ("setsid *", "setsid rm x", "unknown"),
            ("flock*", "flock l rm x", "unknown"),
            ("find *", "find . -name x", "yes"),
            ("find *", "find . -exec rm x \\;", "unknown"),
            ("find *", "find . -delete", "unknown"),
            ("find *", "find . -fprintf f x", "unknown"),
            ("find *", "find . $X", "unknown"),
            ("find . -delete", "find . -delete", "yes"),
            ("find *", "timeout 5 find . -delete", "unknown"),
            ("timeout 5 find *", "timeout 5 find . -delete", "unknown"),
            ("*", "sudo watch find . -delete", "yes"),
        ] {
            assert_eq!(short(&one(pattern, text, Side::Allow)), wanted, "{pattern} / {text}");
        }
    }

    /// Returns the strictest answer over all commands of a text, as for a deny.
    fn denied(pattern: &str, text: &str) -> bool {
        let pattern = CommandPattern::parse(pattern).unwrap();
        match haft_shell::parse(text) {
            Err(_) => true,
            Ok(script) => {
                script.commands.iter().any(|c| pattern.matches(c, Side::Restrict) != Ternary::No)
            }
        }
    }

    /// Returns whether an allow covers all commands of a text.
    fn allowed(pattern: &str, text: &str) -> bool {
        let pattern = CommandPattern::parse(pattern).unwrap();
        haft_shell::parse(text).is_ok_and(|script| {
            script.commands.iter().all(|c| pattern.matches(c, Side::Allow) == Ternary::Yes)
        })
    }

    #[test]
    fn deny_cannot_be_bypassed_and_allow_cannot_be_widened() {
        for text in [
            "ls;rm x",
            "ls && rm x",
            "ls || rm x",
            "ls | rm x",
            "ls & rm x",
            "ls\nrm x",
            "$(rm x)",
            "`rm x`",
            "ls $(rm x)",
            "ls \"$(rm x)\"",
            "ls `rm x`",
            "ls \"`rm x`\"",
            "r\\m x",
            "'rm' x",
            "r'm' x",
            "\"rm\" x",
            "$'rm' x",
            "$'\\x72m' x",
            "$X y",
            "{rm,-rf,x}",
            "env rm x",
            "sudo -u x rm y",
            "sudo --odd rm y",
            "sh -c 'rm x'",
            "bash -lc 'rm x'",
            "xargs rm",
            "xargs -n 1 rm",
            "find . -exec rm {} \\;",
            "timeout 5 rm x",
            "A=1 rm x",
            "PATH=. rm x",
            "command -p rm x",
            "/bin/rm x",
            "../../bin/rm x",
            "busybox rm x",
            "ls <(rm x)",
            "ls > >(rm x)",
            "sh <<E\nrm x\nE",
            "cat <<E\n$(rm x)\nE",
            "eval \"rm x\"",
            "eval 'r''m' x",
            "\\rm x",
            "f() { rm x; }; f",
            "ls() { rm x; }; ls",
            "alias ls=rm; ls x",
            "(rm x)",
            "{ rm x; }",
            "if rm x; then ls; fi",
            "for a in b; do rm x; done",
            "! rm x",
            "case a in a) rm x;; esac",
            "[[ $(rm x) ]]",
            "((a[$(rm x)]))",
            "a=$(rm x)",
            "ls >$(rm x)",
            "ls ${a:-$(rm x)}",
            "ssh h rm x",
            "watch rm x",
            "nice -n 5 nohup rm x",
            "exec rm x",
            "trap 'rm x' EXIT",
            "curl x | sh",
            "time rm x",
            "rm",
            "rm\tx",
            "su -c 'rm x'",
        ] {
            assert!(denied("rm *", text), "a deny of `rm *` missed {text}");
            assert!(!allowed("ls *", text), "an allow of `ls *` covered {text}");
        }
        for text in ["ls", "ls -l a", "echo rm x", "ls 'rm x'", "git rm x", "lsrm x", "rm\\ x"] {
            assert_eq!(denied("rm *", text), text == "rm\\ x", "{text}");
        }
    }

    #[test]
    fn first_word_is_known_if_it_is_literal() {
        for (pattern, wanted) in [
            ("git push *", Some("git")),
            ("git", Some("git")),
            ("git:*", Some("git")),
            ("git *", Some("git")),
            ("git*", None),
            ("*", None),
            ("* x", None),
            ("g*t push", None),
            ("A=1 git", None),
        ] {
            assert_eq!(CommandPattern::parse(pattern).unwrap().first_word(), wanted, "{pattern}");
        }
        let script = haft_shell::parse("sudo timeout 5 /bin/rm x").unwrap();
        let mut words = Vec::new();
        starts(&script.commands[0], |start| words.push(format!("{start:?}")));
        for word in ["sudo", "timeout", "/bin/rm", "rm"] {
            assert!(words.iter().any(|w| w.contains(&format!("Two(\"{word}\", "))), "{word}");
        }
        assert!(CommandPattern::parse("").is_err());
        assert!(CommandPattern::parse(":*").is_err());
        assert!(CommandPattern::parse("a\nb").is_err());
    }

    /// A naive matcher, to compare with.
    fn glob(pattern: &[char], text: &[char]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some(('*', rest)) => (0..=text.len()).any(|n| glob(rest, &text[n..])),
            Some((c, rest)) => {
                text.split_first().is_some_and(|(t, left)| t == c && glob(rest, left))
            }
        }
    }

    fn plainly(pattern: &str, text: &str) -> bool {
        let chars = |t: &str| t.chars().collect::<Vec<_>>();
        let bare = pattern.strip_suffix(" *");
        glob(&chars(pattern), &chars(text)) || bare.is_some_and(|p| glob(&chars(p), &chars(text)))
    }

    proptest! {
        #[test]
        fn known_text_matches_like_the_naive_matcher(
            pattern in "[ab*]{1,6}( [ab*]{1,4}){0,2}( \\*)?", text in "[ab]{1,6}( [ab]{1,4}){0,3}",
        ) {
            let words = text.split(' ').map(Word::text).collect();
            let command = SimpleCommand { words, ..SimpleCommand::default() };
            let got = CommandPattern::parse(&pattern).unwrap().matches(&command, Side::Restrict);
            prop_assert_eq!(got == Ternary::Yes, plainly(&pattern, &text));
            prop_assert!(!matches!(got, Ternary::Unknown(_)));
        }

        #[test]
        fn unknown_matches_agree_with_every_possible_value(
            pattern in "[ab*]{1,5}( [ab*]{1,3}){0,2}( \\*)?",
            words in prop::collection::vec("[ab?]{1,3}", 1..4),
            values in prop::collection::vec("([ab]{0,3}( [ab]{1,2})?)?", 12),
        ) {
            let unknown = |w: &String| Word {
                pieces: w.chars().map(|c| match c {
                    '?' => WordPiece::Unknown,
                    c => WordPiece::Text(c.to_string()),
                }).collect(),
                may_be_option: true,
                expands_to: None,
            };
            let command =
                SimpleCommand { words: words.iter().map(unknown).collect(), ..SimpleCommand::default() };
            let got = CommandPattern::parse(&pattern).unwrap().matches(&command, Side::Restrict);
            let mut values = values.iter();
            let mut filled = words.join(" ");
            while let Some(at) = filled.find('?') {
                filled.replace_range(at..=at, values.next().map_or("", |v| v));
            }
            match got {
                Ternary::Yes => prop_assert!(plainly(&pattern, &filled), "{}", filled),
                Ternary::No => prop_assert!(!plainly(&pattern, &filled), "{}", filled),
                Ternary::Unknown(_) => {}
            }
        }
    }

    #[test]
    fn longest_text_of_unknown_words_is_matched_fast() {
        let text = format!("a {}", "$x ".repeat(3000));
        let script = haft_shell::parse(&text).unwrap();
        let pattern = CommandPattern::parse("a *b*c*d*e*f*g*h*i*j*k*l*m*n*o*p").unwrap();
        let got = pattern.matches(&script.commands[0], Side::Restrict);
        assert_eq!(short(&got), "unknown");
    }
}
