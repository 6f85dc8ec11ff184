//! `haft tools list` and `haft tools show`: the tools, what happens to their calls here, and what
//! they declare.
//!
//! `export`, `check` and `lint` have the files of their names.

use std::{process::ExitCode, time::Duration};

use anstyle::Style;
use haft::{
    registry::RegisteredTool,
    tool::{Capability, Isolation, Manifest},
};
use serde_json::{Value, json};

use crate::{
    args, builtin, check,
    error::Problem,
    export, lint, schema,
    setup::Setup,
    skills,
    style::{self, BOLD, DIM, NAME, Table, WARN},
    sub_agents, tool_cost,
    tool_status::{self, BodyPlace, Limits, ToolStatus},
};

const PLAIN: Style = Style::new();

pub(crate) fn run(
    args: &args::Tools,
    open: impl FnOnce(&args::WorkspaceArgs, &args::Rules) -> Result<Setup, Problem>,
) -> Result<ExitCode, Problem> {
    let tools = match args {
        args::Tools::List(args::ListTools { cost, location, rules, output }) => {
            let setup = open(location, rules)?;
            if *cost {
                tool_cost::print(&setup, *output)?;
            } else {
                list(&setup, *output)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        args::Tools::Names { location, rules } => {
            names(open(location, &rules.clone().quiet()).ok().as_ref())?;
            return Ok(ExitCode::SUCCESS);
        }
        args::Tools::Show { tool, location, rules, output } => {
            show(&open(location, rules)?, tool, *output)?;
            return Ok(ExitCode::SUCCESS);
        }
        args::Tools::Export(args::Export { from, .. })
        | args::Tools::Check(args::Check { from, .. })
        | args::Tools::Lint(args::Lint { from, .. }) => match &from.tools {
            // The tools of a file do not depend on this directory.
            Some(_) => Vec::new(),
            None => tool_status::all_tools(&open(&from.location, &from.rules)?)?,
        },
    };
    match args {
        args::Tools::Export(args) => export::run(args, &tools)?,
        args::Tools::Check(args) => check::run(args, &tools)?,
        args::Tools::Lint(args) => return lint::run(args, &tools),
        args::Tools::List(_) | args::Tools::Names { .. } | args::Tools::Show { .. } => {}
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the names that a tool argument takes here. An invalid configuration must not break the
/// completion, so the built-in tools are printed then.
fn names(setup: Option<&Setup>) -> Result<(), Problem> {
    let registry = setup.and_then(|setup| builtin::all(setup).ok()?.build().ok());
    let mut names: Vec<String> = match &registry {
        Some(registry) => registry.own().map(|entry| entry.name().to_string()).collect(),
        None => builtin::NAMES.map(str::to_owned).to_vec(),
    };
    names.sort();
    style::print(names.join("\n") + "\n")?;
    Ok(())
}

fn list(setup: &Setup, output: args::Output) -> Result<(), Problem> {
    let (runtime, judged) = tool_status::of_all(setup)?;
    let tools = judged.iter().map(|(entry, status)| (&**entry, status));
    let skills = skills::find(setup);
    skills::note_findings(&skills, setup);
    let agents = sub_agents::find(setup, runtime.registry());
    agents.print_notes(setup);
    if output.json {
        let list: Vec<Value> = tools
            .map(|(entry, status)| summary_json(entry, status))
            .chain(skills::to_json(&skills))
            .chain(agents.to_json())
            .collect();
        style::print(format_args!("{}\n", Value::Array(list)))?;
        return Ok(());
    }
    let mut table = Table::new(0);
    for (entry, status) in tools {
        let manifest = entry.manifest();
        table.row([
            (NAME, manifest.name.clone()),
            (status.verdict.colour(), status.verdict.as_str().to_owned()),
            (DIM, flags(&manifest).join(", ")),
            (PLAIN, first_sentence(&manifest.description)),
        ]);
    }
    style::print_page(format_args!("{table}{}{}", skills::page(&skills), agents.page()))?;
    Ok(())
}

fn show(setup: &Setup, tool: &str, output: args::Output) -> Result<(), Problem> {
    let (runtime, judged) = tool_status::of_all(setup)?;
    let own = builtin::find(runtime.registry(), tool).map(|entry| entry.name().clone());
    let name = own.as_ref().map_or(tool, |own| own.as_str());
    let Some((entry, status)) = judged.iter().find(|(entry, _)| *entry.name() == name) else {
        let names = judged.iter().map(|(entry, _)| entry.name().as_str());
        let problem = Problem::new(format!("there is no tool called `{tool}`"));
        return Err(match builtin::missing_hint(tool, setup) {
            Some(hint) => problem.hint(hint),
            None => problem
                .similar(style::nearest(tool, names))
                .hint("`haft tools list` lists the tools"),
        });
    };
    let shown = ShownTool {
        entry,
        status: Some(status.clone()),
        location: BodyPlace::of(&entry.manifest())?,
        limits: Limits::of(entry, setup),
        layers: runtime.layers_of(entry),
    };
    if output.json {
        style::print(format_args!("{}\n", shown.to_json()))?;
    } else {
        style::print_page(shown.page())?;
    }
    Ok(())
}

/// The first sentence of a description, on one line.
fn first_sentence(text: &str) -> String {
    let line = style::visible(text.split("\n\n").next().unwrap_or_default()).replace('\n', " ");
    match line.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => line,
    }
}

/// The properties that matter most to a person.
fn flags(manifest: &Manifest) -> Vec<String> {
    let mut flags = Vec::new();
    if manifest.read_only {
        flags.push("read-only".to_owned());
    }
    if manifest.destructive.unwrap_or(!manifest.read_only) {
        flags.push("destructive".to_owned());
    }
    let reaches = manifest.capabilities.iter().flat_map(|c| c.iter());
    flags.extend(reaches.filter(|c| *c != Capability::Destructive).map(|c| c.to_string()));
    if manifest.isolation == Isolation::Required {
        flags.push("sandboxed".to_owned());
    }
    flags
}

fn summary_json(entry: &RegisteredTool, status: &ToolStatus) -> Value {
    let manifest = entry.manifest();
    json!({
        "kind": "tool",
        "name": manifest.name,
        "verdict": status.to_json(),
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

/// Everything about one tool.
struct ShownTool<'a> {
    entry: &'a RegisteredTool,
    status: Option<ToolStatus>,
    location: BodyPlace,
    limits: Limits,
    /// The layers around the body, outermost first.
    layers: Vec<String>,
}

impl ShownTool<'_> {
    fn to_json(&self) -> Value {
        let mut all = manifest_json(self.entry);
        all["verdict"] = self.status.as_ref().map(ToolStatus::to_json).into();
        all["runs_in"] = self.location.to_json();
        all["limits"] = self.limits.to_json();
        all["layers"] = json!(self.layers);
        all
    }

    fn page(&self) -> String {
        let manifest = self.entry.manifest();
        let mut out = format!(
            "{}  {}\n\n{}\n\n{}\n",
            style::paint(NAME.bold(), self.entry.name()),
            style::paint(DIM, flags(&manifest).join(", ")),
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
        out += &self.in_force();
        out += &format!("\n{}\n{}", style::paint(BOLD, "Declares"), declared(self.entry));
        out += &format!("\n{}\n", style::paint(BOLD, "Layers, outermost first"));
        let mut table = Table::new(2);
        for layer in &self.layers {
            let (name, what) = layer.split_once(": ").unwrap_or((layer, ""));
            table.row([(DIM, name.to_owned()), (PLAIN, style::visible(what))]);
        }
        out += &table.to_string();
        if let Some(schema) = &manifest.output_schema {
            out += &format!("\n{}\n  {schema}\n", style::paint(BOLD, "Result"));
        }
        out
    }

    /// What happens to a call here: the verdict, the place of the body, the limits.
    fn in_force(&self) -> String {
        let mut table = Table::new(2);
        let mut row = |name: &str, style, text: String| {
            table.row([(DIM, name.to_owned()), (style, text)]);
        };
        if let Some(status) = &self.status {
            row("a call", status.verdict.colour(), status.verdict.sentence().to_owned());
            let (why, source) = (style::visible(&status.why), style::visible(&status.source));
            row("because", PLAIN, format!("{why} ({source})").replace('\n', " "));
            if let Some(example) = &status.example {
                row("as in", PLAIN, style::arguments(example));
            }
            for rule in &status.rules {
                row("other calls", PLAIN, style::visible(rule).replace('\n', " "));
            }
        }
        row("body runs", PLAIN, style::visible(&self.location.text()).replace('\n', " "));
        row("timeout", PLAIN, seconds(self.limits.timeout));
        row("deadline", PLAIN, seconds(self.limits.deadline));
        row("approval within", PLAIN, seconds(self.limits.approval_timeout));
        row(
            "result",
            PLAIN,
            match self.limits.result_chars {
                Some(chars) => format!("at most {chars} characters; the rest is stored"),
                None => format!("at most {} bytes", self.limits.result_bytes),
            },
        );
        format!("\n{}\n{table}", style::paint(BOLD, "In force here"))
    }
}

/// A limit as text.
fn seconds(time: Duration) -> String {
    match time.subsec_nanos() {
        0 => format!("{} s", time.as_secs()),
        _ => format!("{} ms", time.as_millis()),
    }
}

/// What a tool declares. Every key of the manifest is printed, so that new ones need no change
/// here.
fn declared(entry: &RegisteredTool) -> Table {
    let mut table = Table::new(2);
    let elsewhere = ["name", "description", "input_schema", "output_schema", "examples"];
    for (key, value) in manifest_json(entry).as_object().into_iter().flatten() {
        if elsewhere.contains(&key.as_str()) {
            continue;
        }
        let text = display_value(value);
        let style = if text.is_some() { PLAIN } else { DIM };
        let text = text.unwrap_or_else(|| undeclared(key).to_owned());
        table.row([(DIM, label(key)), (style, text)]);
    }
    table
}

/// The label of a key of the manifest.
fn label(key: &str) -> String {
    match key {
        "needs" => "required state".to_owned(),
        "unknown" => "unknown arguments".to_owned(),
        _ => key.replace('_', " "),
    }
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
