//! `haft tools export`: prints tools in a provider's format, with a report of what the format
//! cannot express.

use std::{io::Write as _, sync::Arc};

use anstyle::Style;
use haft::{
    Dialect,
    dialect::{ExportOptions, ExportedTool, LossKind, ToolChoice, ToolExport},
    registry::RegisteredTool,
    schema::Formats,
};
use serde_json::{Value, json};

use crate::{
    args,
    error::Problem,
    plan::no_dialect,
    style::{self, BAD, BOLD, DIM, NAME, Table, WARN},
    tool_list::{Item, ToolList},
};

pub(crate) fn run(args: &args::Export, tools: &[Arc<RegisteredTool>]) -> Result<(), Problem> {
    let dialect = args.dialect.ok_or_else(|| no_dialect("`--dialect` is missing"))?;
    let list = ToolList::open(args.from.tools.as_deref(), tools, Formats::Annotation)?;
    let options = options(args, &list)?;
    if args.output.json && !args.request {
        if args.cache.is_some() {
            let note = style::paint(BOLD, "note:");
            style::message(format_args!("{note} `--cache` has no effect without `--request`"));
        }
        lines(dialect, &list, &options)
    } else {
        request(args, dialect, &list, &options)
    }
}

/// The export options of the command line. The tool of `--choice` must exist.
fn options(args: &args::Export, list: &ToolList) -> Result<ExportOptions, Problem> {
    let mut options = ExportOptions::default().strict(args.strict);
    options.cache = args.cache;
    options.search = args.search;
    options.parallel = args.parallel;
    options.inline = args.inline;
    options.choice = match args.choice.as_deref() {
        None => None,
        Some("auto") => Some(ToolChoice::Auto),
        Some("any") => Some(ToolChoice::Any),
        Some("none") => Some(ToolChoice::None),
        Some(name) if list.items.iter().any(|item| item.name == name) => {
            Some(ToolChoice::Tool(name.to_owned()))
        }
        Some(name) => {
            let names = list.items.iter().map(|item| item.name.as_str());
            return Err(Problem::new(format!("there is no tool called `{name}`"))
                .similar(style::nearest(name, names))
                .hint("`--choice` takes auto, any, none or the name of a tool"));
        }
    };
    Ok(options)
}

/// Prints one line for each tool.
fn lines(dialect: Dialect, list: &ToolList, options: &ExportOptions) -> Result<(), Problem> {
    let definitions = list.definitions();
    let mut out = style::stdout_writer();
    for (item, shown) in list.items.iter().zip(dialect.export_tools(&definitions, options)) {
        writeln!(out, "{}", line(dialect, item, &shown))?;
    }
    Ok(out.flush()?)
}

fn line(dialect: Dialect, item: &Item, shown: &ExportedTool) -> Value {
    let report = match &item.schema {
        Ok(_) => json!(shown.report),
        Err(invalid) => json!([{
            "kind": LossKind::Refused, "pointer": "", "keyword": invalid.keyword,
            "note": invalid.note,
        }]),
    };
    json!({
        "id": item.id,
        "provider": dialect.as_str(),
        "tool": shown.tool,
        "strict": shown.strict,
        "name": (!item.name.is_empty()).then_some(&shown.name),
        "report": report,
    })
}

/// Prints the tools as in one request, and the loss report to stderr.
fn request(
    args: &args::Export,
    dialect: Dialect,
    list: &ToolList,
    options: &ExportOptions,
) -> Result<(), Problem> {
    let definitions = list.definitions();
    let export = ToolExport::of(dialect, &definitions, options);
    // An option without effect is reported, so that no caller relies on it.
    let without = |change: fn(&mut ExportOptions)| {
        let mut less = options.clone();
        change(&mut less);
        ToolExport::of(dialect, &definitions, &less).request() == export.request()
    };
    let mut idle = Vec::new();
    if options.cache.is_some() && without(|o| o.cache = None) {
        idle.push("--cache");
    }
    if options.search.is_some() && without(|o| o.search = None) {
        idle.push("--search");
    }
    if options.choice.is_some() && without(|o| o.choice = None) {
        idle.push("--choice");
    }
    if options.parallel.is_some() && without(|o| o.parallel = None) {
        idle.push("--parallel");
    }
    if args.request {
        style::print_json(&Value::Object(export.request().clone()), args.output.json)?
    } else {
        style::print_json(export.tools(), args.output.json)?
    }
    for flag in idle {
        let note = style::paint(BOLD, "note:");
        style::message(format_args!("{note} `{flag}` has no effect for {dialect}"));
    }
    let table = losses(list, export.exported_tools()).to_string();
    if !table.is_empty() {
        style::message(table.trim_end());
    }
    let present = |shown: &&ExportedTool| shown.tool.is_some();
    let count = export.exported_tools().iter().filter(present).count();
    style::message(format_args!(
        "{} exported for {dialect}, {} strict, {} left out",
        style::count(count, "tool"),
        export.exported_tools().iter().filter(|shown| shown.strict).count(),
        export.exported_tools().len() - count,
    ));
    Ok(())
}

/// The losses of each tool. A different notation with the same meaning is not a loss.
fn losses(list: &ToolList, shown: &[ExportedTool]) -> Table {
    let mut table = Table::new(0);
    for (item, shown) in list.items.iter().zip(shown) {
        let mut row = |kind: (Style, &str), location: &str, keyword: &str, note: &str| {
            table.row([
                (NAME, item.label()),
                (kind.0, kind.1.to_owned()),
                (DIM, style::location(location)),
                (DIM, style::visible(keyword)),
                (Style::new(), style::visible(note).replace('\n', " ")),
            ]);
        };
        if let Err(invalid) = &item.schema {
            row(colour(LossKind::Refused), "", invalid.keyword, &invalid.note);
            continue;
        }
        if let Some(why) = &shown.not_strict {
            row((DIM, "not strict"), "", "", why);
        }
        for loss in shown.report.iter().filter(|loss| loss.kind != LossKind::Exact) {
            row(colour(loss.kind), &loss.pointer, &loss.keyword, &loss.note);
        }
    }
    table
}

fn colour(kind: LossKind) -> (Style, &'static str) {
    let style = match kind {
        LossKind::Refused | LossKind::Narrowed => BAD,
        LossKind::Widened => WARN,
        _ => DIM,
    };
    (style, kind.as_str())
}
