//! Rules about paths, hosts, commands and tools, through the runtime: known bypasses (path
//! traversal, symlinks, globs, spelling) must be refused.

use haft::{
    BoxFuture, Dialect, Runtime, ToolCall, ToolRegistry,
    dialect::{ExportOptions, ToolDefinition},
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules},
    registry::ToolSource,
    tool::{BoxError, Capability, DynTool, Effect, ToolSpec},
};
use serde_json::{Value, json};

use crate::kit::ends;

fn rule(decision: Decision, text: &str) -> Rule {
    let anchor = PathBase::default();
    Rule::new(decision, Pattern::parse(text, &anchor).unwrap_or_else(|e| panic!("{text}: {e}")))
}

fn rules(list: &[(Decision, &str)]) -> Rules {
    let list = list.iter().map(|(decision, text)| rule(decision.clone(), text)).collect();
    Rules::new(list, PolicyContext::default()).unwrap()
}

fn runtime(tools: Vec<DynTool>, rules: Rules) -> Runtime {
    Runtime::builder()
        .registry(ToolRegistry::builder().add(tools).build().unwrap())
        .policy(rules)
        .build()
        .unwrap()
}

/// Whether a call ran, in the directory `work`.
async fn ran(runtime: &Runtime, work: &str, name: &str, arguments: Value) -> bool {
    let run = runtime.run_builder().working_directory(work).start();
    let answers = run.turn().await.unwrap().run([ToolCall::new("c1", name, arguments)]).await;
    match ends(&answers).as_slice() {
        [one] if one == "c1 ok" => true,
        [one] if one == "c1 denied" => false,
        other => panic!("{other:?}"),
    }
}

/// A copy tool: its schema marks the path arguments, and it declares its effects.
fn copy() -> DynTool {
    let schema = json!({"properties": {
        "path": {"type": "string", "x-haft": "read_path"},
        "cwd": {"type": "string", "x-haft": "read_path"},
        "target": {"type": "string", "x-haft": "write_path"},
    }});
    let spec = ToolSpec::new("copy", "Copies.").capabilities([Capability::Filesystem]).effects([]);
    DynTool::new(spec, schema, |_, _| async { "copied" })
}

#[tokio::test]
async fn directory_rule_does_not_cover_path_traversal() {
    let runtime = runtime(vec![copy()], rules(&[(Decision::Allow, "Read(./ok/**)")]));
    assert!(ran(&runtime, "/root-of-none", "copy", json!({"path": "ok/a"})).await);
    for out in ["ok/../../other/secret.conf", "ok/../x", "/root-of-none/ok/../../etc/x", "okay/a"] {
        assert!(!ran(&runtime, "/root-of-none", "copy", json!({"path": out})).await, "{out}");
    }
}

#[tokio::test]
async fn denied_path_does_not_pass_next_to_an_allowed_one() {
    let allow = (Decision::Allow, "Read(./ok/**)");
    let runtime = runtime(vec![copy()], rules(&[allow, (Decision::Allow, "Edit(./out/**)")]));
    let work = "/root-of-none";
    assert!(ran(&runtime, work, "copy", json!({"path": "ok/a", "target": "out/b"})).await);
    assert!(!ran(&runtime, work, "copy", json!({"path": "ok/a", "cwd": "/etc"})).await);
    assert!(!ran(&runtime, work, "copy", json!({"path": "ok/a", "target": "ok/a"})).await);
}

#[cfg(unix)]
#[tokio::test]
async fn directory_is_compared_by_components_and_by_symlink_target() {
    let root = std::env::temp_dir().join(format!("haft-walk-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&root);
    for dir in ["W/src", "Wevil", "secret"] {
        std::fs::create_dir_all(root.join(dir)).unwrap();
    }
    std::os::unix::fs::symlink("../secret", root.join("W/link")).unwrap();
    let work = root.join("W").display().to_string();
    let look = |target: &str| {
        let spec =
            ToolSpec::new("look", "Looks.").read_only().capabilities([Capability::Filesystem]);
        let spec = spec.effects([Effect::read(target.to_owned())]);
        runtime(vec![DynTool::new(spec, json!({}), |_, _| async { "seen" })], rules(&[]))
    };
    for (target, inside) in [
        ("src/a", true),
        ("src/../src/b", true),
        ("../Wevil/x", false),
        ("../anything", false),
        ("link/key", false),
    ] {
        assert_eq!(ran(&look(target), &work, "look", json!({})).await, inside, "{target}");
    }
    std::fs::remove_dir_all(&root).unwrap();
}

struct Remote;

impl ToolSource for Remote {
    fn name(&self) -> &str {
        "github"
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<DynTool>, BoxError>> {
        let tool = |name| {
            let spec = ToolSpec::new(name, "Does it.");
            DynTool::new(spec, json!({}), |_, _| async { "done" })
        };
        Box::pin(async move { Ok(vec![tool("get_issue"), tool("delete_repo")]) })
    }
}

#[tokio::test]
async fn glob_deny_hides_a_tool_and_refuses_it_when_called() {
    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().source(Remote).build().unwrap())
        .policy(rules(&[
            (Decision::Deny, "mcp__github__delete_*"),
            (Decision::Allow, "mcp__github"),
        ]))
        .build()
        .unwrap();
    let turn = runtime.run().turn().await.unwrap();
    let names: Vec<String> = turn.snapshot().entries().map(|e| e.name().to_string()).collect();
    assert_eq!(names, ["github__get_issue"]);
    let calls = ["github__get_issue", "github__delete_repo"];
    let calls =
        calls.iter().enumerate().map(|(n, name)| ToolCall::new(format!("c{n}"), *name, json!({})));
    let answers = turn.run(calls).await;
    assert!(answers[0].failure().is_none());
    assert!(answers[1].failure().is_some(), "hidden is not harmless");
}

#[tokio::test]
async fn argument_name_and_spelling_cannot_bypass_a_rule() {
    let schema = json!({"properties": {
        "cmd": {"x-haft": "command"},
        "target": {"x-haft": "write_path"},
        "urls": {"type": "array", "items": {"type": "string", "x-haft": "url"}},
    }});
    let tool = DynTool::new(ToolSpec::new("do_it", "Does it."), schema, |_, _| async { "done" });
    let runtime = runtime(
        vec![tool],
        rules(&[
            (Decision::Deny, "Edit(//etc/**)"),
            (Decision::Deny, "WebFetch(domain:evil.org)"),
            (Decision::Deny, "Bash(rm *)"),
            (Decision::Allow, "do_it"),
        ]),
    );
    let work = "/root-of-none";
    assert!(ran(&runtime, work, "do_it", json!({"urls": ["https://good.org"]})).await);
    assert!(ran(&runtime, work, "do_it", json!({"target": "http://etc/x"})).await, "a file here");
    for arguments in [
        json!({"cmd": ["rm", "-rf", "/"]}),
        json!({"cmd": {"run": "rm"}}),
        json!({"target": "../etc/passwd"}),
        json!({"target": ["a", "/etc/passwd"]}),
        json!({"urls": ["https://good.org", "HTTPS://EVIL.ORG/x"]}),
        json!({"urls": ["https://good.org@evil.org"]}),
        json!({"urls": ["https:evil.org"]}),
        json!({"urls": ["evil.org."]}),
    ] {
        assert!(!ran(&runtime, work, "do_it", arguments.clone()).await, "{arguments}");
    }
}

#[test]
fn argument_kinds_are_not_exported_to_providers() {
    let schema = json!({"type": "object", "properties": {
        "a": {"type": "string", "x-haft": "read_path"},
        "b": {"allOf": [{"type": "string", "x-haft": "url"}, {"x-haft": "command", "minLength": 1}]},
    }});
    let definition = ToolDefinition::new("t", "Does it.", &schema);
    // MCP is not a provider: an MCP client may learn what arguments are about.
    for dialect in Dialect::ALL.iter().filter(|dialect| **dialect != Dialect::Mcp) {
        let shown = dialect.export_tool(&definition, &ExportOptions::default());
        let text = shown.tool.as_ref().unwrap().to_string();
        assert!(!text.contains("x-haft"), "{dialect:?}: {text}");
        assert!(!shown.report.iter().any(|loss| loss.keyword == "x-haft"), "{dialect:?}");
    }
}
