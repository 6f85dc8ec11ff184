//! Options of a rule that change the calls it allows or asks about: `rewrite` and `network`.

use serde_json::{Map, Value};

use super::{
    network,
    node::{Fields, Node, Reader},
};
use crate::network::NetworkAccess;

/// Reads the arguments that a matching call gets.
pub(super) fn rewrite(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    decision: Option<&str>,
) -> Map<String, Value> {
    let Some(node) = of_a_call_that_runs(reader, fields, "rewrite", decision) else {
        return Map::new();
    };
    if reader.any_table(node, "`rewrite`").is_none() {
        return Map::new();
    }
    match reader.value(node) {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

/// Reads the hosts that a matching command may contact.
pub(super) fn network(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    decision: Option<&str>,
) -> NetworkAccess {
    match of_a_call_that_runs(reader, fields, "network", decision) {
        Some(node) => network::read(reader, node, "`network` of a rule"),
        None => NetworkAccess::none(),
    }
}

/// Returns the value of a key, which a rule that denies must not have.
fn of_a_call_that_runs<'n>(
    reader: &mut Reader<'_>,
    fields: &Fields<'n>,
    key: &str,
    decision: Option<&str>,
) -> Option<&'n Node> {
    let node = fields.get(key)?;
    if decision == Some("deny") {
        reader.wrong(
            node.at,
            format!("`{key}` in a rule that decides `deny`"),
            format!("a denied call does not run; decide `allow` or `ask`, or remove `{key}`"),
        );
    }
    Some(node)
}
