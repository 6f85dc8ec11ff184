//! A run on a terminal, as it happens. Run it with `cargo run -p haft --example agent_stream`.
//!
//! What to notice:
//! - The reader drives the run; dropping the stream cancels it.
//! - Text, starts of calls and arguments arrive while the model writes; events of the runtime about
//!   each call are in the same stream, in order.
//! - A handle reaches into the run: here the user steers it while a tool works.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Failure, Runtime, ToolRegistry,
    agent::{Agent, AgentEvent, Runner, ScriptedModel},
    events::Event,
    tool,
};

/// Returns the lines of a log that contain a word.
#[tool(read_only, capabilities())]
async fn search_log(word: String) -> Vec<String> {
    vec![format!("12:01 {word} on node 3"), format!("12:07 {word} on node 4")]
}

const SCRIPT: &str = r#"
{"pieces": [{"text": "I search "}, {"text": "the log."}, {"call_start": {"id": "a", "name": "search_log"}}, {"arguments": {"id": "a", "text": "{\"word\": "}}, {"arguments": {"id": "a", "text": "\"timeout\"}"}}, {"call_end": {"id": "a"}}]}
{"expect": {"shown": ["Only the count."]}, "pieces": [{"text": "There are "}, {"text": "2 timeouts."}]}
"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let registry = ToolRegistry::builder().add(SearchLogTool).build()?;
    let runner = Runner::new(Runtime::builder().registry(registry).build()?);
    let agent = Agent::new("operator", ScriptedModel::parse(SCRIPT)?);
    let mut stream = runner.run_stream(&agent, "Any timeouts?")?;
    let handle = stream.handle();
    while let Some(event) = stream.next().await {
        match event {
            AgentEvent::Text { text } => println!("text      {text:?}"),
            AgentEvent::CallStarted { call, tool } => println!("call      {call} {tool}"),
            AgentEvent::Arguments { text, .. } => println!("arguments {text}"),
            AgentEvent::Call(record) => match &record.event {
                Event::Permitted { verdict, .. } => println!("permitted {}", verdict.reason),
                Event::Running { call } => {
                    println!("running   {call}");
                    handle.steer("Only the count.");
                }
                Event::Finished { call, .. } => println!("finished  {call}"),
                _ => {}
            },
            AgentEvent::MessageAdded { text } => println!("user      {text}"),
            AgentEvent::RunFinished { state, usage, .. } => {
                println!("{state} after {} turns", usage.turns);
            }
            _ => {}
        }
    }
    println!("answer: {}", stream.finish().await?.text);
    Ok(())
}
