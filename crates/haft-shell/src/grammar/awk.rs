//! `awk`: tokenizes the program and accepts only tokens that cannot write, start or load anything.
//!
//! The hard question is whether a `/` divides or starts a regular expression, because an expression
//! could hide an operator. If that is ambiguous, the program is refused.

use crate::{Word, grammar::Checked};

/// Words before a value, after which a `/` starts an expression.
const BEFORE_VALUES: [&str; 14] = [
    "print", "printf", "return", "if", "while", "for", "do", "else", "in", "delete", "exit",
    "case", "BEGIN", "END",
];

/// Checks the words of `awk`: `-F` and `-v`, the program, then files. `awk` accepts no option after
/// the program, so unknown words are harmless there.
pub(crate) fn check(words: &[Word]) -> Checked {
    let mut at = 1;
    loop {
        let Some(word) = words.get(at) else { return Err("it has no program".to_owned()) };
        let Some(text) = word.literal() else {
            return Err("its program is known only at run time".to_owned());
        };
        match text {
            "-F" | "-v" => {
                // An unknown value may expand to several words.
                if words.get(at + 1).is_none_or(Word::has_unknown) {
                    return Err("its program is known only at run time".to_owned());
                }
                at += 2;
            }
            "--" => {
                let text = words.get(at + 1).and_then(Word::literal);
                return program(text.ok_or("its program is known only at run time")?);
            }
            text if text.starts_with("-F") || text.starts_with("-v") => at += 1,
            text if text.starts_with('-') => {
                return Err(format!("its option `{text}` is not in the read-only list"));
            }
            text => {
                // Every `awk` would treat it as a file, but the author intended something else.
                let late = words.iter().skip(at + 1).filter_map(Word::literal);
                if let Some(option) = late.into_iter().find(|t| t.starts_with('-') && t.len() > 1) {
                    return Err(format!("the option `{option}` follows the program"));
                }
                return program(text);
            }
        }
    }
}

/// What precedes a `/`.
#[derive(PartialEq)]
enum Before {
    /// A value may follow.
    Start,
    /// A value: a `/` divides it.
    Value,
    /// A `)`, or a word that is only sometimes a value.
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
            '#' => at += run_length(&text, at, |c| c != '\n'),
            '"' => {
                at = after_delimiter(&text, at + 1, '"')?;
                before = Before::Value;
            }
            '/' if before == Before::Start => {
                at = after_delimiter(&text, at + 1, '/')?;
                before = Before::Value;
            }
            '/' if before == Before::Either && text.iter().skip(at + 1).any(|c| *c == '/') => {
                return not_understood();
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let end = at + run_length(&text, at, |c| c.is_ascii_alphanumeric() || c == '_');
                let word: String = text.get(at..end).unwrap_or_default().iter().collect();
                at = end;
                before = match &*word {
                    "system" | "getline" | "eval" => {
                        return Err(format!("its program contains `{word}`"));
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
                at = after_number(&text, at)?;
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
            '|' => return Err("its program may start another program".to_owned()),
            '>' if prints || next == Some('>') => {
                return Err("its program may write to a file".to_owned());
            }
            '+' | '-' if next == Some(c) => at += 2, // before or after a value
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
            _ => return not_understood(), // `@` calls and loads by name
        }
    }
    Ok(())
}

/// Returns the position after a number: digits with at most one dot, then an exponent if it has
/// digits.
///
/// A letter directly after a number starts a word (`1system(x)` is a concatenation) or belongs to a
/// hexadecimal number. Versions of `awk` differ, so the program is refused.
fn after_number(text: &[char], start: usize) -> Result<usize, String> {
    let digits = |at| run_length(text, at, |c| c.is_ascii_digit());
    let whole = digits(start);
    let mut at = start + whole;
    let mut fraction = 0;
    if text.get(at) == Some(&'.') {
        fraction = digits(at + 1);
        at += 1 + fraction;
    }
    if whole + fraction == 0 {
        return not_understood();
    }
    if matches!(text.get(at), Some('e' | 'E')) {
        let sign = usize::from(matches!(text.get(at + 1), Some('+' | '-')));
        let exponent = digits(at + 1 + sign);
        at += if exponent > 0 { 1 + sign + exponent } else { 0 };
    }
    match text.get(at) {
        Some(c) if c.is_alphabetic() || *c == '_' => not_understood(),
        _ => Ok(at),
    }
}

/// Returns the length of the run of matching characters.
fn run_length(text: &[char], at: usize, matches: impl Fn(char) -> bool) -> usize {
    text.iter().skip(at).take_while(|c| matches(**c)).count()
}

/// Returns the position after the next delimiter. A `/` inside a bracket expression ends the
/// expression only in some versions.
fn after_delimiter(text: &[char], mut at: usize, mark: char) -> Result<usize, String> {
    let mut in_set = false;
    while let Some(&c) = text.get(at) {
        at += 1;
        match c {
            '\n' => return not_understood(),
            '\\' => at += 1,
            c if c == mark && in_set => return not_understood(),
            c if c == mark => return Ok(at),
            '[' if mark == '/' && !in_set => {
                in_set = true;
                at += usize::from(text.get(at) == Some(&'^'));
                at += usize::from(text.get(at) == Some(&']'));
            }
            // A character class inside a bracket expression has its own brackets.
            '[' if in_set && matches!(text.get(at), Some(':' | '.' | '=')) => {
                let sign = text.get(at);
                at += 1;
                at += run_length(text, at, |c| c.is_ascii_alphabetic());
                if text.get(at) != sign || text.get(at + 1) != Some(&']') {
                    return not_understood();
                }
                at += 2;
            }
            ']' => in_set = false,
            _ => {}
        }
    }
    not_understood()
}

fn not_understood<T>() -> Result<T, String> {
    Err("its program cannot be parsed".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_that_only_print_are_accepted() {
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
    fn programs_that_write_start_or_load_are_refused() {
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
