//! The key `network` of `[sandbox]`, of a rule and of a declared tool: a list of hosts, or a word.

use haft_core::{Capabilities, Capability, ToolSpec};

use super::node::{Fields, Kind, Node, Reader};
use crate::network::NetworkAccess;

/// Reads the value. A mistake is reported for each invalid entry.
pub(super) fn read(reader: &mut Reader<'_>, node: &Node, what: &str) -> NetworkAccess {
    let mut access = NetworkAccess::none();
    if matches!(&node.kind, Kind::List(list) if list.is_empty()) {
        reader.wrong(
            node.at,
            format!("{what} is an empty list"),
            "write \"none\" for no network, or \"ask\" to be asked about each host",
        );
    }
    for (text, at) in reader.texts(node, what) {
        if let Err(error) = access.add(text) {
            reader.wrong(at, error.message, error.hint);
        }
    }
    access
}

/// Reads the hosts of a declared tool. A list of hosts declares the capability too.
pub(super) fn of_tool(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    spec: ToolSpec,
) -> (ToolSpec, Option<NetworkAccess>) {
    let network = fields.get("network").map(|node| read(reader, node, "`network`"));
    if network.as_ref().is_none_or(NetworkAccess::is_none) {
        return (spec, network);
    }
    let declared = spec.capabilities.unwrap_or(Capabilities::NONE);
    (spec.capabilities(declared.with(Capability::Network)), network)
}
