//! `haft tools export`: tools in a provider's own JSON, and what each of them lost on the way.

use std::io::Write as _;

use anstyle::Style;
use haft::{
    Dialect, ExportOptions, ExportedTool, Formats, LossKind, ToolChoice, ToolExport, ToolRegistry,
};
use serde_json::{Value, json};

use crate::{
    args,
    error::Problem,
    plan::no_dialect,
    style::{self, BAD, BOLD, DIM, NAME, Table, WARN},
    tool_list::{Item, Shelf},
};

pub(crate) fn run(args: &args::Export, registry: &ToolRegistry) -> Result<(), Problem> {
    let dialect = args.dialect.ok_or_else(|| no_dialect("`--dialect` is missing"))?;
    let shelf = Shelf::open(args.from.tools.as_deref(), registry, Formats::Remarked)?;
    let options = options(args, &shelf)?;
    match args.output.json && !args.request {
        true => {
            if args.cache.is_some() {
                let note = style::paint(BOLD, "note:");
                style::talk(format_args!("{note} `--cache` has no effect without `--request`"));
            }
            lines(dialect, &shelf, &options)
        }
        false => request(args, dialect, &shelf, &options),
    }
}

/// The choices of the command line. A tool that is to be called must be there.
fn options(args: &args::Export, shelf: &Shelf) -> Result<ExportOptions, Problem> {
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
        Some(name) if shelf.items.iter().any(|item| item.name == name) => {
            Some(ToolChoice::Tool(name.to_owned()))
        }
        Some(name) => {
            let names = shelf.items.iter().map(|item| item.name.as_str());
            return Err(Problem::new(format!("there is no tool called `{name}`"))
                .near(style::nearest(name, names))
                .hint("`--choice` takes auto, any, none or the name of a tool"));
        }
    };
    Ok(options)
}

/// One line for each tool, as soon as it is made.
fn lines(dialect: Dialect, shelf: &Shelf, options: &ExportOptions) -> Result<(), Problem> {
    let definitions = shelf.definitions();
    let mut out = style::lines();
    for (item, shown) in shelf.items.iter().zip(dialect.show_all(&definitions, options)) {
        writeln!(out, "{}", line(dialect, item, &shown))?;
    }
    Ok(out.flush()?)
}

fn line(dialect: Dialect, item: &Item, shown: &ExportedTool) -> Value {
    let report = match &item.schema {
        Ok(_) => json!(shown.report),
        Err(trouble) => json!([{
            "kind": LossKind::Refused, "pointer": "", "keyword": trouble.keyword,
            "note": trouble.note,
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

/// All tools as one request has them, and what they lost on stderr.
fn request(
    args: &args::Export,
    dialect: Dialect,
    shelf: &Shelf,
    options: &ExportOptions,
) -> Result<(), Problem> {
    let definitions = shelf.definitions();
    let export = ToolExport::of(dialect, &definitions, options);
    // Whatever changes nothing is told, so that nobody relies on it.
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
    match args.request {
        true => style::data(&Value::Object(export.request().clone()), args.output.json)?,
        false => style::data(export.tools(), args.output.json)?,
    }
    for flag in idle {
        let note = style::paint(BOLD, "note:");
        style::talk(format_args!("{note} `{flag}` has no effect for {dialect}"));
    }
    let table = losses(shelf, export.shown()).to_string();
    if !table.is_empty() {
        style::talk(table.trim_end());
    }
    let present = |shown: &&ExportedTool| shown.tool.is_some();
    let count = export.shown().iter().filter(present).count();
    style::talk(format_args!(
        "{} exported for {dialect}, {} strict, {} left out",
        style::count(count, "tool"),
        export.shown().iter().filter(|shown| shown.strict).count(),
        export.shown().len() - count,
    ));
    Ok(())
}

/// What every tool lost. What is only said in other words is no loss.
fn losses(shelf: &Shelf, shown: &[ExportedTool]) -> Table {
    let mut table = Table::new(0);
    for (item, shown) in shelf.items.iter().zip(shown) {
        let mut row = |kind: (Style, &str), place: &str, keyword: &str, note: &str| {
            table.row([
                (NAME, item.label()),
                (kind.0, kind.1.to_owned()),
                (DIM, style::place(place)),
                (DIM, style::visible(keyword)),
                (Style::new(), style::visible(note).replace('\n', " ")),
            ]);
        };
        if let Err(trouble) = &item.schema {
            row(colour(LossKind::Refused), "", trouble.keyword, &trouble.note);
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
