//! Limits, and properties of every text.

use haft_shell::{MAX_CHARACTERS, MAX_COMMANDS, MAX_DEPTH, Wrappers, parse};
use proptest::prelude::*;

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let open = [
        "(",
        "( ",
        "{ ",
        "$(",
        "$((",
        "\"$(",
        "`",
        "\\`",
        "${a:-",
        "\"${a:-",
        "[[ ( ",
        "if ",
        "[",
        "'",
        "while ",
        "f() {",
        "case x in a) ",
        "<(",
        "! ",
        "((",
        "sh -c '",
        "a=(",
        "$'",
        "{a,",
        "eval ",
    ];
    for open in open {
        // Beyond the length limit, and at it.
        for count in [100_000, MAX_CHARACTERS / open.len(), 300, MAX_DEPTH, MAX_DEPTH + 1] {
            let text = open.repeat(count);
            let _ = parse(&text);
            let _ = parse(&format!("ls {text}"));
        }
    }
}

#[test]
fn documented_limits_are_exact() {
    let nested = |n: usize| format!("{}ls{}", "( ".repeat(n), " )".repeat(n));
    assert!(parse(&nested(MAX_DEPTH)).is_ok());
    assert!(parse(&nested(MAX_DEPTH + 1)).unwrap_err().why.contains("deeper"));
    assert_eq!(parse(&"ls;".repeat(MAX_COMMANDS)).unwrap().commands.len(), MAX_COMMANDS);
    assert!(parse(&"ls;".repeat(MAX_COMMANDS + 1)).unwrap_err().why.contains("more than"));
    assert!(parse(&format!("echo {}", "x".repeat(MAX_CHARACTERS - 5))).is_ok());
    assert!(parse(&format!("echo {}", "x".repeat(MAX_CHARACTERS))).is_err());
    assert_eq!(parse("").unwrap().commands, [], "nothing is a script of no commands");
}

#[test]
fn too_many_nested_wrappers_end_in_an_unknown_view() {
    let text = format!("{} rm x", "nohup ".repeat(1000));
    let views = parse(&text).unwrap().commands[0].unwrapped(Wrappers::All);
    assert!(views.len() < 100, "{}", views.len());
    assert!(views.last().unwrap().command.words[0].has_unknown());
}

/// Random texts of shell tokens.
fn shellish() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "ls", "rm", "x", " ", " ", " ", "\n", ";", "&", "&&", "|", "||", "(", ")", "{", "}", "$",
        "$(", "${", "$((", "))", "`", "'", "\"", "\\", "<", ">", "<<", "<<E\n", "E\n", "if ",
        "then ", "fi", "for ", "in ", "do ", "done", "case ", "esac", ";;", "[[ ", " ]]", "=",
        "a=", "*", "?", "[", "]", "~", "#", "!", "-c", "sh ", "sudo ", "2>&1", "é",
    ]);
    prop::collection::vec(pieces, 0..25).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = parse(&text);
    }

    #[test]
    fn no_shell_like_text_panics_and_all_views_are_bounded(text in shellish()) {
        if let Ok(script) = parse(&text) {
            prop_assert!(script.commands.len() <= MAX_COMMANDS);
            for command in script.commands {
                for how in [Wrappers::All, Wrappers::Harmless] {
                    let views = command.unwrapped(how).len();
                    prop_assert!(views <= 65);
                    prop_assert!(views == 1 || command.may_wrap(how));
                }
            }
        }
    }

    #[test]
    fn two_scripts_joined_list_the_commands_of_both(
        index in 0..PARTS.len(), other in 0..PARTS.len(),
    ) {
        let (one, two) = (PARTS[index], PARTS[other]);
        let mut wanted = parse(one).unwrap().commands;
        wanted.extend(parse(two).unwrap().commands);
        for join in ["; ", "\n", " && ", " || ", " | ", " & "] {
            let joined = parse(&format!("{one}{join}{two}")).unwrap();
            prop_assert_eq!(&joined.commands, &wanted, "{}{}{}", one, join, two);
        }
    }

    #[test]
    fn text_before_a_semicolon_parses_the_same(text in shellish()) {
        prop_assume!(!text.contains(['#', '\n']) && !text.contains("()"));
        if let (Ok(alone), Ok(joined)) = (parse(&text), parse(&format!("{text} ; rm y"))) {
            if alone.commands.is_empty() {
                return Ok(());
            }
            let last = joined.commands.last().unwrap();
            prop_assert_eq!(last.words.first().and_then(|w| w.literal()), Some("rm"));
            prop_assert_eq!(&joined.commands[..alone.commands.len()], &alone.commands[..]);
        }
    }
}

proptest! {
    // Few of these texts parse, and only those are passed to bash.
    #![proptest_config(ProptestConfig::with_cases(2_000))]
    #[test]
    fn text_that_parses_is_accepted_by_bash(text in shellish()) {
        if parse(&text).is_ok() {
            prop_assert_ne!(crate::corpus::bash_accepts(&text), Some(false), "{}", text);
        }
    }
}

const PARTS: [&str; 14] = [
    "ls -l",
    "rm \"$x\" 2>&1",
    "(a; b) > c",
    "{ a; b; }",
    "if a; then b; fi",
    "for x in a b; do c; done",
    "while a; do b; done",
    "case x in y) z ;; esac",
    "echo $(a $(b)) `c`",
    "[[ -f x && -d y ]]",
    "A=1 b",
    "cat <(a)",
    "echo 'a;b' \"c && d\"",
    "sudo sh -c 'rm x'",
];
