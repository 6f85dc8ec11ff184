//! Where the code comes from that a text runs: the network, another command, a file that was just
//! downloaded, a word that only a running shell knows.
//!
//! In: the commands of a text and how they are joined. Out: for each command a finding stricter than
//! `writes`, or none. The table of interpreters says who runs code; pipes and substitutions say who
//! feeds it.
//!
//! INVARIANT: code that comes from the network is never milder than destructive, and a command word
//! that is hidden is unparseable.

use crate::{
    Command, Redirect, RedirectKind, Script, Word, WordPiece,
    classify::{
        Kind, classified,
        code::{
            self, Code, codes, hides_name, is_input, keeps_input, natural, printed, prints_files,
            runs_address, runs_what_it_receives, started_word,
        },
        fetch::{self, FileName},
        kernel,
        programs::{self, Act},
        shown,
    },
    interpreters::Language,
    reader::Notes,
    unwrap,
};

/// Texts within texts are read so deep.
const DEEPEST_TEXT: usize = 8;

/// What was found about one command.
pub(super) type Finding = (Kind, String);

/// A command as it is started: without the wrappers that its own words show.
struct Started {
    views: Vec<Command>,
}

/// Returns what is found about each command of a text. So many levels are around it.
pub(super) fn of(script: &Script, notes: &Notes, level: usize) -> Vec<Option<Finding>> {
    let started = script.commands.iter().map(|command| {
        let views = unwrap::in_words(command).into_iter().map(|view| view.command);
        let mut views: Vec<Command> = views.collect();
        let hosted: Vec<Command> = views.iter().flat_map(code::hosted).collect();
        views.extend(hosted);
        Started { views }
    });
    let mut flow = Flow {
        script,
        notes,
        level,
        started: started.collect(),
        from_network: vec![false; script.commands.len()],
        files: Vec::new(),
        is_kept: false,
    };
    flow.spread();
    (0..script.commands.len()).map(|at| flow.finding(at)).collect()
}

struct Flow<'s> {
    script: &'s Script,
    notes: &'s Notes,
    level: usize,
    started: Vec<Started>,
    /// What each command prints comes from the network.
    from_network: Vec<bool>,
    /// Files that hold what comes from the network.
    files: Vec<FileName>,
    /// A variable holds what comes from the network.
    is_kept: bool,
}

impl Flow<'_> {
    /// Finds out how far what comes from the network gets.
    fn spread(&mut self) {
        // Each round takes it one step further; texts are short, and a few rounds are all there is.
        for _ in 0..8 {
            let before = (self.from_network.clone(), self.files.len(), self.is_kept);
            for at in 0..self.script.commands.len() {
                self.step(at);
            }
            if before == (self.from_network.clone(), self.files.len(), self.is_kept) {
                return;
            }
        }
    }

    fn step(&mut self, at: usize) {
        let (Some(command), Some(started)) = (self.script.commands.get(at), self.started.get(at))
        else {
            return;
        };
        let fetches = started.views.iter().any(|view| fetch::fetcher(view).is_some());
        let reaches = command.redirects.iter().any(|redirect| redirect.reaches().is_some());
        let reads = started.views.iter().any(|view| fetch::names_one(view, &self.files));
        // `exec 5<>/dev/tcp/h/80; cat <&5`
        let is_open = |r: &Redirect| r.kind == RedirectKind::Duplicate && is_input(r);
        let reads = reads || self.is_kept && command.redirects.iter().any(is_open);
        let is_tainted = fetches || reaches || reads || self.is_fed(at) || self.holds(at);
        if !is_tainted {
            return;
        }
        let saved: Vec<FileName> = started.views.iter().flat_map(fetch::saved).collect();
        let keeps = !command.assignments.is_empty() && self.holds(at)
            || started.views.iter().any(keeps_input);
        if let Some(own) = self.from_network.get_mut(at) {
            *own = true;
        }
        self.is_kept |= keeps;
        for file in saved {
            if !self.files.contains(&file) {
                self.files.push(file);
            }
        }
    }

    fn is_from_network(&self, at: usize) -> bool {
        self.from_network.get(at).copied().unwrap_or(false)
    }

    /// Returns the commands that print what this one reads.
    fn feeders(&self, at: usize) -> Vec<usize> {
        let pipes = self.notes.pipes.iter().filter(|(_, to)| to.contains(&at));
        pipes.flat_map(|(from, _)| from.clone()).collect()
    }

    /// Returns whether a command may read what comes from the network.
    fn is_fed(&self, at: usize) -> bool {
        // `curl x > >(sh)`
        let outer = self.notes.nested.iter().filter(|(_, range)| range.contains(&at)).map(|n| n.0);
        let mut feeders = self.feeders(at).into_iter().chain(outer);
        feeders.any(|from| from != at && self.is_from_network(from))
    }

    /// Returns whether a command stands in the words of this one that brings in something.
    fn holds(&self, at: usize) -> bool {
        self.within(at).any(|inner| self.is_from_network(inner))
    }

    fn within(&self, at: usize) -> impl Iterator<Item = usize> {
        let own = self.notes.nested.iter().filter(move |(outer, _)| *outer == at);
        own.flat_map(|(_, range)| range.clone())
    }

    /// Returns the strictest thing that is found about a command.
    fn finding(&self, at: usize) -> Option<Finding> {
        let command = self.script.commands.get(at)?;
        let started = self.started.get(at)?;
        let mut found: Vec<Finding> = Vec::new();
        if let Some(word) = self.hidden_word(at, command, started) {
            let why = format!("the command word `{word}` is only known when it runs");
            found.push((Kind::Unparseable, why));
        }
        let directories: Vec<&str> =
            self.script.commands.iter().filter_map(kernel::goes_to).collect();
        if let Some(file) = kernel::written(command, &directories) {
            found.push((Kind::Destructive, kernel::says(&file)));
        }
        for view in &started.views {
            let name = view.words.first().map(shown).unwrap_or_default();
            if let Some(file) = kernel::written(view, &directories) {
                found.push((Kind::Destructive, kernel::says(&file)));
            }
            if runs_what_it_receives(view) {
                found
                    .push((Kind::Destructive, format!("`{name}` runs what another machine sends")));
            }
            if let Some(first) = view.words.first() {
                found.extend(self.file(&name, first, at, true));
            }
            for code in codes(view) {
                found.extend(self.code(&name, code, view, at));
            }
        }
        found.into_iter().rev().max_by_key(|(kind, _)| *kind)
    }

    /// Returns the word that hides which command runs.
    fn hidden_word(&self, at: usize, command: &Command, started: &Started) -> Option<String> {
        let is_known_call = self.notes.calls.contains(&at);
        let is_made = self.notes.made.contains(&at);
        let mut views = started.views.iter();
        if is_known_call {
            views.next();
        }
        let is_made = self.notes.sets || is_made;
        let hidden = views.find_map(|view| {
            let first = view.words.first().filter(|word| hides_name(word, is_made));
            first.or_else(|| started_word(view).filter(|word| hides_name(word, is_made)))
        })?;
        let word = command.words.first().filter(|word| word.has_unknown() && !is_known_call);
        Some(shown(word.unwrap_or(hidden)))
    }

    /// Judges one piece of code that a command runs.
    fn code(&self, name: &str, code: Code, view: &Command, at: usize) -> Option<Finding> {
        match code {
            // What is proven to print only needs no second look.
            Code::Text(Language::Awk | Language::Sed, _) if code::only_prints(view) => None,
            Code::Text(language, text) => self.text(name, language, &text, at),
            Code::File(file) => self.file(name, &file, at, false),
            Code::Input(language) => self.input(name, language, view, at),
            Code::Opaque => (self.holds(at) || self.is_fed(at)).then(|| from_network(name)),
        }
    }

    fn text(&self, name: &str, language: Language, text: &Word, at: usize) -> Option<Finding> {
        let comes_in = self.holds(at) || self.is_kept || self.is_fed(at);
        let is_all_unknown = text.pieces == [WordPiece::Unknown];
        // A value within a script of `sed` is a value; the script around it can be read.
        let is_program = is_all_unknown || matches!(language, Language::Shell | Language::Other);
        if text.has_unknown() && is_program && comes_in {
            return Some(from_network(name));
        }
        match language {
            Language::Shell => self.fed_text(&natural(text), at),
            _ if is_all_unknown => Some((
                Kind::Unparseable,
                format!("`{name}` runs a text that is only known when it runs"),
            )),
            Language::Awk => self.acts(programs::awk(&natural(text)), at),
            Language::Sed => self.acts(programs::sed(&natural(text)), at),
            Language::Other => {
                let text = natural(text);
                let kernel = code::kernel_file(&text).map(|file| {
                    (Kind::Destructive, format!("the program of `{name}` names `{file}`"))
                });
                runs_address(&text).then(|| from_network(name)).or(kernel)
            }
        }
    }

    /// Judges a text that a shell is given, whose commands read what the shell would read.
    fn fed_text(&self, text: &str, at: usize) -> Option<Finding> {
        let alone = self.shell_text(text);
        if crate::parse(text).is_ok_and(|script| script.commands.is_empty()) {
            return alone;
        }
        let feeder = match self.is_fed(at) {
            true => "curl",
            false if self.feeders(at).is_empty() => return alone,
            false => "date",
        };
        let fed = self.shell_text(&format!("{feeder} | {{ {text}\n}}"));
        // Put together it may be no shell any more.
        let fed = fed.filter(|(kind, _)| *kind == Kind::Destructive || alone.is_none());
        alone.into_iter().chain(fed).max_by_key(|(kind, _)| *kind)
    }

    /// Judges a text that a shell is given.
    fn shell_text(&self, text: &str) -> Option<Finding> {
        if self.level >= DEEPEST_TEXT {
            let why = format!("a text for a shell is nested deeper than {DEEPEST_TEXT} levels");
            return Some((Kind::Unparseable, why));
        }
        let inner = classified(text, self.level + 1);
        (inner.kind > Kind::Writes).then_some((inner.kind, inner.why))
    }

    /// Judges what a program of `awk` or `sed` does.
    fn acts(&self, acts: Vec<Act>, at: usize) -> Option<Finding> {
        let found = acts.into_iter().filter_map(|act| match act {
            Act::Runs(text) => self.fed_text(&text, at),
            // What it prints is not known, and a shell behind the pipe would run it.
            Act::Feeds(text) => self.shell_text(&format!("awk 1 | {text}")),
            Act::Writes(file) => {
                let command = Command {
                    redirects: vec![Redirect {
                        kind: RedirectKind::Write,
                        target: Word::text(file),
                    }],
                    ..Command::default()
                };
                kernel::written(&command, &[]).map(|file| (Kind::Destructive, kernel::says(&file)))
            }
            Act::Hidden => {
                let why = "its program runs a command that is only known when it runs";
                Some((Kind::Unparseable, why.to_owned()))
            }
        });
        found.max_by_key(|(kind, _)| *kind)
    }

    /// Judges a file that is run: as a program, or by an interpreter.
    fn file(&self, name: &str, file: &Word, at: usize, is_program: bool) -> Option<Finding> {
        // A process substitution is a file that another command writes.
        if file.pieces == [WordPiece::Unknown] && !file.may_be_option {
            return Some(match self.holds(at) {
                true => from_network(name),
                false => (Kind::Unparseable, format!("`{name}` runs what another command prints")),
            });
        }
        if code::is_descriptor(file) {
            return Some(match self.holds(at) || self.is_kept || self.is_fed(at) {
                true => from_network(name),
                false => (Kind::Unparseable, format!("`{name}` runs what an open file holds")),
            });
        }
        if file.literal().is_some_and(|text| text.contains("://")) {
            return Some(from_network(name));
        }
        if is_program && !file.literal().is_some_and(|text| text.contains('/')) {
            return None;
        }
        let own = FileName::of(file);
        let is_new = self.files.iter().any(|saved| saved.may_be(&own));
        let comes_in = file.has_unknown() && (self.holds(at) || self.is_fed(at));
        (is_new || comes_in).then(|| from_network(name))
    }

    /// Judges an interpreter that reads its program from its input.
    fn input(&self, name: &str, language: Language, view: &Command, at: usize) -> Option<Finding> {
        if view.redirects.iter().any(|redirect| redirect.reaches().is_some()) {
            return Some(from_network(name));
        }
        let inputs: Vec<&Redirect> = view.redirects.iter().filter(|r| is_input(r)).collect();
        match &*inputs {
            [] => self.piped(name, language, at),
            [one] if one.kind == RedirectKind::Here => {
                match one.target.has_unknown() && self.holds(at) {
                    true => Some(from_network(name)),
                    false if language == Language::Shell => self.shell_text(&natural(&one.target)),
                    false => None,
                }
            }
            [one] if one.kind == RedirectKind::Duplicate => {
                self.is_kept.then(|| from_network(name))
            }
            [one] => self.file(name, &one.target, at, false),
            _ => self.holds(at).then(|| from_network(name)),
        }
    }

    /// Judges an interpreter whose program comes through a pipe.
    fn piped(&self, name: &str, language: Language, at: usize) -> Option<Finding> {
        let feeders = self.feeders(at);
        // `exec < <(curl x)` gives its input to all that follows.
        let is_exec = |command: &Command| {
            command.words.first().and_then(Word::literal) == Some("exec")
                && !command.redirects.is_empty()
        };
        let takes_over = self.is_kept && self.script.commands.iter().any(is_exec);
        if self.is_fed(at) || feeders.is_empty() && takes_over {
            return Some(from_network(name));
        }
        let commands: Vec<&Command> =
            feeders.iter().filter_map(|from| self.script.commands.get(*from)).collect();
        if commands.is_empty() || commands.iter().all(|command| prints_files(command)) {
            return None; // nothing comes, or the same as running the files
        }
        let mut text = String::new();
        for command in commands {
            let Some(line) = printed(command) else {
                return Some((
                    Kind::Unparseable,
                    format!("`{name}` runs what another command prints"),
                ));
            };
            text.push_str(&line);
            text.push('\n');
        }
        if language == Language::Shell { self.shell_text(&text) } else { None }
    }
}

fn from_network(name: &str) -> Finding {
    (Kind::Destructive, format!("`{name}` runs code from the network"))
}
