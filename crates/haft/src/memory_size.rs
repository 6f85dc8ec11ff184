//! Estimates how much memory data takes, for everything that is bounded by bytes.

use serde_json::Value;
use smallvec::{SmallVec, smallvec};

/// Estimates the size of a value in bytes. It stops counting at a limit, and does not recurse.
pub(crate) fn memory_size_of(value: &Value, limit: usize) -> usize {
    let mut total: usize = 0;
    let mut rest: SmallVec<[&Value; 8]> = smallvec![value];
    while let Some(value) = rest.pop() {
        total += size_of::<Value>();
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
            Value::String(text) => total += text.len(),
            Value::Array(items) => rest.extend(items),
            Value::Object(map) => {
                for (key, value) in map {
                    total += size_of::<String>() + key.len();
                    rest.push(value);
                }
            }
        }
        if total >= limit {
            break;
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn size_of_a_value_counts_its_content_at_any_depth() {
        assert!(memory_size_of(&json!({"a": "x".repeat(1_000)}), usize::MAX) > 1_000);
        let mut deep = json!(null);
        for _ in 0..10_000 {
            deep = Value::Array(vec![deep]);
        }
        assert!(memory_size_of(&deep, usize::MAX) > 10_000);
        assert!(memory_size_of(&deep, 100) < 1_000, "it stops where it may");
        // Dropped by hand: the derived drop is recursive and would overflow the stack.
        while let Value::Array(mut items) = deep {
            deep = items.pop().unwrap_or_default();
        }
    }
}
