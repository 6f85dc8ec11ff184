//! The URIs under which a gateway has resources of other servers: `haft://server/` and the server's
//! own URI.

use haft::{Output, tool::Block};
use serde_json::Value;

/// The scheme of resources of other servers.
pub(crate) const SCHEME: &str = "haft://";

/// The URI under which a gateway has a resource of a server.
pub(crate) fn uri(server: &str, uri: &str) -> String {
    format!("{SCHEME}{server}/{uri}")
}

/// Gives resources in a result the URIs under which a gateway has them.
pub(crate) fn prefix_resources(mut output: Output, server: &str) -> Output {
    for block in &mut output.blocks {
        match block {
            Block::Link { uri: link, .. } => *link = uri(server, link),
            Block::Json { json } if json["type"] == "resource" => {
                if let Some(Value::String(own)) = json.pointer_mut("/resource/uri") {
                    *own = uri(server, own);
                }
            }
            _ => {}
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn links_in_results_get_the_name_of_their_server() {
        let link = Block::Link { uri: "file:///a".into(), name: "a".into(), media_type: None };
        let embedded = json!({"type": "resource", "resource": {"uri": "x://b", "text": ""}});
        let output = Output::from(link).and(Block::Json { json: embedded });
        let blocks = prefix_resources(output, "notes").blocks;
        let Block::Link { uri, .. } = &blocks[0] else { panic!("{blocks:?}") };
        assert_eq!(uri, "haft://notes/file:///a");
        let Block::Json { json } = &blocks[1] else { panic!("{blocks:?}") };
        assert_eq!(json["resource"]["uri"], "haft://notes/x://b");
    }
}
