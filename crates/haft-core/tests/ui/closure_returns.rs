use haft_core::{DynTool, Output, ToolSpec};

#[derive(serde::Serialize)]
struct Point {
    x: i32,
}

#[derive(Debug)]
struct Silent;

fn main() {
    let spec = || ToolSpec::new("point", "Returns a point.");
    let _ = DynTool::new(spec(), serde_json::json!({}), |_, _| async { Point { x: 1 } });
    let _ = DynTool::new(spec(), serde_json::json!({}), |_, _| async {
        Err::<Output, _>(Silent)
    });
}
