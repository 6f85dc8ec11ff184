//! `skill__load`: returns the text of a skill, and activates what it grants.

use std::sync::Arc;

use haft::sanitize::sanitize;
use haft_core::{
    Capability, DynTool, Exposure, Failure, Label, Operation, OtherNames, Output, Permission,
    ResultLimit, ToolContext, ToolSpec, Trust, host::HostContext, text::shortened,
};
use haft_sandbox::{FileKind, WalkEntry, WalkLimits};
use serde_json::{Value, json};

use super::{MAX_SKILL_BYTES, SkillGrants, access, open, skill::Skill};
use crate::files::paths;

/// The longest text of a skill, in characters; the rest is read as a file.
const MAX_BODY_CHARS: usize = 20_000;
/// How many files of a skill are listed.
const MAX_LISTED_FILES: usize = 50;

/// How many bytes of names and descriptions are shown in all, and characters of one description.
const MAX_SHOWN_BYTES: usize = 16 << 10;
const MAX_SHOWN_DESCRIPTION_CHARS: usize = 400;

/// Makes the tool. Its description has the names and descriptions of the skills.
pub(super) fn tool(skills: &Arc<Vec<Skill>>, grants: SkillGrants) -> DynTool {
    let offered: Vec<&Skill> = skills.iter().filter(|skill| skill.is_offered()).collect();
    let mut about = String::from(
        "Loads a skill: instructions for one kind of task. Load a skill before you work on a task \
         that its description names. Skills:",
    );
    about.push_str(&listed(&offered));
    let names: Vec<&str> = offered.iter().map(|skill| skill.name.as_str()).collect();
    let schema = json!({
        "type": "object",
        "properties": {"name": {"enum": names, "description": "Name of the skill."}},
        "required": ["name"],
    });
    let (skills, known) = (Arc::clone(skills), Arc::clone(skills));
    let spec = spec("load", &about);
    let tool = DynTool::new(spec, schema, move |arguments: Arc<Value>, cx: ToolContext| {
        let (skills, grants) = (Arc::clone(&skills), grants.clone());
        async move {
            let name = arguments["name"].as_str().unwrap_or_default().to_owned();
            let found = skills.iter().find(|skill| skill.name == name);
            let Some(skill) = found.cloned() else { return Err(unknown(&name)) };
            label(&skill, &cx);
            cx.spawn_blocking(move |cx| {
                check_file(&skill, cx)?;
                grants.activate(&skill, cx);
                Ok(Output::text(shown(&skill, cx)))
            })
            .await?
        }
    });
    tool.with_profile(move |declared, arguments, _| {
        let name = arguments["name"].as_str().unwrap_or_default();
        match known.iter().find(|skill| skill.name == name) {
            Some(skill) => access::declare(declared, skill, "SKILL.md"),
            None => declared, // the body refuses it
        }
    })
}

/// Lists names and descriptions, as many as fit. The others can be loaded by name.
fn listed(offered: &[&Skill]) -> String {
    let mut list = String::new();
    for (at, skill) in offered.iter().enumerate() {
        let line = format!("\n- {}: {}", skill.name, description(skill));
        if list.len() + line.len() > MAX_SHOWN_BYTES {
            let rest = offered.len() - at;
            list.push_str(&format!("\n[{rest} more skills: see the values of `name`]"));
            break;
        }
        list.push_str(&line);
    }
    list
}

/// A description for the model, on one line: shortened, and without hidden characters (prompt
/// injection, Trojan Source).
fn description(skill: &Skill) -> String {
    let clean = sanitize(&skill.description).text;
    let clean = clean.split_whitespace().collect::<Vec<_>>().join(" ");
    shortened(&clean, MAX_SHOWN_DESCRIPTION_CHARS)
}

/// Reads the file of a skill again, as an authorized call. FAIL CLOSED (TOCTOU): the text that was
/// read before the turn may come from another file than the one that is checked.
fn check_file(skill: &Skill, cx: &ToolContext) -> Result<(), Failure> {
    let bytes = access::read(skill, "SKILL.md", MAX_SKILL_BYTES, cx)?;
    let text = String::from_utf8(bytes).unwrap_or_default();
    match Skill::parse(&skill.name, &text, &skill.root, skill.is_trusted) {
        Ok(read) if read == *skill => Ok(()),
        _ => Err(Failure::failed(format!("the skill `{}` has just changed", skill.name))
            .with_next("load it again in the next turn")),
    }
}

/// The spec of a tool of this source.
pub(super) fn spec(name: &str, about: &str) -> ToolSpec {
    let mut spec = ToolSpec::new(name, about)
        .read_only()
        .capabilities([Capability::Filesystem])
        .exposure(Exposure::Always)
        .max_result(ResultLimit::Chars(MAX_BODY_CHARS + 10_000));
    // Reading below the directory of a skill needs no approval; rules about the file still count.
    spec.permission = Permission::None;
    spec.per_call = vec!["effects", "keys"];
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
fn shown(skill: &Skill, cx: &ToolContext) -> String {
    let mut text: String = skill.body.chars().take(MAX_BODY_CHARS).collect();
    if text.len() < skill.body.len() {
        text.push_str("\n[the rest is in SKILL.md: read it with `skill__read` and an offset]");
    }
    let files = files(skill, cx);
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

/// The files of a skill besides its `SKILL.md` and those that a rule denies.
fn files(skill: &Skill, cx: &ToolContext) -> Vec<String> {
    let Ok(Some(workspace)) = open(&skill.root) else { return Vec::new() };
    let limits = WalkLimits { entries: 1_000, ..WalkLimits::default() };
    let walk =
        workspace.resolve(&skill.name).and_then(|resolved| workspace.walk(&resolved, limits));
    let Ok(walk) = walk else { return Vec::new() };
    let mut names: Vec<String> = walk
        .flatten()
        .filter(|entry| entry.kind() == FileKind::File && !is_denied(entry, cx))
        .filter_map(|entry| {
            let relative = entry.resolved().relative().strip_prefix(&skill.name).ok()?;
            relative.to_str().map(|name| sanitize(name).text.replace('\n', "<U+000A>"))
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

/// Whether a rule denies reading a file, by this name or by another one (hard links).
fn is_denied(entry: &WalkEntry, cx: &ToolContext) -> bool {
    let resolved = entry.resolved();
    cx.is_path_denied(Operation::Read, &resolved.absolute())
        || entry.meta().map_or(true, |meta| {
            paths::other_names(resolved, &meta, Operation::Read, cx) != OtherNames::Allowed
        })
}
