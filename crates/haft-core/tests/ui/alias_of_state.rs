use haft_core::{State, tool};

struct Pool;
type Db = State<Pool>;

/// Counts the rows.
#[tool]
async fn count(table: String, db: Db) -> String {
    let _ = db;
    table
}

fn main() {}
