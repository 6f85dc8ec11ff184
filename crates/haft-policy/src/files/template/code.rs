//! Refuses a template where a call could inject code: a script, a shell command, or the name of a
//! program.
//!
//! In: a template. Out: the first argument that a call controls and some program would execute.
//! Every combination of optional or enumerated parameters is one command, and each is checked with
//! the tables of `haft-shell`.
//!
//! INVARIANT: at most [`MAX_VARIANTS`] commands are checked; a template with more is refused.

use haft_shell::{CodeSource, SimpleCommand};

use super::{Group, Piece, Placeholder, Template, Values, Word, Wrong};

/// Maximum number of variants of one template: twelve optional parameters.
const MAX_VARIANTS: usize = 4_096;

/// Delimits the index of an argument that a call controls.
const MARK: char = '\u{fffc}';

/// What is wrong, and in which entry of the template.
#[derive(Debug, PartialEq)]
pub(in super::super) struct Found {
    pub(in super::super) at: Option<usize>,
    pub(in super::super) wrong: Wrong,
}

/// One way in which a call can pass a parameter.
#[derive(Clone)]
struct Given {
    /// Its arguments; `None` for an argument that the call controls. `None` at all if it is
    /// omitted.
    words: Option<Vec<Option<String>>>,
    /// Whether a condition on it holds.
    holds: bool,
}

/// One command that a call can make.
struct Variant {
    /// The arguments, each with the index of the template's argument that it comes from.
    words: Vec<(String, usize)>,
}

impl Template {
    /// Refuses code that a call could inject, and determines which values can start with `-`.
    pub(in super::super) fn check(&mut self) -> Result<(), Found> {
        if !haft_shell::may_run_code(self.program()) {
            self.check_dashes();
            return Ok(());
        }
        let mut is_dashed = vec![true; self.numbered().count()];
        for variant in self.variants()? {
            let command = variant.command();
            let sources = command.code_sources();
            let is_written = variant.words.iter().any(|(text, _)| text.contains(MARK));
            for (program, source) in sources.found.iter().filter(|_| is_written) {
                if let Some(found) = self.found(program, source) {
                    return Err(found);
                }
            }
            for (at, (_, number)) in variant.words.iter().enumerate() {
                let before = variant.words.get(sources.inner..at).unwrap_or_default();
                let has_dashes = before.iter().any(|(text, _)| text == "--");
                if let Some(is_dashed) = is_dashed.get_mut(*number) {
                    *is_dashed &= has_dashes && sources.dashes_end_options;
                }
            }
        }
        let words = self.groups.iter_mut().flat_map(|group| &mut group.words);
        for (word, is_dashed) in words.zip(is_dashed) {
            word.may_be_option = !is_dashed;
        }
        Ok(())
    }

    /// Returns the program that would execute its standard input as code, if a call controls that.
    pub(in super::super) fn reads_program(&self) -> Option<String> {
        if !haft_shell::may_run_code(self.program()) {
            return None;
        }
        let Ok(variants) = self.variants() else { return Some(self.program().to_owned()) };
        variants.iter().find_map(|variant| {
            let is_input = |source: &CodeSource| match source {
                CodeSource::Input | CodeSource::Unclear => true,
                // A name of the standard input (`/dev/stdin`) counts too.
                CodeSource::File(word) => is_written(word) || names_input(word),
                CodeSource::Text(word) | CodeSource::Shell(word) | CodeSource::Name(word) => {
                    word.has_unknown()
                }
                _ => true,
            };
            let sources = variant.command().code_sources().found;
            sources.into_iter().find(|(_, source)| is_input(source)).map(|(program, _)| program)
        })
    }

    /// All arguments with their indexes.
    fn numbered(&self) -> impl Iterator<Item = (usize, &Group, &Word)> {
        let words =
            self.groups.iter().flat_map(|group| group.words.iter().map(move |w| (group, w)));
        words.enumerate().map(|(number, (group, word))| (number, group, word))
    }

    /// Determines which values come after `--`, for a program that starts no other. A `--` that can
    /// be omitted counts only for its own group.
    fn check_dashes(&mut self) {
        let is_dashes = |word: &Word| matches!(&*word.pieces, [Piece::Text(text)] if text == "--");
        let mut is_sure = false;
        for group in &mut self.groups {
            let mut is_dashed = is_sure;
            for word in &mut group.words {
                word.may_be_option = !is_dashed;
                is_dashed |= is_dashes(word);
            }
            is_sure |= is_dashed && !group.is_whole;
        }
    }

    /// Returns every command that a call can make.
    fn variants(&self) -> Result<Vec<Variant>, Found> {
        let mut placeholders: Vec<&Placeholder> = Vec::new();
        for (_, _, word) in self.numbered() {
            for piece in &word.pieces {
                if let Piece::Value(placeholder) = piece
                    && !placeholders.iter().any(|known| known.name == placeholder.name)
                {
                    placeholders.push(placeholder);
                }
            }
        }
        let mut given: Vec<(&str, Vec<Given>)> = placeholders
            .into_iter()
            .map(|placeholder| (&*placeholder.name, ways(placeholder)))
            .collect();
        for name in self.groups.iter().flat_map(|group| &group.conditions) {
            if !given.iter().any(|(known, _)| known == name) {
                let way = |holds| Given { words: None, holds };
                given.push((name, vec![way(false), way(true)]));
            }
        }
        let count = given.iter().fold(1usize, |all, (_, ways)| all.saturating_mul(ways.len()));
        if count > MAX_VARIANTS {
            let message = format!(
                "this template has more than {MAX_VARIANTS} variants, and `{}` can run code",
                self.program()
            );
            let hint = "make parameters required, give them fewer values, or declare two tools; \
                at most twelve optional parameters are possible";
            return Err(Found { at: None, wrong: (message, hint.to_owned()) });
        }
        Ok((0..count).map(|n| self.variant(&given, n)).collect())
    }

    /// Returns one of the commands: the number selects a way for each parameter.
    fn variant(&self, given: &[(&str, Vec<Given>)], mut n: usize) -> Variant {
        let mut chosen: Vec<(&str, &Given)> = Vec::new();
        for (name, ways) in given {
            chosen.extend(ways.get(n % ways.len().max(1)).map(|way| (*name, way)));
            n /= ways.len().max(1);
        }
        let find = |name: &str| chosen.iter().find(|(own, _)| *own == name).map(|(_, way)| *way);
        let mut variant = Variant { words: Vec::new() };
        let mut number = 0;
        for group in &self.groups {
            let first = number;
            number += group.words.len();
            if !group.conditions.iter().all(|name| find(name).is_some_and(|way| way.holds)) {
                continue;
            }
            let words: Vec<Option<Vec<String>>> = group
                .words
                .iter()
                .enumerate()
                .map(|(at, word)| filled(word, first + at, &find))
                .collect();
            if group.is_whole && words.iter().any(Option::is_none) {
                continue;
            }
            for (at, words) in words.into_iter().enumerate() {
                let words = words.into_iter().flatten();
                variant.words.extend(words.map(|word| (word, first + at)));
            }
        }
        variant
    }

    /// Returns what is wrong with code, if a call controls a part of it.
    fn found(&self, program: &str, source: &CodeSource) -> Option<Found> {
        let (CodeSource::Text(word) | CodeSource::Shell(word) | CodeSource::Name(word)) = source
        else {
            let message = format!("haft cannot determine what `{program}` would run");
            let hint = "a call may choose arguments, never code; remove options that are not \
                needed, or put the command into a script file";
            let wrong = (message, hint.to_owned());
            return (*source == CodeSource::Unclear).then_some(Found { at: None, wrong });
        };
        if !is_written(word) {
            return None;
        }
        let number = word.pieces.iter().find_map(|piece| match piece {
            haft_shell::WordPiece::Text(text) => marked(text),
            haft_shell::WordPiece::Unknown => None,
        });
        let own = number.and_then(|number| self.numbered().find(|(own, ..)| *own == number));
        let (text, shown) = match own {
            Some((.., word)) => (word.shown(), format!("`{}`", word.shown())),
            None => ("{text}".to_owned(), "a value of the call".to_owned()),
        };
        let at = number.and_then(|number| self.group_of(number));
        let (message, hint) = match source {
            CodeSource::Shell(_) => (
                format!("`{program}` would execute {shown} as a shell command"),
                format!(
                    "arguments are never shell code; pass it as an argument: \
                     `[\"sh\", \"-c\", \"grep -- \\\"$1\\\" *.txt\", \"sh\", \"{text}\"]`"
                ),
            ),
            CodeSource::Name(_) => (
                format!("{shown} would choose which program `{program}` starts"),
                "write a fixed program; a call may choose arguments, never programs".to_owned(),
            ),
            _ => (
                format!("`{program}` would execute {shown} as code"),
                format!(
                    "a call may choose arguments, never code; put the code into a file and pass \
                     the value after it: `[\"python3\", \"tool.py\", \"{text}\"]`"
                ),
            ),
        };
        Some(Found { at, wrong: (message, hint) })
    }

    /// Returns the entry of the template that contains this argument.
    fn group_of(&self, number: usize) -> Option<usize> {
        let mut next = 0;
        self.groups.iter().position(|group| {
            next += group.words.len();
            number < next
        })
    }
}

impl Variant {
    fn command(&self) -> SimpleCommand {
        let words = self.words.iter().map(|(text, _)| haft_shell::Word::text(&**text)).collect();
        SimpleCommand { words, ..SimpleCommand::default() }
    }
}

/// Returns the ways in which a call can pass a parameter.
fn ways(placeholder: &Placeholder) -> Vec<Given> {
    let values: Vec<Option<String>> = match &placeholder.values {
        Values::Any => vec![None],
        Values::Choice(values) => values.iter().cloned().map(Some).collect(),
        Values::Flag => vec![Some("true".to_owned()), Some("false".to_owned())],
    };
    let is_false = |value: &Option<String>| {
        placeholder.values == Values::Flag && value.as_deref() == Some("false")
    };
    let mut ways = Vec::new();
    if placeholder.is_optional {
        ways.push(Given { words: None, holds: false });
    }
    if placeholder.is_list {
        ways.push(Given { words: Some(Vec::new()), holds: true });
    }
    for value in &values {
        let holds = !is_false(value);
        ways.push(Given { words: Some(vec![value.clone()]), holds });
        if placeholder.is_list {
            let pairs = values.iter().map(|other| vec![value.clone(), other.clone()]);
            ways.extend(pairs.map(|pair| Given { words: Some(pair), holds: true }));
        }
    }
    ways
}

/// Returns what an argument of the template becomes; `None` if one of its values is omitted.
fn filled<'g>(
    word: &Word,
    number: usize,
    find: &impl Fn(&str) -> Option<&'g Given>,
) -> Option<Vec<String>> {
    let mark = || format!("{MARK}{number}{MARK}");
    let text = |value: &Option<String>| value.clone().unwrap_or_else(mark);
    if let [Piece::Value(placeholder)] = &*word.pieces {
        let words = find(&placeholder.name)?.words.as_ref()?;
        return Some(words.iter().map(text).collect());
    }
    let mut whole = String::new();
    for piece in &word.pieces {
        match piece {
            Piece::Text(text) => whole.push_str(text),
            Piece::Condition(_) => {}
            Piece::Value(placeholder) => {
                let words = find(&placeholder.name)?.words.as_ref()?;
                words.iter().for_each(|value| whole.push_str(&text(value)));
            }
        }
    }
    Some(vec![whole])
}

/// Whether a call controls an argument, or can.
fn is_written(word: &haft_shell::Word) -> bool {
    word.literal().is_none_or(|text| text.contains(MARK))
}

fn names_input(word: &haft_shell::Word) -> bool {
    word.literal()
        .is_none_or(|text| text == "-" || text.starts_with("/dev/") || text.starts_with("/proc/"))
}

/// Returns the number in a mark.
fn marked(text: &str) -> Option<usize> {
    text.split(MARK).nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::tests::template, *};

    #[test]
    fn optional_parameters_are_checked_in_every_combination() {
        for words in [
            &["python3", "{maybe}", "-c", "{text}"][..],
            &["python3", "{files}", "-c", "{text}"],
            &["python3", "[{?maybe} s.py", "[{?other} -c", "{text}"],
            &["python3", "[{maybe}", "[{?all} -c", "{text}"],
            &["awk", "-F", "{files}", "x"],
            &["awk", "[-f {maybe}", "{file}"],
            &["env", "{maybe}", "ls"],
            &["git", "{files}"],
        ] {
            let (message, _) = template(words).map(|_| words).unwrap_err();
            assert!(message.contains("would "), "{words:?}: {message}");
        }
        for words in [
            &["python3", "s.py", "{maybe}", "-c", "{text}"][..],
            &["python3", "[{?all} -u", "s.py", "-c", "{text}"],
            &["git", "log", "[-n {maybe}", "[{?all} --all", "--", "{files}"],
        ] {
            assert!(template(words).is_ok(), "{words:?}: {:?}", template(words));
        }
    }

    #[test]
    fn each_value_of_an_enum_is_checked() {
        for words in [
            &["python3", "{option}", "{text}"][..],
            &["python3", "{options}", "{text}"],
            &["timeout", "5", "python3", "{option}", "{text}"],
            &["python3", "-{mode}", "{option}", "{text}"],
        ] {
            assert!(template(words).is_err(), "{words:?}");
        }
        for words in [
            &["python3", "{safe}", "s.py", "{text}"][..],
            &["python3", "{safe}", "-c", "print(1)", "{text}"],
            &["python3", "{option}", "s.py"],
            &["wc", "{option}", "{text}"],
        ] {
            assert!(template(words).is_ok(), "{words:?}: {:?}", template(words));
        }
    }

    #[test]
    fn too_many_combinations_are_refused_only_where_code_is_possible() {
        let placeholders: Vec<Placeholder> = (0..13)
            .map(|n| Placeholder {
                name: format!("p{n}"),
                is_list: false,
                is_optional: true,
                values: Values::Any,
            })
            .collect();
        let made = |program: &str, count: usize| {
            let mut template = Template::default();
            template.push(&[program], false, &placeholders).unwrap();
            if program == "python3" {
                template.push(&["s.py"], false, &placeholders).unwrap();
            }
            for placeholder in placeholders.iter().take(count) {
                template
                    .push(&[&format!("--x={{{}}}", placeholder.name)], false, &placeholders)
                    .unwrap();
            }
            template.check()
        };
        assert_eq!(made("python3", 12), Ok(()));
        let found = made("python3", 13).unwrap_err();
        assert!(found.wrong.0.contains("more than 4096 variants"), "{found:?}");
        assert_eq!(made("wc", 13), Ok(()));
    }

    #[test]
    fn call_value_cannot_be_an_option_or_operand_that_is_code() {
        for words in [
            &["sed", "--exp={text}"][..],
            &["sed", "--e={text}", "file"],
            &["perl", "-M{text}", "s.pl"],
            &["perl", "-{text}"],
            &["python3", "-m", "timeit", "{text}"],
            &["python3", "-mtimeit", "-s", "{text}", "x"],
            &["python3", "-m", "{text}"],
            &["git", "-c", "alias.x={text}", "x"],
            &["git", "-c", "{text}", "log"],
            &["git", "-calias.x={text}", "x"],
            &["git", "--exec-path={file}", "log"],
            &["git", "--config-env={text}", "log"],
            &["git", "grep", "-O{text}", "x"],
            &["git", "{text}"],
            &["git", "bisect", "{files}"],
            &["sh", "-c", "eval \"$1\"", "sh", "{text}"],
            &["sh", "-c", "\"$@\"", "sh", "{text}"],
            &["sh", "-c", "python3 -c \"$1\"", "sh", "{text}"],
            &["sh", "-c", "find . $1", "sh", "{text}"],
            &["sh", "-c", "tar xf \"$1\"", "sh", "{text}"],
            &["make", "--eval={text}"],
            &["make", "--ev={text}"],
            &["make", "-E", "{text}"],
            &["make", "CC={text}"],
            &["make", "{text}"],
            &["vim", "-c", "{text}"],
            &["vim", "+{text}"],
            &["vim", "{file}"],
            &["less", "+{text}", "file"],
            &["gdb", "-ex", "{text}"],
            &["gdb", "-batch", "-ex", "{text}", "program"],
            &["uv", "run", "python", "-c", "{text}"],
            &["uv", "run", "--with", "rich", "python", "-c", "{text}"],
            &["uv", "--project", "x", "run", "python", "-c", "{text}"],
            &["uv", "run", "--unheard", "python", "{text}"],
            &["uv", "run", "{text}"],
            &["docker", "exec", "c", "python3", "-c", "{text}"],
            &["docker", "exec", "-it", "-u", "root", "c", "sh", "-c", "{text}"],
            &["docker", "exec", "c", "{text}"],
            &["docker", "compose", "exec", "c", "{text}"],
            &["docker", "run", "--rm", "image", "{text}"],
            &["kubectl", "exec", "pod", "--", "sh", "-c", "{text}"],
            &["kubectl", "exec", "pod", "-c", "x", "--", "sh", "-c", "{text}"],
            &["npx", "{text}"],
            &["npx", "-c", "{text}"],
            &["node", "--import", "data:text/javascript,{text}", "x.js"],
            &["node", "--import=data:text/javascript,{text}", "x.js"],
            &["node", "--require", "{file}", "x.js"],
            &["node", "-r{file}", "x.js"],
            &["ruby", "-r{text}", "x.rb"],
            &["ruby", "-r", "{text}", "x.rb"],
            &["deno", "run", "{text}"],
            &["sqlite3", "db", "{text}"],
            &["sqlite3", "-cmd", "{text}", "db"],
            &["psql", "-c", "{text}"],
            &["mysql", "-uname", "-e", "{text}"],
            &["awk", "{text}"],
            &["find", ".", "-exec", "{text}", ";"],
            &["env", "-S", "{text}"],
            &["env", "LD_PRELOAD={file}", "ls"],
            &["env", "GIT_SSH_COMMAND={text}", "git", "fetch"],
            &["ssh", "host", "{text}"],
            &["ssh", "host", "grep", "{text}"],
            &["ssh", "-o", "ProxyCommand={text}", "host"],
            &["watch", "ls {text}"],
            &["xargs", "{text}"],
            &["tar", "xf", "a.tar", "--checkpoint-action={text}"],
            &["tar", "xf", "a.tar", "--checkpoint-a", "{text}"],
            &["tar", "xf", "a.tar", "--to-command={text}"],
            &["tar", "--{text}", "xf", "a.tar"],
            &["tar", "-xI", "{text}", "-f", "a.tar"],
            &["tar", "xIf", "{text}", "a.tar"],
            &["rsync", "-e", "{text}", "a", "b"],
            &["rsync", "-ave", "{text}", "a", "b"],
            &["rsync", "--rsh={text}", "a", "b"],
            &["sort", "--compress-prog={text}", "x"],
            &["rg", "--pre={text}", "x"],
            &["fd", "-x", "{text}"],
            &["m4", "-D{text}", "x"],
            &["hyperfine", "{text}"],
            &["timeout", "5", "tar", "xf", "a.tar", "--to-command={text}"],
        ] {
            let (message, hint) = template(words).map(|_| words).unwrap_err();
            let is_clear = ["would execute", "would choose which", "cannot determine what"]
                .iter()
                .any(|form| message.contains(form));
            assert!(is_clear, "{words:?}: {message}");
            assert!(hint.contains("arguments"), "{words:?}: {hint}");
        }
        for words in [
            &["sh", "-c", "grep -c \"$1\" file", "sh", "{text}"][..],
            &["sh", "-c", "tar xf -- \"$1\"", "sh", "{file}"],
            &["python3", "s.py", "{text}"],
            &["python3", "-m", "pytest", "{file}"],
            &["git", "log", "--", "{file}"],
            &["git", "commit", "-m", "{text}"],
            &["git", "-c", "user.name={text}", "log"],
            &["git", "-C", "{file}", "log"],
            &["git", "log", "--format={text}"],
            &["grep", "-e", "{text}"],
            &["make", "-C", "{file}", "all"],
            &["make", "-f", "{file}", "all"],
            &["make", "{safe}"],
            &["tar", "xf", "{file}"],
            &["tar", "-xf", "{file}", "-C", "{text}"],
            &["tar", "--exclude={text}", "-cf", "x.tar", "--", "{file}"],
            &["rsync", "-av", "--", "{file}", "out"],
            &["sqlite3", "{file}", "select 1"],
            &["psql", "-v", "x={text}", "-c", "select 1"],
            &["mysql", "-uname", "{text}"],
            &["vim", "--", "{file}"],
            &["sort", "-k", "{n}", "{file}"],
            &["rg", "--", "{text}"],
            &["uv", "run", "s.py", "{text}"],
            &["uv", "run", "pytest", "-k", "{text}"],
            &["docker", "exec", "{file}", "ls", "{text}"],
            &["docker", "run", "--rm", "--entrypoint", "wc", "image", "{text}"],
            &["kubectl", "exec", "pod", "--", "cat", "{file}"],
            &["env", "A={text}", "ls"],
            &["cargo", "test", "{text}"],
        ] {
            assert!(template(words).is_ok(), "{words:?}: {:?}", template(words));
        }
    }

    #[test]
    fn call_cannot_inject_code_through_stdin() {
        for words in [
            &["xargs", "-0", "sh", "-c"][..],
            &["xargs", "python3"],
            &["xargs", "-I", "@", "python3", "@"],
            &["sh", "-c", ". /dev/stdin"],
            &["sh", "-c", "cat | sh"],
            &["sh", "-c", "read x; eval \"$x\""],
            &["sh", "-c", "while read x; do \"$x\"; done"],
            &["make", "-f", "-"],
            &["make", "--file=-"],
            &["make", "-f-"],
            &["make", "-f", "/dev/stdin"],
            &["sh"],
            &["sh", "{maybe}"],
            &["python3", "-"],
            &["python3", "{file}"],
            &["bash", "-s"],
            &["uv", "run", "-"],
            &["uv", "run", "python"],
            &["docker", "exec", "-i", "c", "sh"],
            &["sqlite3", "db"],
            &["psql"],
            &["ed", "file"],
            &["gdb"],
            &["tar", "-c", "-T", "-"],
            &["su"],
        ] {
            assert!(template(words).unwrap().reads_program().is_some(), "{words:?}");
        }
        for words in [
            &["sh", "-c", "cat"][..],
            &["sh", "-c", "grep -c x"],
            &["xargs", "-0", "wc", "-l"],
            &["xargs", "python3", "s.py"],
            &["python3", "s.py", "-"],
            &["python3", "-m", "json.tool"],
            &["make", "-f", "Makefile"],
            &["git", "apply", "-"],
            &["tar", "-x"],
            &["wc"],
        ] {
            assert_eq!(template(words).unwrap().reads_program(), None, "{words:?}");
        }
    }

    #[test]
    fn double_dash_counts_only_for_a_program_that_ends_options_there() {
        let filled = |words: &[&str]| {
            template(words).unwrap().fill(&json!({"text": "-x", "file": "-x", "maybe": "y"}))
        };
        for words in [
            &["find", "--", "{file}"][..],
            &["sh", "-c", "grep \"$2\" x", "sh", "--", "{text}"],
            &["uv", "run", "--", "pytest", "{text}"],
            &["docker", "exec", "--", "c", "ls", "{text}"],
            &["git", "[{?all} --", "log", "{text}"],
        ] {
            assert!(filled(words).is_err(), "{words:?}");
        }
        for words in [
            &["uv", "run", "--", "pytest", "--", "{text}"][..],
            &["git", "log", "[{?all} --all", "--", "{file}"],
            &["tar", "xf", "a.tar", "--", "{file}"],
        ] {
            assert!(filled(words).is_ok(), "{words:?}");
        }
    }
}
