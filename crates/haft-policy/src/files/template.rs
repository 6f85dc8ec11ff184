//! The command template of a declared tool: argv with placeholders, filled with a call's arguments.
//!
//! In: `["grep", "-e", "{text}", "--", "{file}"]` and validated arguments. Out: the argv of a
//! process. No shell is involved, so there is no shell injection and no quoting. Pure.
//!
//! INVARIANT: a value is one argument or a part of one. It never becomes two, and it never becomes
//! an option (argument injection) unless the template allows that.

mod code;

use haft_core::{Failure, FailureCode};
use serde_json::Value;

/// Maximum bytes of one value; the kernel limits one argument to 128 KiB.
const MAX_ARGUMENT_BYTES: usize = 100_000;
/// Maximum bytes of the command; the kernel limits it to about 2 MB with the environment.
const MAX_COMMAND_BYTES: usize = 1_000_000;

/// What a template needs to know about a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Placeholder {
    pub(super) name: String,
    /// It has several values, each one argument.
    pub(super) is_list: bool,
    /// A call can omit it, and it has no default.
    pub(super) is_optional: bool,
    pub(super) values: Values,
}

/// The values that a call can pass for a parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Values {
    /// The call chooses them freely.
    Any,
    /// The file lists them.
    Choice(Vec<String>),
    /// `true` and `false`.
    Flag,
}

impl Placeholder {
    /// Whether the file lists the values.
    fn is_fixed(&self) -> bool {
        self.values != Values::Any
    }
}

/// Argv with placeholders.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Template {
    groups: Vec<Group>,
}

/// Arguments that are present or absent together.
#[derive(Debug, Clone, PartialEq, Default)]
struct Group {
    /// Parameters that must be present and not `false`.
    conditions: Vec<String>,
    words: Vec<Word>,
    /// Written in brackets of its own.
    is_whole: bool,
}

#[derive(Debug, Clone, PartialEq)]
struct Word {
    pieces: Vec<Piece>,
    /// A value at the start of this argument could be read as an option.
    may_be_option: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Piece {
    Text(String),
    Value(Placeholder),
    Condition(String),
}

/// What is wrong in a template, and a hint.
pub(super) type Wrong = (String, String);

impl Template {
    /// Adds one argument, or the arguments of a group in brackets.
    pub(super) fn push(
        &mut self,
        words: &[&str],
        is_group: bool,
        placeholders: &[Placeholder],
    ) -> Result<(), Wrong> {
        let mut group = Group { is_whole: is_group, ..Group::default() };
        for text in words {
            let pieces = pieces(text, placeholders)?;
            match &*pieces {
                [Piece::Condition(name)] if is_group => {
                    group.conditions.push(name.clone());
                    continue;
                }
                _ if pieces.iter().any(|piece| matches!(piece, Piece::Condition(_))) => {
                    return Err((
                        format!("a condition is not allowed in `{text}`"),
                        "put it into brackets of its own, as in `[\"{?all}\", \"--all\"]`".into(),
                    ));
                }
                _ => {}
            }
            let lists = pieces.iter().any(|piece| matches!(piece, Piece::Value(h) if h.is_list));
            if lists && pieces.len() > 1 {
                return Err((
                    format!("`{text}` puts a list into one argument"),
                    "each item of a list becomes one argument, so write `{name}` alone".into(),
                ));
            }
            if self.is_first(&group) && !matches!(&*pieces, [Piece::Text(_)])
                || is_group && self.groups.is_empty()
            {
                return Err((
                    "the first item is the program, and must be a fixed name".into(),
                    "write its name or path; a call may choose arguments, never programs".into(),
                ));
            }
            // `check` determines where options have ended.
            group.words.push(Word { pieces, may_be_option: true });
        }
        self.groups.push(group);
        Ok(())
    }

    /// Sets the template of the standard input. There are no options in it.
    pub(super) fn push_input(
        &mut self,
        text: &str,
        placeholders: &[Placeholder],
    ) -> Result<(), Wrong> {
        let pieces = pieces(text, placeholders)?;
        if pieces.iter().any(|piece| matches!(piece, Piece::Condition(_))) {
            return Err((
                "`stdin` contains a condition".into(),
                "conditions are allowed only in `command`".into(),
            ));
        }
        let words = vec![Word { pieces, may_be_option: false }];
        self.groups.push(Group { words, ..Group::default() });
        Ok(())
    }

    /// Returns the text for the standard input: lists with one item per line, omitted values as
    /// empty.
    pub(super) fn input(&self, arguments: &Value) -> String {
        let mut input = String::new();
        for piece in self.groups.iter().flat_map(|group| &group.words).flat_map(|word| &word.pieces)
        {
            match piece {
                Piece::Text(text) => input.push_str(text),
                Piece::Condition(_) => {}
                Piece::Value(placeholder) => match arguments.get(&placeholder.name) {
                    None | Some(Value::Null) => {}
                    Some(Value::String(text)) => input.push_str(text),
                    Some(Value::Array(list)) => {
                        for item in list {
                            input.push_str(item.as_str().unwrap_or(&item.to_string()));
                            input.push('\n');
                        }
                    }
                    Some(value) => input.push_str(&value.to_string()),
                },
            }
        }
        input
    }

    /// Returns the argv for these arguments.
    pub(super) fn fill(&self, arguments: &Value) -> Result<Vec<String>, Failure> {
        let mut words = Vec::new();
        let mut length = 0;
        for group in &self.groups {
            let holds = |name: &String| {
                !matches!(arguments.get(name), None | Some(Value::Null | Value::Bool(false)))
            };
            if !group.conditions.iter().all(holds) {
                continue;
            }
            let is_missing = |word: &Word| word.is_missing(arguments);
            if group.is_whole && group.words.iter().any(is_missing) {
                continue;
            }
            for word in group.words.iter().filter(|word| !is_missing(word)) {
                word.fill(arguments, &mut words)?;
            }
        }
        for word in &words {
            length += word.len() + 1;
        }
        if length > MAX_COMMAND_BYTES {
            return Err(Failure::new(
                FailureCode::InvalidValue,
                format!(
                    "the arguments have {length} bytes; a command takes at most {MAX_COMMAND_BYTES}"
                ),
            )
            .with_next("pass less at once, or pass a file"));
        }
        Ok(words)
    }

    /// Returns the program.
    pub(super) fn program(&self) -> &str {
        match self.groups.first().and_then(|group| group.words.first()).map(|word| &*word.pieces) {
            Some([Piece::Text(text)]) => text,
            _ => "",
        }
    }

    /// Returns it as it was written, for people.
    pub(super) fn shown(&self) -> String {
        let mut shown = Vec::new();
        for group in &self.groups {
            let conditions = group.conditions.iter().map(|name| format!("{{?{name}}}"));
            let words = conditions.chain(group.words.iter().map(Word::shown)).collect::<Vec<_>>();
            shown.push(if group.is_whole {
                format!("[{}]", words.join(" "))
            } else {
                words.join(" ")
            });
        }
        shown.join(" ")
    }

    /// Returns the parameters it uses.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flat_map(|group| {
            let values = group.words.iter().flat_map(|word| word.pieces.iter());
            let values = values.filter_map(|piece| match piece {
                Piece::Value(placeholder) => Some(&*placeholder.name),
                _ => None,
            });
            values.chain(group.conditions.iter().map(|name| &**name))
        })
    }

    fn is_first(&self, group: &Group) -> bool {
        self.groups.is_empty() && group.words.is_empty()
    }
}

impl Word {
    /// Whether one of its values is missing; then the argument is omitted.
    fn is_missing(&self, arguments: &Value) -> bool {
        self.pieces.iter().any(|piece| match piece {
            Piece::Value(placeholder) => {
                matches!(arguments.get(&placeholder.name), None | Some(Value::Null))
            }
            Piece::Text(_) | Piece::Condition(_) => false,
        })
    }

    fn fill(&self, arguments: &Value, words: &mut Vec<String>) -> Result<(), Failure> {
        if let [Piece::Value(placeholder)] = &*self.pieces
            && placeholder.is_list
            && let Some(Value::Array(list)) = arguments.get(&placeholder.name)
        {
            for (at, value) in list.iter().enumerate() {
                let text = text(&format!("{}[{at}]", placeholder.name), value)?;
                self.may_begin(placeholder, &text)?;
                words.push(text);
            }
            return Ok(());
        }
        let mut word = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => word.push_str(text),
                Piece::Condition(_) => {}
                Piece::Value(placeholder) => {
                    let value = arguments.get(&placeholder.name).unwrap_or(&Value::Null);
                    let text = text(&placeholder.name, value)?;
                    // An empty value before it keeps it at the start of the argument.
                    if word.is_empty() {
                        self.may_begin(placeholder, &text)?;
                    }
                    word.push_str(&text);
                }
            }
        }
        // Two values could form an option together that neither is alone.
        if self.may_be_option
            && word.starts_with('-')
            && !matches!(self.pieces.first(), Some(Piece::Text(_)))
        {
            let fixed = |piece: &Piece| !matches!(piece, Piece::Value(placeholder) if !placeholder.is_fixed());
            if !self.pieces.iter().all(fixed) {
                return Err(option(&word));
            }
        }
        words.push(word);
        Ok(())
    }

    /// FAIL CLOSED: a value that starts with `-` in the position of an option is refused.
    fn may_begin(&self, placeholder: &Placeholder, text: &str) -> Result<(), Failure> {
        if self.may_be_option && !placeholder.is_fixed() && text.starts_with('-') {
            Err(option(&placeholder.name))
        } else {
            Ok(())
        }
    }

    fn shown(&self) -> String {
        let piece = |piece: &Piece| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Value(placeholder) => format!("{{{}}}", placeholder.name),
            Piece::Condition(name) => format!("{{?{name}}}"),
        };
        self.pieces.iter().map(piece).collect()
    }
}

fn option(name: &str) -> Failure {
    let shown: String = name.chars().take(60).collect();
    Failure::new(
        FailureCode::InvalidValue,
        format!("`{shown}` starts with `-`, and the program could read it as an option"),
    )
    .with_next("write a file as `./-name`, and other text with something before the `-`")
}

/// Returns a value as an argument.
fn text(name: &str, value: &Value) -> Result<String, Failure> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        Value::Null | Value::Array(_) | Value::Object(_) => {
            let message = format!("`{name}` must be a string, a number, or true or false");
            return Err(Failure::new(FailureCode::BadArguments, message));
        }
    };
    let wrong = if text.contains('\0') {
        "contains a NUL byte, which cannot be passed to a program".to_owned()
    } else if text.len() > MAX_ARGUMENT_BYTES {
        format!("has {} bytes; one argument takes at most {MAX_ARGUMENT_BYTES}", text.len())
    } else {
        return Ok(text);
    };
    Err(Failure::new(FailureCode::InvalidValue, format!("`{name}` {wrong}"))
        .with_next("pass a shorter string without NUL bytes"))
}

/// Parses an argument: `{name}` is a placeholder, `{?name}` a condition, `{{` and `}}` are braces.
fn pieces(word: &str, placeholders: &[Placeholder]) -> Result<Vec<Piece>, Wrong> {
    let mut pieces = Vec::new();
    let mut plain = String::new();
    let mut rest = word;
    let braces = "to write a literal brace, double it, as in `{{print $1}}`";
    while let Some(at) = rest.find(['{', '}']) {
        plain.push_str(&rest[..at]);
        let here = &rest[at..];
        if let Some(after) = here.strip_prefix("{{").or_else(|| here.strip_prefix("}}")) {
            plain.push_str(&here[..1]);
            rest = after;
            continue;
        }
        let placeholder = here.strip_prefix('{').and_then(|here| here.split_once('}'));
        let Some((name, after)) = placeholder else {
            return Err((format!("`{word}` has an unmatched brace"), braces.to_owned()));
        };
        let (name, is_condition) = match name.strip_prefix('?') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let Some(placeholder) = placeholders.iter().find(|placeholder| placeholder.name == name)
        else {
            let near = haft_schema::near::nearest(
                name,
                placeholders.iter().map(|placeholder| &*placeholder.name),
            );
            let hint = match near {
                Some(near) => format!("did you mean `{{{near}}}`?"),
                None => format!("declare it under `parameters`; {braces}"),
            };
            return Err((format!("`{{{name}}}` is not a parameter of this tool"), hint));
        };
        if !plain.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut plain)));
        }
        pieces.push(if is_condition {
            Piece::Condition(name.to_owned())
        } else {
            Piece::Value(placeholder.clone())
        });
        rest = after;
    }
    plain.push_str(rest);
    if !plain.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(plain));
    }
    Ok(pieces)
}

#[cfg(test)]
pub(super) mod tests {
    use serde_json::json;

    use super::*;

    pub(super) fn placeholders() -> Vec<Placeholder> {
        let placeholder = |name: &str, is_list, values| Placeholder {
            name: name.to_owned(),
            is_list,
            is_optional: false,
            values,
        };
        let choice = |words: &[&str]| Values::Choice(words.iter().map(|w| (*w).into()).collect());
        vec![
            placeholder("file", false, Values::Any),
            placeholder("text", false, Values::Any),
            placeholder("files", true, Values::Any),
            placeholder("mode", false, choice(&["x", "-l"])),
            placeholder("all", false, Values::Flag),
            placeholder("n", false, Values::Any),
            Placeholder { is_optional: true, ..placeholder("maybe", false, Values::Any) },
            Placeholder { is_optional: true, ..placeholder("other", false, Values::Any) },
            placeholder("option", false, choice(&["-u", "-c"])),
            placeholder("safe", false, choice(&["-u", "-B"])),
            placeholder("options", true, choice(&["-u", "-c"])),
        ]
    }

    /// Arguments; those that start with `[` are a group, separated by spaces.
    pub(super) fn template(words: &[&str]) -> Result<Template, Wrong> {
        let mut template = Template::default();
        for word in words {
            match word.strip_prefix('[') {
                Some(group) => {
                    template.push(&group.split(' ').collect::<Vec<_>>(), true, &placeholders())?
                }
                None => template.push(&[word], false, &placeholders())?,
            }
        }
        template.check().map_err(|found| found.wrong)?;
        Ok(template)
    }

    fn filled(words: &[&str], arguments: Value) -> Result<Vec<String>, String> {
        template(words).unwrap().fill(&arguments).map_err(|failure| failure.message().to_owned())
    }

    #[test]
    fn value_is_always_one_argument() {
        for odd in
            ["a b", "$(rm -rf /)", "; ls", "`id`", "a\nb", "*", "~", "'\"", "{text}", "", "é"]
        {
            let words = filled(&["wc", "--", "{file}"], json!({"file": odd})).unwrap();
            assert_eq!(words, ["wc", "--", odd]);
            let words = filled(&["wc", "--at={file}:{text}"], json!({"file": odd, "text": odd}));
            assert_eq!(words.unwrap(), ["wc".to_owned(), format!("--at={odd}:{odd}")]);
        }
        assert_eq!(filled(&["awk", "{{print $1}}", "x"], json!({})).unwrap()[1], "{print $1}");
    }

    #[test]
    fn omitted_value_removes_its_argument_and_its_group() {
        let words =
            ["head", "[-n {n}", "[{?all} --all --yes", "--mode={mode}", "--", "{file}", "{files}"];
        assert_eq!(filled(&words, json!({})).unwrap(), ["head", "--"]);
        let given = json!({"n": 3, "all": true, "mode": "x", "file": "f", "files": ["a", "b c"]});
        assert_eq!(
            filled(&words, given).unwrap(),
            ["head", "-n", "3", "--all", "--yes", "--mode=x", "--", "f", "a", "b c"]
        );
        assert_eq!(filled(&words, json!({"all": false, "n": null})).unwrap(), ["head", "--"]);
    }

    #[test]
    fn value_cannot_become_an_option_before_double_dash() {
        for dash in ["-", "-rf", "--help"] {
            for words in [
                &["ls", "{file}"][..],
                &["ls", "{files}"],
                &["ls", "{file}{text}"],
                &["ls", "[-x {file}"],
                &["env", "--", "ls", "{file}"],
                &["timeout", "-s", "KILL", "--", "5", "ls", "{file}"],
                &["ls", "[{?all} --", "{file}"],
                &["ls", "[{?all} -- x", "{files}"],
            ] {
                let arguments = json!({"file": dash, "files": ["ok", dash], "text": "x"});
                assert!(
                    filled(words, arguments).unwrap_err().contains("option"),
                    "{words:?} {dash}"
                );
            }
            for words in [
                &["ls", "--", "{file}"][..],
                &["ls", "./{file}"],
                &["ls", "--at={file}"],
                &["env", "--", "ls", "--", "{file}"],
                &["env", "ls", "--", "{file}"],
                &["ls", "[{?all} -- {file}"],
            ] {
                let arguments = json!({"file": dash, "all": true});
                assert!(filled(words, arguments).is_ok(), "{words:?} {dash}");
            }
        }
        let together = filled(&["ls", "{text}{file}"], json!({"text": "", "file": "-rf"}));
        assert!(together.unwrap_err().contains("option"), "an empty value hides nothing");
        assert_eq!(
            filled(&["ls", "{mode}"], json!({"mode": "-l"})).unwrap()[1],
            "-l",
            "a word of the file's own"
        );
        assert!(filled(&["ls", "{n}"], json!({"n": -1})).unwrap_err().contains("option"));
    }

    #[test]
    fn call_cannot_choose_the_program_or_inject_shell_code() {
        for words in [
            &["{file}"][..],
            &["/bin/{file}"],
            &["[ls {file}"],
            &["sh", "-c", "{text}"],
            &["/bin/bash", "-lc", "cat {file}"],
            &["env", "sh", "-c", "x {text}"],
            &["sh", "-c", "--", "{text}"],
            &["bash", "-ce", "{text}"],
            &["bash", "-c", "-x", "{text}"],
            &["bash", "-o", "pipefail", "-c", "{text}"],
            &["su", "me", "-c", "{text}"],
            &["busybox", "sh", "-c", "{text}"],
            &["env", "{file}"],
            &["env", "{file}", "ls"],
            &["env", "A=1", "{file}"],
            &["timeout", "5", "{file}"],
            &["nice", "-n", "5", "{file}"],
            &["xargs", "{file}"],
            &["xargs", "-n1", "sh", "-c", "{text}"],
            &["find", ".", "-exec", "{file}", ";"],
            &["ls", "{unknown}"],
            &["ls", "{file"],
            &["ls", "x}"],
            &["ls", "--all={files}"],
            &["ls", "{?all}"],
        ] {
            assert!(template(words).is_err(), "{words:?}");
        }
        for words in [
            &["sh", "-c", "grep -- \"$1\" x", "sh", "{text}"][..],
            &["bash", "-ec", "grep -- \"$1\" x", "bash", "{text}"],
            &["timeout", "{n}", "grep", "--", "{text}", "{file}"],
            &["env", "A={text}", "ls", "{file}"],
            &["find", ".", "-name", "{text}", "-exec", "cat", "{file}", ";"],
            &["git", "log", "-n", "{n}", "--", "{file}"],
            &["python3", "tool.py", "-c", "{text}"],
        ] {
            assert!(template(words).is_ok(), "{words:?}");
        }
        let (message, hint) = template(&["ls", "{fle}"]).unwrap_err();
        assert!(message.contains("{fle}") && hint.contains("{file}"), "{message} {hint}");
    }

    #[test]
    fn call_cannot_inject_code_into_an_interpreter() {
        for words in [
            &["python", "-c", "{text}"][..],
            &["python3.12", "-c", "print({text})"],
            &["/usr/bin/python3", "-Bc", "{text}"],
            &["python3", "-c{text}"],
            &["env", "python3", "-c", "{text}"],
            &["env", "A=1", "/usr/local/bin/python3", "-u", "-c", "{text}"],
            &["timeout", "5", "perl", "-e", "{text}"],
            &["perl", "-lne", "{text}", "file"],
            &["perl", "-E{text}"],
            &["node", "-e", "{text}"],
            &["node", "--eval", "{text}"],
            &["node", "--eval={text}"],
            &["node", "-p", "{text}"],
            &["node", "-pe", "{text}"],
            &["nice", "ruby", "-rjson", "-e", "{text}"],
            &["awk", "{text}"],
            &["awk", "-F", ":", "{text}", "file"],
            &["gawk", "-e", "{text}"],
            &["awk", "$1 ~ /{text}/", "file"],
            &["sed", "{text}"],
            &["sed", "-n", "{text}p", "file"],
            &["sed", "-e", "{text}"],
            &["sed", "--expression={text}"],
            &["sed", "s/a/{text}/", "file"],
            &["php", "-r", "{text}"],
            &["lua5.4", "-e", "{text}"],
            &["osascript", "-e", "{text}"],
            &["deno", "eval", "{text}"],
            &["bash", "-lc", "{text}"],
            &["awk", "[{?all} -f prog.awk", "{file}"],
            &["busybox", "awk", "{text}"],
        ] {
            let (message, hint) = template(words).map(|_| words).unwrap_err();
            assert!(message.contains("would execute"), "{words:?}: {message}");
            assert!(hint.contains("arguments"), "{words:?}: {hint}");
        }
        for words in [
            &["python3", "tool.py", "{text}"][..],
            &["python3", "-c", "import sys; print(sys.argv[1])", "{text}"],
            &["python3", "-m", "json.tool", "{file}"],
            &["perl", "-ne", "print", "{file}"],
            &["node", "-e", "f(process.argv[1])", "{text}"],
            &["awk", "-v", "x={text}", "$1 == x", "{file}"],
            &["awk", "-F", "{text}", "{{print $1}}", "{file}"],
            &["awk", "-f", "prog.awk", "{file}"],
            &["sed", "-n", "1,5p", "{file}"],
            &["sed", "-e", "p", "{file}"],
            &["sed", "-f", "script.sed", "{file}"],
            &["jq", "{text}", "file.json"],
        ] {
            assert!(template(words).is_ok(), "{words:?}: {:?}", template(words));
        }
    }

    #[test]
    fn call_cannot_inject_a_program_through_stdin() {
        for (words, name) in [
            (&["sh"][..], Some("sh")),
            (&["python3", "-"], Some("python3")),
            (&["env", "bash", "-s"], Some("bash")),
            (&["timeout", "5", "node"], Some("node")),
            (&["awk", "-f", "-", "file"], Some("awk")),
            (&["python3", "[{?all} tool.py"], Some("python3")),
            (&["python3", "tool.py"], None),
            (&["sh", "-c", "cat"], None),
            (&["jq", "."], None),
        ] {
            assert_eq!(template(words).unwrap().reads_program().as_deref(), name, "{words:?}");
        }
    }

    #[test]
    fn value_that_cannot_be_passed_to_a_program_is_refused() {
        let much = "x".repeat(MAX_ARGUMENT_BYTES + 1);
        for bad in [json!("a\0b"), json!(much), json!({"a": 1}), json!(["a"])] {
            assert!(filled(&["ls", "--", "{file}"], json!({"file": bad})).is_err(), "{bad}");
        }
        let many: Vec<String> = (0..20).map(|_| "y".repeat(MAX_ARGUMENT_BYTES)).collect();
        assert!(filled(&["ls", "{files}"], json!({"files": many})).unwrap_err().contains("bytes"));
    }
}
