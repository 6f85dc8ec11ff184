//! Promises about every text: one part that writes is enough, however it is put together; nothing
//! panics; no text takes long.

use haft_shell::{Kind, classify};
use proptest::prelude::*;

/// Commands of one line that are of this kind in the corpus.
fn seeds(is_reading: bool) -> Vec<String> {
    let fits = |text: &str| !text.is_empty() && !text.contains(['\n', '#']) && text.len() < 80;
    crate::kinds::cases()
        .into_iter()
        .filter(|case| match is_reading {
            true => case.is_plain && case.kind == "read_only",
            false => matches!(&*case.kind, "writes" | "destructive"),
        })
        .map(|case| case.command)
        .filter(|command| fits(command))
        .collect()
}

/// Those that write and have no sign in them that gives a piece another meaning.
fn bare_seeds() -> Vec<String> {
    let signs = ['\'', '"', '\\', '$', '`', '[', '<', '{', '('];
    let mut seeds = seeds(false);
    seeds.retain(|text| text.is_ascii() && !text.contains(signs));
    // Some commands have no option that writes. One that nobody listed is doubt and no more, and a
    // word that may be any option is none.
    let is_tame = |text: &str| {
        let name = text.split(' ').next().unwrap_or_default();
        classify(&format!("{name} $x")).kind == Kind::ReadOnly
    };
    seeds.retain(|text| !is_tame(text) || !classify(text).why.contains("its option"));
    seeds
}

/// Ways to put a command into something larger.
const AROUND: [&str; 22] = [
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
    fn one_part_that_writes_is_enough(
        reading in prop::collection::vec(prop::sample::select(seeds(true)), 0..4),
        writing in prop::sample::select(seeds(false)),
        at in 0..4_usize,
        join in prop::sample::select(&JOINS[..]),
        around in prop::sample::select(&AROUND[..]),
        further in prop::sample::select(&AROUND[..]),
    ) {
        let alone = classify(&writing).kind;
        let mut parts = reading;
        parts.insert(at.min(parts.len()), put(around, &writing));
        let text = put(further, &parts.join(join));
        let found = classify(&text).kind;
        prop_assert!(found > Kind::ReadOnly, "{}", text);
        // What destroys does so in company too, unless the whole cannot be read.
        prop_assert!(found >= alone, "{} is {}", text, found);
    }

    #[test]
    fn parts_that_only_read_only_read_together(
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
    fn a_writing_command_does_not_become_reading_when_its_text_is_changed(
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
fn no_text_takes_long() {
    let most = haft_shell::MOST_CHARACTERS;
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
            let text = format!("{}{end}", piece.repeat((most - end.len()) / piece.len()));
            let start = std::time::Instant::now();
            let _ = classify(&text);
            // Some milliseconds when nothing else runs.
            assert!(start.elapsed().as_secs() < 5, "{piece}");
        }
        // Far too long: refused without looking at it.
        let _ = classify(&piece.repeat(1_000_000));
    }
}
