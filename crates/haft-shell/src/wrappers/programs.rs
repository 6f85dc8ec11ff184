//! Extracts what programs of `awk` and `sed` start and write.
//!
//! In: a program. Out: the commands it passes to a shell and the files it writes. Unknown parts
//! become `${_}`, which the shell parser treats as unknown. A program that cannot be parsed and may
//! start something is reported as hidden.

use crate::{
    SimpleCommand, Word, WordPiece,
    grammar::only_prints,
    interpreters::{self, Language, Program},
    wrappers::Inner,
};

/// What a program does besides printing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgramEffect {
    /// It passes this text to a shell.
    Runs(String),
    /// It pipes its output into this shell text or program.
    Feeds(String),
    /// It writes this file.
    Writes(String),
    /// It starts something unknown.
    Hidden,
}

/// Placeholder for a value that is known only at run time.
const UNKNOWN: &str = "${_}";

/// Returns the shell texts that programs of `awk` or `sed` start. A program proven to only print
/// starts nothing.
pub(crate) fn inner(command: &SimpleCommand) -> Vec<Inner> {
    let Some(runs) = interpreters::of(command).filter(|_| !only_prints(command)) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for program in runs.programs {
        let Program::Text(text) = program else { continue };
        if text.pieces == [WordPiece::Unknown] {
            found.push(Inner::Opaque);
            continue;
        }
        let acts = match runs.language {
            Language::Sed => sed(&as_shell_text(&text)),
            _ => awk(&as_shell_text(&text)),
        };
        found.extend(acts.into_iter().filter_map(|act| match act {
            ProgramEffect::Runs(text) | ProgramEffect::Feeds(text) => {
                Some(Inner::Text(vec![Word::text(text)]))
            }
            ProgramEffect::Hidden => Some(Inner::Opaque),
            ProgramEffect::Writes(_) => None,
        }));
    }
    found
}

/// Returns what an `awk` program does.
pub(crate) fn awk(text: &str) -> Vec<ProgramEffect> {
    let Some(tokens) = tokens(text) else {
        let may_start = text.contains("system") || text.contains('|') || text.contains("getline");
        return if may_start { vec![ProgramEffect::Hidden] } else { Vec::new() };
    };
    let mut acts = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Word(word) if word == "system" => {
                let rest = tokens.get(at + 1..).unwrap_or_default();
                acts.push(ProgramEffect::Runs(joined(inside(rest))));
            }
            // An indirect call may call anything. A library is a file, as with `-f`.
            Token::Sign("@") => {
                let library = |word: &str| matches!(word, "include" | "load" | "namespace");
                if !matches!(tokens.get(at + 1), Some(Token::Word(word)) if library(word)) {
                    acts.push(ProgramEffect::Hidden);
                }
            }
            Token::Sign("|" | "|&") => {
                let rest = tokens.get(at + 1..).unwrap_or_default();
                if matches!(rest.first(), Some(Token::Word(word)) if word == "getline") {
                    let before = tokens.get(..at).unwrap_or_default();
                    acts.push(ProgramEffect::Runs(joined(before_pipe(before))));
                } else {
                    acts.push(ProgramEffect::Feeds(joined(statement(rest))));
                }
            }
            Token::Sign(">>") => {
                acts.push(ProgramEffect::Writes(joined(statement(
                    tokens.get(at + 1..).unwrap_or_default(),
                ))));
            }
            // Otherwise it compares. A compared name is not a file, so reporting it is harmless.
            Token::Sign(">") => {
                let rest = statement(tokens.get(at + 1..).unwrap_or_default());
                if matches!(rest.first(), Some(Token::Text(_))) {
                    acts.push(ProgramEffect::Writes(joined(rest)));
                }
            }
            _ => {}
        }
    }
    acts
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Text(String),
    Sign(&'static str),
    Other(char),
    End,
}

/// Tokenizes a program; `None` if a quote or an expression is not closed.
fn tokens(text: &str) -> Option<Vec<Token>> {
    let text: Vec<char> = text.chars().collect();
    let mut tokens: Vec<Token> = Vec::new();
    let mut at = 0;
    while let Some(&c) = text.get(at) {
        let next = text.get(at + 1).copied();
        at += 1;
        match c {
            ' ' | '\t' | '\r' => {}
            '\\' if next == Some('\n') => at += 1,
            '#' => at += text.iter().skip(at).take_while(|c| **c != '\n').count(),
            '\n' | ';' | '}' | '{' => tokens.push(Token::End),
            '"' => tokens.push(Token::Text(until_delimiter(&text, &mut at, '"')?)),
            '/' if !tokens.last().is_some_and(is_value) => {
                until_delimiter(&text, &mut at, '/')?;
                tokens.push(Token::Other('/'));
            }
            '|' if next == Some('|') => {
                at += 1;
                tokens.push(Token::Other('|'));
            }
            '|' if next == Some('&') => {
                at += 1;
                tokens.push(Token::Sign("|&"));
            }
            '|' => tokens.push(Token::Sign("|")),
            '>' if next == Some('=') => {
                at += 1;
                tokens.push(Token::Other('>'));
            }
            '>' if next == Some('>') => {
                at += 1;
                tokens.push(Token::Sign(">>"));
            }
            '>' => tokens.push(Token::Sign(">")),
            '@' => tokens.push(Token::Sign("@")),
            c if c.is_alphabetic() || c == '_' => {
                let mut word = String::from(c);
                while let Some(&c) = text.get(at).filter(|c| c.is_alphanumeric() || **c == '_') {
                    word.push(c);
                    at += 1;
                }
                tokens.push(Token::Word(word));
            }
            c if c.is_ascii_digit() => {
                at = after_number(&text, at - 1);
                tokens.push(Token::Other(c));
            }
            c => tokens.push(Token::Other(c)),
        }
    }
    Some(tokens)
}

/// Returns the position after a number. Takes the longest number of any `awk` version, so that a
/// word directly after it is found: `1e5system(x)`, `0x1system(x)`.
fn after_number(text: &[char], start: usize) -> usize {
    let count = |at: usize, is_digit: fn(&char) -> bool| {
        text.iter().skip(at).take_while(|c| is_digit(c)).count()
    };
    let is_hex = text.get(start) == Some(&'0') && matches!(text.get(start + 1), Some('x' | 'X'));
    let (from, is_digit, mark): (_, fn(&char) -> bool, _) = if is_hex {
        (start + 2, char::is_ascii_hexdigit, 'p')
    } else {
        (start, char::is_ascii_digit, 'e')
    };
    let mut at = from + count(from, is_digit);
    if text.get(at) == Some(&'.') {
        at += 1 + count(at + 1, is_digit);
    }
    if text.get(at).is_some_and(|c| c.eq_ignore_ascii_case(&mark)) {
        let sign = usize::from(matches!(text.get(at + 1), Some('+' | '-')));
        let exponent = count(at + 1 + sign, char::is_ascii_digit);
        at += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    at
}

/// Returns whether a `/` after this token divides.
fn is_value(token: &Token) -> bool {
    match token {
        Token::Word(word) => !matches!(&**word, "print" | "printf" | "return" | "in" | "case"),
        Token::Text(_) => true,
        Token::Other(c) => matches!(c, ')' | ']') || c.is_alphanumeric(),
        Token::Sign(_) | Token::End => false,
    }
}

/// Returns the text up to the next delimiter and moves past it.
fn until_delimiter(text: &[char], at: &mut usize, mark: char) -> Option<String> {
    let mut found = String::new();
    loop {
        let c = *text.get(*at)?;
        *at += 1;
        match c {
            c if c == mark => return Some(found),
            '\n' => return None,
            '\\' => {
                let escaped = *text.get(*at)?;
                *at += 1;
                match escaped {
                    'n' => found.push('\n'),
                    't' => found.push('\t'),
                    '"' | '\\' | '/' => found.push(escaped),
                    // A numeric escape may be any character.
                    _ => found.push_str(UNKNOWN),
                }
            }
            c => found.push(c),
        }
    }
}

/// Returns the contents of the parentheses that follow.
fn inside(tokens: &[Token]) -> &[Token] {
    if tokens.first() != Some(&Token::Other('(')) {
        return &[];
    }
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Other('(') => depth += 1,
            Token::Other(')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return tokens.get(1..at).unwrap_or_default();
        }
    }
    tokens.get(1..).unwrap_or_default()
}

/// Returns the tokens up to the end of the statement.
fn statement(tokens: &[Token]) -> &[Token] {
    let end = tokens.iter().position(|token| *token == Token::End).unwrap_or(tokens.len());
    tokens.get(..end).unwrap_or_default()
}

/// Returns the preceding tokens, back to the start of the statement.
fn before_pipe(tokens: &[Token]) -> &[Token] {
    let start = tokens.iter().rposition(|token| *token == Token::End).map_or(0, |at| at + 1);
    let tokens = tokens.get(start..).unwrap_or_default();
    // `while (("ls") | getline x)`: only the text counts.
    let text = tokens.iter().position(|token| matches!(token, Token::Text(_)));
    tokens.get(text.unwrap_or(0)..).unwrap_or_default()
}

/// Returns the text that an expression builds: literals as they are, everything else unknown.
fn joined(tokens: &[Token]) -> String {
    let mut text = String::new();
    for token in tokens {
        match token {
            Token::Text(own) => text.push_str(own),
            Token::Other('(' | ')') | Token::End => {}
            _ if text.ends_with(UNKNOWN) => {}
            _ => text.push_str(UNKNOWN),
        }
    }
    if tokens.is_empty() { UNKNOWN.to_owned() } else { text }
}

/// Returns what a `sed` script does. Parses permissively: a command that may run or write counts as
/// one that does.
pub(crate) fn sed(script: &str) -> Vec<ProgramEffect> {
    let chars: Vec<char> = script.chars().collect();
    let mut acts = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if sed_command(&chars, &mut at, &mut acts).is_none() {
            // Not parsed: look for a lone letter where a command or a flag is allowed.
            if may_run(script) {
                acts.push(ProgramEffect::Hidden);
            }
            return acts;
        }
    }
    acts
}

/// Parses one command; `None` if it cannot be parsed.
fn sed_command(chars: &[char], at: &mut usize, acts: &mut Vec<ProgramEffect>) -> Option<()> {
    let peek = |at: usize| chars.get(at).copied();
    let is_blank = |c: char| c.is_ascii_whitespace() || c == ';' || c == '{' || c == '}';
    while peek(*at).is_some_and(is_blank) {
        *at += 1;
    }
    // Addresses: numbers, `$`, expressions, and the operators between them.
    loop {
        match peek(*at) {
            Some('/') => delimited(chars, at, '/', true)?,
            Some('\\') => {
                *at += 1;
                let mark = peek(*at)?;
                delimited(chars, at, mark, true)?;
            }
            Some(c) if c.is_ascii_digit() || "$,~+! \tIM".contains(c) => *at += 1,
            _ => break,
        }
    }
    let Some(command) = peek(*at) else { return Some(()) };
    *at += 1;
    let line = |at: &mut usize| {
        let rest: String = chars.iter().skip(*at).take_while(|c| **c != '\n').collect();
        *at += rest.chars().count();
        rest.trim().to_owned()
    };
    match command {
        '#' => drop(line(at)),
        'e' => {
            let text = line(at);
            // Without a command it runs the pattern space.
            acts.push(if text.is_empty() || text.starts_with([';', '}']) {
                ProgramEffect::Hidden
            } else {
                ProgramEffect::Runs(text)
            });
        }
        'w' | 'W' => acts.push(ProgramEffect::Writes(line(at))),
        'a' | 'i' | 'c' | 'r' | 'R' | 'b' | 't' | 'T' | ':' | 'v' => {
            text_line(chars, at, command);
        }
        's' | 'y' => {
            let mark = peek(*at)?;
            if mark == '\n' || mark == '\\' {
                return None;
            }
            delimited(chars, at, mark, command == 's')?;
            *at -= 1;
            delimited(chars, at, mark, false)?;
            while let Some(flag) = peek(*at) {
                match flag {
                    // The result of the substitution is executed.
                    'e' => acts.push(ProgramEffect::Hidden),
                    'w' => {
                        *at += 1;
                        acts.push(ProgramEffect::Writes(line(at)));
                        return Some(());
                    }
                    flag if flag.is_ascii_alphanumeric() => {}
                    _ => break,
                }
                *at += 1;
            }
        }
        _ => {}
    }
    Some(())
}

/// Skips the text of a command that takes one.
fn text_line(chars: &[char], at: &mut usize, command: char) {
    let labels = matches!(command, 'b' | 't' | 'T' | ':' | 'v');
    while let Some(&c) = chars.get(*at) {
        if c == '\n' || labels && matches!(c, ';' | '}') {
            return;
        }
        // A backslash continues the text.
        *at += if c == '\\' { 2 } else { 1 };
    }
}

/// Moves from one delimiter past the next. `None` if a bracket expression may contain the
/// delimiter.
fn delimited(chars: &[char], at: &mut usize, mark: char, is_expression: bool) -> Option<()> {
    *at += 1;
    loop {
        let c = *chars.get(*at)?;
        *at += 1;
        match c {
            c if c == mark => return Some(()),
            '\\' => *at += 1,
            '[' if is_expression => {
                let rest = chars.get(*at..)?;
                let close = rest.iter().skip(1).position(|c| *c == ']')? + 1;
                if rest.iter().take(close).any(|c| *c == mark) {
                    return None;
                }
                *at += close + 1;
            }
            _ => {}
        }
    }
}

/// Returns whether an unparsed script may run something: an `e` where a command or a flag is
/// allowed.
fn may_run(script: &str) -> bool {
    let chars: Vec<char> = script.chars().collect();
    let is_flag = |c: &char| "gpiImMw".contains(*c) || c.is_ascii_digit();
    chars.iter().enumerate().any(|(at, c)| {
        let before = chars.get(..at).unwrap_or_default().iter().rev().find(|c| !is_flag(c));
        let after = chars.get(at + 1..).unwrap_or_default().iter().find(|c| !is_flag(c));
        *c == 'e'
            && before.is_none_or(|c| !c.is_alphanumeric())
            && after.is_none_or(|c| !c.is_alphanumeric())
    })
}

/// Returns a shell text in which unknown parts are a variable.
pub(crate) fn as_shell_text(word: &Word) -> String {
    let piece = |piece: &WordPiece| match piece {
        WordPiece::Text(text) => text.clone(),
        WordPiece::Unknown => "${_}".to_owned(),
    };
    word.pieces.iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(text: &str) -> ProgramEffect {
        ProgramEffect::Runs(text.to_owned())
    }

    #[test]
    fn awk_effects_are_found() {
        for (program, wanted) in [
            ("{print $1}", vec![]),
            ("$3 > 5 || /a|b/ {print \"x | y\"}", vec![]),
            ("BEGIN{system(\"rm -rf x\")}", vec![runs("rm -rf x")]),
            ("{system(\"rm \" $1)}", vec![runs("rm ${_}")]),
            ("{system($0)}", vec![runs("${_}")]),
            ("{\"curl x\" | getline y}", vec![runs("curl x")]),
            ("BEGIN{while((\"ls\")|getline x)print x}", vec![runs("ls")]),
            ("{print | \"sh\"}", vec![ProgramEffect::Feeds("sh".to_owned())]),
            ("{print |& \"cat\"}", vec![ProgramEffect::Feeds("cat".to_owned())]),
            ("{print > \"/proc/x\"}", vec![ProgramEffect::Writes("/proc/x".to_owned())]),
            ("{print >> \"o\"; print}", vec![ProgramEffect::Writes("o".to_owned())]),
            ("{x = a / 2; system(\"id\") / b}", vec![runs("id")]),
            ("{@f()}", vec![ProgramEffect::Hidden]),
            ("@include \"x\"", vec![]),
            ("{print; system(\"\")}", vec![runs("")]),
            ("{print /[/] | \"sh\"}", vec![ProgramEffect::Feeds("sh".to_owned())]),
            ("{print \"a | \"", vec![]),
            ("{print \"a | system", vec![ProgramEffect::Hidden]),
            ("{x=1system(\"id\")}", vec![runs("id")]),
            ("{x=.5e-3system(\"id\")}", vec![runs("id")]),
            ("{x=0x1fsystem(\"id\")}", vec![runs("id")]),
            ("{x=0x1p3system(\"id\")}", vec![runs("id")]),
            ("{x=1esystem(\"id\"); y=1e5}", vec![]),
            ("{x=1/2; system(\"id\")}", vec![runs("id")]),
        ] {
            assert_eq!(awk(program), wanted, "{program}");
        }
    }

    #[test]
    fn sed_effects_are_found() {
        for (script, wanted) in [
            ("p", vec![]),
            ("s/e/e/;/e/d;s/a/ e /gp", vec![]),
            ("1,5p;s|a|b|g", vec![]),
            ("1e rm -rf x", vec![runs("rm -rf x")]),
            ("/a/,$!e touch x", vec![runs("touch x")]),
            ("e", vec![ProgramEffect::Hidden]),
            ("s/a/b/e", vec![ProgramEffect::Hidden]),
            ("s,a,b,ge", vec![ProgramEffect::Hidden]),
            ("s/[/]/b/e", vec![ProgramEffect::Hidden]),
            ("s/a/b/w /dev/sda", vec![ProgramEffect::Writes("/dev/sda".to_owned())]),
            ("/x/{w out\n}", vec![ProgramEffect::Writes("out".to_owned())]),
            ("a hello e\np", vec![]),
            ("s/[^e]e//g", vec![]),
            ("y/abc/def/;e id", vec![runs("id")]),
            ("$!{$!N;e\n}", vec![ProgramEffect::Hidden]),
        ] {
            assert_eq!(sed(script), wanted, "{script}");
        }
    }
}
