//! Blocks of haft as content of MCP.
//!
//! An embedded resource of MCP has no block of its own. It is a JSON block that looks like the
//! content block of MCP: `{"type": "resource", "resource": {"uri": …, "text": …}}`.

use haft::tool::Block;
use rmcp::model::{
    AudioContent, ContentBlock, EmbeddedResource, ImageContent, Resource, ResourceContents,
    TextContent,
};
use serde_json::Value;

/// Converts a block of haft to a content block of MCP.
pub(crate) fn to_mcp(block: Block) -> ContentBlock {
    match block {
        Block::Text { text } => ContentBlock::Text(TextContent::new(text)),
        Block::Json { json } => match embedded_resource(&json) {
            Some(resource) => ContentBlock::Resource(EmbeddedResource::new(resource)),
            None => ContentBlock::Text(TextContent::new(json.to_string())),
        },
        Block::Image { data, media_type } => {
            ContentBlock::Image(ImageContent::new(data, media_type))
        }
        Block::Audio { data, media_type } => {
            ContentBlock::Audio(AudioContent::new(data, media_type))
        }
        Block::Link { uri, name, media_type } => {
            let link = Resource::new(uri, name);
            ContentBlock::ResourceLink(match media_type {
                Some(media_type) => link.with_mime_type(media_type),
                None => link,
            })
        }
    }
}

/// Reads a JSON block that has the form of an embedded resource.
fn embedded_resource(json: &Value) -> Option<ResourceContents> {
    let object = json.as_object().filter(|object| object.len() == 2)?;
    if object.get("type")?.as_str()? != "resource" {
        return None;
    }
    let resource = object.get("resource")?;
    resource.get("uri")?.as_str()?;
    serde_json::from_value(resource.clone()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wire(block: Block) -> Value {
        serde_json::to_value(to_mcp(block)).unwrap()
    }

    #[test]
    fn every_block_has_its_content_type() {
        assert_eq!(wire(Block::text("a")), json!({"type": "text", "text": "a"}));
        let image = Block::Image { data: "AA==".into(), media_type: "image/png".into() };
        assert_eq!(wire(image)["mimeType"], "image/png");
        let audio = Block::Audio { data: "AA==".into(), media_type: "audio/wav".into() };
        assert_eq!(wire(audio)["type"], "audio");
        let link = Block::Link { uri: "result://1".into(), name: "all".into(), media_type: None };
        assert_eq!(
            wire(link),
            json!({"type": "resource_link", "uri": "result://1", "name": "all"})
        );
        assert_eq!(wire(Block::Json { json: json!([1]) })["text"], "[1]");
    }

    #[test]
    fn embedded_resource_keeps_its_type_and_other_json_is_text() {
        let resource = json!({"type": "resource",
            "resource": {"uri": "test://a", "mimeType": "text/plain", "text": "b"}});
        assert_eq!(wire(Block::Json { json: resource.clone() }), resource);
        for other in [
            json!({"type": "resource"}),
            json!({"type": "resource", "resource": {"text": "no uri"}}),
            json!({"type": "resource", "resource": {"uri": "a", "text": "b"}, "more": 1}),
            json!({"type": "text", "resource": {"uri": "a", "text": "b"}}),
        ] {
            assert_eq!(wire(Block::Json { json: other.clone() })["text"], other.to_string());
        }
    }
}
