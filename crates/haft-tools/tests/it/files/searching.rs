//! `search_files`.

use haft::{
    FailureCode, Runtime, ToolCall, ToolRegistry,
    events::Event,
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules},
    serde_json::json,
    tool::Progress,
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;

use super::TestWorkspace;

fn fixture() -> TestWorkspace {
    let fixture = TestWorkspace::new();
    fixture.put("src/a.rs", "fn alpha() {}\n\n// TODO: beta\nfn gamma() {}\n");
    fixture.put("src/b.ts", "// todo later\nlet x = 'TODO';\n");
    fixture.put("notes.md", "nothing here\n");
    fixture.put(".gitignore", "build/\n/*.tmp\n!keep.tmp\n");
    fixture.put("build/out.rs", "TODO built\n");
    fixture.put("drop.tmp", "TODO dropped\n");
    fixture.put("keep.tmp", "TODO kept\n");
    fixture.put("src/x.tmp", "TODO below\n");
    fixture.put(".env", "TODO hidden\n");
    fixture.put("bin.dat", b"\0\0TODO\n");
    fixture.link("/etc", "way_out");
    fixture
}

#[tokio::test]
async fn matching_lines_are_listed_below_their_file() {
    assert_eq!(
        fixture().call_ok("search_files", json!({"pattern": "TODO"})).await,
        "keep.tmp\n1:TODO kept\n\nsrc/a.rs\n3:// TODO: beta\n\nsrc/b.ts\n2:let x = \
         'TODO';\n\nsrc/x.tmp\n1:TODO below\n\n[4 matching lines in 4 files; 1 binary file not \
         fully searched]"
    );
}

#[tokio::test]
async fn search_is_filtered_by_path_glob_type_and_case() {
    let fixture = fixture();
    let files = async |arguments: haft::serde_json::Value| {
        let mut arguments = arguments;
        arguments["mode"] = json!("files");
        let message = fixture.call_ok("search_files", arguments).await;
        message.lines().filter(|line| !line.starts_with('[')).collect::<Vec<_>>().join(" ")
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
async fn ignore_file_applies_to_names_sorted_before_it() {
    let fixture = TestWorkspace::new();
    fixture.put("a/b/.gitignore", "*.log\n");
    fixture.put("a/b/.ignore", "!+kept.log\n");
    // Both sort before a dot.
    fixture.put("a/b/!first.log", "TODO\n");
    fixture.put("a/b/+kept.log", "TODO\n");
    fixture.put("a/b/c/deep.log", "TODO\n");
    fixture.put("a/sibling.log", "TODO\n");
    fixture.put("a/z/after.log", "TODO\n");
    let message =
        fixture.call_ok("search_files", json!({"pattern": "TODO", "mode": "files"})).await;
    assert_eq!(message, "a/b/+kept.log\na/sibling.log\na/z/after.log\n[3 files]");
}

#[tokio::test]
async fn context_lines_and_counts_are_returned() {
    let fixture = fixture();
    assert_eq!(
        fixture
            .call_ok("search_files", json!({"pattern": "TODO", "path": "src/a.rs", "context": 1}))
            .await,
        "src/a.rs\n2-\n3:// TODO: beta\n4-fn gamma() {}\n\n[1 matching line in 1 file]"
    );
    assert_eq!(
        fixture.call_ok("search_files", json!({"pattern": "fn ", "mode": "count"})).await,
        "src/a.rs:2\n[2 matching lines in 1 file; 1 binary file not fully searched]"
    );
    assert_eq!(
        fixture.call_ok("search_files", json!({"pattern": "zebra", "path": "src"})).await,
        "[no match for `zebra` in 3 files]"
    );
}

#[tokio::test]
async fn matches_are_reported_in_name_order() {
    let fixture = TestWorkspace::new();
    for n in 0..400 {
        fixture.put(&format!("d{:02}/f{n:03}.txt", n / 20), "hit one\nmiss\nhit two\n");
    }
    for _ in 0..5 {
        let message = fixture.call_ok("search_files", json!({"pattern": "hit", "limit": 25})).await;
        let lines = message.lines().filter(|line| line.contains(":hit")).count();
        assert_eq!(lines, 25);
        assert!(
            message.contains("d00/f012.txt\n1:hit one\n\n[25 matching lines in 13 files"),
            "{message}"
        );
        assert!(message.contains("there are more"), "{message}");
    }
    let all = fixture.call_ok("search_files", json!({"pattern": "hit", "limit": 800})).await;
    assert!(all.ends_with("[800 matching lines in 400 files]"), "{}", all.len());
}

#[tokio::test]
async fn result_bytes_are_bounded_and_long_lines_truncated() {
    let fixture = TestWorkspace::new();
    fixture.put("wide.txt", format!("{}NEEDLE{}\n", "a".repeat(3_000), "b".repeat(3_000)));
    let message = fixture.call_ok("search_files", json!({"pattern": "NEEDLE"})).await;
    assert!(message.contains("NEEDLE") && message.len() < 800, "{message}");
    for n in 0..40 {
        fixture.put(&format!("many{n}.txt"), format!("x{}\n", "y".repeat(400)).repeat(50));
    }
    let result = fixture.call("search_files", json!({"pattern": "^xy", "limit": 2000})).await;
    assert!(result.truncation().is_none() && result.text().len() < 69_000);
    assert!(result.text().contains("there are more"));
}

#[tokio::test]
async fn invalid_and_nonlinear_regexes_are_refused() {
    let fixture = fixture();
    for bad in ["(", "a(?=b)", r"(a)\1", "a{1000}{1000}{1000}"] {
        let (code, message) = fixture.call_err("search_files", json!({"pattern": bad})).await;
        assert_eq!(code, FailureCode::InvalidValue, "{bad}");
        assert!(message.starts_with("`pattern` is not a valid regular expression"), "{message}");
    }
    let (_, message) =
        fixture.call_err("search_files", json!({"pattern": "x", "type": "klingon"})).await;
    assert!(message.contains("`klingon` is not a known file type"), "{message}");
    fixture.put("evil.txt", format!("{}b\n", "a".repeat(50_000)));
    fixture.call_ok("search_files", json!({"pattern": "(a*)*c", "path": "evil.txt"})).await;
}

#[tokio::test]
async fn symlinks_are_not_followed_by_search_or_ignore_files() {
    let fixture = TestWorkspace::new();
    fixture.put("a.txt", "word\n");
    fixture.put("sub/b.txt", "word\n");
    fixture.link(&fixture.outside, "way_out");
    fixture.link(fixture.outside.join("secret.txt"), "secret.txt");
    super::put(&fixture.outside.join("rules"), "*\n");
    fixture.link(fixture.outside.join("rules"), "sub/.gitignore");
    let message =
        fixture.call_ok("search_files", json!({"pattern": "word|forbidden", "all": false})).await;
    assert_eq!(message, "a.txt\n1:word\n\nsub/b.txt\n1:word\n\n[2 matching lines in 2 files]");
    let through = json!({"pattern": "forbidden", "path": "way_out"});
    assert_eq!(fixture.call_err("search_files", through).await.0, FailureCode::OutsideWorkspace);
}

#[tokio::test]
async fn matches_are_streamed_during_the_search() {
    let fixture = fixture();
    let mut message = String::new();
    let mut events = fixture.runtime.events(1_000);
    let answer = fixture.call_ok("search_files", json!({"pattern": "TODO"})).await;
    while let Some(news) = events.try_next() {
        if let Some(Event::Progress { note: Progress::Partial(text), .. }) =
            news.event().map(|stamped| &stamped.event)
        {
            message.push_str(text);
        }
    }
    assert!(!message.is_empty() && answer.starts_with(&message), "{message}");
}

#[tokio::test]
async fn denied_files_are_left_out_of_search_and_listing() {
    let fixture = TestWorkspace::new();
    for path in ["a.txt", "secrets/k.txt", "private/p.txt", "sub/.env"] {
        fixture.put(path, "key = 1\n");
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
    let workspace = Workspace::builder().root(&fixture.inside, Access::Write).build().unwrap();
    let registry = ToolRegistry::builder().add(BuiltinTools::new(workspace)).build().unwrap();
    let rules = Rules::new(rules.into(), PolicyContext::default()).unwrap();
    let runtime = Runtime::builder().registry(registry).policy(rules).build().unwrap();
    let run = runtime.run_builder().working_directory(&fixture.inside).start();
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
        assert!(text.contains("could not be"), "omissions are reported: {text}");
    }
}

#[tokio::test]
async fn huge_ignore_files_are_skipped_and_small_ones_apply() {
    let fixture = TestWorkspace::new();
    let heavy: String = (0..60_000).map(|n| format!("a{n}*b?c\n")).collect();
    let mut directory = String::new();
    for _ in 0..12 {
        directory += "d/";
        fixture.put(&format!("{directory}.gitignore"), &heavy);
        fixture.put(&format!("{directory}.ignore"), "left-out.txt\n");
        fixture.put(&format!("{directory}left-out.txt"), "word");
        fixture.put(&format!("{directory}kept.txt"), "word");
    }
    let message =
        fixture.call_ok("search_files", json!({"pattern": "word", "mode": "files"})).await;
    assert!(!message.contains("left-out.txt"), "{message}");
    assert_eq!(message.matches("kept.txt").count(), 12, "{message}");
}

#[tokio::test]
async fn search_reports_the_depth_limit() {
    let fixture = TestWorkspace::new();
    let deep = "d/".repeat(64);
    fixture.put(&format!("{deep}below.txt"), "TODO too deep\n");
    fixture.put("d/above.txt", "TODO near\n");
    let answer = fixture.call("search_files", json!({"pattern": "TODO"})).await;
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
    let answer = fixture.call("search_files", json!({"pattern": "TODO", "path": path})).await;
    assert!(answer.text().contains("TODO too deep"), "{}", answer.text());
    let data = answer.output().and_then(|output| output.structured.clone()).unwrap();
    assert_eq!(data["stopped_at_depth"], json!(null), "{data}");
    let listed = fixture.call_ok("list_files", json!({"pattern": "*.txt"})).await;
    assert!(listed.contains("stopped at depth 64"), "{listed}");
}
