//! A command whose standard streams stay open: it talks as long as it is held.

use haft_sandbox::Command;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};

use crate::kit::*;

#[tokio::test]
async fn piped_command_answers_line_by_line_and_ends_with_its_input() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let script = "while read -r line; do echo \"got $line\"; done; echo bye >&2";
        let (mut running, pipes) =
            sandbox.start_piped(Command::shell(script), fixture.profile()).await.unwrap();
        let (mut stdin, mut stderr) = (pipes.stdin, pipes.stderr);
        let mut lines = BufReader::new(pipes.stdout).lines();
        for n in 0..3 {
            stdin.write_all(format!("line {n}\n").as_bytes()).await.unwrap();
            assert_eq!(lines.next_line().await.unwrap().unwrap(), format!("got line {n}"));
        }
        drop(stdin);
        let mut last = String::new();
        stderr.read_to_string(&mut last).await.unwrap();
        assert_eq!(last, "bye\n");
        assert!(running.wait().await.is_success());
    }
}

#[tokio::test]
async fn dropping_a_piped_command_kills_all_its_processes() {
    for sandbox in sandboxes().await {
        let (fixture, marker) = (Fixture::new(), marker());
        let script = format!("sleep 100.{marker} & sleep 100.{marker} & cat");
        let started = sandbox.start_piped(Command::shell(script), fixture.profile()).await;
        let (running, _pipes) = started.unwrap();
        assert_eq!(wait_for_survivors(&marker, 3).await, 3, "the shell and two others");
        drop(running);
        assert_eq!(wait_for_survivors(&marker, 0).await, 0);
    }
}

#[tokio::test]
async fn piped_command_is_confined_like_any_other() {
    for sandbox in sandboxes().await {
        let fixture = Fixture::new();
        let outside = fixture.outside.join("new").display().to_string();
        let script = format!("echo x > {outside}; echo y > inside.txt; echo $?");
        let (_running, pipes) =
            sandbox.start_piped(Command::shell(script), fixture.profile()).await.unwrap();
        let mut lines = BufReader::new(pipes.stdout).lines();
        assert_eq!(lines.next_line().await.unwrap().unwrap(), "0");
        assert!(!fixture.outside.join("new").exists());
        assert_eq!(get(&fixture.inside.join("inside.txt")), "y\n");
    }
}
