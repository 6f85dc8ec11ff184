//! Running hooks on a fixture.

use haft_hooks::test_hooks;
use serde_json::json;

use crate::kit::*;

#[tokio::test]
async fn trial_shows_which_hooks_are_called_and_their_decisions() {
    let dir = ScriptDir::new();
    let rewrite = r#"echo '{"hookSpecificOutput": {"updatedInput": {"command": "ls -l"}, "additionalContext": "hi"}}'"#;
    let mut only_edit = closed("PreToolUse", dir.script("edit", "exit 0"));
    only_edit.matcher = Some("Edit".to_owned());
    let specs = [
        only_edit,
        open("PreToolUse", dir.script("rewrite", rewrite)),
        open("PreToolUse", dir.script("reads", "grep -q 'ls -l' && exit 2")),
        open("PreToolUse", dir.script("broken", "exit 9")),
        closed("PreToolUse", dir.script("strict", "exit 9")),
        closed("PostToolUse", dir.script("post", "exit 0")),
    ];
    let fixture = json!({"tool_name": "Bash", "tool_input": {"command": "ls"}});
    let tried = test_hooks(&specs, "PreToolUse", &fixture, &dir.project()).await;
    assert!(tried[0].skipped.as_deref().unwrap().contains("matcher"), "{:?}", tried[0]);
    assert_eq!(tried[1].rewrite, Some(json!({"command": "ls -l"})));
    assert_eq!((tried[1].context.as_deref(), tried[1].exit_code), (Some("hi"), Some(0)));
    assert_eq!(tried[2].decision, Some("block"), "it gets the rewritten input");
    assert!(tried[3].problem.is_some() && !tried[3].stops());
    assert!(tried[4].problem.is_some() && tried[4].stops());
    assert!(tried[5].skipped.as_deref().unwrap().contains("PostToolUse"));
}
