//! Command hooks. Run it with `cargo run -p haft-hooks --example hooks`.
//!
//! What to notice:
//! - The hooks are real shell scripts. Each reads JSON on its standard input and answers with an
//!   exit code and JSON, as Claude Code's hooks do.
//! - Exit code 2 stops the call; standard error is what the model reads.
//! - A rewrite is validated against the tool's schema and authorized before it runs.
//! - A hook that fails stops the call. The one with `on_error = "open"` lets it pass, and observers
//!   get an event each time.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Runtime, ToolCall, ToolRegistry,
    events::Event,
    policy::{AllowAll, ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig},
    serde_json::json,
    tool,
};
use haft_hooks::{Hooks, ProjectDir};

/// Runs a shell command.
#[tool]
async fn shell(command: String) -> String {
    format!("(here `{command}` would run)")
}

const HAFT_TOML: &str = r#"
[[hooks.PreToolUse]]
matcher = "Bash"
command = '''
case $(cat) in *'"rm '*) echo "nothing is deleted here" >&2; exit 2;; esac
'''

[[hooks.PreToolUse]]
matcher = "Bash"
if = "Bash(git push *)"
command = '''
cat > /dev/null
echo '{"hookSpecificOutput": {"updatedInput": {"command": "git push --dry-run"}}}'
'''

[[hooks.PreToolUse]]
if = "Bash(make *)"
command = "./is-not-there.sh"

[[hooks.PreToolUse]]
if = "Bash(date *)"
command = "./is-not-there-either.sh"
on_error = "open"
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let file = ConfigFile {
        layer: ConfigLayer::Project,
        form: FileFormat::Toml,
        path: "haft.toml".into(),
        anchor: "/".into(),
        text: HAFT_TOML.to_owned(),
    };
    let setup =
        PolicyConfig::read(&[file], &LoadOptions { trusted: true, ..LoadOptions::default() })?;
    let mut place = ProjectDir::new("/");
    place.variables.insert("PATH".to_owned(), "/usr/bin:/bin".to_owned());
    let hooks = Hooks::load(&setup.hooks, place)?;

    let runtime = Runtime::builder()
        .registry(ToolRegistry::builder().add(ShellTool).build()?)
        .policy(AllowAll) // so that only the hooks have a say here
        .observer(|event: &Event| {
            if let Event::HookFailedOpen { hook, .. } = event {
                println!("  operator: {hook} FAILED OPEN");
            }
        });
    let runtime = hooks.add_to(runtime).build()?;
    for command in ["ls", "rm -r build", "git push origin main", "make all", "date +%F"] {
        println!("{command}");
        let call = ToolCall::new("", "shell", json!({"command": command}));
        for answer in runtime.run().turn().await?.run([call]).await {
            println!("  model reads: {}", answer.text().replace('\n', "\n               "));
        }
    }
    Ok(())
}
