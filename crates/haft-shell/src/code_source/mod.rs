//! Finds every part of a command that a program would run as code (command injection).
//!
//! In: the words of a command. Out: program texts, shell texts, names of started programs, and
//! whether stdin is code. Wrappers and launchers are followed, and scripts of `sh -c` are parsed.
//! What cannot be followed is reported as unclear. Pure, and tables of data.
//!
//! INVARIANT: at most [`MAX_COMMANDS`] commands are followed; beyond that the result is unclear.

mod launchers;
mod table;

use self::{
    launchers::Launched,
    table::{Entry, IGNORES_DASHES, MODULES, TABLE, VARIABLE_PREFIXES, VARIABLES},
};
use crate::{
    Program, RedirectKind, SimpleCommand, Word, WordPiece, Wrappers,
    interpreters::{self, Language, plain_name},
    wrappers::{self, Inner},
};

/// Maximum number of nested commands that are followed.
const MAX_COMMANDS: usize = 64;

/// A part of a command that is run as code.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CodeSource {
    /// A program text, or an option that can load code.
    Text(Word),
    /// A text for a shell.
    Shell(Word),
    /// The name of a started program.
    Name(Word),
    /// A file that is run.
    File(Word),
    /// Stdin is code.
    Input,
    /// Something is run, but it is unknown which words.
    Unclear,
}

/// What a command would run as code.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct CodeSources {
    /// Each part that is code, with the name of the program that runs it.
    pub found: Vec<(String, CodeSource)>,
    /// Index of the word that names the innermost program, if that is a word of the command itself.
    pub inner: usize,
    /// Whether `--` ends the options of the innermost program.
    pub dashes_end_options: bool,
}

/// Returns whether a program of this name may run its words or its stdin as code.
///
/// ```
/// assert!(haft_shell::may_run_code("/usr/bin/python3.12"));
/// assert!(haft_shell::may_run_code("tar"));
/// assert!(!haft_shell::may_run_code("wc"));
/// ```
#[must_use]
pub fn may_run_code(name: &str) -> bool {
    let name = base_name(name);
    interpreters::is_known(name)
        || wrappers::is_known(name)
        || launchers::is_known(name)
        || entry(name).is_some()
        || IGNORES_DASHES.contains(&name)
}

impl SimpleCommand {
    /// Returns every part of the command that a program would run as code.
    ///
    /// ```
    /// use haft_shell::{CodeSource, Word, parse};
    ///
    /// let script = parse("timeout 5 python3 -c 'print(1)' x").unwrap();
    /// let sources = script.commands[0].code_sources();
    /// assert!(sources.found.contains(&("python3".into(), CodeSource::Text(Word::text("print(1)")))));
    /// ```
    #[must_use]
    pub fn code_sources(&self) -> CodeSources {
        let mut search = Search::default();
        search.sources.dashes_end_options = true;
        search.waiting.push((self.clone(), Some(0)));
        let mut count = 0;
        while let Some((command, at)) = search.waiting.pop() {
            count += 1;
            if count > MAX_COMMANDS {
                search.add(command.words.first(), CodeSource::Unclear);
                break;
            }
            search.command(&command, at);
        }
        search.sources
    }
}

#[derive(Default)]
struct Search {
    sources: CodeSources,
    /// Commands to visit, with the index of their first word in the outermost command.
    waiting: Vec<(SimpleCommand, Option<usize>)>,
}

impl Search {
    fn add(&mut self, program: Option<&Word>, source: CodeSource) {
        let program = program.and_then(Word::literal).unwrap_or("a command");
        self.sources.found.push((program.to_owned(), source));
    }

    fn command(&mut self, command: &SimpleCommand, at: Option<usize>) {
        for assignment in command.assignments.iter().filter(|own| is_code_variable(&own.name)) {
            self.add(command.words.first(), CodeSource::Text(assignment.value.clone()));
        }
        let Some(first) = command.words.first() else { return };
        let Some(name) = first.literal().map(|name| base_name(name).to_owned()) else { return };
        match at {
            Some(at) => self.sources.inner = self.sources.inner.max(at),
            // Words after a script are its arguments.
            None => self.sources.dashes_end_options = false,
        }
        self.sources.dashes_end_options &= !IGNORES_DASHES.contains(&&*name);
        let mut command = command.clone();
        if let Some(first) = command.words.first_mut() {
            *first = Word::text(&*name);
        }
        let words = command.words.clone();
        self.variables(&name, &words);
        if let Some(entry) = entry(&name) {
            self.entry(entry, &words);
        }
        self.interpreter(&command);
        if name == "git" {
            self.git(&words);
        }
        let launched = launchers::launched(&name, &words);
        let is_launcher = launched.is_some();
        match launched {
            Some(Launched::Words(inner)) => {
                let begins = words.len().checked_sub(inner.len());
                let is_rest = begins.is_some_and(|n| words.get(n..) == Some(&*inner));
                let at = at.zip(begins.filter(|_| is_rest)).map(|(at, n)| at + n);
                self.start(&words, inner, at);
            }
            Some(Launched::Shell(text)) => self.shell(&command, &text),
            Some(Launched::Input) => self.add(words.first(), CodeSource::Input),
            Some(Launched::Unclear) => self.add(words.first(), CodeSource::Unclear),
            None => {}
        }
        // The views of a launcher lack the options that say what it starts.
        if !is_launcher && !interpreters::is_awk_or_sed(&name) {
            for inner in wrappers::inner(&name, &command, Wrappers::All) {
                self.inner(&command, inner, at);
            }
        }
    }

    fn inner(&mut self, command: &SimpleCommand, inner: Inner, at: Option<usize>) {
        let words = &command.words;
        match inner {
            Inner::Rest(from) => {
                let rest = words.get(from..).unwrap_or_default().to_vec();
                self.start(words, rest, at.map(|at| at + from));
            }
            Inner::Words(inner, from) => {
                // `git -C x log` and `npm -s run` are views of the same program.
                let is_same = inner.first() == words.first() && from.is_none();
                let at = if is_same { at } else { at.zip(from).map(|(at, from)| at + from) };
                if is_same {
                    self.waiting
                        .push((SimpleCommand { words: inner, ..SimpleCommand::default() }, at))
                } else {
                    self.start(words, inner, at)
                }
            }
            Inner::Text(text) => self.shell(command, &text),
            Inner::Input => {
                let kind = |kind| command.redirects.iter().find(|own| own.kind == kind);
                if let Some(here) = kind(RedirectKind::Here) {
                    self.shell(command, std::slice::from_ref(&here.target));
                } else if let Some(file) = kind(RedirectKind::Read) {
                    self.add(words.first(), CodeSource::File(file.target.clone()));
                } else {
                    self.add(words.first(), CodeSource::Input);
                }
            }
            Inner::Opaque => self.add(words.first(), CodeSource::Unclear),
        }
    }

    /// Follows a command that another one starts.
    fn start(&mut self, starter: &[Word], words: Vec<Word>, at: Option<usize>) {
        let Some(first) = words.first() else { return };
        self.add(starter.first(), CodeSource::Name(first.clone()));
        self.waiting.push((SimpleCommand { words, ..SimpleCommand::default() }, at));
    }

    /// Parses a script that a command passes to a shell.
    fn shell(&mut self, command: &SimpleCommand, text: &[Word]) {
        let mut joined = Word::default();
        for (n, word) in text.iter().enumerate() {
            let blank = (n > 0).then(|| WordPiece::Text(" ".to_owned()));
            joined.pieces.extend(blank.into_iter().chain(word.pieces.iter().cloned()));
        }
        let parsed = joined.pieces.iter().map(|piece| match piece {
            WordPiece::Text(text) => Some(&**text),
            WordPiece::Unknown => None,
        });
        let parsed: Option<String> = parsed.collect();
        let program = command.words.first();
        self.sources.dashes_end_options = false;
        self.add(program, CodeSource::Shell(joined));
        match parsed.map(|text| crate::parse(&text)) {
            Some(Ok(script)) => {
                for inner in script.commands {
                    if let Some(first) = inner.words.first() {
                        self.add(program, CodeSource::Name(first.clone()));
                    }
                    self.waiting.push((inner, None));
                }
            }
            Some(Err(_)) => self.add(program, CodeSource::Unclear),
            None => {}
        }
    }

    fn interpreter(&mut self, command: &SimpleCommand) {
        let Some(runs) = interpreters::of(command) else { return };
        let program = command.words.first();
        let is_module = |program: &Program| matches!(program, Program::Module { .. });
        let has_module = runs.programs.iter().any(is_module);
        for word in runs.unlisted {
            self.add(program, CodeSource::Text(word));
        }
        let name = program.and_then(Word::literal).map(plain_name);
        for source in runs.programs {
            match source {
                Program::Text(_) if runs.language == Language::Shell => {}
                Program::Text(text) => self.add(program, CodeSource::Text(text)),
                Program::Input => self.add(program, CodeSource::Input),
                Program::File { .. } if has_module => {}
                // Deno runs URLs, and a `data:` URL can contain the program itself.
                Program::File { file, .. } if name == Some("deno") => {
                    self.add(program, CodeSource::Text(file));
                }
                Program::File { file, .. } if unclear(&file) => {
                    self.add(program, CodeSource::Text(file));
                }
                Program::File { file, .. } => self.add(program, CodeSource::File(file)),
                Program::Module { module, arguments } => {
                    if module.literal().is_some_and(|own| MODULES.contains(&own)) {
                        let rest = command.words.get(arguments..).unwrap_or_default();
                        rest.iter().for_each(|word| {
                            self.add(program, CodeSource::Text(word.clone()));
                        });
                        self.add(program, CodeSource::Input);
                    }
                    self.add(program, CodeSource::Name(module));
                }
            }
        }
    }

    /// `env NAME=value` sets a variable that can be code.
    fn variables(&mut self, name: &str, words: &[Word]) {
        if !matches!(name, "env" | "sudo" | "doas" | "export" | "declare" | "typeset") {
            return;
        }
        for word in words.iter().skip(1) {
            let Some(WordPiece::Text(text)) = word.pieces.first() else { continue };
            let variable = text.split_once('=').map(|(variable, _)| variable);
            if variable.is_some_and(is_code_variable) {
                self.add(words.first(), CodeSource::Text(word.clone()));
            }
        }
    }

    /// Git: settings, subcommands, and what some of them start.
    fn git(&mut self, words: &[Word]) {
        let mut at = 1;
        while let Some(word) = words.get(at) {
            let literal = word.literal().unwrap_or_default();
            if literal == "-c" || literal == "--config-env" {
                let setting = words.get(at + 1).cloned().unwrap_or_default();
                let name = setting.literal().and_then(|text| text.split_once('='));
                match name {
                    Some((name, _)) => {
                        self.add(words.first(), CodeSource::Text(Word::text(name)));
                    }
                    None => self.add(words.first(), CodeSource::Text(setting)),
                }
                at += 2;
            } else if matches!(literal, "-C" | "--git-dir" | "--work-tree" | "--namespace") {
                at += 2;
            } else if literal.starts_with('-') {
                // `--exec-path=…`, `--config-env=…` and `-cNAME=value` in one word.
                let is_plain = literal.starts_with("--git-dir=")
                    || literal.starts_with("--work-tree=")
                    || literal.starts_with("--namespace=");
                if !is_plain {
                    self.add(words.first(), CodeSource::Text(word.clone()));
                }
                at += 1;
            } else {
                self.add(words.first(), CodeSource::Name(word.clone()));
                if matches!(literal, "bisect" | "submodule") {
                    let next = words.get(at + 1).cloned().unwrap_or_default();
                    self.add(words.first(), CodeSource::Name(next));
                }
                return;
            }
        }
    }

    /// Checks the words of a program in the table.
    fn entry(&mut self, entry: &'static Entry, words: &[Word]) {
        let program = words.first();
        let is_in = |list: &str, option: &str| list.split_whitespace().any(|own| own == option);
        if entry.input {
            self.add(program, CodeSource::Input);
        }
        let is_tar = is_in(entry.names, "tar");
        let letters = words.get(1).and_then(Word::literal).filter(|word| !word.starts_with('-'));
        if is_tar && letters.is_some_and(|letters| letters.contains(['I', 'F'])) {
            self.add(program, CodeSource::Unclear);
        }
        let (mut at, mut operands, mut only_operands) = (1, 0, false);
        while let Some(word) = words.get(at) {
            at += 1;
            let start = match word.pieces.first() {
                Some(WordPiece::Text(text)) => text.as_str(),
                Some(WordPiece::Unknown) | None => "",
            };
            if only_operands || !start.starts_with('-') || start == "-" {
                operands += 1;
                let is_code = entry.operand.is_some_and(|first| operands >= first);
                // An unknown value at the start of a word can be `+command`.
                let can_be_plus = entry.plus && !only_operands && !is_plain_start(start);
                if is_code || can_be_plus || unclear(word) && !only_operands {
                    self.add(program, CodeSource::Text(word.clone()));
                }
                continue;
            }
            if start == "--" && word.literal().is_some() {
                only_operands = true;
                continue;
            }
            match option(entry, start) {
                Found::Code(attached) => {
                    let value = if attached { Some(word) } else { words.get(at) };
                    at += usize::from(!attached);
                    value.into_iter().for_each(|value| {
                        self.add(program, CodeSource::Text(value.clone()));
                    });
                }
                Found::File(attached) => {
                    let value = if attached { Some(word) } else { words.get(at) };
                    at += usize::from(!attached);
                    let names_input = |text: &str| {
                        let text = text.rsplit('=').next().unwrap_or(text);
                        text.ends_with('-') || text.contains("/dev/") || text.contains("/proc/")
                    };
                    match value.and_then(Word::literal) {
                        Some(text) if names_input(text) => self.add(program, CodeSource::Input),
                        _ => value.into_iter().for_each(|value| {
                            self.add(program, CodeSource::File(value.clone()));
                        }),
                    }
                }
                Found::Value(attached) => at += usize::from(!attached),
                // An unlisted option with an unknown part can be any option.
                Found::Unknown if !has_plain_name(start) => {
                    self.add(program, CodeSource::Text(word.clone()));
                }
                Found::Unknown => {}
            }
        }
    }
}

/// The kind of an option, and whether its value is in the same word.
enum Found {
    Code(bool),
    File(bool),
    Value(bool),
    Unknown,
}

fn option(entry: &Entry, word: &str) -> Found {
    let listed = |list: &'static str| list.split_whitespace();
    let (name, attached) = match word.split_once('=') {
        Some((name, _)) => (name, true),
        None => (word, false),
    };
    let is_long = name.starts_with("--") && name.len() > 2;
    let is_it = |own: &str| own == name || is_long && own.starts_with(name);
    for (list, found) in [
        (entry.code, Found::Code as fn(bool) -> Found),
        (entry.file, Found::File),
        (entry.valued, Found::Value),
    ] {
        if listed(list).any(is_it) {
            return found(attached);
        }
    }
    if is_long {
        return Found::Unknown;
    }
    // `-fplugin=x` and `-Tx`: a value in the same word; or a cluster whose last letter has a value.
    let is_letter = |own: &&str, letter: char| {
        own.len() == 1 + letter.len_utf8() && !own.starts_with("--") && own.ends_with(letter)
    };
    for (n, letter) in word.char_indices().skip(1) {
        let has_rest = word.len() > n + letter.len_utf8();
        if listed(entry.code).any(|own| is_letter(&own, letter)) {
            return Found::Code(has_rest);
        }
        if listed(entry.file).any(|own| is_letter(&own, letter)) {
            return Found::File(has_rest);
        }
        if listed(entry.valued).any(|own| is_letter(&own, letter)) {
            return Found::Value(has_rest);
        }
    }
    Found::Unknown
}

/// Returns whether the option name is literal: it has only characters of option names.
fn has_plain_name(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'+' | b'.'))
}

/// Returns whether a word certainly does not start with `+`.
fn is_plain_start(start: &str) -> bool {
    start.bytes().next().is_some_and(|b| b.is_ascii_graphic() && b != b'+')
}

/// Returns whether the start of a word is known only at run time and can be an option.
fn unclear(word: &Word) -> bool {
    word.has_unknown() && word.may_be_option
}

fn is_code_variable(name: &str) -> bool {
    VARIABLES.contains(&name) || VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

fn base_name(name: &str) -> &str {
    name.rsplit('/').next().filter(|base| !base.is_empty()).unwrap_or(name)
}

fn entry(name: &str) -> Option<&'static Entry> {
    let plain = plain_name(name);
    let is_it = |own: &str| own == name || own == plain;
    TABLE.iter().find(|entry| entry.names.split(' ').any(is_it))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats what a command would run as code.
    fn shown(text: &str) -> Vec<String> {
        let script = crate::parse(text).unwrap();
        let word = |word: &Word| word.literal().unwrap_or("…").to_owned();
        let one = |(program, source): (String, CodeSource)| match source {
            CodeSource::Text(text) => format!("{program} text {}", word(&text)),
            CodeSource::Shell(text) => format!("{program} shell {}", word(&text)),
            CodeSource::Name(name) => format!("{program} starts {}", word(&name)),
            CodeSource::File(file) => format!("{program} file {}", word(&file)),
            CodeSource::Input => format!("{program} input"),
            CodeSource::Unclear => format!("{program} unclear"),
        };
        script.commands[0].code_sources().found.into_iter().map(one).collect()
    }

    #[test]
    fn code_is_found_inside_wrappers_launchers_and_scripts() {
        for (text, wanted) in [
            ("timeout 5 python3 -c x y", "python3 text x"),
            ("uv run --with rich python -c x", "python text x"),
            ("docker exec -it c sh -c 'ls x'", "sh shell ls x"),
            ("kubectl exec pod -c box -- perl -e x", "perl text x"),
            ("npx -c x", "npx shell x"),
            ("sh -c 'python3 -c \"$1\"' sh y", "python3 text …"),
            ("uv run --odd python x", "uv unclear"),
            ("uv run -", "uv input"),
            ("tar xf a --to-comm=x", "tar text --to-comm=x"),
            ("tar -xIx -f a", "tar text -xIx"),
            ("mysql -uname -ex", "mysql text -ex"),
            ("make -f - all", "make input"),
            ("git -c alias.x=y x", "git unclear"),
            ("env LD_PRELOAD=x ls", "env text LD_PRELOAD=x"),
            ("vim +x", "vim text +x"),
            ("sqlite3 -separator , db x", "sqlite3 text x"),
        ] {
            assert!(shown(text).contains(&wanted.to_owned()), "{text}: {:?}", shown(text));
        }
        for text in ["wc -l x", "grep -e x y", "cargo test x", "rsync -av a b"] {
            assert_eq!(shown(text), Vec::<String>::new(), "{text}");
        }
    }

    #[test]
    fn too_many_nested_commands_are_unclear() {
        let words = "env ".repeat(MAX_COMMANDS + 1) + "ls";
        assert!(shown(&words).contains(&"env unclear".to_owned()));
    }
}
