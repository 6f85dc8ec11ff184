//! Extracts the files that a read-only command reads.
//!
//! In: a text that is proven read-only. Out: all files and directories that it names, or `None` if
//! they are known only at run time: variables, substitutions, names from a file or a pipe, and
//! commands that report on the machine instead of files.
//!
//! Every word that could be a file counts as one, so the list may be too long but never too short.
//! FAIL CLOSED: an unlisted command yields `None`.
//!
//! INVARIANT: apart from symlinks, a listed command reads only the named files, the contents of
//! named directories, and what its programs install.

use crate::{
    Expanded, Redirect, RedirectKind, SimpleCommand, Word, WordPiece, Wrappers,
    classify::{
        Kind, classify,
        read_only::plain_name,
        read_tables::{
            APPENDS_SUFFIX, DEFAULT_TO_CURRENT_DIRECTORY, EXPRESSIONS, FILES, NO_FILE_VALUES,
            NO_FILES, SUFFIXES, UNNAMED_FILE_OPTIONS,
        },
    },
    grammar::{Given, jq_words, tables, uses_modules_or_environment},
    memo::{Memo, memoized},
    parser,
    wrappers::{self, Inner},
};

/// Maximum depth of wrappers.
const MAX_WRAPPERS: usize = 4;

/// A glob that names the files that a command reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadGlob {
    /// The glob, in which `\` escapes a character.
    pub glob: String,
    /// The directory that contains everything that it matches.
    pub directory: String,
}

/// Returns the files and directories that a command reads, if it is read-only and names them all.
///
/// Paths are as written: relative ones start in the command's directory. For a glob such as
/// `src/*.rs` the directory is returned. The contents of a named directory may be read too.
///
/// ```
/// use haft_shell::reads;
///
/// assert_eq!(reads("grep -n TODO src/a.rs | head -3"), Some(vec!["src/a.rs".to_owned()]));
/// assert_eq!(reads("ls"), Some(vec![".".to_owned()]));
/// assert_eq!(reads("cat $HOME/notes"), None, "the file is known only at run time");
/// assert_eq!(reads("printenv"), None, "it prints other things than files");
/// assert_eq!(reads("rm a"), None, "it does more than read");
/// ```
#[must_use]
pub fn reads(text: &str) -> Option<Vec<String>> {
    thread_local! {
        static READS: Memo<Option<Vec<String>>> = const { Memo::new() };
    }
    let find = || if classify(text).kind == Kind::ReadOnly { named(text, 0) } else { None };
    memoized(&READS, text, find)
}

fn named(text: &str, level: usize) -> Option<Vec<String>> {
    let read = parser::read(text).ok()?;
    let (script, notes) = &*read;
    // A variable may hold a secret as well as a name.
    if notes.values {
        return None;
    }
    let mut names = Names {
        paths: Vec::new(),
        globs: None,
        changed_directory: None,
        // Without these characters, an unknown part is a glob.
        only_globs: !text.contains(['$', '`', '~', '{', '(']),
        has_globs: has_globs(text),
        level,
    };
    for command in &script.commands {
        command.redirects.iter().try_for_each(|redirect| names.redirect(redirect))?;
        names.command(command)?;
    }
    names.finish()
}

/// Returns the files and globs that one read-only command reads, relative to its own directory; for
/// `cd`, the directory. `text` is the whole text.
pub(super) fn of_command(
    command: &SimpleCommand,
    text: &str,
) -> Option<(Vec<String>, Vec<ReadGlob>)> {
    let mut names = Names {
        paths: Vec::new(),
        globs: Some(Vec::new()),
        changed_directory: None,
        only_globs: false,
        has_globs: has_globs(text),
        level: 0,
    };
    command.redirects.iter().try_for_each(|redirect| names.redirect(redirect))?;
    names.command(command)?;
    names.paths.extend(names.changed_directory);
    Some((names.paths, names.globs.unwrap_or_default()))
}

fn has_globs(text: &str) -> bool {
    // `$?` is a number.
    text.replace("$?", "").contains(['*', '?', '['])
}

/// The names found so far.
struct Names {
    paths: Vec<String>,
    /// The globs; `None` if their directories are added to the paths instead.
    globs: Option<Vec<ReadGlob>>,
    /// The directory of a `cd`.
    changed_directory: Option<String>,
    only_globs: bool,
    has_globs: bool,
    level: usize,
}

impl Names {
    /// Relative names may start at the original directory or at the one of `cd`.
    fn finish(mut self) -> Option<Vec<String>> {
        if let Some(directory) = self.changed_directory {
            let climbs = |path: &str| path.split('/').any(|step| step == "..");
            if self.paths.iter().any(|path| climbs(path)) {
                return None;
            }
            let from_there: Vec<String> = self
                .paths
                .iter()
                .filter(|path| !path.starts_with('/'))
                .map(|path| format!("{directory}/{path}"))
                .collect();
            self.paths.extend(from_there);
            self.paths.push(directory);
        }
        self.paths.sort();
        self.paths.dedup();
        Some(self.paths)
    }

    fn redirect(&mut self, redirect: &Redirect) -> Option<()> {
        match redirect.kind {
            RedirectKind::Read => self.path(&redirect.target),
            // A read-only command writes only to `/dev/null`.
            _ => Some(()),
        }
    }

    fn command(&mut self, command: &SimpleCommand) -> Option<()> {
        let Some(first) = command.words.first() else { return Some(()) };
        let (name, words) = (plain_name(first.literal()?), &*command.words);
        if let [_, only] = words
            && tables::only_prints_version(name, only.literal().unwrap_or_default())
        {
            return Some(());
        }
        match name {
            "timeout" | "nice" | "stdbuf" | "time" | "command" => self.wrapped(name, command),
            "sh" | "bash" | "dash" => self.shell(words),
            "cd" => self.change_directory(words),
            "find" => self.find(words),
            name if is_in(NO_FILES, name) => {
                words.iter().skip(1).try_for_each(|word| self.expanded(word))
            }
            "awk" | "gawk" | "mawk" | "nawk" => self.awk(words),
            name if is_in(FILES, name) || is_in(DEFAULT_TO_CURRENT_DIRECTORY, name) => {
                self.files(name, words)
            }
            _ => None,
        }
    }

    /// A word that is not a file, but that the shell may expand as a glob.
    fn expanded(&mut self, word: &Word) -> Option<()> {
        if word.has_unknown() && self.has_globs { self.path(word) } else { Some(()) }
    }

    /// A word that is an expression. As a glob its first match is the expression and the others are
    /// files; the output of a command may be an option.
    fn expression(&mut self, word: &Word) -> Option<()> {
        if word.has_unknown() { self.path(word) } else { Some(()) }
    }

    fn path(&mut self, word: &Word) -> Option<()> {
        match word.literal() {
            Some("" | "-" | "/dev/null" | "/dev/stdin") => Some(()),
            Some(text) => self.text(text),
            None if self.only_globs => self.pattern(word),
            None => word.expands_to.as_ref()?.iter().try_for_each(|glob| self.directory(glob)),
        }
    }

    /// A glob, or the variable of a loop over one: adds it, or its directory.
    fn directory(&mut self, glob: &Expanded) -> Option<()> {
        if glob.is_in_home || glob.is_split || glob.glob.starts_with('-') {
            return None;
        }
        if let Some(name) = glob.literal() {
            return self.text(&name);
        }
        let steps: Vec<&str> = glob.glob.split('/').collect();
        // `.*` may match `..`, and `..` after a glob starts at an unknown directory.
        let climbs = |step: &&str| *step == ".." || step.starts_with('.') && *step != ".";
        if steps.iter().any(climbs) {
            return None;
        }
        let has_glob = |step: &&str| step.contains(['*', '?', '[', '\\']);
        let fixed: Vec<&str> = steps.iter().copied().take_while(|s| !has_glob(s)).collect();
        let directory = match &*fixed {
            [] => ".".to_owned(),
            [""] => "/".to_owned(),
            fixed => fixed.join("/"),
        };
        match &mut self.globs {
            Some(globs) => {
                globs.push(ReadGlob { glob: glob.glob.clone(), directory });
                Some(())
            }
            None => self.text(&directory),
        }
    }

    fn text(&mut self, text: &str) -> Option<()> {
        // The home directory is unknown here.
        if text.starts_with('~') {
            return None;
        }
        self.paths.push(text.to_owned());
        Some(())
    }

    /// A glob: adds its directory.
    fn pattern(&mut self, word: &Word) -> Option<()> {
        let mut texts = word.pieces.iter().filter_map(|piece| match piece {
            WordPiece::Text(text) => Some(text.as_str()),
            WordPiece::Unknown => None,
        });
        // `.*` may match `..`, and `..` after a glob starts at an unknown directory.
        if texts.any(|text| text.contains("..") || text == "." || text.ends_with("/.")) {
            return None;
        }
        let start = match word.pieces.first() {
            Some(WordPiece::Text(text)) => text.as_str(),
            _ => "",
        };
        match start.rsplit_once('/') {
            Some(("", _)) => self.text("/"),
            // A directory may be named `-f`, which makes the word an option.
            _ if start.starts_with('-') => None,
            Some((directory, _)) => self.text(directory),
            None => self.text("."),
        }
    }

    /// Parses a command by its grammar: options with values, and operands.
    fn files(&mut self, name: &str, words: &[Word]) -> Option<()> {
        let grammar = tables::of(name)?;
        let has_operands = if grammar.is_custom() {
            self.words(name, words)?;
            // It is unknown which words are values, so the current directory counts too.
            name != "tree"
        } else {
            self.given(name, words, &grammar.given(words).ok()?)?
        };
        if is_in(APPENDS_SUFFIX, name) {
            self.add_parent_directories();
        }
        let recurses = matches!(name, "grep" | "egrep" | "fgrep")
            && words.iter().filter_map(Word::literal).any(|text| {
                text == "--recursive"
                    || text.starts_with('-') && !text.starts_with("--") && text.contains('r')
            });
        if !has_operands && (is_in(DEFAULT_TO_CURRENT_DIRECTORY, name) || recurses) {
            self.text(".")
        } else {
            Some(())
        }
    }

    /// Adds the directory of each file that may be opened with another suffix.
    fn add_parent_directories(&mut self) {
        let ends = |path: &&String| !SUFFIXES.iter().any(|ending| path.ends_with(ending));
        let directory = |path: &String| match path.trim_end_matches('/').rsplit_once('/') {
            Some(("", _)) => "/".to_owned(),
            Some((directory, _)) => directory.to_owned(),
            None => ".".to_owned(),
        };
        let directories: Vec<String> = self.paths.iter().filter(ends).map(directory).collect();
        self.paths.extend(directories);
    }

    /// Returns whether an operand is a file.
    fn given(&mut self, name: &str, words: &[Word], given: &Given<'_>) -> Option<bool> {
        let none = |table: &[(&'static str, &'static str)]| {
            table.iter().find(|(names, _)| is_in(names, name)).map(|(_, options)| *options)
        };
        let unnamed_options = none(&UNNAMED_FILE_OPTIONS).unwrap_or_default();
        let no_files = none(&NO_FILE_VALUES).unwrap_or_default();
        for (option, value) in &given.options {
            if is_in(unnamed_options, option) {
                return None;
            }
            match value {
                Some(value) if !is_in(no_files, option) => self.text(value)?,
                _ => {}
            }
        }
        // An unknown value may name a file, and a glob may expand to several words.
        if given.has_unknown_values() {
            return None;
        }
        let expression = none(&EXPRESSIONS)
            .is_some_and(|own| !given.options.iter().any(|(option, _)| is_in(own, option)));
        if name == "jq" {
            return self.jq(words);
        }
        if expression && let Some(word) = given.operands.first() {
            self.expression(word)?;
        }
        let files = given.operands.get(usize::from(expression)..).unwrap_or_default();
        files.iter().try_for_each(|word| self.path(word))?;
        Some(!files.is_empty())
    }

    /// `jq`: the filter is not a file, but may include modules or print the environment. Returns
    /// whether it reads files.
    fn jq(&mut self, words: &[Word]) -> Option<bool> {
        let Some(found) = jq_words(words) else {
            // Which word is the filter is not clear: each may be, and each may be a file.
            let words = words.get(1..).unwrap_or_default();
            if words.iter().any(uses_modules_or_environment) {
                return None;
            }
            let is_file = |word: &&Word| !word.literal().is_some_and(|text| text.starts_with('-'));
            words.iter().filter(is_file).try_for_each(|word| self.path(word))?;
            return Some(true);
        };
        let filter = found.filter.and_then(|at| words.get(at));
        if filter.is_some_and(uses_modules_or_environment) {
            return None;
        }
        let files = found.files.iter().filter_map(|at| words.get(*at));
        files.clone().try_for_each(|word| self.path(word))?;
        Some(files.count() > 0)
    }

    /// Checks words without a grammar: the text after an option letter may be a file too.
    fn words(&mut self, name: &str, words: &[Word]) -> Option<()> {
        for word in words.iter().skip(1) {
            match word.literal() {
                Some("]" | "]]" | "(" | ")" | "!") => {}
                // It follows symlinks to directories.
                Some(text) if name == "tree" && text.starts_with('-') && text.contains('l') => {
                    return None;
                }
                Some(text) if text.starts_with("--") => {
                    if let Some((_, value)) = text.split_once('=') {
                        self.text(value)?;
                    }
                }
                Some(text) if text.starts_with('-') && text.len() > 1 => {
                    if let Some(value) = text.get(2..).filter(|value| !value.is_empty()) {
                        self.text(value)?;
                    }
                }
                _ => self.path(word)?,
            }
        }
        Some(())
    }

    /// `awk`: the program is not a file, but may open files by changing its own arguments. It may
    /// also print the environment.
    fn awk(&mut self, words: &[Word]) -> Option<()> {
        let mut rest = words.iter().skip(1);
        let program = loop {
            match rest.next()?.literal()? {
                "-F" | "-v" => {
                    rest.next()?;
                }
                "--" => break rest.next()?.literal()?,
                text if text.starts_with('-') => {}
                text => break text,
            }
        };
        if ["ARG", "SYMTAB", "ENVIRON"].iter().any(|name| program.contains(name)) {
            return None;
        }
        rest.try_for_each(|word| self.path(word))
    }

    /// `find`: directories first, then an expression in which a few parts name files.
    fn find(&mut self, words: &[Word]) -> Option<()> {
        let texts: Vec<&str> = words.iter().skip(1).map(Word::literal).collect::<Option<_>>()?;
        let begins = |text: &str| text.starts_with('-') || matches!(text, "(" | ")" | "!" | ",");
        let mut at =
            texts.iter().take_while(|t| matches!(**t, "-P" | "-O1" | "-O2" | "-O3")).count();
        let directories = texts.iter().skip(at).take_while(|text| !begins(text));
        let directories: Vec<&str> = directories.copied().collect();
        at += directories.len();
        match &*directories {
            [] => self.text(".")?,
            directories => directories.iter().try_for_each(|directory| self.text(directory))?,
        }
        while let Some(&part) = texts.get(at) {
            at += 1;
            match part {
                // `-execdir` starts in unnamed directories.
                "-follow" | "-L" | "-H" | "-execdir" => return None,
                "-exec" => {
                    let rest = texts.get(at..)?;
                    let length = rest.iter().position(|text| matches!(*text, ";" | "+"))?;
                    self.started(rest.get(..length)?.iter().map(|t| Word::text(*t)).collect())?;
                    at += length + 1;
                }
                part if part.starts_with("-newer")
                    || matches!(part, "-anewer" | "-cnewer" | "-samefile") =>
                {
                    self.text(texts.get(at)?)?;
                    at += 1;
                }
                _ => {}
            }
        }
        Some(())
    }

    /// `cd`: to one directory, once, downwards.
    fn change_directory(&mut self, words: &[Word]) -> Option<()> {
        let [_, directory] = words else { return None };
        let directory = directory.literal()?;
        if self.changed_directory.is_some()
            || directory.is_empty()
            || directory.starts_with(['-', '~'])
        {
            return None;
        }
        self.changed_directory = Some(directory.to_owned());
        Some(())
    }

    fn wrapped(&mut self, name: &str, command: &SimpleCommand) -> Option<()> {
        if name == "command" && matches!(command.words.get(1)?.literal(), Some("-v" | "-V")) {
            return Some(());
        }
        let inner = wrappers::inner(name, command, Wrappers::Harmless);
        if inner.is_empty() {
            return None;
        }
        inner.into_iter().try_for_each(|inner| match inner {
            Inner::Rest(from) => self.started(command.words.get(from..)?.to_vec()),
            Inner::Words(words, _) => self.started(words),
            Inner::Text(_) | Inner::Input | Inner::Opaque => None,
        })
    }

    fn started(&mut self, words: Vec<Word>) -> Option<()> {
        if self.level >= MAX_WRAPPERS || words.is_empty() {
            return None;
        }
        self.level += 1;
        let found = self.command(&SimpleCommand { words, ..SimpleCommand::default() });
        self.level -= 1;
        found
    }

    fn shell(&mut self, words: &[Word]) -> Option<()> {
        let [_, flag, text] = words else { return None };
        if flag.literal() != Some("-c") || self.level >= MAX_WRAPPERS {
            return None;
        }
        self.paths.extend(named(text.literal()?, self.level + 1)?);
        Some(())
    }
}

fn is_in(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|own| own == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_files_are_listed() {
        for (text, names) in [
            ("cat a.txt", "a.txt"),
            ("cat /etc/passwd ../x", "../x /etc/passwd"),
            ("ls", "."),
            ("ls -la src", "src"),
            ("ls src/*.rs", "src"),
            ("wc -l *.rs", "."),
            ("cat /*", "/"),
            ("grep -rn TODO src tests", "src tests"),
            ("grep -rn /etc/passwd src", "src"),
            ("grep -rn TODO", "."),
            ("grep TODO", ""),
            ("grep -e a -e b x", "x"),
            ("grep -f words x", "words x"),
            ("grep --file=/etc/shadow x", "/etc/shadow x"),
            ("grep -f/etc/shadow x", "/etc/shadow x"),
            ("rg TODO", "."),
            ("rg TODO src", "src"),
            ("rg -e TODO src", "src"),
            ("rg --files /etc", "/etc"),
            ("fd foo /etc", "/etc"),
            ("find", "."),
            ("find . -name '*.rs' -newer /etc/hosts", ". /etc/hosts"),
            ("find src -path '/x/*' -exec grep -l y {} +", "src {}"),
            ("find src -exec cat /etc/passwd ';'", "/etc/passwd src"),
            ("sed -n '/a/,/b/p' x", "x"),
            ("sed -e '/a/p' x y", "x y"),
            ("awk -F/ '/x/ {print $1}' a b", "a b"),
            ("cut -d/ -f2 a", "2 a"),
            ("sort -t/ -k2 a | uniq -c | head -3", "2 a"),
            ("jq .a x.json", "x.json"),
            ("jq -r .env x.json", "x.json"),
            ("jq --arg a b .env x.json", "x.json"),
            ("jq --arg env b .a x.json --rawfile n .env", ".env x.json"),
            ("jq --slurpfile n .env . x.json", ".env x.json"),
            ("jq --args .env a b", ""),
            ("jq --indent 2 .env x.json", "x.json"),
            ("jq -c . .env", ".env"),
            ("cat < in.txt", "in.txt"),
            ("cat <<< words", ""),
            ("echo hi; pwd; date +%F", "+%F"),
            ("echo *", "."),
            ("echo /home/*", "/home"),
            ("head -5 a && tail -n 3 b 2>/dev/null", "3 a b"),
            ("timeout 5 cat a", "a"),
            ("bash -c 'cat /etc/passwd'", "/etc/passwd"),
            ("cd src && cat a", "a src src/a"),
            ("[ -f a ] && cat a", "a"),
            ("tar -tf x.tar", "f x.tar"),
            ("tree -L 2 src", ". 2 src"),
            ("rg -A 3 TODO", ". 3"),
            ("ls -w 80", ". 80"),
            ("python3 --version", ""),
            ("diff a b", "a b"),
            ("command -v rg", ""),
            ("cat -- -x", "-x"),
            ("du -sh", "."),
            ("grep /etc/host*", "/etc"),
            ("grep *", "."),
            ("zcat a", ". a"),
            ("zcat logs/a logs/b.gz", "logs logs/a logs/b.gz"),
            ("unzip -p arch", ". arch"),
            ("jq .environment a", "a"),
            ("cat a; echo $?", "a"),
            ("echo \"$(wc -l < a)\"", "a"),
            ("cat <<'E'\n$HOME\nE", ""),
        ] {
            let found = reads(text).map(|names| names.join(" "));
            let mut wanted: Vec<&str> = names.split_whitespace().collect();
            wanted.sort_unstable();
            assert_eq!(found, Some(wanted.join(" ")), "{text}");
        }
    }

    #[test]
    fn unknown_files_yield_none() {
        for text in [
            "cat ~/.ssh/id_rsa",
            "cat $HOME/x",
            "cat \"$HOME\"/x",
            "cat $(find .)",
            "cat `pwd`/x",
            "cat {/etc,/x}/passwd",
            "cat .*",
            "cat src/.*",
            "cat */../../x",
            "cat *$x",
            "for f in *; do cat $f; done",
            "find . | xargs cat",
            "echo ~/.ssh/*",
            "ls ~",
            "env",
            "printenv",
            "printenv HOME",
            "export -p",
            "set",
            "ps aux",
            "who",
            "last",
            "id",
            "journalctl",
            "dmesg",
            "ss -n",
            "lsof -n",
            "df -h",
            "mount",
            "history",
            "locate x",
            "cd",
            "cd - && ls",
            "cd ~ && ls",
            "cd a && cd b && ls",
            "cd a && cat ../../x",
            "cat < $x",
            "grep -R x .",
            "grep --dereference-recursive x .",
            "rg -L x",
            "find -L . -name x",
            "find . -follow",
            "ls -LR",
            "tree -l",
            "du -L",
            "diff -r a b",
            "wc --files0-from=list",
            "sort --files0-from=list",
            "sha256sum -c sums",
            "tail -f log",
            "date -f x",
            "jq 'import \"x\" as y; .'",
            "jq -L /etc . x",
            "awk 'BEGIN{ARGV[1]=\"/etc/passwd\";ARGC=2} {print}'",
            "awk 'BEGIN{SYMTAB[\"AR\" \"GV\"][1]=1}'",
            "grep -f $x y",
            "head -n $N /x",
            "bash -c \"cat $X\"",
            "timeout 5 printenv",
            "find . -exec printenv ';'",
            "man ls",
            "grep -f /etc/host* a",
            "grep -e * a",
            "grep -f/etc/host* a",
            "grep \"$(cat p)\" a",
            "grep -d recurse x",
            "grep --directories=recurse x",
            "fd --base-directory src x a",
            "jq -n env",
            "jq -n '. | env'",
            "jq -n '[..env]'",
            "jq '.env, env' x",
            "jq -n '$ENV.HOME'",
            "jq -f p.jq a",
            "jq -n --from-file p.jq",
            "jq -n '\"keys\" | modulemeta'",
            "awk 'BEGIN{for (k in ENVIRON) print ENVIRON[k]}'",
            "echo $HOME",
            "echo \"$HOME\"",
            "printf '%s' \"${HOME}\"",
            "seq $SHLVL",
            "echo $((SHLVL))",
            "echo $(cat list)",
            "echo `cat list`",
            "cat <<< \"$HOME\"",
            "cat <<E\n$HOME\nE",
            "case $HOME in /*) echo y;; esac",
            "for f in $PATH; do echo y; done",
            "for f in /home/*; do echo y; done",
            "find src -execdir cat a ';'",
            "objdump -S a.o",
            "rm a",
            "cat 'no end",
        ] {
            assert_eq!(reads(text), None, "{text}");
        }
    }
}
