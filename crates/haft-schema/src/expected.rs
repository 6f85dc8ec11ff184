//! Describes what a schema node expects, in words for a message.

use serde_json::Value;

/// Describes a type with its limits.
pub(crate) fn expected(node: &Value) -> Option<String> {
    let kinds = match node.get("type")? {
        Value::String(one) => one.clone(),
        Value::Array(some) => {
            some.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or ")
        }
        _ => return None,
    };
    let bound = |names: [&str; 2], word: &str, exclusive: &str| {
        names
            .iter()
            .zip([word, exclusive])
            .find_map(|(name, word)| Some(format!("{word} {}", node.get(*name)?)))
    };
    let mut limits: Vec<String> = Vec::new();
    match (node.get("minimum"), node.get("maximum")) {
        (Some(low), Some(high)) => limits.push(format!("from {low} to {high}")),
        _ => {
            limits.extend(bound(["minimum", "exclusiveMinimum"], "of at least", "above"));
            limits.extend(bound(["maximum", "exclusiveMaximum"], "of at most", "below"));
        }
    }
    match (node.get("minLength"), node.get("maxLength")) {
        (Some(low), Some(high)) => limits.push(format!("of {low} to {high} characters")),
        (Some(low), None) => limits.push(format!("of at least {low} {}", characters(low))),
        (None, Some(high)) => limits.push(format!("of at most {high} {}", characters(high))),
        (None, None) => {}
    }
    let article = if kinds.starts_with(['a', 'i', 'o', 'u']) { "an" } else { "a" };
    let article = if kinds == "null" { String::new() } else { format!("{article} ") };
    Some([format!("{article}{kinds}"), limits.join(" ")].join(" ").trim_end().to_owned())
}

fn characters(count: &Value) -> &'static str {
    if *count == 1 { "character" } else { "characters" }
}
