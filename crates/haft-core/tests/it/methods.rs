//! `#[tools]` on a block of methods.

use std::sync::atomic::{AtomicU32, Ordering};

use haft_core::{ConcurrencyClass, DynTool, Failure, IntoTools, Json, ToolContext, private, tools};
use private::{schemars::JsonSchema, serde::Serialize};
use serde_json::json;

use crate::host::{call, guard, profile};

struct Counter {
    count: AtomicU32,
}

#[derive(Serialize, JsonSchema)]
#[serde(crate = "private::serde")]
#[schemars(crate = "private::schemars")]
struct Count {
    count: u32,
}

#[tools(prefix = "counter_")]
impl Counter {
    const STEP: u32 = 1;

    fn new() -> Self {
        Self { count: AtomicU32::new(0) }
    }

    /// Adds to the count.
    #[tool(class = Self::class_of, guard = Counter::limit)]
    async fn add(
        &self,
        /// How much.
        #[default(Self::STEP)]
        by: u32,
        cx: &ToolContext,
    ) -> Result<Json<Count>, Failure> {
        let _ = cx.call_id();
        Ok(Json(Count { count: self.count.fetch_add(by, Ordering::Relaxed) + by }))
    }

    /// Reads the count.
    #[tool(read_only, name = "read_count", alias = "count")]
    fn read(&self) -> u32 {
        self.plain()
    }

    fn plain(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    fn class_of(by: &u32) -> ConcurrencyClass {
        if *by == 0 { ConcurrencyClass::ReadOnly } else { ConcurrencyClass::WriteExclusive }
    }

    fn limit(by: &u32) -> Option<haft_core::Verdict> {
        (*by > 100).then(|| haft_core::Verdict::deny("too much"))
    }
}

fn counter() -> [DynTool; 2] {
    Counter::new().into_tools().try_into().unwrap()
}

#[test]
fn each_marked_method_is_a_tool_and_the_others_are_not() {
    let [add, read] = counter();
    assert_eq!((&*add.spec().name, &*read.spec().name), ("counter_add", "read_count"));
    assert_eq!(add.spec().description, "Adds to the count.");
    assert_eq!(read.spec().aliases, ["count"]);
    assert_eq!(add.input_schema()["properties"]["by"]["default"], 1);
    assert!(add.output_schema().is_some() && read.output_schema().is_none());
}

#[tokio::test]
async fn the_tools_of_a_block_share_one_instance() {
    let [add, read] = counter();
    call(&add, json!({"by": 2})).await.unwrap();
    let added = call(&add, json!({})).await.unwrap();
    assert_eq!(added.structured.as_deref(), Some(&json!({"count": 3})));
    assert_eq!(call(&read, json!({})).await.unwrap().to_text(), "3");
    assert_eq!(Counter::new().plain(), 0);
}

#[tokio::test]
async fn associated_functions_decide_per_call() {
    let [add, _] = counter();
    assert_eq!(profile(&add, json!({"by": 0})).class, ConcurrencyClass::ReadOnly);
    assert_eq!(profile(&add, json!({"by": 1})).class, ConcurrencyClass::WriteExclusive);
    assert!(guard(&add, json!({"by": 101})).await.unwrap().is_some());
    assert!(guard(&add, json!({"by": 1})).await.unwrap().is_none());
}
