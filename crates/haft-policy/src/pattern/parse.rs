//! Parses the text of a pattern: a tool part, then selectors, separated by spaces.

use haft_core::{Capability, Operation};

use super::{
    CommandPattern, Head, Kind, PathBase, PatternError, PatternErrorKind, Written,
    path::{PathPattern, is_negated},
    select::{Selector, Tag},
    tool::Tools,
};
use crate::{
    glob::{Glob, Style},
    host::HostPattern,
};
use haft_schema::near::nearest;

/// Maximum bytes of a pattern; matching is linear in its length.
const MAX_PATTERN_BYTES: usize = 4096;

const SELECTORS: [&str; 14] = [
    "tool",
    "source",
    "effect",
    "capability",
    "path",
    "host",
    "arg.",
    "label",
    "provenance",
    "agent",
    "user",
    "meta.",
    "destructive",
    "read_only",
];

const EFFECTS: [(&str, Operation); 5] = [
    ("read", Operation::Read),
    ("write", Operation::Write),
    ("execute", Operation::Execute),
    ("external", Operation::External),
    ("unknown", Operation::Unknown),
];

/// Arguments with a syntax of their own.
const PRIMARY: [(&str, &str); 5] = [
    ("command", "`Bash(…)`"),
    ("file_path", "`Read(…)`, `Edit(…)` or `path=…`"),
    ("path", "`Read(…)`, `Edit(…)` or `path=…`"),
    ("notebook_path", "`Edit(…)` or `path=…`"),
    ("url", "`WebFetch(domain:…)` or `host=…`"),
];

type Parsed<T> = Result<T, PatternError>;

/// Parses a whole pattern.
pub(super) fn pattern(text: &str, anchor: &PathBase) -> Parsed<(Option<Head>, Vec<Written>)> {
    if text.len() > MAX_PATTERN_BYTES {
        return bad(
            MAX_PATTERN_BYTES,
            format!("the pattern is longer than {MAX_PATTERN_BYTES} bytes"),
            "split it up",
        );
    }
    if let Some((at, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
        return bad(at, "the pattern contains a control character", "write it on one line");
    }
    let mut reader = Reader { text, at: 0, anchor };
    reader.skip_blanks();
    if reader.rest().is_empty() {
        return bad(0, "the pattern is empty", "write `*` for every call");
    }
    let mut head = None;
    let mut selectors = Vec::new();
    while !reader.rest().is_empty() {
        let from = reader.at;
        let word = reader.word();
        match reader.rest().chars().next() {
            Some('=') => {
                reader.at += 1;
                let selector = reader.selector(word, from)?;
                selectors.push(Written { selector, text: text[from..reader.at].to_owned() });
            }
            _ if word == "destructive" || word == "read_only" => {
                let selector = match word {
                    "read_only" => Selector::ReadOnly,
                    _ => Selector::Destructive,
                };
                selectors.push(Written { selector, text: word.to_owned() });
            }
            next => {
                if head.is_some() || !selectors.is_empty() {
                    let near = nearest(word, SELECTORS).map_or_else(
                        || "the tool comes first, then selectors such as `arg.x=…`".to_owned(),
                        |near| format!("did you mean `{near}`?"),
                    );
                    return bad(from, format!("`{word}` is not a selector"), near);
                }
                head = Some(reader.head(word, from, next == Some('('))?);
            }
        }
        if !reader.rest().is_empty() && !reader.rest().starts_with(' ') {
            let hint = "put a space between the parts of a pattern";
            return bad(reader.at, "unexpected text after the end of this part", hint);
        }
        reader.skip_blanks();
    }
    Ok((head, selectors))
}

fn bad<T>(at: usize, message: impl Into<String>, hint: impl Into<String>) -> Parsed<T> {
    let (message, hint) = (message.into(), Some(hint.into()));
    Err(PatternError { kind: PatternErrorKind::Invalid, message, at, hint })
}

fn inert<T>(at: usize, message: impl Into<String>, hint: impl Into<String>) -> Parsed<T> {
    let (message, hint) = (message.into(), Some(hint.into()));
    Err(PatternError { kind: PatternErrorKind::MatchesNothing, message, at, hint })
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    anchor: &'t PathBase,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start_matches(' ').len();
    }

    /// Reads up to a space, `=` or `(`.
    fn word(&mut self) -> &'t str {
        let rest = self.rest();
        let end = rest.find([' ', '=', '(']).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn head(&mut self, name: &str, from: usize, opened: bool) -> Parsed<Head> {
        let is_plain =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '*' | '?');
        if name.is_empty() {
            return bad(from, "the name of a tool is missing", "write it as in `Bash(git push *)`");
        }
        if let Some((inside, c)) = name.char_indices().find(|(_, c)| !is_plain(*c)) {
            let hint = "a name has letters, digits, `_`, `-`, `.`; `*` matches any text and `?` one \
                        character";
            return bad(from + inside, format!("`{c}` is not allowed in a tool name"), hint);
        }
        if !opened {
            return Ok(match Kind::of(name) {
                Some(kind) => Head::Kind(kind),
                None => Head::Tools(Tools::parse(name)),
            });
        }
        let open = self.at;
        let Some(close) = self.closing(open) else {
            return bad(open, "this bracket is never closed", "put `)` after the specifier");
        };
        let inside = &self.text[open + 1..close];
        self.at = close + 1;
        self.specifier(name, from, inside, open + 1)
    }

    /// Finds the bracket that closes a specifier: balanced, and followed by the end or by a
    /// selector. A command may contain brackets.
    fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        let mut last = None;
        let mut escaped = false;
        for (at, c) in self.text[open..].char_indices().map(|(at, c)| (at + open, c)) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '(' => depth += 1,
                ')' => {
                    depth = depth.saturating_sub(1);
                    let behind = &self.text[at + 1..];
                    if ends_a_part(behind) {
                        if depth == 0 {
                            return Some(at);
                        }
                        last = Some(at);
                    }
                }
                _ => {}
            }
        }
        last
    }

    fn specifier(&self, name: &str, from: usize, inside: &str, at: usize) -> Parsed<Head> {
        let whole = matches!(inside, "" | "*");
        let path = |inside: &str| self.path(inside, at);
        match name {
            "Bash" if whole => Ok(Head::Kind(Kind::Bash)),
            "Bash" => match CommandPattern::parse(inside) {
                Ok(command) => Ok(Head::Command(command)),
                Err(why) => bad(at, why, "write a command as in `Bash(git push *)`"),
            },
            "Read" if inside.is_empty() => Ok(Head::Kind(Kind::Read)),
            "Edit" if inside.is_empty() => Ok(Head::Kind(Kind::Edit)),
            "WebFetch" if whole => Ok(Head::Kind(Kind::WebFetch)),
            "Read" => Ok(Head::Read(path(inside)?)),
            "Edit" => Ok(Head::Edit(path(inside)?)),
            "WebFetch" => self.domain(inside, at),
            "Write" | "NotebookEdit" | "MultiEdit" => inert(
                from,
                format!("`{name}(…)` matches nothing; use `Edit(…)` for writes"),
                format!("write `Edit({inside})`"),
            ),
            "Glob" | "Grep" | "LS" => inert(
                from,
                format!("`{name}(…)` matches nothing; use `Read(…)` for reads"),
                format!("write `Read({inside})`"),
            ),
            "Skill" if !whole => self.skill(inside, at),
            "Cd" => inert(
                from,
                "`Cd(…)` matches nothing: a run does not change its directory",
                "remove it",
            ),
            "Agent" | "Task" => Ok(Head::Agent(self.glob(inside, at)?)),
            _ if whole => Ok(Head::Tools(Tools::parse(name))),
            _ => self.parameter(name, inside, at),
        }
    }

    /// Parses the name of a skill: `deploy`, or `deploy *` and `deploy:*` for any arguments.
    fn skill(&self, inside: &str, at: usize) -> Parsed<Head> {
        let name = inside.trim();
        let name = ["name:", "skill:", "/"]
            .iter()
            .fold(name, |name, start| name.strip_prefix(start).unwrap_or(name).trim_start());
        let name = [" *", ":*"]
            .iter()
            .fold(name, |name, end| name.strip_suffix(end).unwrap_or(name).trim_end());
        if name.is_empty() {
            return bad(at, "the name of a skill is missing", "write it as in `Skill(deploy)`");
        }
        if let Some((first, _)) = name.split_once(' ') {
            let hint = format!("write `Skill({first})`");
            return bad(at, "skills have no arguments to match", hint);
        }
        let (tools, name, value) = (Tools::parse("Skill"), "skill", self.glob(name, at)?);
        Ok(Head::Parameter { tools, name: name.to_owned(), value })
    }

    fn path(&self, text: &str, at: usize) -> Parsed<PathPattern> {
        PathPattern::parse(text, self.anchor).map_err(|(off, message, hint)| PatternError {
            kind: if is_negated(text) {
                PatternErrorKind::Negated
            } else {
                PatternErrorKind::Invalid
            },
            message,
            at: at + off,
            hint: Some(hint),
        })
    }

    fn domain(&self, inside: &str, at: usize) -> Parsed<Head> {
        let Some(host) = inside.strip_prefix("domain:") else {
            let plain = inside.split("://").last().unwrap_or(inside);
            let plain = plain.strip_prefix("url:").unwrap_or(plain);
            let plain = plain.split(['/', ':']).next().unwrap_or_default();
            let hint = format!("write `WebFetch(domain:{plain})`");
            return bad(at, "URLs are matched by their host", hint);
        };
        let at = at + "domain:".len();
        match HostPattern::parse(host.trim_start()) {
            Ok(host) => Ok(Head::Host(host)),
            Err((off, message, hint)) => bad(at + off, message, hint),
        }
    }

    fn parameter(&self, tool: &str, inside: &str, at: usize) -> Parsed<Head> {
        let Some((name, value)) = inside.split_once(':') else {
            let hint = match inside.split_once('=') {
                Some((name, value)) => {
                    format!("write `{tool} arg.{}={}`", name.trim(), value.trim())
                }
                None if matches!(tool, "shell" | "bash") => {
                    format!("commands are matched by `Bash({inside})`")
                }
                None => {
                    format!("write `{tool}(parameter:value)`, or `{tool} path={inside}` for a path")
                }
            };
            return bad(
                at,
                format!("the pattern does not say which parameter `{inside}` refers to"),
                hint,
            );
        };
        let name = name.trim();
        if let Some((_, form)) = PRIMARY.iter().find(|(primary, _)| *primary == name) {
            return bad(at, format!("`{name}` cannot be compared as text"), format!("use {form}"));
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(plain) {
            let hint = format!("write `{tool}(parameter:value)`");
            return bad(at, format!("`{name}` is not a parameter"), hint);
        }
        let value = self.glob(value.trim(), at + inside.len() - value.len())?;
        Ok(Head::Parameter { tools: Tools::parse(tool), name: name.to_owned(), value })
    }

    fn glob(&self, text: &str, at: usize) -> Parsed<Glob> {
        Glob::parse(text, Style::Star).or_else(|off| {
            bad(at + off, "this `[` is never closed", "write `\\[` for the character")
        })
    }

    fn selector(&mut self, word: &str, from: usize) -> Parsed<Selector> {
        let values = self.values()?;
        let globs = |reader: &Self| -> Parsed<Vec<Glob>> {
            values.iter().map(|(value, at)| reader.glob(value, *at)).collect()
        };
        if let Some(name) = word.strip_prefix("arg.").filter(|name| !name.is_empty()) {
            return Ok(Selector::Arg(name.to_owned(), globs(self)?));
        }
        if let Some(name) = word.strip_prefix("meta.").filter(|name| !name.is_empty()) {
            return Ok(Selector::Meta(name.to_owned(), globs(self)?));
        }
        Ok(match word {
            "tool" => Selector::Tool(values.iter().map(|(name, _)| Tools::parse(name)).collect()),
            "source" => Selector::Source(globs(self)?),
            "agent" => Selector::Agent(globs(self)?),
            "user" => Selector::User(globs(self)?),
            "effect" => Selector::Effect(among(&values, "effect", &EFFECTS)?),
            "label" => Selector::Label(among(&values, "label", &Tag::ALL)?),
            "capability" => {
                let all: Vec<_> = Capability::ALL.iter().map(|c| (c.as_str(), *c)).collect();
                Selector::Capability(among(&values, "capability", &all)?)
            }
            "provenance" => {
                among(&values, "provenance", &[("untrusted", ())])?;
                Selector::FromUntrusted
            }
            "path" => {
                let one = |(value, at): &(String, usize)| self.path(value, *at);
                Selector::Path(values.iter().map(one).collect::<Parsed<_>>()?)
            }
            "host" => {
                let one = |(value, at): &(String, usize)| {
                    HostPattern::parse(value)
                        .or_else(|(off, message, hint)| bad(at + off, message, hint))
                };
                Selector::Host(values.iter().map(one).collect::<Parsed<_>>()?)
            }
            "destructive" | "read_only" => {
                return bad(
                    from,
                    format!("`{word}` takes no value"),
                    format!("write `{word}` alone"),
                );
            }
            _ => {
                let hint = match nearest(word, SELECTORS) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => format!("there are {}", SELECTORS.join(", ")),
                };
                return bad(from, format!("`{word}` is not a selector"), hint);
            }
        })
    }

    /// Parses `a|b|"c d"`: each with its offset.
    fn values(&mut self) -> Parsed<Vec<(String, usize)>> {
        let mut values = Vec::new();
        loop {
            let from = self.at;
            let mut value = String::new();
            let quote = self.rest().chars().next().filter(|c| matches!(c, '"' | '\''));
            let mut chars = self.rest().char_indices();
            if quote.is_some() {
                chars.next();
            }
            let mut end = None;
            while let Some((off, c)) = chars.next() {
                match c {
                    '\\' => {
                        value.push('\\');
                        value.extend(chars.next().map(|(_, c)| c));
                    }
                    _ if Some(c) == quote => {
                        end = Some(off + 1);
                        break;
                    }
                    ' ' | '|' if quote.is_none() => {
                        end = Some(off);
                        break;
                    }
                    _ => value.push(c),
                }
            }
            if quote.is_some() && end.is_none() {
                return bad(from, "this quote is never closed", "close it, or remove it");
            }
            self.at += end.unwrap_or(self.rest().len());
            if value.is_empty() && quote.is_none() {
                return bad(from, "a value is missing", "write one behind `=`; `*` is any");
            }
            values.push((value, from + usize::from(quote.is_some())));
            if !self.rest().starts_with('|') {
                return Ok(values);
            }
            self.at += 1;
        }
    }
}

/// Whether a part of a pattern may end here: at the end, or before selectors.
fn ends_a_part(behind: &str) -> bool {
    let next = behind.trim_start_matches(' ');
    if next.is_empty() {
        return true;
    }
    if next.len() == behind.len() {
        return false;
    }
    let word = &next[..next.find([' ', '=', '(']).unwrap_or(next.len())];
    let valued = next[word.len()..].starts_with('=')
        && word.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-".contains(&b));
    valued || matches!(word, "destructive" | "read_only")
}

/// Parses one of several fixed values.
fn among<T: Copy>(
    values: &[(String, usize)],
    what: &str,
    known: &[(&'static str, T)],
) -> Parsed<Vec<T>> {
    let one = |(value, at): &(String, usize)| match known.iter().find(|(word, _)| word == value) {
        Some((_, meaning)) => Ok(*meaning),
        None => {
            let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
            let hint = match nearest(value, words.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("there are {}", words.join(", ")),
            };
            bad(*at, format!("`{value}` is not a valid {what}"), hint)
        }
    };
    values.iter().map(one).collect()
}
