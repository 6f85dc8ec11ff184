//! Properties of every text: one part that writes is enough, in every combination; no panic;
//! bounded time.

use haft_shell::{Kind, classify};
use proptest::prelude::*;

/// Single-line commands of this kind in the corpus.
fn seeds(is_reading: bool) -> Vec<String> {
    let fits = |text: &str| !text.is_empty() && !text.contains(['\n', '#']) && text.len() < 80;
    crate::kinds::cases()
        .into_iter()
        .filter(|case| {
            if is_reading {
                case.is_plain && case.kind == "read_only"
            } else {
                matches!(&*case.kind, "writes" | "destructive")
            }
        })
        .map(|case| case.command)
        .filter(|command| fits(command))
        .collect()
}

/// Commands that write, without characters that change the meaning of an inserted piece.
fn bare_seeds() -> Vec<String> {
    let signs = ['\'', '"', '\\', '$', '`', '[', '<', '{', '('];
    let mut seeds = seeds(false);
    seeds.retain(|text| text.is_ascii() && !text.contains(signs));
    // Some commands have no option that writes. An unlisted option only makes them uncertain, and a
    // word that may be any option does not.
    let is_lenient = |text: &str| {
        let name = text.split(' ').next().unwrap_or_default();
        classify(&format!("{name} $x")).kind == Kind::ReadOnly
    };
    seeds.retain(|text| !is_lenient(text) || !classify(text).why.contains("its option"));
    seeds
}

/// Ways to embed a command.
const EMBEDDINGS: [&str; 22] = [
    "@",
    "( @ )",
    "{ @; }",
    "echo $( @ )",
    "echo \"$( @ )\"",
    "cat <(@)",
    "if @; then ls; fi",
    "if ls; then @; fi",
    "if ls; then ls; else @; fi",
    "while @; do break; done",
    "for x in 1 2; do @; done",
    "case a in a) @ ;; esac",
    "! @",
    "[[ -n $( @ ) ]]",
    "cat <<EOF\n$( @ )\nEOF",
    "echo ${x:-$( @ )}",
    "ls > /dev/null; @",
    "@ &",
    "  @  ",
    "\n@\n",
    "ls \\\n; @",
    "f() { @; }; f",
];

const JOINS: [&str; 7] = ["; ", " && ", " || ", " | ", "\n", " & ", " |& "];

fn put(around: &str, text: &str) -> String {
    around.replace('@', text)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3_000))]

    #[test]
    fn one_part_that_writes_makes_the_text_write(
        reading in prop::collection::vec(prop::sample::select(seeds(true)), 0..4),
        writing in prop::sample::select(seeds(false)),
        at in 0..4_usize,
        join in prop::sample::select(&JOINS[..]),
        around in prop::sample::select(&EMBEDDINGS[..]),
        further in prop::sample::select(&EMBEDDINGS[..]),
    ) {
        let alone = classify(&writing).kind;
        let mut parts = reading;
        parts.insert(at.min(parts.len()), put(around, &writing));
        let text = put(further, &parts.join(join));
        let found = classify(&text).kind;
        prop_assert!(found > Kind::ReadOnly, "{}", text);
        // A destructive part stays destructive, unless the whole cannot be parsed.
        prop_assert!(found >= alone, "{} is {}", text, found);
    }

    #[test]
    fn read_only_parts_make_a_read_only_text(
        parts in prop::collection::vec(prop::sample::select(seeds(true)), 1..4),
        join in prop::sample::select(&JOINS[..]),
        around in prop::sample::select(&["@", "( @ )", "{ @; }", "if ls; then @; fi"][..]),
    ) {
        prop_assume!(!parts.iter().any(|part| part.starts_with("! ")));
        let text = put(around, &parts.join(join));
        let found = classify(&text);
        prop_assert_eq!(found.kind, Kind::ReadOnly, "{}: {}", text, found.why);
    }

    #[test]
    fn edited_writing_command_does_not_become_read_only(
        writing in prop::sample::select(bare_seeds()),
        at in any::<prop::sample::Index>(),
        piece in prop::sample::select(&["''", "\"\"", "$x", "${x}", "$(true)", "\u{200b}", "\r"][..]),
    ) {
        let at = at.index(writing.len() + 1);
        let text = format!("{}{piece}{}", &writing[..at], &writing[at..]);
        prop_assert!(classify(&text).kind > Kind::ReadOnly, "{}", text);
    }

    #[test]
    fn no_text_panics(text in any::<String>()) {
        let _ = classify(&text);
    }

    #[test]
    fn no_text_of_commands_and_signs_panics(
        pieces in prop::collection::vec(prop::sample::select(vec![
            "ls ", "sort ", "sed ", "awk ", "find ", "tar ", "xargs ", "sh -c ", "date ", "-", "--", "-o", "-e ", "'", "\"",
            "s/a/b/", "{print}", "$x", "$(", ")", "`", "|", ";", " ", "\\", "=", "é", "/", "[", "]", "{}", " \\; ", "+", "-exec ", "tf",
        ]), 0..20),
    ) {
        let _ = classify(&pieces.concat());
    }
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the question is how long it takes")]
fn classification_time_is_bounded() {
    let max_characters = haft_shell::MAX_CHARACTERS;
    for piece in [
        "ls;",
        "ls -l ",
        "sort -n",
        "eval ",
        "sh -c '",
        "sudo ",
        "xargs ",
        "find . -exec ",
        "timeout 5 ",
        "sed -e p ",
        "awk ",
        "$(",
        "${x:-",
        "[[ ",
        "a=1 ",
        "ls|",
        "env ",
        "bash -c \"",
        "{",
        "nice ",
        "( ",
        "command ",
        "git -c a=b ",
    ] {
        for end in ["", "ls", "rm x"] {
            let text = format!("{}{end}", piece.repeat((max_characters - end.len()) / piece.len()));
            let start = std::time::Instant::now();
            let _ = classify(&text);
            // A few milliseconds on an idle machine.
            assert!(start.elapsed().as_secs() < 5, "{piece}");
        }
        // Far beyond the limit: refused without parsing.
        let _ = classify(&piece.repeat(1_000_000));
    }
}
