//! Rules. Run it with `cargo run -p haft --example rules`.
//!
//! What to notice:
//! - Deny, then ask, then allow. `git log && git push` is checked command by command, and an allow
//!   must cover all of them.
//! - The model gets the reason. The rule, its file and its line are for people: they are in the
//!   source of the failure, in the record, and in the explanation.
//! - A tool that is denied as a whole is not offered.
//! - A file with an error is refused, with the line, the column and the fix.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Failure, Runtime, ToolCall, ToolRegistry,
    policy::{ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig, Rules},
    serde_json::{Value, json},
    tool,
};

/// Runs a shell command.
#[tool(capabilities(subprocess))]
async fn shell(command: String) -> String {
    format!("(here `{command}` would run)")
}

/// Reads a file.
#[tool(read_only, capabilities(filesystem))]
async fn read_file(path: String) -> String {
    format!("(here {path} would be read)")
}

/// Formats a disk.
#[tool(destructive)]
async fn format_disk() {}

const HAFT_TOML: &str = r#"
[[rule]]
match = ["Bash(git status *)", "Bash(git log *)", "Read(./**)"]
decision = "allow"
test.allow = ["git log --oneline", "Read(./src/main.rs)"]
test.skip = ["git push", "Read(/etc/passwd)"]

[[rule]]
match = "Bash(git push *)"
decision = "ask"
except = "Bash(git push origin wip/*)"
reason = "shared branches are looked at first"

[[rule]]
match = ["Bash(rm *)", "Read(./.env)", "format_disk"]
decision = "deny"
reason = "nothing is deleted here, and secrets stay where they are"
"#;

fn read(text: &str) -> Result<PolicyConfig, haft::Error> {
    let (path, anchor) = ("haft.toml".into(), "/project".into());
    let file = ConfigFile {
        layer: ConfigLayer::Project,
        form: FileFormat::Toml,
        path,
        anchor,
        text: text.to_owned(),
    };
    // The user who runs this program wrote the file, so it is trusted.
    PolicyConfig::read(&[file], &LoadOptions { trusted: true, ..LoadOptions::default() })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let setup = read(HAFT_TOML)?;
    let registry =
        ToolRegistry::builder().add(ShellTool).add(ReadFileTool).add(FormatDiskTool).build()?;
    let rules = Rules::new(setup.rules, setup.context)?;
    let runtime = Runtime::builder().registry(registry).policy(rules).build()?;
    let run = runtime.run_builder().working_directory("/project").start();

    let turn = run.turn().await?;
    let offered: Vec<_> = turn.snapshot().entries().map(|tool| tool.name().as_str()).collect();
    println!("offered: {}\n", offered.join(", "));

    let shell = |command: &str| ("shell", json!({"command": command}));
    let calls: [(&str, Value); 6] = [
        shell("git log --oneline"),
        shell("git log && git push origin main"),
        shell("timeout 5 rm -r build"),
        shell("$TOOL x"),
        ("read_file", json!({"path": "src/../.env"})),
        ("format_disk", json!({})),
    ];
    let asked = calls.iter().map(|(tool, arguments)| ToolCall::new("", *tool, arguments.clone()));
    for ((tool, arguments), answer) in calls.iter().zip(turn.run(asked).await) {
        println!("{tool}({arguments})\n  {}", answer.text().replace('\n', "\n  "));
        if let Some(because) = answer.failure().and_then(Failure::cause) {
            println!("  (because {because})");
        }
    }

    let (tool, arguments) = shell("git push origin main");
    println!("\n{}", run.turn().await?.explain(ToolCall::new("why", tool, arguments)).await);

    if let Err(slip) = read("[[rule]]\nmatch = \"Bash(git push *)\"\ndecison = \"ask\"\n") {
        println!("\n{slip}");
    }
    Ok(())
}
