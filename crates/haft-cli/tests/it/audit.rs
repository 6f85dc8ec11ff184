//! The audit file: one line for every call, also from several processes.

use serde_json::Value;

use crate::TempDir;

const RULES: &str = "[audit]\nfile = \".haft/audit.jsonl\"\n\n[[rule]]\nmatch = \"delete_path\"\n\
    decision = \"deny\"\nreason = \"notes stay\"\n";

fn lines(dir: &TempDir) -> Vec<Value> {
    let ran = dir.run(["audit", "tail", "--lines", "1000", "--json"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn every_call_writes_one_line() {
    let dir = TempDir::trusted("audit", &[("haft.toml", RULES), ("a.txt", "x")]);
    assert_eq!(dir.run(["call", "read_file", "file_path=a.txt"]).code, Some(0));
    assert_eq!(dir.run(["call", "write_file", "file_path=b.txt", "content=x"]).code, Some(2));
    assert_eq!(
        dir.run(["call", "write_file", "file_path=b.txt", "content=x", "--yes"]).code,
        Some(0)
    );
    let found = lines(&dir);
    assert_eq!(found.len(), 3, "{found:#?}");
    let [read, refused, written] = &found[..] else { panic!() };
    assert_eq!(
        (&read["tool"], &read["decision"], &read["outcome"]),
        (&"read_file".into(), &"allow".into(), &"ok".into())
    );
    assert_eq!(read["arguments_sha256"].as_str().map(str::len), Some(64));
    assert!(!read.to_string().contains("a.txt"), "arguments are not in the file: {read}");
    assert_eq!((&refused["decision"], &refused["outcome"]), (&"deny".into(), &"denied".into()));
    assert_eq!(refused["arguments_sha256"], written["arguments_sha256"], "the same arguments");
    assert_eq!(refused["arguments_sha256"].as_str().map(str::len), Some(64));
    assert_eq!((&written["outcome"], &written["approved_by"]), (&"ok".into(), &"--yes".into()));
    for key in ["time_unix_ms", "user", "run", "duration_ms", "decided_by", "hosts"] {
        assert!(!read[key].is_null(), "{key}: {read}");
    }
    let page = dir.run(["audit", "tail"]);
    assert!(page.out.contains("write_file"), "{}", page.out);
}

#[test]
fn line_names_the_rule_that_allows_and_the_session() {
    let rules = "[audit]\nfile = \".haft/audit.jsonl\"\n\n[[rule]]\nmatch = \"write_file\"\n\
        decision = \"allow\"\n";
    let dir = TempDir::trusted("audit-rule", &[("haft.toml", rules)]);
    let mut command = dir.command();
    command.args(["call", "write_file", "file_path=b.txt", "content=x"]);
    assert!(command.env("HAFT_SESSION_ID", "nightly-7").status().unwrap().success());
    let found = lines(&dir);
    let [written] = &found[..] else { panic!("{found:#?}") };
    assert_eq!(written["session"], "nightly-7");
    assert_eq!(
        (&written["rule"]["line"], &written["rule"]["pattern"]),
        (&5.into(), &"write_file".into())
    );
    assert!(written["rule"]["file"].as_str().unwrap().ends_with("haft.toml"), "{written}");
}

#[test]
fn processes_share_one_audit_file() {
    let dir = TempDir::trusted("audit-many", &[("haft.toml", RULES), ("a.txt", "x")]);
    let start = || dir.command().args(["call", "read_file", "file_path=a.txt"]).spawn().unwrap();
    let mut children: Vec<_> = (0..8).map(|_| start()).collect();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(lines(&dir).len(), 8);
}

#[test]
fn untrusted_directory_cannot_name_the_audit_file() {
    let dir = TempDir::new("audit-untrusted", &[("haft.toml", RULES), ("a.txt", "x")]);
    let ran = dir.run(["call", "read_file", "file_path=a.txt"]);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!dir.work().join(".haft").exists());
    let tail = dir.run(["audit", "tail"]);
    assert!(tail.err.contains("no audit file is configured"), "{}", tail.err);
}

#[test]
fn audit_file_that_cannot_be_written_stops_the_command() {
    let rules = "[audit]\nfile = \"a.txt/audit.jsonl\"\n";
    let dir = TempDir::trusted("audit-broken", &[("haft.toml", rules), ("a.txt", "x")]);
    let ran = dir.run(["call", "read_file", "file_path=a.txt"]);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.err.contains("cannot write the audit file"), "{}", ran.err);
}
