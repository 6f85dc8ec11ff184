//! A result of an MCP server as an output of haft.
//!
//! An embedded resource has no block of its own. It becomes a JSON block that looks like the
//! content block of MCP: `{"type": "resource", "resource": {"uri": …, "text": …}}`.

use haft::{
    Output,
    tool::{Block, BoxError},
};
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::json;

/// Converts a result. A result without content shows its structured content.
pub(crate) fn output(result: CallToolResult) -> Result<Output, BoxError> {
    let mut blocks =
        result.content.into_iter().map(block).collect::<Result<Vec<Block>, BoxError>>()?;
    if blocks.is_empty()
        && let Some(json) = &result.structured_content
    {
        blocks.push(Block::Json { json: json.clone() });
    }
    Ok(Output { blocks, structured: result.structured_content.map(Box::new) })
}

fn block(content: ContentBlock) -> Result<Block, BoxError> {
    Ok(match content {
        ContentBlock::Text(text) => Block::text(text.text),
        ContentBlock::Image(image) => {
            Block::Image { data: image.data, media_type: image.mime_type }
        }
        ContentBlock::Audio(audio) => {
            Block::Audio { data: audio.data, media_type: audio.mime_type }
        }
        ContentBlock::ResourceLink(link) => {
            Block::Link { uri: link.uri, name: link.name, media_type: link.mime_type }
        }
        ContentBlock::Resource(embedded) => Block::Json {
            json: json!({
                "type": "resource",
                "resource": serde_json::to_value(embedded.resource)?,
            }),
        },
        other => return Err(format!("a content block of an unknown kind: {other:?}").into()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(json: serde_json::Value) -> Output {
        output(serde_json::from_value(json).unwrap()).unwrap()
    }

    #[test]
    fn every_kind_of_content_becomes_a_block() {
        let result = of(json!({"content": [
            {"type": "text", "text": "a"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "audio", "data": "AA==", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain"},
            {"type": "resource", "resource": {"uri": "test://a", "text": "inside"}},
        ]}));
        assert_eq!(result.blocks.len(), 5);
        assert_eq!(result.blocks[0], Block::text("a"));
        assert!(matches!(&result.blocks[3], Block::Link { uri, .. } if uri == "file:///a"));
        assert!(
            matches!(&result.blocks[4], Block::Json { json } if json["resource"]["text"] == "inside")
        );
    }

    #[test]
    fn structured_content_is_shown_if_there_is_nothing_else() {
        let result = of(json!({"content": [], "structuredContent": {"n": 1}}));
        assert_eq!(result.to_text(), "{\"n\":1}");
        assert_eq!(result.structured, Some(Box::new(json!({"n": 1}))));
        let null = of(json!({"content": [], "structuredContent": null}));
        assert_eq!(null.structured, Some(Box::new(json!(null))), "an explicit null is data");
    }
}
