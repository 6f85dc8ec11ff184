//! `haft tools list` and `haft tools show`: the tools and what they declare.
//!
//! `export`, `check` and `lint` have the files of their names.

use std::{process::ExitCode, sync::Arc, time::Duration};

use anstyle::Style;
use haft::{
    Runtime, ToolRegistry,
    registry::RegisteredTool,
    tool::{Capability, ConcurrencyClass, Effects, Manifest, Operation, Permission},
};
use serde_json::{Value, json};

use crate::{
    args, builtin, check, demo_tools,
    error::Problem,
    export, lint, schema,
    setup::Setup,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, Table, WARN},
};

const PLAIN: Style = Style::new();

pub(crate) fn run(
    args: &args::Tools,
    open: impl FnOnce(&args::WorkspaceArgs, &args::Rules) -> Result<Setup, Problem>,
) -> Result<ExitCode, Problem> {
    let mut missing = None;
    let registry = match args {
        args::Tools::List { place, rules, .. } => {
            builtin::all(&open(place, rules)?, place)?.build()?
        }
        args::Tools::Show { tool, place, rules, .. } => {
            let setup = open(place, rules)?;
            missing = builtin::missing_hint(tool, place, &setup);
            builtin::all(&setup, place)?.build()?
        }
        args::Tools::Export(args::Export { from, .. })
        | args::Tools::Check(args::Check { from, .. })
        | args::Tools::Lint(args::Lint { from, .. }) => match &from.tools {
            // The tools of a file do not depend on this directory.
            Some(_) => demo_tools::registry(Duration::ZERO)?,
            None => builtin::all(&open(&from.place, &from.rules)?, &from.place)?.build()?,
        },
    };
    match args {
        args::Tools::Export(args) => export::run(args, &registry)?,
        args::Tools::Check(args) => check::run(args, &registry)?,
        args::Tools::Lint(args) => return lint::run(args, &registry),
        args::Tools::List { output, .. } if output.json => {
            let list: Vec<Value> = registry.own().map(|e| summary_json(e)).collect();
            style::print(format_args!("{}\n", Value::Array(list)))?;
        }
        args::Tools::List { .. } => {
            let mut table = Table::new(0);
            for entry in registry.own() {
                let manifest = entry.manifest();
                let mut flags = flags(&manifest);
                // The class column has it already.
                flags.retain(|f| f != "read-only" || manifest.class != ConcurrencyClass::ReadOnly);
                table.row([
                    (NAME, manifest.name),
                    (DIM, style::class(manifest.class).to_owned()),
                    (colour(&flags), flags.join(", ")),
                    (PLAIN, first_sentence(&manifest.description)),
                ]);
            }
            style::print(table)?;
        }
        args::Tools::Show { tool, output, .. } => {
            let Some(entry) = find(&registry, tool) else {
                let names = registry.own().map(|e| e.name().as_str());
                let problem = Problem::new(format!("there is no tool called `{tool}`"));
                return Err(match missing {
                    Some(hint) => problem.hint(hint),
                    None => problem
                        .similar(style::nearest(tool, names))
                        .hint("`haft tools list` lists the tools"),
                });
            };
            let layers = layers(entry)?;
            if output.json {
                let mut all = manifest_json(entry);
                all["layers"] = json!(layers);
                style::print(format_args!("{all}\n"))?;
            } else {
                style::print(page(entry, &layers))?
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns a tool by its name or an alias.
pub(crate) fn find<'a>(registry: &'a ToolRegistry, name: &str) -> Option<&'a RegisteredTool> {
    let is_called = |e: &&Arc<RegisteredTool>| {
        *e.name() == name || e.spec().aliases.iter().any(|alias| alias == name)
    };
    registry.own().find(is_called).map(|entry| &**entry)
}

/// The first sentence of a description, on one line.
fn first_sentence(text: &str) -> String {
    let line = style::visible(text.split("\n\n").next().unwrap_or_default()).replace('\n', " ");
    match line.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => line,
    }
}

/// The flags that matter most to a person.
fn flags(manifest: &Manifest) -> Vec<String> {
    let mut flags = Vec::new();
    if manifest.read_only {
        flags.push("read-only".to_owned());
    }
    if manifest.destructive.unwrap_or(!manifest.read_only) {
        flags.push("destructive".to_owned());
    }
    if asks(manifest) {
        flags.push("needs approval".to_owned());
    }
    let reaches = manifest.capabilities.iter().flat_map(|c| c.iter());
    flags.extend(reaches.filter(|c| *c != Capability::Destructive).map(|c| c.to_string()));
    flags
}

fn colour(flags: &[String]) -> Style {
    let has = |flag: &str| flags.iter().any(|f| f == flag);
    match () {
        () if has("destructive") => BAD,
        () if has("needs approval") => WARN,
        () => GOOD,
    }
}

/// Whether a call would need approval under the default policy. Guards and arguments may change it.
fn asks(manifest: &Manifest) -> bool {
    let reaches = |c| manifest.capabilities.is_none_or(|set| set.has(c));
    let changes = match &manifest.effects {
        // A tool that declares the files of each call needs approval only outside the workspace.
        Effects::Undeclared => {
            reaches(Capability::Filesystem)
                && !manifest.per_call.contains(&"effects")
                && !schema::names_files(&manifest.input_schema)
        }
        Effects::Declared(list) => list.iter().any(|e| e.operation != Operation::Read),
    };
    manifest.permission == Permission::Required
        && (!manifest.read_only
            || changes
            || reaches(Capability::Network)
            || reaches(Capability::Secrets))
}

fn summary_json(entry: &RegisteredTool) -> Value {
    let manifest = entry.manifest();
    json!({
        "name": manifest.name,
        "class": manifest.class,
        "flags": flags(&manifest),
        "description": manifest.description,
    })
}

fn manifest_json(entry: &RegisteredTool) -> Value {
    let mut whole = serde_json::to_value(entry.manifest()).unwrap_or_default();
    if let Some(map) = whole.as_object_mut() {
        map.insert("hash".to_owned(), Value::String(entry.hash()));
    }
    whole
}

/// The layers around the body of a tool, outermost first.
fn layers(entry: &RegisteredTool) -> Result<Vec<String>, Problem> {
    let runtime = Runtime::builder().build()?;
    Ok(runtime.layers_of(entry))
}

/// What one tool declares, as text.
fn page(entry: &RegisteredTool, layers: &[String]) -> String {
    let manifest = entry.manifest();
    let flags = flags(&manifest);
    let mut out = format!(
        "{}  {}\n\n{}\n\n{}\n",
        style::paint(NAME.bold(), entry.name()),
        style::paint(colour(&flags), flags.join(", ")),
        style::visible(&manifest.description),
        style::paint(BOLD, "Arguments"),
    );
    let mut table = Table::new(2);
    let parameters = schema::parameters(&manifest.input_schema);
    for parameter in &parameters {
        table.row([
            (NAME, parameter.name.to_owned()),
            (PLAIN, parameter.kind()),
            (if parameter.is_required { WARN } else { DIM }, parameter.need()),
            (PLAIN, style::visible(parameter.description()).replace('\n', " ")),
        ]);
    }
    out += &if parameters.is_empty() { "  none\n".to_owned() } else { table.to_string() };
    for example in &manifest.examples {
        out += &format!("\n{}\n  {example}\n", style::paint(BOLD, "Example"));
    }
    // Every key of the manifest is printed, so that new ones need no change here.
    out += &format!("\n{}\n", style::paint(BOLD, "Declares"));
    let mut table = Table::new(2);
    let told = ["name", "description", "input_schema", "output_schema", "examples"];
    for (key, value) in manifest_json(entry).as_object().into_iter().flatten() {
        if !told.contains(&key.as_str()) {
            let said = display_value(value);
            let style = if said.is_some() { PLAIN } else { DIM };
            let said = said.unwrap_or_else(|| undeclared(key).to_owned());
            table.row([(DIM, key.replace('_', " ")), (style, said)]);
        }
    }
    out += &table.to_string();
    out += &format!("\n{}\n", style::paint(BOLD, "Layers, outermost first"));
    let mut table = Table::new(2);
    for layer in layers {
        let (name, what) = layer.split_once(": ").unwrap_or((layer, ""));
        table.row([(DIM, name.to_owned()), (PLAIN, style::visible(what))]);
    }
    out += &table.to_string();
    if let Some(schema) = &manifest.output_schema {
        out += &format!("\n{}\n  {schema}\n", style::paint(BOLD, "Result"));
    }
    out
}

/// A declared value as text; `None` if it is not declared.
fn display_value(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::String(text) => style::visible(text),
        Value::Number(number) => number.to_string(),
        Value::Array(list) if list.is_empty() => "none".to_owned(),
        Value::Array(list) => list.iter().filter_map(display_value).collect::<Vec<_>>().join(", "),
        Value::Object(map) => {
            let pair = |(key, value)| Some(format!("{key} {}", display_value(value)?));
            map.iter().filter_map(pair).collect::<Vec<_>>().join(", ")
        }
    })
}

/// The meaning of an option that is not declared.
fn undeclared(option: &str) -> &'static str {
    match option {
        "timeout_ms" | "deadline_ms" | "approval_timeout_ms" => "default of the runtime",
        "destructive" => "not declared, treated as yes",
        "capabilities" => "not declared, treated as all",
        "effects" => "not declared",
        "concurrency" => "no limit",
        _ => "none",
    }
}
