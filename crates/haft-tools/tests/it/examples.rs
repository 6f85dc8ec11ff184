//! Runs the example and compares its complete output.

use std::process::Command;

#[path = "../../../haft/tests/it/built.rs"]
mod built;

#[test]
fn example_reads_edits_searches_and_runs_inside_the_workspace_only() {
    let ran = Command::new(built::binary("haft-tools", "builtin_tools"))
        .output()
        .expect("the example runs");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && stderr.is_empty(), "{}\n{stderr}", ran.status);
    let stdout = String::from_utf8_lossy(&ran.stdout);
    let (files, commands) = stdout.split_at(stdout.find("shell(").expect("it calls the shell"));
    insta::assert_snapshot!(files, @r#"
    write_file({"file_path":"shop/list.txt","content":"eggs\nbraed\ntea\n"})
      asked: it is not read-only
      created `shop/list.txt`: 3 lines, 15 bytes
    read_file({"file_path":"shop/list.txt"})
      1	eggs
      2	braed
      3	tea
    edit_file({"file_path":"shop/list.txt","old_text":"braed","new_text":"bread"})
      asked: it is not read-only
      replaced 1 occurrence in `shop/list.txt`, at line 2
    search_files({"pattern":"^b"})
      shop/list.txt
      2:bread
      
      [1 matching line in 1 file]
    read_file({"file_path":"../../etc/passwd"})
      outside_workspace: `../../etc/passwd` is outside the workspace
      Next: use a path inside the workspace; relative paths start at its first directory
    write_file({"file_path":".git/hooks/pre-commit","content":"x"})
      denied: protected: `.git/hooks/pre-commit` is protected, because other programs run or obey such files
      Next: leave this file alone, or ask the user to change it
    "#);
    if cfg!(not(target_os = "linux")) {
        assert!(commands.contains("sandbox_unavailable: "), "{commands}");
        assert!(commands.contains("nothing confines processes here"), "{commands}");
        return;
    }
    insta::assert_snapshot!(commands, @r#"
    shell({"command":"sort shop/list.txt | head -2"})
      bread
      eggs
    shell({"command":"sort -o shop/list.txt shop/list.txt"})
      asked: `sort -o shop/list.txt shop/list.txt` is known to write
      done; nothing was printed
    shell({"command":"cp shop/list.txt /etc/list.txt 2> /dev/null || echo it stays here"})
      asked: `cp shop/list.txt /etc/list.txt` is known to write
      it stays here
    read_file({"file_path":"shop/list.txt"})
      1	bread
      2	eggs
      3	tea
    "#);
}

#[test]
fn skills_example_loads_a_skill_and_uses_what_it_grants() {
    let ran =
        Command::new(built::binary("haft-tools", "skills")).output().expect("the example runs");
    let stderr = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success() && stderr.is_empty(), "{}\n{stderr}", ran.status);
    insta::assert_snapshot!(String::from_utf8_lossy(&ran.stdout), @r"
    release: How to release a version. Use it when the user asks for a release.
    left out, line 1: the field `description` is missing; say what the skill does and when to use it
    completed: version 2 is published
    turn 1 publish: denied
    turn 2 skill__load: ok
    turn 3 skill__read: ok
    turn 3 publish: ok
    ");
}
