//! Trying hooks out on a fixture.

use haft_hooks::try_out;
use serde_json::json;

use crate::kit::*;

#[tokio::test]
async fn a_fixture_shows_who_is_called_and_what_would_come_of_it() {
    let folder = Folder::new();
    let rewrite = r#"echo '{"hookSpecificOutput": {"updatedInput": {"command": "ls -l"}, "additionalContext": "hi"}}'"#;
    let mut only_edit = closed("PreToolUse", folder.script("edit", "exit 0"));
    only_edit.matcher = Some("Edit".to_owned());
    let specs = [
        only_edit,
        open("PreToolUse", folder.script("rewrite", rewrite)),
        open("PreToolUse", folder.script("reads", "grep -q 'ls -l' && exit 2")),
        open("PreToolUse", folder.script("broken", "exit 9")),
        closed("PreToolUse", folder.script("strict", "exit 9")),
        closed("PostToolUse", folder.script("post", "exit 0")),
    ];
    let fixture = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}});
    let tried = try_out(&specs, "PreToolUse", &fixture, &folder.place()).await;
    assert!(tried[0].skipped.as_deref().unwrap().contains("matcher"), "{:?}", tried[0]);
    assert_eq!(tried[1].rewrite, Some(json!({"command": "ls -l"})));
    assert_eq!((tried[1].context.as_deref(), tried[1].exit_code), (Some("hi"), Some(0)));
    assert_eq!(tried[2].decision, Some("block"), "it sees what the one before made");
    assert!(tried[3].problem.is_some() && !tried[3].stops());
    assert!(tried[4].problem.is_some() && tried[4].stops());
    assert!(tried[5].skipped.as_deref().unwrap().contains("PostToolUse"));
}
