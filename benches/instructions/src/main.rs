//! Makes a number of calls of one kind, and nothing else: `haft-instructions KIND CALLS`.
//!
//! `scripts/instructions` runs it under valgrind with two numbers of calls; the difference is the
//! cost of the calls, without the start of the program.

mod everything;

use std::{collections::HashMap, hint::black_box, pin::Pin, process::ExitCode};

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

type Answer = Pin<Box<dyn Future<Output = Result<String, haft::serde_json::Error>> + Send>>;
type Handlers = HashMap<String, Box<dyn Fn(Value) -> Answer + Send + Sync>>;

/// What a loop written by hand does: look up, parse, decode, call through a box. The same as the
/// baseline of the benches.
struct Baseline(Handlers);

impl Baseline {
    fn new() -> Self {
        #[derive(serde::Deserialize)]
        struct Args {
            a: u64,
            b: u64,
        }
        let mut handlers: Handlers = HashMap::new();
        handlers.insert(
            "add".to_owned(),
            Box::new(|value| {
                Box::pin(async {
                    let args: Args = haft::serde_json::from_value(value)?;
                    Ok(add(args.a, args.b).await)
                })
            }),
        );
        Self(handlers)
    }

    async fn call(&self, name: &str, arguments: &str) -> Result<String, String> {
        let handler = self.0.get(name).ok_or("no such tool")?;
        let value = haft::serde_json::from_str(arguments).map_err(|e| e.to_string())?;
        handler(value).await.map_err(|e| e.to_string())
    }
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
                let baseline = Baseline::new();
                for _ in 0..calls {
                    let answer = baseline.call("add", black_box(ARGUMENTS)).await;
                    assert_eq!(answer.as_deref(), Ok("42"));
                    black_box(&answer);
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
            "everything" => {
                let run = everything::run();
                for number in 0..calls {
                    everything::turn(&run, u64::from(number)).await;
                }
            }
            "unjournaled" => {
                let run = run(runtime().journal(haft::journal::MemoryJournal::new(0)));
                for _ in 0..calls {
                    turn(&run).await;
                }
            }
            _ => return ExitCode::FAILURE,
        }
        ExitCode::SUCCESS
    })
}
