//! Explains to a model why a type does not accept arguments that the schema accepts.
//!
//! In: the arguments, the error of serde, and a function that decodes other arguments. Out: the
//! failure, with the location of the error.

use serde_json::Value;

use crate::{Failure, FailureCode};

/// Makes the failure of arguments that could not be decoded.
pub(crate) fn explained(
    json: &Value,
    error: &str,
    decode_error: &dyn Fn(&Value) -> Option<String>,
) -> Failure {
    let pointer = error_location(json, error, decode_error);
    let pointer = if pointer.is_empty() { "/" } else { &pointer };
    Failure::new(FailureCode::BadArguments, format!("{pointer}: {}", expected_and_got(error)))
        .with_next("call it again with this fixed")
}

/// How often a value is decoded again to find the location of a decode error.
const MAX_DECODES: usize = 256;

/// Finds the location of a decode error: the child without which the error changes, and so on below
/// it. Returns a JSON pointer; empty for the whole value.
fn error_location(
    json: &Value,
    error: &str,
    decode_error: &dyn Fn(&Value) -> Option<String>,
) -> String {
    let mut pointer = String::new();
    // A missing or unknown field concerns the whole object. Removing other fields changes the
    // error.
    if ["missing field", "unknown field", "duplicate field"].iter().any(|w| error.starts_with(w)) {
        return pointer;
    }
    let mut left = MAX_DECODES;
    loop {
        let children: Vec<String> = match json.pointer(&pointer) {
            Some(Value::Object(map)) => {
                map.keys().map(|key| key.replace('~', "~0").replace('/', "~1")).collect()
            }
            Some(Value::Array(list)) => (0..list.len()).map(|n| n.to_string()).collect(),
            _ => return pointer,
        };
        let blamed = children.into_iter().find(|child| {
            let Some(fewer) = left.checked_sub(1) else { return false };
            left = fewer;
            let mut without = json.clone();
            remove(&mut without, &pointer, child);
            decode_error(&without).as_deref() != Some(error)
        });
        match blamed {
            Some(child) => pointer = format!("{pointer}/{child}"),
            None => return pointer,
        }
    }
}

fn remove(json: &mut Value, parent: &str, child: &str) {
    match json.pointer_mut(parent) {
        Some(Value::Object(map)) => {
            map.shift_remove(&child.replace("~1", "/").replace("~0", "~"));
        }
        Some(Value::Array(list)) => {
            if let Some(n) = child.parse().ok().filter(|n| *n < list.len()) {
                list.remove(n);
            }
        }
        _ => {}
    }
}

/// Rewrites a serde error in the order of all other messages about arguments: expected, then got.
fn expected_and_got(error: &str) -> String {
    ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|opening| error.strip_prefix(opening)?.split_once(", expected "))
        .map_or_else(
            || error.to_owned(),
            |(got, expected)| format!("expected {expected}; got {got}"),
        )
}
