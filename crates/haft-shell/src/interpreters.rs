//! Interpreters: where each of them takes its program from.
//!
//! In: a simple command. Out: which word is program text, which word names a script file, or that the
//! program comes in through the standard input. Rules use it to treat a script as the program that
//! runs, declared tools to refuse program text from a call, and `classify` to follow code.
//!
//! An option that is not in the table counts as one without a value. The caller is told so, because
//! the next word may then be its value and not the script.

use crate::{Command, Word, WordPiece};

/// Where an interpreter takes a program from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Program {
    /// This text, which is or stands in one of the words: `python -c TEXT`, `awk TEXT`.
    Text(Word),
    /// The file that the word at this place names; what follows it are its arguments.
    File {
        /// The name of the file.
        file: Word,
        /// Which word it is. One that is part of an option has no arguments behind it.
        at: Option<usize>,
    },
    /// The standard input.
    Input,
    /// A module by its name: `python -m pip`, `python -mpip`.
    Module {
        /// The name of the module.
        module: Word,
        /// The word where its arguments begin.
        arguments: usize,
    },
}

/// The language of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// A shell whose grammar is read here.
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
    /// Options, and values of options, that can load code or are not in the table.
    pub(crate) unlisted: Vec<Word>,
}

/// How an interpreter is told what to run.
#[derive(Clone, Copy)]
struct Interpreter {
    /// Names with blanks between, without version numbers.
    names: &'static str,
    /// Letters whose value is program text.
    text: &'static str,
    /// Letters whose value is a script file.
    file: &'static str,
    /// Letters whose value is a file that is run before the program.
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
    /// A script file; without one the program is read from the standard input.
    Script,
    /// The program text, unless an option gives one.
    Text,
    /// As `Script`, or the program text where `-c` stands among the options.
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
    // What it is told may be a program in any of its words.
    Interpreter { names: "pwsh powershell", text: "ceCE", file: "fF", ..PLAIN },
];

/// Returns the name of a program without its directory and its version: `python` for
/// `/usr/bin/python3.12`.
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
    // Most names are none, and then the table is not searched.
    ["awk", "sed", "bwk"].iter().any(|part| name.contains(part))
        && find(name).is_some_and(|own| own.operand == Operand::Text)
}

/// Returns what a command would run, if it is an interpreter.
pub(crate) fn of(command: &Command) -> Option<Runs> {
    let name = command.words.first()?.literal()?;
    let interpreter = find(name)?;
    let language = match (interpreter.operand, plain_name(name)) {
        (Operand::Shell, _) => Language::Shell,
        (Operand::Text, name) if name.ends_with("sed") => Language::Sed,
        (Operand::Text, _) => Language::Awk,
        (Operand::Script, _) => Language::Other,
    };
    let mut reading = Reading {
        interpreter,
        words: &command.words,
        at: 1,
        programs: Vec::new(),
        unlisted: Vec::new(),
        has_script: false,
    };
    reading.read();
    Some(Runs { language, programs: reading.programs, unlisted: reading.unlisted })
}

/// Returns the word without its first bytes, all of which must be in its first piece.
pub(crate) fn without(word: &Word, bytes: usize) -> Word {
    let mut word = word.clone();
    if let Some(WordPiece::Text(text)) = word.pieces.first_mut() {
        *text = text.get(bytes..).unwrap_or_default().to_owned();
        if text.is_empty() {
            word.pieces.remove(0);
        }
    }
    word
}

struct Reading<'c> {
    interpreter: &'static Interpreter,
    words: &'c [Word],
    at: usize,
    programs: Vec<Program>,
    unlisted: Vec<Word>,
    /// A letter has named the script already.
    has_script: bool,
}

impl Reading<'_> {
    fn read(&mut self) {
        let own = self.interpreter;
        if self.subcommand() {
            return;
        }
        let (mut takes_text, mut is_unclear, mut only_tells) = (false, false, false);
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
            only_tells |= matches!(start, "--version" | "--help" | "-V" | "-version" | "-h");
            if let Some(long) = start.strip_prefix("--") {
                is_unclear |= !self.long(word, long);
                continue;
            }
            if own.operand == Operand::Shell {
                self.unlisted.push(word.clone());
                let letters = start.get(1..).unwrap_or_default();
                takes_text |= start.starts_with('-') && letters.contains('c');
                self.at += letters.matches(['o', 'O']).count();
                // `-s` reads the input, whatever operands there are.
                if start.starts_with('-') && letters.contains('s') && !takes_text {
                    self.programs.push(Program::Input);
                    return;
                }
                continue;
            }
            if self.letters(word, start) {
                // What follows a module are its arguments; some modules run a script they are given.
                self.operand(self.at);
                return;
            }
        }
        self.rest(takes_text, is_unclear, only_tells);
    }

    /// Reads what stands behind the options.
    fn rest(&mut self, takes_text: bool, is_unclear: bool, only_tells: bool) {
        // A startup file or a library does not take the place of the program.
        let has_program = self.programs.iter().any(|program| match program {
            Program::Text(_) => true,
            Program::File { .. } | Program::Input => self.interpreter.operand == Operand::Text,
            Program::Module { .. } => false,
        });
        if has_program || self.has_script {
            return;
        }
        let Some(word) = self.words.get(self.at) else {
            if self.interpreter.operand != Operand::Text && !only_tells {
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

    /// Takes a word for a script.
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

    /// Reads a long option; returns whether it is known.
    fn long(&mut self, word: &Word, long: &str) -> bool {
        let own = self.interpreter;
        let (name, attached) = match long.split_once('=') {
            Some((name, _)) => (name, Some(without(word, "--".len() + name.len() + 1))),
            None => (long, None),
        };
        // `awk` and `sed` take any beginning of a long option.
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

    /// Reads a cluster of letters. Returns whether it names a module.
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
        let rest = without(word, behind);
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

    /// Reads `deno run x`, `deno eval text`, `bun run x`; returns whether all is read.
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
            // Another subcommand runs nothing that is named here.
            Some(_) => return true,
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows what a command would run.
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
    fn each_interpreter_takes_its_program_from_where_its_manual_says() {
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
