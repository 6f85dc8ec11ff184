//! Estimates how much memory data takes, for everything that is bounded by bytes.

use serde_json::Value;
use smallvec::{SmallVec, smallvec};

/// Estimates the size of a value in bytes. It stops counting at a limit, and does not recurse.
pub(crate) fn memory_size_of(value: &Value, limit: usize) -> usize {
    let mut total = own_size(value);
    let mut rest: SmallVec<[&Value; 8]> = smallvec![value];
    while let Some(value) = rest.pop()
        && total < limit
    {
        let mut add = |value| {
            total += own_size(value);
            if value.is_array() || value.is_object() {
                rest.push(value);
            }
        };
        match value {
            Value::Array(items) => items.iter().for_each(add),
            Value::Object(map) => {
                map.values().for_each(&mut add);
                total += map.keys().map(|key| size_of::<String>() + key.len()).sum::<usize>();
            }
            _ => {}
        }
    }
    total
}

/// The size of a value without its parts.
fn own_size(value: &Value) -> usize {
    size_of::<Value>() + value.as_str().map_or(0, str::len)
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
