//! `read_file` and `list_files`.

use haft::{FailureCode, Trust, serde_json::json};

use super::Room;

#[tokio::test]
async fn a_file_is_read_as_numbered_lines() {
    let room = Room::new();
    room.put("a.txt", "one\ntwo\n\nfour");
    assert_eq!(
        room.says("read_file", json!({"file_path": "a.txt"})).await,
        "1\tone\n2\ttwo\n3\t\n4\tfour"
    );
    let absolute = room.inside.join("a.txt");
    assert_eq!(
        room.says("read_file", json!({"file_path": absolute, "offset": 2, "limit": 2})).await,
        "2\ttwo\n3\t\n[a.txt: lines 2 to 3; 1 more line follows; go on with offset 4]"
    );
}

#[tokio::test]
async fn two_thousand_lines_are_a_page_and_the_answer_says_how_to_go_on() {
    let room = Room::new();
    room.put("long.txt", (1..=2_500).map(|n| format!("row {n}\n")).collect::<String>());
    let page = room.says("read_file", json!({"file_path": "long.txt"})).await;
    assert!(page.starts_with("1\trow 1\n") && page.contains("\n2000\trow 2000\n["), "{page:.50}");
    assert!(
        page.ends_with(
            "[long.txt: lines 1 to 2000; 500 more lines follow; go on with offset 2001]"
        )
    );
    let rest = room.says("read_file", json!({"file_path": "long.txt", "offset": 2001})).await;
    assert!(rest.starts_with("2001\trow 2001\n") && rest.ends_with("2500\trow 2500"));
}

#[tokio::test]
async fn an_offset_below_one_is_bad_arguments_and_one_behind_the_end_names_the_range() {
    let room = Room::new();
    room.put("a.txt", "one\ntwo\n");
    for offset in [0, -3] {
        let (code, _) =
            room.fails("read_file", json!({"file_path": "a.txt", "offset": offset})).await;
        assert_eq!(code, FailureCode::BadArguments, "{offset}");
    }
    let (code, told) = room.fails("read_file", json!({"file_path": "a.txt", "offset": 9})).await;
    assert_eq!(code, FailureCode::InvalidValue);
    assert_eq!(told, "`offset` is 9, and the file has 2 lines | use an `offset` from 1 to 2");
}

#[tokio::test]
async fn a_file_that_is_no_text_is_described_and_an_empty_one_is_said_to_be() {
    let room = Room::new();
    room.put("p.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    let told = room.says("read_file", json!({"file_path": "p.png"})).await;
    assert!(told.starts_with("binary file: PNG image, 16 bytes\n0000  89 50 4e 47"), "{told}");
    room.put("empty", "");
    assert_eq!(
        room.says("read_file", json!({"file_path": "empty"})).await,
        "[empty: the file is empty]"
    );
}

#[tokio::test]
async fn a_page_of_long_lines_stays_within_its_bound_and_says_what_is_cut() {
    let room = Room::new();
    room.put("wide.txt", format!("{}\n", "x".repeat(5_000)).repeat(300));
    let envelope = room.call("read_file", json!({"file_path": "wide.txt"})).await;
    assert!(envelope.cut().is_none(), "it bounds itself");
    let text = envelope.text();
    assert!(text.len() < 100_000 && text.contains("[… 3000 more bytes of this line …]"));
    assert!(text.contains("long lines cut") && text.contains("go on with offset"));
}

#[tokio::test]
async fn a_range_deep_in_a_large_file_is_found() {
    let room = Room::new();
    let line = "the quick brown fox jumps over the lazy dog\n";
    let mut text = line.repeat(500_000);
    text.push_str("here\n");
    text.push_str(line);
    room.put("large.txt", &text);
    let found = room.says("read_file", json!({"file_path": "large.txt", "offset": 500_001})).await;
    assert_eq!(found, format!("500001\there\n500002\t{}", line.trim_end()));
    let early = room.says("read_file", json!({"file_path": "large.txt", "limit": 1})).await;
    assert!(early.contains("more bytes follow"), "what is dear to count is not: {early}");
}

#[tokio::test]
async fn what_is_missing_or_a_folder_gets_a_next_step() {
    let room = Room::new();
    room.put("src/main.rs", "fn main() {}\n");
    let (code, told) = room.fails("read_file", json!({"file_path": "src/mian.rs"})).await;
    assert_eq!(code, FailureCode::InvalidValue);
    assert!(told.ends_with("did you mean `src/main.rs`?"), "{told}");
    let (_, told) = room.fails("read_file", json!({"file_path": "src"})).await;
    assert!(told.ends_with("list it with list_files"), "{told}");
}

#[tokio::test]
async fn what_is_read_is_as_trusted_as_the_workspace() {
    let room = Room::new();
    room.put("a.txt", "x");
    for (tool, arguments) in [
        ("read_file", json!({"file_path": "a.txt"})),
        ("list_files", json!({})),
        ("search_files", json!({"pattern": "x"})),
    ] {
        assert_eq!(room.call(tool, arguments).await.label().trust, Trust::Workspace, "{tool}");
    }
}

#[tokio::test]
async fn a_folder_is_listed_with_sizes_and_without_what_is_hidden_or_ignored() {
    let room = Room::new();
    room.put("b.txt", "12345");
    room.put("src/a.rs", "x");
    room.put("target/out.o", "x");
    room.put(".hidden", "x");
    room.put(".gitignore", "target/\n*.log\n");
    room.put("x.log", "x");
    room.put(".git/config", "x");
    room.link("b.txt", "alias");
    assert_eq!(room.says("list_files", json!({})).await, "alias\tlink\nb.txt\t5\nsrc/");
    let all = room.says("list_files", json!({"all": true})).await;
    assert_eq!(all, ".gitignore\t14\n.hidden\t1\nalias\tlink\nb.txt\t5\nsrc/\ntarget/\nx.log\t1");
    assert_eq!(
        room.says("list_files", json!({"depth": 2})).await,
        "alias\tlink\nb.txt\t5\nsrc/\nsrc/a.rs\t1"
    );
}

#[tokio::test]
async fn files_are_found_by_a_pattern_at_any_depth_or_from_the_folder_on() {
    let room = Room::new();
    for path in ["a.rs", "src/b.rs", "src/deep/c.rs", "src/d.ts", "other/e.rs"] {
        room.put(path, "x");
    }
    assert_eq!(
        room.says("list_files", json!({"pattern": "*.rs"})).await,
        "a.rs\t1\nother/e.rs\t1\nsrc/b.rs\t1\nsrc/deep/c.rs\t1"
    );
    assert_eq!(
        room.says("list_files", json!({"pattern": "src/**/*.rs"})).await,
        "src/b.rs\t1\nsrc/deep/c.rs\t1"
    );
    assert_eq!(
        room.says("list_files", json!({"path": "src", "pattern": "/*.rs"})).await,
        "src/b.rs\t1"
    );
    assert_eq!(
        room.says("list_files", json!({"pattern": "*.py"})).await,
        "[.: nothing matches `*.py`]"
    );
    let (code, told) = room.fails("list_files", json!({"pattern": "a{b"})).await;
    assert_eq!(code, FailureCode::InvalidValue, "{told}");
}

#[tokio::test]
async fn a_long_list_ends_at_its_limit_and_says_so() {
    let room = Room::new();
    for n in 0..30 {
        room.put(&format!("f{n:02}"), "");
    }
    let told = room.says("list_files", json!({"limit": 10})).await;
    assert_eq!(told.lines().count(), 11);
    assert!(told.contains("10 entries shown, and there are more"), "{told}");
}

#[tokio::test]
async fn relative_paths_start_in_the_working_folder_of_the_run() {
    let room = Room::new();
    room.put("sub/a.txt", "below");
    let run = room.runtime.run_builder().working_directory(room.inside.join("sub")).start();
    let call = haft::ToolCall::new("c", "read_file", json!({"file_path": "a.txt"}));
    let answer = run.turn().await.unwrap().run(vec![call]).await.pop().unwrap();
    assert_eq!(answer.text(), "1\tbelow");
}

#[tokio::test]
async fn text_in_utf_16_is_text() {
    let room = Room::new();
    let text = "häft\r\n漢字 🦀\r\n";
    for (name, big) in [("little.txt", false), ("big.txt", true)] {
        let units = std::iter::once(0xfeff).chain(text.encode_utf16());
        let bytes: Vec<u8> = units
            .flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() })
            .collect();
        room.put(name, bytes);
        let read = room.says("read_file", json!({"file_path": name})).await;
        let notes = format!("[{name}: lines end with CRLF; the file is UTF-16]");
        assert_eq!(read, format!("1\thäft\n2\t漢字 🦀\n{notes}"));
        let second = room.says("read_file", json!({"file_path": name, "offset": 2})).await;
        assert!(second.starts_with("2\t漢字 🦀\n["), "{second}");
    }
    room.put("mark.txt", b"\xff\xfe");
    let empty = room.says("read_file", json!({"file_path": "mark.txt"})).await;
    assert_eq!(empty, "[mark.txt: the file is empty]");
    room.put("utf32.txt", b"\xff\xfe\0\0a\0\0\0");
    let described = room.says("read_file", json!({"file_path": "utf32.txt"})).await;
    assert!(described.starts_with("binary file: "), "{described}");
}
