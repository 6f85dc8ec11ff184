//! Makes a number of calls of one kind, and nothing else: `haft-instructions KIND CALLS`.
//!
//! `scripts/instructions` runs it under valgrind with two numbers of calls; the difference is the
//! cost of the calls, without the start of the program.

use std::{hint::black_box, process::ExitCode};

use haft::{
    Run, Runtime, RuntimeBuilder, ToolCall, ToolRegistry, schema::Schema, serde_json::Value, tool,
};

/// Adds two numbers.
#[tool(read_only, capabilities())]
async fn add(#[param(min = 0)] a: u64, #[param(min = 0)] b: u64) -> String {
    (a + b).to_string()
}

const ARGUMENTS: &str = r#"{"a": 17, "b": 25}"#;

fn runtime() -> RuntimeBuilder {
    match ToolRegistry::builder().add(AddTool).build() {
        Ok(registry) => Runtime::builder().registry(registry),
        Err(e) => panic!("{e}"),
    }
}

fn run(builder: RuntimeBuilder) -> Run {
    builder.build().map_or_else(|e| panic!("{e}"), |runtime| runtime.run())
}

async fn turn(run: &Run) {
    let turn = run.turn().await.unwrap_or_else(|e| panic!("{e}"));
    let results = turn.run([ToolCall::new("call", "add", ARGUMENTS)]).await;
    assert_eq!(results[0].text(), "42");
    black_box(results);
}

/// What a loop written by hand does: parse, look up, decode, call.
async fn baseline() {
    #[derive(serde::Deserialize)]
    struct Args {
        a: u64,
        b: u64,
    }
    let json: Value = haft::serde_json::from_str(ARGUMENTS).unwrap_or_default();
    let args: Option<Args> = serde::Deserialize::deserialize(&json).ok();
    let Some(args) = black_box(args) else { return };
    black_box(add(args.a, args.b).await);
}

/// Only the verdict on the arguments, without parsing them.
fn validate(calls: u32) {
    let registry = ToolRegistry::builder().add(AddTool).build().unwrap_or_else(|e| panic!("{e}"));
    let schema = registry.get("add").map(|tool| Schema::compile(tool.input_schema()));
    let Some(Ok(schema)) = schema else { panic!("no schema") };
    let json: Value = haft::serde_json::from_str(ARGUMENTS).unwrap_or_default();
    for _ in 0..calls {
        assert!(black_box(&schema).is_valid(black_box(&json)));
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (kind, calls) = (args.next().unwrap_or_default(), args.next());
    let calls: u32 = calls.and_then(|calls| calls.parse().ok()).unwrap_or(1_000);
    let Ok(tokio) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return ExitCode::FAILURE;
    };
    tokio.block_on(async {
        match kind.as_str() {
            "baseline" => {
                for _ in 0..calls {
                    baseline().await;
                }
            }
            "validate" => validate(calls),
            "plain" => {
                let run = run(runtime());
                for _ in 0..calls {
                    turn(&run).await;
                }
            }
            "observed" => {
                let run = run(runtime().observer(|event: &haft::events::Event| {
                    black_box(event);
                }));
                for _ in 0..calls {
                    turn(&run).await;
                }
            }
            _ => return ExitCode::FAILURE,
        }
        ExitCode::SUCCESS
    })
}
