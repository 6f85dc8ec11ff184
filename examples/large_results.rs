//! An oversized result. Run it with `cargo run -p haft --example large_results`.
//!
//! What to notice:
//! - The model gets a head and a tail that are valid JSON, and a notice that names the artifact.
//! - `read_result` is added to the registry like any tool; the notice names it only then.
//! - Another run asks for the same id and finds nothing. The operator owns the store and finds all.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use haft::{
    Failure, Run, Runtime, ToolCall, ToolRegistry,
    artifacts::{ArtifactId, ReadResult, ResultQuery},
    serde_json::{Value, json},
    tool,
    tool::UncheckedJson,
};

/// Lists the trains of a day.
#[tool(read_only, capabilities(), max_result = 420)]
async fn list_trains() -> UncheckedJson<Vec<Value>> {
    let train = |n: usize| {
        let to = ["Oslo", "Turku"][n % 2];
        json!({"train": 100 + n, "hour": n % 24, "to": to})
    };
    UncheckedJson((0..300).map(train).collect())
}

/// Makes one call and returns its result; the id is different each time, so it is left out.
async fn ask(
    run: &Run,
    name: &str,
    arguments: Value,
) -> Result<(String, Option<ArtifactId>), haft::Error> {
    let turn = run.turn().await?;
    let answer = turn.run(vec![ToolCall::new("c", name, arguments.clone())]).await.remove(0);
    let kept = answer.truncation().and_then(|cut| cut.artifact);
    let id = kept.map(|id| id.to_string());
    let id = id.or_else(|| Some(arguments["id"].as_str()?.to_owned())).unwrap_or_default();
    println!("> {name}\n{}\n", answer.text().replace(&id, "ID"));
    Ok((id, kept))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let registry = ToolRegistry::builder().add(ListTrainsTool).add(ReadResult).build()?;
    let runtime = Runtime::builder().registry(registry).build()?;
    let run = runtime.run();

    let (id, kept) = ask(&run, "list_trains", json!({})).await?;
    ask(&run, "read_result", json!({"id": id, "pointer": "/120"})).await?;
    ask(&run, "read_result", json!({"id": id, "pattern": "\"train\":39[89]"})).await?;
    ask(&run, "read_result", json!({"id": id, "offset": 2, "limit": 2})).await?;
    ask(&runtime.run(), "read_result", json!({"id": id})).await?;

    let artifact =
        runtime.artifacts().open(kept.ok_or_else(|| Failure::failed("nothing kept"))?)?;
    let found = artifact.read(&ResultQuery::Pointer("/0/to".to_owned()), 100)?;
    println!("the operator reads {} of {} bytes", found.text, artifact.facts().bytes);
    Ok(())
}
