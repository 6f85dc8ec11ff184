//! `search_files`.

use haft::{
    Decision, Event, FailureCode, PathBase, Pattern, PolicyContext, Progress, Rule, Rules, Runtime,
    ToolCall, ToolRegistry, serde_json::json,
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;

use super::Room;

fn room() -> Room {
    let room = Room::new();
    room.put("src/a.rs", "fn alpha() {}\n\n// TODO: beta\nfn gamma() {}\n");
    room.put("src/b.ts", "// todo later\nlet x = 'TODO';\n");
    room.put("notes.md", "nothing here\n");
    room.put(".gitignore", "build/\n/*.tmp\n!keep.tmp\n");
    room.put("build/out.rs", "TODO built\n");
    room.put("drop.tmp", "TODO dropped\n");
    room.put("keep.tmp", "TODO kept\n");
    room.put("src/x.tmp", "TODO below\n");
    room.put(".env", "TODO hidden\n");
    room.put("bin.dat", b"\0\0TODO\n");
    room.link("/etc", "way_out");
    room
}

#[tokio::test]
async fn matching_lines_come_below_their_file_with_their_numbers() {
    assert_eq!(
        room().says("search_files", json!({"pattern": "TODO"})).await,
        "keep.tmp\n1:TODO kept\n\nsrc/a.rs\n3:// TODO: beta\n\nsrc/b.ts\n2:let x = 'TODO';\n\n\
         src/x.tmp\n1:TODO below\n\n[4 matching lines in 4 files; 1 binary file not searched to \
         the end]"
    );
}

#[tokio::test]
async fn a_search_is_narrowed_by_path_glob_type_and_case() {
    let room = room();
    let files = async |arguments: haft::serde_json::Value| {
        let mut arguments = arguments;
        arguments["mode"] = json!("files");
        let told = room.says("search_files", arguments).await;
        told.lines().filter(|line| !line.starts_with('[')).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        files(json!({"pattern": "TODO", "path": "src"})).await,
        "src/a.rs src/b.ts src/x.tmp"
    );
    assert_eq!(files(json!({"pattern": "TODO", "globs": ["*.rs"]})).await, "src/a.rs");
    assert_eq!(files(json!({"pattern": "TODO", "globs": ["!*.tmp"]})).await, "src/a.rs src/b.ts");
    assert_eq!(files(json!({"pattern": "TODO", "type": "ts"})).await, "src/b.ts");
    assert_eq!(
        files(json!({"pattern": "^// todo", "ignore_case": true})).await,
        "src/a.rs src/b.ts"
    );
    assert_eq!(files(json!({"pattern": "alpha()", "literal": true})).await, "src/a.rs");
    let all = files(json!({"pattern": "TODO", "all": true})).await;
    assert_eq!(all, ".env build/out.rs drop.tmp keep.tmp src/a.rs src/b.ts src/x.tmp");
    assert_eq!(files(json!({"pattern": "TODO", "path": "src/a.rs"})).await, "src/a.rs");
}

#[tokio::test]
async fn what_an_ignore_file_says_holds_for_names_that_come_before_its_own() {
    let room = Room::new();
    room.put("a/b/.gitignore", "*.log\n");
    room.put("a/b/.ignore", "!+kept.log\n");
    // Both come before a dot.
    room.put("a/b/!first.log", "TODO\n");
    room.put("a/b/+kept.log", "TODO\n");
    room.put("a/b/c/deep.log", "TODO\n");
    room.put("a/beside.log", "TODO\n");
    room.put("a/z/after.log", "TODO\n");
    let told = room.says("search_files", json!({"pattern": "TODO", "mode": "files"})).await;
    assert_eq!(told, "a/b/+kept.log\na/beside.log\na/z/after.log\n[3 files]");
}

#[tokio::test]
async fn lines_around_a_match_and_counts_can_be_asked_for() {
    let room = room();
    assert_eq!(
        room.says("search_files", json!({"pattern": "TODO", "path": "src/a.rs", "context": 1}))
            .await,
        "src/a.rs\n2-\n3:// TODO: beta\n4-fn gamma() {}\n\n[1 matching line in 1 file]"
    );
    assert_eq!(
        room.says("search_files", json!({"pattern": "fn ", "mode": "count"})).await,
        "src/a.rs:2\n[2 matching lines in 1 file; 1 binary file not searched to the end]"
    );
    assert_eq!(
        room.says("search_files", json!({"pattern": "zebra", "path": "src"})).await,
        "[no match for `zebra` in 3 files]"
    );
}

#[tokio::test]
async fn the_first_matches_in_the_order_of_names_are_told_whoever_finds_them() {
    let room = Room::new();
    for n in 0..400 {
        room.put(&format!("d{:02}/f{n:03}.txt", n / 20), "hit one\nmiss\nhit two\n");
    }
    for _ in 0..5 {
        let told = room.says("search_files", json!({"pattern": "hit", "limit": 25})).await;
        let lines = told.lines().filter(|line| line.contains(":hit")).count();
        assert_eq!(lines, 25);
        assert!(
            told.contains("d00/f012.txt\n1:hit one\n\n[25 matching lines in 13 files"),
            "{told}"
        );
        assert!(told.contains("there are more"), "{told}");
    }
    let all = room.says("search_files", json!({"pattern": "hit", "limit": 800})).await;
    assert!(all.ends_with("[800 matching lines in 400 files]"), "{}", all.len());
}

#[tokio::test]
async fn an_answer_is_bounded_in_bytes_and_long_lines_are_cut_around_the_match() {
    let room = Room::new();
    room.put("wide.txt", format!("{}NEEDLE{}\n", "a".repeat(3_000), "b".repeat(3_000)));
    let told = room.says("search_files", json!({"pattern": "NEEDLE"})).await;
    assert!(told.contains("NEEDLE") && told.len() < 800, "{told}");
    for n in 0..40 {
        room.put(&format!("many{n}.txt"), format!("x{}\n", "y".repeat(400)).repeat(50));
    }
    let envelope = room.call("search_files", json!({"pattern": "^xy", "limit": 2000})).await;
    assert!(envelope.cut().is_none() && envelope.text().len() < 69_000);
    assert!(envelope.text().contains("there are more"));
}

#[tokio::test]
async fn an_expression_that_is_none_or_cannot_be_linear_is_refused_in_words() {
    let room = room();
    for bad in ["(", "a(?=b)", r"(a)\1", "a{1000}{1000}{1000}"] {
        let (code, told) = room.fails("search_files", json!({"pattern": bad})).await;
        assert_eq!(code, FailureCode::InvalidValue, "{bad}");
        assert!(told.starts_with("`pattern` cannot be searched for"), "{told}");
    }
    let (_, told) = room.fails("search_files", json!({"pattern": "x", "type": "klingon"})).await;
    assert!(told.contains("`klingon` is no file type"), "{told}");
    room.put("evil.txt", format!("{}b\n", "a".repeat(50_000)));
    room.says("search_files", json!({"pattern": "(a*)*c", "path": "evil.txt"})).await;
}

#[tokio::test]
async fn no_link_is_followed_and_no_ignore_file_is_read_through_one() {
    let room = Room::new();
    room.put("a.txt", "word\n");
    room.put("sub/b.txt", "word\n");
    room.link(&room.outside, "way_out");
    room.link(room.outside.join("secret.txt"), "secret.txt");
    super::put(&room.outside.join("rules"), "*\n");
    room.link(room.outside.join("rules"), "sub/.gitignore");
    let told = room.says("search_files", json!({"pattern": "word|nobody", "all": false})).await;
    assert_eq!(told, "a.txt\n1:word\n\nsub/b.txt\n1:word\n\n[2 matching lines in 2 files]");
    let through = json!({"pattern": "nobody", "path": "way_out"});
    assert_eq!(room.fails("search_files", through).await.0, FailureCode::OutsideWorkspace);
}

#[tokio::test]
async fn what_is_found_is_told_while_the_search_goes_on() {
    let room = room();
    let mut told = String::new();
    let mut events = room.runtime.events(1_000);
    let answer = room.says("search_files", json!({"pattern": "TODO"})).await;
    while let Some(news) = events.try_next() {
        if let Some(Event::Progress { note: Progress::Partial(text), .. }) =
            news.event().map(|stamped| &stamped.event)
        {
            told.push_str(text);
        }
    }
    assert!(!told.is_empty() && answer.starts_with(&told), "{told}");
}

#[tokio::test]
async fn what_a_rule_keeps_from_reading_is_kept_from_a_search_and_a_list() {
    let room = Room::new();
    for path in ["a.txt", "secrets/k.txt", "private/p.txt", "sub/.env"] {
        room.put(path, "key = 1\n");
    }
    let rule = |decision, text: &str| {
        Rule::new(decision, Pattern::parse(text, &PathBase::default()).unwrap())
    };
    let rules = [
        rule(Decision::Deny, "Read(./secrets/**)"),
        rule(Decision::Deny, "Read(.env)"),
        rule(Decision::Ask, "Read(./private/**)"),
        rule(Decision::Allow, "Grep"),
        rule(Decision::Allow, "search_files"),
        rule(Decision::Allow, "list_files"),
    ];
    let workspace = Workspace::builder().root(&room.inside, Access::Write).build().unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let rules = Rules::new(rules.into(), PolicyContext::default()).unwrap();
    let runtime = Runtime::builder().registry(registry).policy(rules).build().unwrap();
    let run = runtime.run_builder().working_directory(&room.inside).start();
    let calls = [
        ToolCall::new(
            "search",
            "search_files",
            json!({"pattern": "key", "all": true, "mode": "files"}),
        ),
        ToolCall::new("list", "list_files", json!({"depth": 5, "all": true})),
    ];
    let answers = run.turn().await.unwrap().run(calls).await;
    for answer in &answers {
        let text = answer.text();
        assert!(!answer.is_error(), "{text}");
        assert!(text.contains("a.txt"), "{text}");
        for kept in ["k.txt", "p.txt", ".env"] {
            assert!(!text.contains(kept), "{kept}: {text}");
        }
        assert!(text.contains("could not be"), "that something is left out is told: {text}");
    }
}

#[tokio::test]
async fn ignore_files_of_any_number_and_size_take_little_and_small_ones_still_count() {
    let room = Room::new();
    let heavy: String = (0..60_000).map(|n| format!("a{n}*b?c\n")).collect();
    let mut folder = String::new();
    for _ in 0..12 {
        folder += "d/";
        room.put(&format!("{folder}.gitignore"), &heavy);
        room.put(&format!("{folder}.ignore"), "left-out.txt\n");
        room.put(&format!("{folder}left-out.txt"), "word");
        room.put(&format!("{folder}kept.txt"), "word");
    }
    let told = room.says("search_files", json!({"pattern": "word", "mode": "files"})).await;
    assert!(!told.contains("left-out.txt"), "{told}");
    assert_eq!(told.matches("kept.txt").count(), 12, "{told}");
}

#[tokio::test]
async fn search_says_when_it_stopped_at_a_depth() {
    let room = Room::new();
    let deep = "d/".repeat(64);
    room.put(&format!("{deep}below.txt"), "TODO too deep\n");
    room.put("d/above.txt", "TODO near\n");
    let answer = room.call("search_files", json!({"pattern": "TODO"})).await;
    assert!(answer.text().contains("TODO near"), "{}", answer.text());
    let says = "stopped at depth 64: 1 directory is not searched; start further down with `path`";
    assert!(answer.text().contains(says), "{}", answer.text());
    let data = answer.output().and_then(|output| output.structured.clone()).unwrap();
    assert_eq!(
        (&data["stopped_at_depth"], &data["directories_not_searched"], &data["matching_lines"]),
        (&json!(64), &json!(1), &json!(1)),
        "{data}"
    );
    let path = "d/".repeat(60);
    let answer = room.call("search_files", json!({"pattern": "TODO", "path": path})).await;
    assert!(answer.text().contains("TODO too deep"), "{}", answer.text());
    let data = answer.output().and_then(|output| output.structured.clone()).unwrap();
    assert_eq!(data["stopped_at_depth"], json!(null), "{data}");
    let listed = room.says("list_files", json!({"pattern": "*.txt"})).await;
    assert!(listed.contains("stopped at depth 64"), "{listed}");
}
