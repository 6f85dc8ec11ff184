//! `awk`: its program is taken apart into words and signs, and only those that cannot write, start or
//! load anything may be in it.
//!
//! The one hard question is whether a `/` divides or begins an expression, because an expression could
//! hide a sign. Where that is not certain, the program is not understood.

use crate::{Word, classify::grammar::Checked};

/// Words after which a value follows, so that a `/` begins an expression.
const BEFORE_VALUES: [&str; 14] = [
    "print", "printf", "return", "if", "while", "for", "do", "else", "in", "delete", "exit",
    "case", "BEGIN", "END",
];

/// Checks the words of `awk`: `-F` and `-v`, the program, then files. `awk` takes no option behind the
/// program, so words that are not known are harmless there.
pub(super) fn check(words: &[Word]) -> Checked {
    let mut at = 1;
    loop {
        let Some(word) = words.get(at) else { return Err("it has no program".to_owned()) };
        let Some(text) = word.literal() else {
            return Err("only a running shell knows its program".to_owned());
        };
        match text {
            "-F" | "-v" => {
                // A value that is not known may be several words.
                if words.get(at + 1).is_none_or(Word::has_unknown) {
                    return Err("only a running shell knows its program".to_owned());
                }
                at += 2;
            }
            "--" => {
                let text = words.get(at + 1).and_then(Word::literal);
                return program(text.ok_or("only a running shell knows its program")?);
            }
            text if text.starts_with("-F") || text.starts_with("-v") => at += 1,
            text if text.starts_with('-') => {
                return Err(format!("its option `{text}` is not among those known to only read"));
            }
            text => {
                // It would be a file to every `awk`, but somebody meant something else.
                let late = words.iter().skip(at + 1).filter_map(Word::literal);
                if let Some(option) = late.into_iter().find(|t| t.starts_with('-') && t.len() > 1) {
                    return Err(format!("the option `{option}` stands behind the program"));
                }
                return program(text);
            }
        }
    }
}

/// What stood before a `/`.
#[derive(PartialEq)]
enum Before {
    /// Something that a value may follow.
    Start,
    /// A value: a `/` divides it.
    Value,
    /// A `)`, or a word that is a value only sometimes.
    Either,
}

/// Checks a program.
fn program(text: &str) -> Checked {
    let text: Vec<char> = text.chars().collect();
    let mut before = Before::Start;
    let mut prints = false;
    let mut at = 0;
    while let Some(&c) = text.get(at) {
        let next = text.get(at + 1).copied();
        match c {
            ' ' | '\t' => at += 1,
            '#' => at += length(&text, at, |c| c != '\n'),
            '"' => {
                at = closed(&text, at + 1, '"')?;
                before = Before::Value;
            }
            '/' if before == Before::Start => {
                at = closed(&text, at + 1, '/')?;
                before = Before::Value;
            }
            '/' if before == Before::Either && text.iter().skip(at + 1).any(|c| *c == '/') => {
                return odd();
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let end = at + length(&text, at, |c| c.is_ascii_alphanumeric() || c == '_');
                let word: String = text.get(at..end).unwrap_or_default().iter().collect();
                at = end;
                before = match &*word {
                    "system" | "getline" | "eval" => {
                        return Err(format!("its program holds `{word}`"));
                    }
                    "length" => Before::Either,
                    word if BEFORE_VALUES.contains(&word) => {
                        prints |= matches!(word, "print" | "printf");
                        Before::Start
                    }
                    _ => Before::Value,
                };
            }
            c if c.is_ascii_digit() || c == '.' => {
                at = behind_number(&text, at)?;
                before = Before::Value;
            }
            ']' | ')' => {
                at += 1;
                before = if c == ']' { Before::Value } else { Before::Either };
            }
            '|' if next == Some('|') => {
                at += 2;
                before = Before::Start;
            }
            '|' => return Err("its program starts another, or may".to_owned()),
            '>' if prints || next == Some('>') => {
                return Err("its program writes to a file, or may".to_owned());
            }
            '+' | '-' if next == Some(c) => at += 2, // before a value or behind it
            ';' | '}' => {
                prints = false;
                before = Before::Start;
                at += 1;
            }
            '\n' | '{' | '(' | '[' | ',' | '$' | '!' | '~' | '<' | '>' | '=' | '+' | '-' | '*'
            | '/' | '%' | '^' | '&' | '?' | ':' => {
                before = Before::Start;
                at += 1;
            }
            _ => return odd(), // `@` calls and loads by name
        }
    }
    Ok(())
}

/// Returns the place behind a number: digits with at most one dot, then an exponent if it has digits.
///
/// A letter directly behind a number begins a word (`1system(x)` is a concatenation) or belongs to a
/// hexadecimal number. Versions of `awk` differ about which, so the program is not understood.
fn behind_number(text: &[char], start: usize) -> Result<usize, String> {
    let digits = |at| length(text, at, |c| c.is_ascii_digit());
    let whole = digits(start);
    let mut at = start + whole;
    let mut fraction = 0;
    if text.get(at) == Some(&'.') {
        fraction = digits(at + 1);
        at += 1 + fraction;
    }
    if whole + fraction == 0 {
        return odd();
    }
    if matches!(text.get(at), Some('e' | 'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some('+' | '-')));
        let exponent = digits(at + 1 + sign);
        at += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    match text.get(at) {
        Some(c) if c.is_alphabetic() || *c == '_' => odd(),
        _ => Ok(at),
    }
}

/// Returns how far this goes on.
fn length(text: &[char], at: usize, goes: impl Fn(char) -> bool) -> usize {
    text.iter().skip(at).take_while(|c| goes(**c)).count()
}

/// Returns the place behind the next mark. A `/` within a set ends the expression for some only.
fn closed(text: &[char], mut at: usize, mark: char) -> Result<usize, String> {
    let mut in_set = false;
    while let Some(&c) = text.get(at) {
        at += 1;
        match c {
            '\n' => return odd(),
            '\\' => at += 1,
            c if c == mark && in_set => return odd(),
            c if c == mark => return Ok(at),
            '[' if mark == '/' && !in_set => {
                in_set = true;
                at += usize::from(text.get(at) == Some(&'^'));
                at += usize::from(text.get(at) == Some(&']'));
            }
            // A class within a set has a bracket of its own.
            '[' if in_set && matches!(text.get(at), Some(':' | '.' | '=')) => {
                let sign = text.get(at);
                at += 1;
                at += length(text, at, |c| c.is_ascii_alphabetic());
                if text.get(at) != sign || text.get(at + 1) != Some(&']') {
                    return odd();
                }
                at += 2;
            }
            ']' => in_set = false,
            _ => {}
        }
    }
    odd()
}

fn odd<T>() -> Result<T, String> {
    Err("its program is not understood".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_only_print_are_known() {
        for text in [
            "{print $1}",
            "{ print $1, $NF }",
            "NR>1",
            "$3 > 100 {print $1}",
            "/foo|bar/ {print}",
            "!/x/",
            "BEGIN{FS=\":\"} {print $1}",
            "END{print NR}",
            "{s+=$1} END {print s/NR}",
            "{a[$1]++} END {for (k in a) print k, a[k]}",
            "length($0) > 80",
            "length > 80",
            "NR==FNR{a[$1];next} $1 in a",
            "{printf \"%s\\n\", $2}",
            "$1 ~ /^[a-z]+$/",
            "/^[[:space:]]*#/ {next} 1",
            "/a/,/b/",
            "{gsub(/\"/, \"\"); print}",
            "$2 >= 5 || $3 <= 2",
            "{x = $1 / 2; print x / 3}",
            "{print (a+b)/2}",
            "1",
            "{print \"a > b | c\"}",
            "!seen[$0]++",
            "{ if ($1 > 5) print $2; else print $3 }",
            "{print toupper($0)} # all",
            "$1 > 1e5 {x += 1.5e-3; y = .5; z = 1.}",
            "{print 1 .5 $1.2, $2*.5}",
        ] {
            assert_eq!(program(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn programs_that_write_start_or_load_are_not() {
        for text in [
            "{print > \"out\"}",
            "{print $1 >> \"out\"}",
            "{print | \"sh\"}",
            "BEGIN{system(\"id\")}",
            "{\"id\" | getline}",
            "{printf \"x\" > \"/dev/stderr\"}",
            "@include \"x\"",
            "@load \"x\"",
            "{@f()}",
            "{print |& \"x\"}",
            "{print(1) > \"o\"}",
            "{print a,\nb > \"o\"}",
            "{x = a / system(\"id\") / b}",
            "{(a) / \"/\" > \"x\"; print \"/\" > \"o\"}",
            "{print \"a",
            "{print /[/] > \"o\" #]/}",
            "{x = length / \"/\"; print \"x\" > \"/o\"}",
            "{getline x < \"f\"}",
            "{awk::system(\"id\")}",
            "{print a\n > \"o\"}",
            "{print `id`}",
            "{a = 1 /b/ print > \"x\"}",
            "{print \"\\\\\" > \"x\"}",
            "{sys\\\ntem(\"id\")}",
            "{print/x/ > \"o\"}",
            "/[[:space:]/] > \"o\" /",
            "/[[:/]/{print > \"o\"} /:]]/",
            "{ x++ / 2; print \"/\" > \"o\" }",
            "{switch($0){case /\"/: print \"x\" > \"out\" #\"\n}}",
            "BEGIN{x=1system(\"id\")}",
            "BEGIN{x=1.system(\"id\")}",
            "BEGIN{x=.system(\"id\")}",
            "BEGIN{x=.5system(\"id\")}",
            "BEGIN{x=1e5system(\"id\")}",
            "BEGIN{x=1e+5system(\"id\")}",
            "BEGIN{x=1esystem(\"id\")}",
            "BEGIN{x=1e+system(\"id\")}",
            "BEGIN{x=0x1system(\"id\")}",
            "BEGIN{x=0x1p3system(\"id\")}",
            "BEGIN{x=0xsystem(\"id\")}",
            "{x=$1system(\"id\")}",
            "BEGIN{1getline<\"f\"}",
            "BEGIN{x=1.2.3system(\"id\")}",
            "{if (1)x=2print > \"o\"}",
        ] {
            assert!(program(text).is_err(), "{text}");
        }
    }
}
