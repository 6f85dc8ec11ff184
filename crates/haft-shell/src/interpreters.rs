//! Interpreters: where each one takes its program from.
//!
//! In: a simple command. Out: which word is program text, which word names a script file, or that
//! the program is read from stdin. Rules use it to match a script as the program that runs,
//! declared tools to refuse program text from a call, and `classify` to follow code.
//!
//! An unlisted option counts as one without a value. The caller learns of it, because the next word
//! may be its value and not the script.

use crate::{SimpleCommand, Word, WordPiece};

/// Where an interpreter takes a program from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// Text that is a word or part of one: `python -c TEXT`, `awk TEXT`.
    Text(Word),
    /// A file; the words after it are its arguments.
    File {
        /// The name of the file.
        file: Word,
        /// Index of the word. `None` if the name is part of an option.
        at: Option<usize>,
    },
    /// Stdin.
    Input,
    /// A module by name: `python -m pip`, `python -mpip`.
    Module {
        /// The name of the module.
        module: Word,
        /// Index of the first argument.
        arguments: usize,
    },
}

/// The language of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// A shell whose grammar this crate parses.
    Shell,
    Awk,
    Sed,
    Other,
}

/// What an interpreter would run.
#[derive(Debug, Clone)]
pub(crate) struct Runs {
    pub(crate) language: Language,
    pub(crate) programs: Vec<Program>,
    /// Options, and values of options, that can load code or are unlisted.
    pub(crate) unlisted: Vec<Word>,
}

/// The options of an interpreter.
#[derive(Clone, Copy)]
struct Interpreter {
    /// Names separated by spaces, without version numbers.
    names: &'static str,
    /// Letters whose value is program text.
    text: &'static str,
    /// Letters whose value is a script file.
    file: &'static str,
    /// Letters whose value is a file that runs before the program.
    library: &'static str,
    /// Letters with another value, attached or in the next word.
    valued: &'static str,
    /// Letters that take the rest of their word, if there is one.
    attached: &'static str,
    /// Long options whose value is program text.
    long_text: &'static str,
    /// Long options whose value is a script file.
    long_file: &'static str,
    /// Long options with another value.
    long_valued: &'static str,
    /// What the first operand is.
    operand: Operand,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operand {
    /// A script file; without one the program is read from stdin.
    Script,
    /// The program text, unless an option gives one.
    Text,
    /// Like `Script`, or the program text if `-c` is given.
    Shell,
}

const PLAIN: Interpreter = Interpreter {
    names: "",
    text: "",
    file: "",
    library: "",
    valued: "",
    attached: "",
    long_text: "",
    long_file: "",
    long_valued: "",
    operand: Operand::Script,
};

const TABLE: [Interpreter; 17] = [
    Interpreter {
        names: "sh bash zsh dash ksh ash mksh rbash yash posh",
        valued: "oO",
        long_file: "rcfile init-file",
        operand: Operand::Shell,
        ..PLAIN
    },
    Interpreter {
        names: "fish csh tcsh nu elvish xonsh",
        text: "c",
        valued: "o",
        long_text: "command commands init-command",
        ..PLAIN
    },
    Interpreter {
        names: "python pypy jython ipython",
        text: "c",
        valued: "WXQ",
        long_valued: "check-hash-based-pycs",
        ..PLAIN
    },
    Interpreter { names: "perl", text: "eE", valued: "I", attached: "iMmxdDVFC", ..PLAIN },
    Interpreter {
        names: "ruby jruby truffleruby",
        text: "e",
        library: "r",
        valued: "CEI",
        attached: "FiKTWx",
        ..PLAIN
    },
    Interpreter {
        names: "node nodejs ts-node tsx bun",
        text: "ep",
        library: "r",
        valued: "C",
        long_text: "eval print",
        long_file: "require import loader experimental-loader",
        long_valued: "env-file conditions input-type title",
        ..PLAIN
    },
    Interpreter { names: "deno", long_text: "eval", ..PLAIN },
    Interpreter { names: "php", text: "rBRE", file: "fF", valued: "cdStz", ..PLAIN },
    Interpreter { names: "lua luajit texlua", text: "e", library: "l", ..PLAIN },
    Interpreter { names: "osascript", text: "e", valued: "l", attached: "s", ..PLAIN },
    Interpreter {
        names: "Rscript R julia",
        text: "eE",
        file: "f",
        valued: "pLJCt",
        long_text: "eval print",
        long_file: "file load",
        ..PLAIN
    },
    Interpreter { names: "expect tclsh wish", text: "c", file: "fb", ..PLAIN },
    Interpreter {
        names: "guile racket",
        text: "ce",
        file: "ltus",
        valued: "Lx",
        long_text: "eval",
        ..PLAIN
    },
    Interpreter {
        names: "groovy scala elixir raku swift clojure clj bb janet crystal sbcl emacs ghc",
        text: "e",
        valued: "r",
        long_text: "eval execute",
        long_file: "load script",
        ..PLAIN
    },
    Interpreter {
        names: "awk gawk mawk nawk original-awk bwk",
        text: "e",
        file: "fEi",
        valued: "Fvl",
        long_text: "source",
        long_file: "file exec include",
        long_valued: "field-separator assign load",
        operand: Operand::Text,
        ..PLAIN
    },
    Interpreter {
        names: "sed gsed ssed",
        text: "e",
        file: "f",
        valued: "l",
        attached: "i",
        long_text: "expression",
        long_file: "file",
        long_valued: "line-length",
        operand: Operand::Text,
        ..PLAIN
    },
    // Any of its words may be a program.
    Interpreter { names: "pwsh powershell", text: "ceCE", file: "fF", ..PLAIN },
];

/// Returns a program name without directory and version: `python` for `/usr/bin/python3.12`.
pub(crate) fn plain_name(name: &str) -> &str {
    let base = name.rsplit('/').next().unwrap_or(name);
    let base = base.strip_suffix(".exe").unwrap_or(base);
    let plain = base.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if plain.is_empty() { base } else { plain }
}

fn find(name: &str) -> Option<&'static Interpreter> {
    let name = plain_name(name);
    TABLE.iter().find(|own| own.names.split(' ').any(|own| own == name))
}

/// Returns whether a program of this name is an interpreter.
pub(crate) fn is_known(name: &str) -> bool {
    find(name).is_some()
}

/// Returns whether a program of this name is an `awk` or a `sed`.
pub(crate) fn is_awk_or_sed(name: &str) -> bool {
    // Fast path: most names match none of these.
    ["awk", "sed", "bwk"].iter().any(|part| name.contains(part))
        && find(name).is_some_and(|own| own.operand == Operand::Text)
}

impl SimpleCommand {
    /// Returns where an interpreter takes its program from; empty for every other command. Does not
    /// look through wrappers: see [`SimpleCommand::unwrapped`].
    ///
    /// ```
    /// use haft_shell::{Program, parse};
    ///
    /// let script = parse("python3 -u tool.py --all").unwrap();
    /// let programs = script.commands[0].programs();
    /// let [Program::File { file, .. }] = &programs[..] else { panic!("{programs:?}") };
    /// assert_eq!(file.literal(), Some("tool.py"));
    /// ```
    #[must_use]
    pub fn programs(&self) -> Vec<Program> {
        of(self).map(|runs| runs.programs).unwrap_or_default()
    }
}

/// Returns what a command would run, if it is an interpreter.
pub(crate) fn of(command: &SimpleCommand) -> Option<Runs> {
    let name = command.words.first()?.literal()?;
    let interpreter = find(name)?;
    let language = match (interpreter.operand, plain_name(name)) {
        (Operand::Shell, _) => Language::Shell,
        (Operand::Text, name) if name.ends_with("sed") => Language::Sed,
        (Operand::Text, _) => Language::Awk,
        (Operand::Script, _) => Language::Other,
    };
    let mut parser = OptionParser {
        interpreter,
        words: &command.words,
        at: 1,
        programs: Vec::new(),
        unlisted: Vec::new(),
        has_script: false,
    };
    parser.read();
    Some(Runs { language, programs: parser.programs, unlisted: parser.unlisted })
}

/// Returns the word without its first bytes, which must all be in its first piece.
pub(crate) fn without_prefix(word: &Word, bytes: usize) -> Word {
    let mut word = word.clone();
    if let Some(WordPiece::Text(text)) = word.pieces.first_mut() {
        *text = text.get(bytes..).unwrap_or_default().to_owned();
        if text.is_empty() {
            word.pieces.remove(0);
        }
    }
    word
}

struct OptionParser<'c> {
    interpreter: &'static Interpreter,
    words: &'c [Word],
    at: usize,
    programs: Vec<Program>,
    unlisted: Vec<Word>,
    /// Whether an option has named the script.
    has_script: bool,
}

impl OptionParser<'_> {
    fn read(&mut self) {
        let own = self.interpreter;
        if self.subcommand() {
            return;
        }
        let (mut takes_text, mut is_unclear, mut only_prints_version) = (false, false, false);
        while let Some(word) = self.words.get(self.at) {
            let start = match word.pieces.first() {
                Some(WordPiece::Text(text)) => text.as_str(),
                _ => break,
            };
            if start == "--" && word.literal().is_some() {
                self.at += 1;
                break;
            }
            let dash =
                start.starts_with('-') || own.operand == Operand::Shell && start.starts_with('+');
            if !dash || start == "-" && word.literal().is_some() {
                break;
            }
            self.at += 1;
            only_prints_version |=
                matches!(start, "--version" | "--help" | "-V" | "-version" | "-h");
            if let Some(long) = start.strip_prefix("--") {
                is_unclear |= !self.long(word, long);
                continue;
            }
            if own.operand == Operand::Shell {
                self.unlisted.push(word.clone());
                let letters = start.get(1..).unwrap_or_default();
                takes_text |= start.starts_with('-') && letters.contains('c');
                self.at += letters.matches(['o', 'O']).count();
                // `-s` reads stdin, with or without operands.
                if start.starts_with('-') && letters.contains('s') && !takes_text {
                    self.programs.push(Program::Input);
                    return;
                }
                continue;
            }
            if self.letters(word, start) {
                // The words after a module are its arguments; some modules run a script.
                self.operand(self.at);
                return;
            }
        }
        self.rest(takes_text, is_unclear, only_prints_version);
    }

    /// Handles the words after the options.
    fn rest(&mut self, takes_text: bool, is_unclear: bool, only_prints_version: bool) {
        // A startup file or a library does not replace the program.
        let has_program = self.programs.iter().any(|program| match program {
            Program::Text(_) => true,
            Program::File { .. } | Program::Input => self.interpreter.operand == Operand::Text,
            Program::Module { .. } => false,
        });
        if has_program || self.has_script {
            return;
        }
        let Some(word) = self.words.get(self.at) else {
            if self.interpreter.operand != Operand::Text && !only_prints_version {
                self.programs.push(Program::Input);
            }
            return;
        };
        if takes_text || self.interpreter.operand == Operand::Text {
            self.programs.push(Program::Text(word.clone()));
            return;
        }
        self.operand(self.at);
        if is_unclear {
            for at in self.at + 1..self.words.len() {
                self.operand(at);
            }
        }
    }

    /// Treats a word as a script.
    fn operand(&mut self, at: usize) {
        let Some(word) = self.words.get(at) else { return };
        match word.literal() {
            Some("-" | "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0") => {
                self.programs.push(Program::Input);
            }
            Some(text) if text.starts_with('-') => {}
            _ => self.programs.push(Program::File { file: word.clone(), at: Some(at) }),
        }
    }

    /// Parses a long option; returns whether it is listed.
    fn long(&mut self, word: &Word, long: &str) -> bool {
        let own = self.interpreter;
        let (name, attached) = match long.split_once('=') {
            Some((name, _)) => (name, Some(without_prefix(word, "--".len() + name.len() + 1))),
            None => (long, None),
        };
        // `awk` and `sed` accept any prefix of a long option.
        let abbreviates = own.operand == Operand::Text && !name.is_empty();
        let is = |list: &str| {
            list.split(' ').any(|own| own == name || abbreviates && own.starts_with(name))
        };
        let (is_text, is_file) = (is(own.long_text), is(own.long_file));
        if !is_text && !is_file && !is(own.long_valued) {
            self.unlisted.push(word.clone());
            return attached.is_some() || own.operand == Operand::Shell;
        }
        let value = attached.or_else(|| {
            self.at += 1;
            self.words.get(self.at - 1).cloned()
        });
        if is_file && own.operand != Operand::Text {
            self.unlisted.extend(value.clone());
        }
        self.take(value, is_text, is_file);
        true
    }

    /// Parses a cluster of letters. Returns whether it names a module.
    fn letters(&mut self, word: &Word, start: &str) -> bool {
        let own = self.interpreter;
        for (n, letter) in start.char_indices().skip(1) {
            let behind = n + letter.len_utf8();
            let is_python = own.text == "c" && own.valued == "WXQ";
            if is_python && letter == 'm' {
                let module = self.value(word, behind);
                let arguments = self.at;
                self.programs.extend(module.map(|module| Program::Module { module, arguments }));
                return true;
            }
            if own.attached.contains(letter) {
                self.unlisted.push(word.clone());
                return false;
            }
            // `node -pe` is `-p -e`.
            let goes_on = own.text == "ep" && letter == 'p' && start.len() > behind;
            let is_text = own.text.contains(letter) && !goes_on;
            let is_file = own.file.contains(letter);
            let is_library = own.library.contains(letter);
            if !is_text && !is_file && !is_library && !own.valued.contains(letter) {
                continue;
            }
            let value = self.value(word, behind);
            self.has_script |= is_file;
            if is_library {
                self.unlisted.extend(value.clone());
            }
            self.take(value, is_text, is_file || is_library);
            return false;
        }
        self.unlisted.push(word.clone());
        false
    }

    /// Returns the value of a letter: the rest of its word, or else the next word.
    fn value(&mut self, word: &Word, behind: usize) -> Option<Word> {
        let rest = without_prefix(word, behind);
        if !rest.pieces.is_empty() {
            return Some(rest);
        }
        self.at += 1;
        self.words.get(self.at - 1).cloned()
    }

    fn take(&mut self, value: Option<Word>, is_text: bool, is_file: bool) {
        let Some(value) = value else { return };
        if is_text {
            self.programs.push(Program::Text(value));
        } else if is_file {
            match value.literal() {
                Some("-" | "/dev/stdin" | "/dev/fd/0") => self.programs.push(Program::Input),
                _ => self.programs.push(Program::File { file: value, at: None }),
            }
        }
    }

    /// Parses `deno run x`, `deno eval text`, `bun run x`; returns whether it is complete.
    fn subcommand(&mut self) -> bool {
        let name = self.words.first().and_then(Word::literal).map(plain_name);
        if !matches!(name, Some("deno" | "bun" | "crystal")) {
            return false;
        }
        match self.words.get(1).and_then(Word::literal) {
            Some("run" | "repl" | "serve") => self.at = 2,
            Some("eval") => {
                let is_option = |word: &&Word| !word.literal().is_some_and(|t| t.starts_with('-'));
                let text = self.words.iter().skip(2).find(is_option);
                self.programs.extend(text.map(|word| Program::Text(word.clone())));
                return true;
            }
            Some(text) if text.starts_with('-') || text.contains(['.', '/']) => {}
            None => {}
            // Other subcommands run nothing that is named here.
            Some(_) => return true,
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Formats what a command would run.
    fn shown(text: &str) -> String {
        let script = crate::parse(text).unwrap();
        let Some(runs) = of(&script.commands[0]) else { return "none".to_owned() };
        let word = |word: &Word| {
            let piece = |piece: &WordPiece| match piece {
                WordPiece::Text(text) => text.clone(),
                WordPiece::Unknown => "…".to_owned(),
            };
            word.pieces.iter().map(piece).collect::<String>()
        };
        let one = |program: &Program| match program {
            Program::Text(text) => format!("text {}", word(text)),
            Program::File { file, .. } => format!("file {}", word(file)),
            Program::Input => "input".to_owned(),
            Program::Module { module, arguments } => {
                format!("module {} at {arguments}", word(module))
            }
        };
        runs.programs.iter().map(one).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn program_source_of_each_interpreter_is_found() {
        for (text, wanted) in [
            ("ls -l", "none"),
            ("bash deploy.sh x", "file deploy.sh"),
            ("bash -x -- deploy.sh", "file deploy.sh"),
            ("bash -euo pipefail deploy.sh", "file deploy.sh"),
            ("bash -c 'ls' x", "text ls"),
            ("bash -lc ls", "text ls"),
            ("bash --rcfile a -i", "file a, input"),
            ("bash -s x", "input"),
            ("bash", "input"),
            ("bash -", "input"),
            ("bash --version", ""),
            ("sh <(x)", "file …"),
            ("python3 x.py a", "file x.py"),
            ("python3.12 -u -W ignore x.py", "file x.py"),
            ("/usr/bin/python3 -c 'a' b", "text a"),
            ("python -ca b", "text a"),
            ("python -Bc a", "text a"),
            ("python -m pip install x", "module pip at 3, file install"),
            ("python -mpip install x", "module pip at 2, file install"),
            ("python -Impip -q", "module pip at 2"),
            ("python -Wm pip", "file pip"),
            ("python -m", ""),
            ("python3 -", "input"),
            ("python3 --version", ""),
            ("perl -lne 'a' f", "text a"),
            ("perl -pi.bak -e a f", "text a"),
            ("perl -e a -e b", "text a, text b"),
            ("perl -Ilib x.pl", "file x.pl"),
            ("ruby -rjson -e a", "file json, text a"),
            ("ruby -r ./json x.rb", "file ./json, file x.rb"),
            ("node -e a", "text a"),
            ("node -pe a", "text a"),
            ("node --eval=a", "text a"),
            ("node -r ./a x.js", "file ./a, file x.js"),
            ("node --require ./a x.js", "file ./a, file x.js"),
            ("node --odd x y", "file x, file y"),
            ("php -r a", "text a"),
            ("php -f x.php", "file x.php"),
            ("lua5.4 -e a", "text a"),
            ("osascript -e a", "text a"),
            ("deno run -A x.ts", "file x.ts"),
            ("deno eval a", "text a"),
            ("deno fmt", ""),
            ("awk -F: -v a=b '{print}' f", "text {print}"),
            ("awk -f p.awk f", "file p.awk"),
            ("awk -f - f", "input"),
            ("sed -n p f", "text p"),
            ("sed -i.bak -e p -e q f", "text p, text q"),
            ("sed --expression=p f", "text p"),
            ("sed -f s f", "file s"),
            ("sed -ep f", "text p"),
            ("python -c \"$X\"", "text …"),
            ("python \"$X\"", "file …"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }
}
