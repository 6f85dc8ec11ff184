//! The resources, prompts and completions of the suite.

use haft::BoxFuture;
use haft_mcp::server::{CallPeer, ContentProvider, Offers, ProviderError, ProviderRequest};
use serde_json::{Value, json};

use crate::{questions::form, tools::IMAGE};

pub(crate) struct Fixtures;

impl ContentProvider for Fixtures {
    fn offers(&self) -> Offers {
        Offers::all()
    }

    fn handle<'a>(
        &'a self,
        request: ProviderRequest,
        peer: &'a CallPeer,
    ) -> BoxFuture<'a, Result<Value, ProviderError>> {
        Box::pin(async move {
            match request {
                ProviderRequest::ListResources => Ok(resources()),
                ProviderRequest::ListResourceTemplates => Ok(templates()),
                ProviderRequest::ReadResource { uri } => read(&uri),
                ProviderRequest::ListPrompts => Ok(prompts()),
                ProviderRequest::GetPrompt { name, arguments } => {
                    prompt(&name, &arguments, peer).await
                }
                ProviderRequest::Complete(params) => {
                    let argument = params["argument"]["name"].as_str().unwrap_or_default();
                    let values = [format!("{argument}-a"), format!("{argument}-b")];
                    Ok(json!({"completion": {"values": values, "total": 2, "hasMore": false}}))
                }
                _ => Ok(Value::Null),
            }
        })
    }
}

fn resources() -> Value {
    json!([
        {"uri": "test://static-text", "name": "Static Text", "mimeType": "text/plain"},
        {"uri": "test://static-binary", "name": "Static Binary", "mimeType": "image/png"},
        {"uri": "test://watched-resource", "name": "Watched", "mimeType": "text/plain"},
    ])
}

fn templates() -> Value {
    let uri = "test://template/{id}/data";
    json!([{"uriTemplate": uri, "name": "Dynamic", "mimeType": "application/json"}])
}

fn read(uri: &str) -> Result<Value, ProviderError> {
    let contents = match uri {
        "test://static-text" => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "The static text resource."})
        }
        "test://watched-resource" => json!({"uri": uri, "mimeType": "text/plain", "text": "v1"}),
        "test://static-binary" => json!({"uri": uri, "mimeType": "image/png", "blob": IMAGE}),
        _ => {
            let id = uri.strip_prefix("test://template/").and_then(|id| id.strip_suffix("/data"));
            let id = id.ok_or_else(|| ProviderError::no_such_resource(uri))?;
            let text =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            json!({"uri": uri, "mimeType": "application/json", "text": text.to_string()})
        }
    };
    Ok(json!({"contents": [contents]}))
}

fn prompts() -> Value {
    let argument = |name: &str| json!({"name": name, "description": name, "required": true});
    json!([
        {"name": "test_simple_prompt", "description": "Simple."},
        {
            "name": "test_prompt_with_arguments",
            "description": "With arguments.",
            "arguments": [argument("arg1"), argument("arg2")],
        },
        {
            "name": "test_prompt_with_embedded_resource",
            "description": "With a resource.",
            "arguments": [argument("resourceUri")],
        },
        {"name": "test_prompt_with_image", "description": "With an image."},
        {"name": "test_input_required_result_prompt", "description": "Asks first."},
    ])
}

fn message(content: Value) -> Value {
    json!({"role": "user", "content": content})
}

fn text(text: impl Into<String>) -> Value {
    let text: String = text.into();
    message(json!({"type": "text", "text": text}))
}

async fn prompt(name: &str, arguments: &Value, peer: &CallPeer) -> Result<Value, ProviderError> {
    let argument = |name: &str| arguments[name].as_str().unwrap_or_default();
    let messages = match name {
        "test_simple_prompt" => json!([text("This is a simple prompt for testing.")]),
        "test_prompt_with_arguments" => {
            let (one, two) = (argument("arg1"), argument("arg2"));
            json!([text(format!("Prompt with arguments: arg1='{one}', arg2='{two}'"))])
        }
        "test_prompt_with_embedded_resource" => {
            let uri = arguments["resourceUri"].as_str().unwrap_or("test://static-text");
            let resource = json!({"uri": uri, "mimeType": "text/plain", "text": "The content."});
            json!([
                message(json!({"type": "resource", "resource": resource})),
                text("Please process the resource."),
            ])
        }
        "test_prompt_with_image" => json!([
            message(json!({"type": "image", "data": IMAGE, "mimeType": "image/png"})),
            text("Please analyze the image."),
        ]),
        "test_input_required_result_prompt" => {
            let question =
                form("What context should be used?", json!({"context": {"type": "string"}}));
            let answer = peer
                .ask("user_context", question)
                .await
                .map_err(|failure| ProviderError::internal(failure.to_string()))?;
            let context = answer["content"]["context"].as_str().unwrap_or_default();
            json!([text(format!("Context: {context}"))])
        }
        _ => return Err(ProviderError::invalid(format!("there is no prompt `{name}`"))),
    };
    Ok(json!({"messages": messages}))
}
