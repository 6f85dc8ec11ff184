//! Taint analysis: where the code comes from that a script runs (network, another command, a
//! downloaded file, a word known only at run time).
//!
//! In: the commands of a script and how they are connected. Out: for each command a finding
//! stricter than `writes`, or `None`. The interpreter table says which commands run code; pipes and
//! substitutions say what feeds them.
//!
//! INVARIANT: code from the network (`curl x | sh`) is at least destructive, and a hidden command
//! word is unparseable.

use crate::{
    Redirect, RedirectKind, Script, SimpleCommand, Word, WordPiece,
    classify::{
        Kind, classified,
        code::{
            self, Code, codes, fetches_and_runs, hides_program_name, is_input, is_reverse_shell,
            keeps_input, printed, prints_files, wrapped_word,
        },
        fetch::{self, FileName},
        kernel, shown,
    },
    grammar::only_prints,
    interpreters::Language,
    parser::Notes,
    wrappers::{
        programs::{self, ProgramEffect, as_shell_text},
        unwrap,
    },
};

/// Maximum depth of nested shell texts.
const MAX_TEXT_DEPTH: usize = 8;

/// The result for one command.
pub(super) type Finding = (Kind, String);

/// A command with the wrappers removed that its own words show.
struct CommandViews {
    views: Vec<SimpleCommand>,
}

/// Returns the finding for each command of a script. `level` is the nesting depth.
pub(super) fn of(script: &Script, notes: &Notes, level: usize) -> Vec<Option<Finding>> {
    let started = script.commands.iter().map(|command| {
        let views = unwrap::in_words(command).into_iter().map(|view| view.command);
        let mut views: Vec<SimpleCommand> = views.collect();
        let hosted: Vec<SimpleCommand> = views.iter().flat_map(code::hosted_interpreters).collect();
        views.extend(hosted);
        CommandViews { views }
    });
    let mut flow = Flow {
        script,
        notes,
        level,
        started: started.collect(),
        from_network: vec![false; script.commands.len()],
        files: Vec::new(),
        is_stored: false,
    };
    flow.propagate();
    (0..script.commands.len()).map(|at| flow.finding(at)).collect()
}

struct Flow<'s> {
    script: &'s Script,
    notes: &'s Notes,
    level: usize,
    started: Vec<CommandViews>,
    /// Whether the output of each command comes from the network.
    from_network: Vec<bool>,
    /// Files with data from the network.
    files: Vec<FileName>,
    /// Whether a variable has data from the network.
    is_stored: bool,
}

impl Flow<'_> {
    /// Propagates data from the network until nothing changes.
    fn propagate(&mut self) {
        // Each round propagates one step; scripts are short, and a few rounds suffice.
        for _ in 0..8 {
            let before = (self.from_network.clone(), self.files.len(), self.is_stored);
            for at in 0..self.script.commands.len() {
                self.step(at);
            }
            if before == (self.from_network.clone(), self.files.len(), self.is_stored) {
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
        let reads = started.views.iter().any(|view| fetch::names_any_of(view, &self.files));
        // `exec 5<>/dev/tcp/h/80; cat <&5`
        let is_open = |r: &Redirect| r.kind == RedirectKind::Duplicate && is_input(r);
        let reads = reads || self.is_stored && command.redirects.iter().any(is_open);
        let is_tainted = fetches
            || reaches
            || reads
            || self.may_read_network_data(at)
            || self.contains_network_command(at);
        if !is_tainted {
            return;
        }
        let saved: Vec<FileName> = started.views.iter().flat_map(fetch::saved).collect();
        let keeps = !command.assignments.is_empty() && self.contains_network_command(at)
            || started.views.iter().any(keeps_input);
        if let Some(own) = self.from_network.get_mut(at) {
            *own = true;
        }
        self.is_stored |= keeps;
        for file in saved {
            if !self.files.contains(&file) {
                self.files.push(file);
            }
        }
    }

    fn is_from_network(&self, at: usize) -> bool {
        self.from_network.get(at).copied().unwrap_or(false)
    }

    /// Returns the commands whose output this one reads.
    fn feeders(&self, at: usize) -> Vec<usize> {
        let pipes = self.notes.pipes.iter().filter(|(_, to)| to.contains(&at));
        pipes.flat_map(|(from, _)| from.clone()).collect()
    }

    /// Returns whether a command may read data from the network.
    fn may_read_network_data(&self, at: usize) -> bool {
        // `curl x > >(sh)`
        let outer = self.notes.nested.iter().filter(|(_, range)| range.contains(&at)).map(|n| n.0);
        let mut feeders = self.feeders(at).into_iter().chain(outer);
        feeders.any(|from| from != at && self.is_from_network(from))
    }

    /// Returns whether a command inside the words of this one downloads something.
    fn contains_network_command(&self, at: usize) -> bool {
        self.within(at).any(|inner| self.is_from_network(inner))
    }

    fn within(&self, at: usize) -> impl Iterator<Item = usize> {
        let own = self.notes.nested.iter().filter(move |(outer, _)| *outer == at);
        own.flat_map(|(_, range)| range.clone())
    }

    /// Returns the strictest finding for a command.
    fn finding(&self, at: usize) -> Option<Finding> {
        let command = self.script.commands.get(at)?;
        let started = self.started.get(at)?;
        let mut found: Vec<Finding> = Vec::new();
        if let Some(word) = self.hidden_word(at, command, started) {
            let why = format!("the command word `{word}` is known only at run time");
            found.push((Kind::Unparseable, why));
        }
        let directories: Vec<&str> =
            self.script.commands.iter().filter_map(kernel::changes_directory_to).collect();
        if let Some(file) = kernel::written(command, &directories) {
            found.push((Kind::Destructive, kernel::describe(&file)));
        }
        for view in &started.views {
            let name = view.words.first().map(shown).unwrap_or_default();
            if let Some(file) = kernel::written(view, &directories) {
                found.push((Kind::Destructive, kernel::describe(&file)));
            }
            if is_reverse_shell(view) {
                found.push((Kind::Destructive, format!("`{name}` runs what another host sends")));
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
    fn hidden_word(
        &self,
        at: usize,
        command: &SimpleCommand,
        started: &CommandViews,
    ) -> Option<String> {
        let is_known_call = self.notes.calls.contains(&at);
        let is_made = self.notes.made.contains(&at);
        let mut views = started.views.iter();
        if is_known_call {
            views.next();
        }
        let is_made = self.notes.sets || is_made;
        let hidden = views.find_map(|view| {
            let first = view.words.first().filter(|word| hides_program_name(word, is_made));
            first.or_else(|| wrapped_word(view).filter(|word| hides_program_name(word, is_made)))
        })?;
        let word = command.words.first().filter(|word| word.has_unknown() && !is_known_call);
        Some(shown(word.unwrap_or(hidden)))
    }

    /// Classifies one piece of code that a command runs.
    fn code(&self, name: &str, code: Code, view: &SimpleCommand, at: usize) -> Option<Finding> {
        match code {
            // Proven to only print.
            Code::Text(Language::Awk | Language::Sed, _) if only_prints(view) => None,
            Code::Text(language, text) => self.text(name, language, &text, at),
            Code::File(file) => self.file(name, &file, at, false),
            Code::Input(language) => self.input(name, language, view, at),
            Code::Opaque => (self.contains_network_command(at) || self.may_read_network_data(at))
                .then(|| from_network(name)),
        }
    }

    fn text(&self, name: &str, language: Language, text: &Word, at: usize) -> Option<Finding> {
        let from_network_input =
            self.contains_network_command(at) || self.is_stored || self.may_read_network_data(at);
        let is_all_unknown = text.pieces == [WordPiece::Unknown];
        // A value inside a `sed` script is a value; the script around it is readable.
        let is_program = is_all_unknown || matches!(language, Language::Shell | Language::Other);
        if text.has_unknown() && is_program && from_network_input {
            return Some(from_network(name));
        }
        match language {
            Language::Shell => self.shell_text_with_input(&as_shell_text(text), at),
            _ if is_all_unknown => Some((
                Kind::Unparseable,
                format!("`{name}` runs a text that is known only at run time"),
            )),
            Language::Awk => self.effects_of(programs::awk(&as_shell_text(text)), at),
            Language::Sed => self.effects_of(programs::sed(&as_shell_text(text)), at),
            Language::Other => {
                let text = as_shell_text(text);
                let kernel = code::kernel_file(&text).map(|file| {
                    (Kind::Destructive, format!("the program of `{name}` names `{file}`"))
                });
                fetches_and_runs(&text).then(|| from_network(name)).or(kernel)
            }
        }
    }

    /// Classifies a text for a shell whose commands read the shell's stdin.
    fn shell_text_with_input(&self, text: &str, at: usize) -> Option<Finding> {
        let alone = self.shell_text(text);
        if crate::parse(text).is_ok_and(|script| script.commands.is_empty()) {
            return alone;
        }
        let feeder = if self.may_read_network_data(at) {
            "curl"
        } else if self.feeders(at).is_empty() {
            return alone;
        } else {
            "date"
        };
        let fed = self.shell_text(&format!("{feeder} | {{ {text}\n}}"));
        // The combination may be invalid shell syntax.
        let fed = fed.filter(|(kind, _)| *kind == Kind::Destructive || alone.is_none());
        alone.into_iter().chain(fed).max_by_key(|(kind, _)| *kind)
    }

    /// Classifies a text for a shell.
    fn shell_text(&self, text: &str) -> Option<Finding> {
        if self.level >= MAX_TEXT_DEPTH {
            let why = format!("a text for a shell is nested deeper than {MAX_TEXT_DEPTH} levels");
            return Some((Kind::Unparseable, why));
        }
        let inner = classified(text, self.level + 1);
        (inner.kind > Kind::Writes).then_some((inner.kind, inner.why))
    }

    /// Classifies what a program of `awk` or `sed` does.
    fn effects_of(&self, effects_of: Vec<ProgramEffect>, at: usize) -> Option<Finding> {
        let found = effects_of.into_iter().filter_map(|act| match act {
            ProgramEffect::Runs(text) => self.shell_text_with_input(&text, at),
            // Its output is unknown, and a shell after the pipe would run it.
            ProgramEffect::Feeds(text) => self.shell_text(&format!("awk 1 | {text}")),
            ProgramEffect::Writes(file) => {
                let command = SimpleCommand {
                    redirects: vec![Redirect {
                        kind: RedirectKind::Write,
                        target: Word::text(file),
                    }],
                    ..SimpleCommand::default()
                };
                kernel::written(&command, &[])
                    .map(|file| (Kind::Destructive, kernel::describe(&file)))
            }
            ProgramEffect::Hidden => {
                let why = "its program runs a command that is known only at run time";
                Some((Kind::Unparseable, why.to_owned()))
            }
        });
        found.max_by_key(|(kind, _)| *kind)
    }

    /// Classifies an executed file: as a program, or by an interpreter.
    fn file(&self, name: &str, file: &Word, at: usize, is_program: bool) -> Option<Finding> {
        // A process substitution is a file written by another command.
        if file.pieces == [WordPiece::Unknown] && !file.may_be_option {
            return Some(if self.contains_network_command(at) {
                from_network(name)
            } else {
                (Kind::Unparseable, format!("`{name}` runs what another command prints"))
            });
        }
        if code::is_descriptor(file) {
            return Some(
                if self.contains_network_command(at)
                    || self.is_stored
                    || self.may_read_network_data(at)
                {
                    from_network(name)
                } else {
                    (
                        Kind::Unparseable,
                        format!("`{name}` runs the contents of an open file descriptor"),
                    )
                },
            );
        }
        if file.literal().is_some_and(|text| text.contains("://")) {
            return Some(from_network(name));
        }
        if is_program && !file.literal().is_some_and(|text| text.contains('/')) {
            return None;
        }
        let own = FileName::of(file);
        let is_new = self.files.iter().any(|saved| saved.may_be(&own));
        let from_network_input = file.has_unknown()
            && (self.contains_network_command(at) || self.may_read_network_data(at));
        (is_new || from_network_input).then(|| from_network(name))
    }

    /// Classifies an interpreter that reads its program from stdin.
    fn input(
        &self,
        name: &str,
        language: Language,
        view: &SimpleCommand,
        at: usize,
    ) -> Option<Finding> {
        if view.redirects.iter().any(|redirect| redirect.reaches().is_some()) {
            return Some(from_network(name));
        }
        let inputs: Vec<&Redirect> = view.redirects.iter().filter(|r| is_input(r)).collect();
        match &*inputs {
            [] => self.piped(name, language, at),
            [one] if one.kind == RedirectKind::Here => {
                if one.target.has_unknown() && self.contains_network_command(at) {
                    Some(from_network(name))
                } else if language == Language::Shell {
                    self.shell_text(&as_shell_text(&one.target))
                } else {
                    None
                }
            }
            [one] if one.kind == RedirectKind::Duplicate => {
                self.is_stored.then(|| from_network(name))
            }
            [one] => self.file(name, &one.target, at, false),
            _ => self.contains_network_command(at).then(|| from_network(name)),
        }
    }

    /// Classifies an interpreter whose program comes through a pipe.
    fn piped(&self, name: &str, language: Language, at: usize) -> Option<Finding> {
        let feeders = self.feeders(at);
        // `exec < <(curl x)` redirects the stdin of all later commands.
        let is_exec = |command: &SimpleCommand| {
            command.words.first().and_then(Word::literal) == Some("exec")
                && !command.redirects.is_empty()
        };
        let takes_over = self.is_stored && self.script.commands.iter().any(is_exec);
        if self.may_read_network_data(at) || feeders.is_empty() && takes_over {
            return Some(from_network(name));
        }
        let commands: Vec<&SimpleCommand> =
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
