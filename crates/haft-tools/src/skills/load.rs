//! `skill__load`: returns the text of a skill, and activates what it grants.

use std::sync::Arc;

use haft_core::{
    Capabilities, DynTool, Effects, Exposure, Failure, Label, Output, Permission, ResultLimit,
    ToolContext, ToolSpec, Trust, host::HostContext,
};
use haft_sandbox::{FileKind, WalkLimits};
use serde_json::{Value, json};

use super::{SkillGrants, open, skill::Skill};

/// The longest text of a skill, in characters; the rest is read as a file.
const MAX_BODY_CHARS: usize = 20_000;
/// How many files of a skill are listed.
const MAX_LISTED_FILES: usize = 50;

/// Makes the tool. Its description has the name and description of every skill.
pub(super) fn tool(skills: &Arc<Vec<Skill>>, grants: SkillGrants) -> DynTool {
    let offered: Vec<&Skill> = skills.iter().filter(|skill| skill.is_offered()).collect();
    let mut about = String::from(
        "Loads a skill: instructions for one kind of task. Load a skill before you work on a task \
         that its description names. Skills:",
    );
    for skill in &offered {
        about.push_str(&format!("\n- {}: {}", skill.name, skill.description));
    }
    let names: Vec<&str> = offered.iter().map(|skill| skill.name.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {"name": {"enum": names, "description": "Name of the skill."}},
        "required": ["name"],
    });
    let skills = Arc::clone(skills);
    DynTool::new(spec("load", &about), schema, move |arguments: Arc<Value>, cx: ToolContext| {
        let (skills, grants) = (Arc::clone(&skills), grants.clone());
        async move {
            let name = arguments["name"].as_str().unwrap_or_default().to_owned();
            let found = skills.iter().find(|skill| skill.name == name);
            let Some(skill) = found.cloned() else { return Err(unknown(&name)) };
            label(&skill, &cx);
            grants.activate(&skill, &cx);
            cx.spawn_blocking(move |_| Ok(Output::text(shown(&skill)))).await?
        }
    })
}

/// The spec of a tool of this source.
pub(super) fn spec(name: &str, about: &str) -> ToolSpec {
    let mut spec = ToolSpec::new(name, about)
        .read_only()
        .capabilities(Capabilities::NONE)
        .effects(Effects::none())
        .exposure(Exposure::Always)
        .max_result(ResultLimit::Chars(MAX_BODY_CHARS + 10_000));
    spec.permission = Permission::None;
    spec.open_world = Some(false);
    spec.label = Label::CLEAN;
    spec
}

/// Labels a result: the text of a skill that is not trusted may be anything (prompt injection).
pub(super) fn label(skill: &Skill, cx: &ToolContext) {
    if !skill.is_trusted {
        cx.add_nested_label(Label { trust: Trust::Untrusted, ..Label::CLEAN });
    }
}

pub(super) fn unknown(name: &str) -> Failure {
    Failure::invalid(format!("there is no skill called `{name}` any more"))
        .with_next("load one of the skills that the description of the tool lists")
}

/// The text of a skill, and the names of its files.
fn shown(skill: &Skill) -> String {
    let mut text: String = skill.body.chars().take(MAX_BODY_CHARS).collect();
    if text.len() < skill.body.len() {
        text.push_str("\n[the rest is in SKILL.md: read it with `skill__read` and an offset]");
    }
    let files = files(skill);
    if !files.is_empty() {
        text.push_str(&format!(
            "\n\n[files of the skill in {}; read them with `skill__read`, run scripts with the \
             shell: {}]",
            skill.directory().display(),
            files.join(", ")
        ));
    }
    text
}

/// The files of a skill besides its `SKILL.md`.
fn files(skill: &Skill) -> Vec<String> {
    let Ok(Some(workspace)) = open(&skill.root) else { return Vec::new() };
    let limits = WalkLimits { entries: 1_000, ..WalkLimits::default() };
    let walk = workspace.resolve(&skill.name).and_then(|place| workspace.walk(&place, limits));
    let Ok(walk) = walk else { return Vec::new() };
    let mut names: Vec<String> = walk
        .flatten()
        .filter(|entry| entry.kind() == FileKind::File)
        .filter_map(|entry| {
            let relative = entry.place().relative().strip_prefix(&skill.name).ok()?;
            relative.to_str().map(str::to_owned)
        })
        .filter(|name| name != "SKILL.md")
        .collect();
    names.sort();
    if names.len() > MAX_LISTED_FILES {
        names.truncate(MAX_LISTED_FILES);
        names.push("…".to_owned());
    }
    names
}
