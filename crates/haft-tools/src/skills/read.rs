//! `skill__read`: returns a part of a file of a skill.

use std::sync::Arc;

use haft_core::{DynTool, Failure, Output, ToolContext};
use serde_json::{Value, json};

use super::{
    access,
    load::{label, spec, unknown},
    skill::Skill,
};

/// How many characters are returned, unless the model asks for another number.
const DEFAULT_CHARS: usize = 20_000;
/// The most that it may ask for.
const MAX_CHARS: usize = 500_000;
/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: usize = 16 << 20;

/// Makes the tool.
pub(super) fn tool(skills: Arc<Vec<Skill>>) -> DynTool {
    let names: Vec<&str> =
        skills.iter().filter(|s| s.is_offered()).map(|skill| skill.name.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {
            "skill": {"enum": names, "description": "Name of the skill."},
            "path": {
                "type": "string",
                "minLength": 1,
                "description": "Path of the file, relative to the directory of the skill.",
            },
            "offset": {
                "type": "integer",
                "minimum": 0,
                "default": 0,
                "description": "How many characters to skip.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_CHARS,
                "default": DEFAULT_CHARS,
                "description": "How many characters to return.",
            },
        },
        "required": ["skill", "path"],
    });
    let about = "Reads a file of a skill, such as a reference or a template.";
    let spec = spec("read", about);
    let spec = spec.max_result(haft_core::ResultLimit::Chars(MAX_CHARS + 1_000));
    let known = Arc::clone(&skills);
    let tool = DynTool::new(spec, schema, move |arguments: Arc<Value>, cx: ToolContext| {
        let skills = Arc::clone(&skills);
        async move {
            let name = arguments["skill"].as_str().unwrap_or_default();
            let found = skills.iter().find(|skill| skill.name == name);
            let Some(skill) = found.cloned() else { return Err(unknown(name)) };
            label(&skill, &cx);
            cx.spawn_blocking(move |cx| read(&skill, &arguments, cx)).await?
        }
    });
    tool.with_profile(move |declared, arguments, _| {
        let name = arguments["skill"].as_str().unwrap_or_default();
        let path = arguments["path"].as_str().unwrap_or_default();
        match known.iter().find(|skill| skill.name == name) {
            Some(skill) => access::declare(declared, skill, path),
            None => declared, // the body refuses it
        }
    })
}

fn read(skill: &Skill, arguments: &Value, cx: &ToolContext) -> Result<Output, Failure> {
    let path = arguments["path"].as_str().unwrap_or_default();
    let number = |key: &str, default: usize| {
        arguments[key].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(default)
    };
    let (offset, limit) = (number("offset", 0), number("limit", DEFAULT_CHARS));
    let bytes = access::read(skill, path, MAX_FILE_BYTES, cx)?;
    let Ok(text) = String::from_utf8(bytes) else {
        let failure = Failure::failed(format!("`{path}` is not a text file"));
        return Err(failure.with_next("read one of the other files of the skill"));
    };
    let total = text.chars().count();
    let mut page: String = text.chars().skip(offset).take(limit).collect();
    let end = offset.saturating_add(limit);
    if end < total {
        page.push_str(&format!(
            "\n[characters {offset} to {end} of {total}; continue with offset {end}]"
        ));
    }
    Ok(Output::text(page))
}
