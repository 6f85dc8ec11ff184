//! `read_file` and `list_files`.

use haft::{FailureCode, serde_json::json, taint::Trust};

use super::TestWorkspace;

#[tokio::test]
async fn file_is_read_as_numbered_lines() {
    let fixture = TestWorkspace::new();
    fixture.put("a.txt", "one\ntwo\n\nfour");
    assert_eq!(
        fixture.call_ok("read_file", json!({"file_path": "a.txt"})).await,
        "1\tone\n2\ttwo\n3\t\n4\tfour"
    );
    let absolute = fixture.inside.join("a.txt");
    assert_eq!(
        fixture.call_ok("read_file", json!({"file_path": absolute, "offset": 2, "limit": 2})).await,
        "2\ttwo\n3\t\n[a.txt: lines 2 to 3; 1 more line follows; continue with offset 4]"
    );
}

#[tokio::test]
async fn page_has_2000_lines_and_says_how_to_continue() {
    let fixture = TestWorkspace::new();
    fixture.put("long.txt", (1..=2_500).map(|n| format!("row {n}\n")).collect::<String>());
    let page = fixture.call_ok("read_file", json!({"file_path": "long.txt"})).await;
    assert!(page.starts_with("1\trow 1\n") && page.contains("\n2000\trow 2000\n["), "{page:.50}");
    assert!(page.ends_with(
        "[long.txt: lines 1 to 2000; 500 more lines follow; continue with offset 2001]"
    ));
    let rest = fixture.call_ok("read_file", json!({"file_path": "long.txt", "offset": 2001})).await;
    assert!(rest.starts_with("2001\trow 2001\n") && rest.ends_with("2500\trow 2500"));
}

#[tokio::test]
async fn offset_out_of_range_is_refused() {
    let fixture = TestWorkspace::new();
    fixture.put("a.txt", "one\ntwo\n");
    for offset in [0, -3] {
        let (code, _) =
            fixture.call_err("read_file", json!({"file_path": "a.txt", "offset": offset})).await;
        assert_eq!(code, FailureCode::BadArguments, "{offset}");
    }
    let (code, message) =
        fixture.call_err("read_file", json!({"file_path": "a.txt", "offset": 9})).await;
    assert_eq!(code, FailureCode::InvalidValue);
    assert_eq!(message, "`offset` is 9, and the file has 2 lines | use an `offset` from 1 to 2");
}

#[tokio::test]
async fn binary_file_is_described_and_empty_file_is_reported() {
    let fixture = TestWorkspace::new();
    fixture.put("p.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let message = fixture.call_ok("read_file", json!({"file_path": "p.png"})).await;
    assert!(
        message.starts_with("binary file: PNG image, 16 bytes\n0000  89 50 4e 47"),
        "{message}"
    );
    fixture.put("empty", "");
    assert_eq!(
        fixture.call_ok("read_file", json!({"file_path": "empty"})).await,
        "[empty: the file is empty]"
    );
}

#[tokio::test]
async fn long_lines_are_truncated_within_the_page_limit() {
    let fixture = TestWorkspace::new();
    fixture.put("wide.txt", format!("{}\n", "x".repeat(5_000)).repeat(300));
    let result = fixture.call("read_file", json!({"file_path": "wide.txt"})).await;
    assert!(result.truncation().is_none(), "it bounds itself");
    let text = result.text();
    assert!(text.len() < 100_000 && text.contains("[… 3000 more bytes of this line …]"));
    assert!(text.contains("long lines truncated") && text.contains("continue with offset"));
}

#[tokio::test]
async fn range_deep_in_a_large_file_is_found() {
    let fixture = TestWorkspace::new();
    let line = "the quick brown fox jumps over the lazy dog\n";
    let mut text = line.repeat(500_000);
    text.push_str("here\n");
    text.push_str(line);
    fixture.put("large.txt", &text);
    let found =
        fixture.call_ok("read_file", json!({"file_path": "large.txt", "offset": 500_001})).await;
    assert_eq!(found, format!("500001\there\n500002\t{}", line.trim_end()));
    let early = fixture.call_ok("read_file", json!({"file_path": "large.txt", "limit": 1})).await;
    assert!(early.contains("more bytes follow"), "expensive counts are skipped: {early}");
}

#[tokio::test]
async fn missing_file_and_directory_get_a_next_step() {
    let fixture = TestWorkspace::new();
    fixture.put("src/main.rs", "fn main() {}\n");
    let (code, message) = fixture.call_err("read_file", json!({"file_path": "src/mian.rs"})).await;
    assert_eq!(code, FailureCode::InvalidValue);
    assert!(message.ends_with("did you mean `src/main.rs`?"), "{message}");
    let (_, message) = fixture.call_err("read_file", json!({"file_path": "src"})).await;
    assert!(message.ends_with("list it with list_files"), "{message}");
}

#[tokio::test]
async fn read_results_have_workspace_trust() {
    let fixture = TestWorkspace::new();
    fixture.put("a.txt", "x");
    for (tool, arguments) in [
        ("read_file", json!({"file_path": "a.txt"})),
        ("list_files", json!({})),
        ("search_files", json!({"pattern": "x"})),
    ] {
        assert_eq!(fixture.call(tool, arguments).await.label().trust, Trust::Workspace, "{tool}");
    }
}

#[tokio::test]
async fn listing_has_sizes_and_skips_hidden_and_ignored_files() {
    let fixture = TestWorkspace::new();
    fixture.put("b.txt", "12345");
    fixture.put("src/a.rs", "x");
    fixture.put("target/out.o", "x");
    fixture.put(".hidden", "x");
    fixture.put(".gitignore", "target/\n*.log\n");
    fixture.put("x.log", "x");
    fixture.put(".git/config", "x");
    fixture.link("b.txt", "alias");
    assert_eq!(fixture.call_ok("list_files", json!({})).await, "alias\tsymlink\nb.txt\t5\nsrc/");
    let all = fixture.call_ok("list_files", json!({"all": true})).await;
    assert_eq!(
        all,
        ".gitignore\t14\n.hidden\t1\nalias\tsymlink\nb.txt\t5\nsrc/\ntarget/\nx.log\t1"
    );
    assert_eq!(
        fixture.call_ok("list_files", json!({"depth": 2})).await,
        "alias\tsymlink\nb.txt\t5\nsrc/\nsrc/a.rs\t1"
    );
}

#[tokio::test]
async fn files_are_found_by_glob_at_any_depth_or_from_the_start() {
    let fixture = TestWorkspace::new();
    for path in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.ts", "other/e.rs"] {
        fixture.put(path, "x");
    }
    assert_eq!(
        fixture.call_ok("list_files", json!({"pattern": "*.rs"})).await,
        "a.rs\t1\nother/e.rs\t1\nsrc/b.rs\t1\nsrc/deep/c.rs\t1"
    );
    assert_eq!(
        fixture.call_ok("list_files", json!({"pattern": "src/**/*.rs"})).await,
        "src/b.rs\t1\nsrc/deep/c.rs\t1"
    );
    assert_eq!(
        fixture.call_ok("list_files", json!({"path": "src", "pattern": "/*.rs"})).await,
        "src/b.rs\t1"
    );
    assert_eq!(
        fixture.call_ok("list_files", json!({"pattern": "*.py"})).await,
        "[.: nothing matches `*.py`]"
    );
    let (code, message) = fixture.call_err("list_files", json!({"pattern": "a{b"})).await;
    assert_eq!(code, FailureCode::InvalidValue, "{message}");
}

#[tokio::test]
async fn long_listing_ends_at_its_limit() {
    let fixture = TestWorkspace::new();
    for n in 0..30 {
        fixture.put(&format!("f{n:02}"), "");
    }
    let message = fixture.call_ok("list_files", json!({"limit": 10})).await;
    assert_eq!(message.lines().count(), 11);
    assert!(message.contains("10 entries shown, and there are more"), "{message}");
}

#[tokio::test]
async fn relative_paths_start_in_the_working_directory() {
    let fixture = TestWorkspace::new();
    fixture.put("sub/a.txt", "below");
    let run = fixture.runtime.run_builder().working_directory(fixture.inside.join("sub")).start();
    let call = haft::ToolCall::new("c", "read_file", json!({"file_path": "a.txt"}));
    let answer = run.turn().await.unwrap().run(vec![call]).await.pop().unwrap();
    assert_eq!(answer.text(), "1\tbelow");
}

#[tokio::test]
async fn utf16_files_are_read_as_text() {
    let fixture = TestWorkspace::new();
    let text = "häft\r\n漢字 🦀\r\n";
    for (name, big) in [("little.txt", false), ("big.txt", true)] {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        let bytes: Vec<u8> = units
            .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect();
        fixture.put(name, bytes);
        let read = fixture.call_ok("read_file", json!({"file_path": name})).await;
        let notes = format!("[{name}: lines end with CRLF; the file is UTF-16]");
        assert_eq!(read, format!("1\thäft\n2\t漢字 🦀\n{notes}"));
        let second = fixture.call_ok("read_file", json!({"file_path": name, "offset": 2})).await;
        assert!(second.starts_with("2\t漢字 🦀\n["), "{second}");
    }
    fixture.put("mark.txt", b"\xff\xfe");
    let empty = fixture.call_ok("read_file", json!({"file_path": "mark.txt"})).await;
    assert_eq!(empty, "[mark.txt: the file is empty]");
    fixture.put("utf32.txt", b"\xff\xfe\0\0a\0\0\0");
    let described = fixture.call_ok("read_file", json!({"file_path": "utf32.txt"})).await;
    assert!(described.starts_with("binary file: "), "{described}");
}
