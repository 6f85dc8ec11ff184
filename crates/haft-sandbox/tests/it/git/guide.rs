//! The commands of `docs/guide/git.md`, run as they are written.

use haft_sandbox::Profile;

use super::matrix::{has_git, inside, protected, repository};
use crate::kit::*;

const GUIDE: &str = include_str!("../../../../../docs/guide/git.md");

/// Returns the code blocks with this language tag.
fn blocks(mark: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = GUIDE.lines();
    while let Some(line) = lines.next() {
        if line == format!("```{mark}") {
            found.push(
                lines
                    .by_ref()
                    .take_while(|line| *line != "```")
                    .map(|l| format!("{l}\n"))
                    .collect(),
            );
        }
    }
    found
}

#[tokio::test]
async fn commands_of_the_guide_behave_as_documented() {
    if !has_git() {
        return;
    }
    let (works, refused) = (blocks("sh"), blocks("sh refused"));
    assert_eq!((works.len(), refused.len()), (1, 1));
    for sandbox in sandboxes().await {
        let fixture = repository();
        for script in &works {
            let ended = inside(&sandbox, fixture.profile(), script).await;
            assert!(ended.is_success(), "{}: {}", sandbox.tier().level, err(&ended));
        }
        let before = protected(&fixture.inside, &[]);
        for line in refused.iter().flat_map(|script| script.lines()) {
            let ended = inside(&sandbox, fixture.profile(), line).await;
            assert!(!ended.is_success(), "`{line}` works in {}", sandbox.tier().level);
            assert!(!ended.refused.is_empty(), "`{line}`: {}", err(&ended));
        }
        assert_eq!(protected(&fixture.inside, &[]), before);
    }
}

#[tokio::test]
async fn exceptions_of_the_guide_allow_their_commands() {
    const COMMANDS: &[(&str, &[&str])] = &[
        ("git config haft.test x", &["./.git/config"]),
        ("git rebase -q main side", &["./.git/rebase-merge", "./.git/rebase-apply"]),
        ("git init -q x", &["./x/.git"]),
        ("git clone -q . x", &["./x/.git"]),
        ("git worktree add -q x side", &["./x/.git", "./.git/worktrees/*"]),
    ];
    if !has_git() {
        return;
    }
    for sandbox in sandboxes().await {
        for (command, exceptions) in COMMANDS {
            assert!(exceptions.iter().all(|e| GUIDE.contains(&format!("`{e}`"))), "{command}");
            let fixture = repository();
            let exceptions = exceptions.iter().map(|e| (*e).to_owned()).collect();
            let profile = Profile { exceptions, ..fixture.profile() };
            let ended = inside(&sandbox, profile, command).await;
            assert!(ended.is_success(), "{command}: {} {:?}", err(&ended), ended.refused);
        }
    }
}
