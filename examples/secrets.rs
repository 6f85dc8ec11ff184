//! Secrets. Run it with `cargo run -p haft --example secrets`.
//!
//! What to notice:
//! - The model writes `secret://mail`. Policies, observers and records see that; only the body sees
//!   the value, and only if the tool declares `capabilities(secrets)`.
//! - A body that repeats the value, raw or in base64, shows a marker instead.
//! - What merely looks like a key is redacted too, whatever its origin.
//! - A tool without access to a secret does not learn that it exists.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Failure, Runtime, ToolContext, ToolRegistry, events::Event, policy::AllowAll, serde_json::json,
    tool,
};

/// Sends a mail with the password it is given.
#[tool(capabilities(secrets, email))]
async fn send_mail(to: String, password: String) -> String {
    format!("logged in with {} characters ({password}), wrote to {to}", password.len())
}

/// Shows how the mail is set up.
#[tool(read_only, capabilities(secrets))]
async fn show_setup(cx: &ToolContext) -> Result<String, Failure> {
    let password = cx.secret("mail")?;
    Ok(format!(
        "user=ada password={} basic=YWRhOmNvcnJlY3QgaG9yc2U= debug={password:?}",
        password.reveal()
    ))
}

/// Reads a file.
#[tool(read_only, capabilities())]
async fn read_file(path: String) -> String {
    format!("# {path}\nDATABASE_URL=postgres://app:tr0ub4dor@db/main\nRETRIES=3\n")
}

fn print_event(event: &Event) {
    if let Event::Started { tool_name, arguments: Some(arguments), .. } = event {
        println!("{tool_name}({arguments})");
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = Runtime::builder()
        .registry(
            ToolRegistry::builder()
                .add(SendMailTool)
                .add(ShowSetupTool)
                .add(ReadFileTool)
                .build()?,
        )
        // An example has no approver; yours should.
        .policy(AllowAll)
        .secret("mail", "correct horse")
        .secret_for("pay_*", "bank", "7KQ2-99XB-4410")
        .observer(print_event)
        .build()?;

    for (tool, arguments) in [
        ("send_mail", json!({"to": "bob", "password": "secret://mail"})),
        ("send_mail", json!({"to": "bob", "password": "secret://bank"})),
        ("show_setup", json!({})),
        ("read_file", json!({"path": ".env"})),
        ("read_file", json!({"path": "secret://mail"})),
    ] {
        let shown = match runtime.call(tool, arguments).await {
            Ok(output) => output.to_text(),
            Err(failure) => failure.model_text(),
        };
        println!("  {}", shown.trim_end().replace('\n', "\n  "));
    }
    Ok(())
}
