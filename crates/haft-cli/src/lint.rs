//! `haft tools lint`: reports what makes tools hard to choose, expensive in tokens or unsafe.
//!
//! A finding has a stable name, a location and a fix. Losses and tokens for each provider are
//! counted, but are not findings by themselves.

use std::{
    collections::{HashMap, HashSet},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anstyle::Style;
use haft::{
    Dialect,
    dialect::{ExportOptions, ExportedTool, Loss, LossKind},
    registry::RegisteredTool,
    schema::{Formats, Schema},
    tool::{ConcurrencyClass, Effects, Exposure, Operation, ResultLimit},
};
use serde_json::{Map, Value, json};

use crate::{
    args,
    error::Problem,
    schema,
    style::{self, BOLD, DIM, NAME, Table, WARN},
    tool_list::{self, Item, ToolList},
};

/// The exit code of `--deny` with findings.
const EXIT_FINDINGS: u8 = 1;
/// With more optional arguments, whose default the schema does not state, a model chooses badly.
const MAX_OPTIONAL_ARGUMENTS: usize = 8;
/// A description that says what a tool does and returns has more words than this.
const MIN_DESCRIPTION_WORDS: usize = 4;
/// More tools with `exposure = always` cost tokens in every request.
const MAX_ALWAYS_EXPOSED: usize = 10;
/// A tool that may run longer should declare what an interrupt does.
const LONG_RUN: Duration = Duration::from_secs(10);
/// A tool with more tokens is a page of the prompt.
const MAX_TOOL_TOKENS: usize = 2_000;
/// An estimate: how many bytes of JSON make a token.
const BYTES_PER_TOKEN: usize = 4;

/// Names without information.
const VAGUE_WORDS: [&str; 22] = [
    "action", "call", "command", "do", "exec", "execute", "func", "function", "go", "handle",
    "handler", "helper", "main", "misc", "perform", "process", "run", "task", "test", "tool",
    "util", "utility",
];

/// One finding.
struct Finding {
    /// Its tool; `None` if it is about all tools.
    tool: Option<String>,
    /// Its stable name.
    name: &'static str,
    /// Where: a JSON pointer into the schema, or the name of an option.
    location: String,
    note: String,
    fix: String,
}

pub(crate) fn run(args: &args::Lint, tools: &[Arc<RegisteredTool>]) -> Result<ExitCode, Problem> {
    let list = ToolList::open(args.from.tools.as_deref(), tools, Formats::Annotation)?;
    let dialects = args.dialect.as_ref().map_or(Dialect::ALL, std::slice::from_ref);
    let (findings, sums) = check(&list, dialects);
    if args.output.json {
        style::print(format_args!("{}\n", data(&list, &findings, &sums)))?
    } else {
        let source = tool_list::source(args.from.tools.as_deref());
        style::print_page(page(&source, &list, &findings, &sums))?;
    }
    Ok(if args.deny && !findings.is_empty() {
        ExitCode::from(EXIT_FINDINGS)
    } else {
        ExitCode::SUCCESS
    })
}

/// Checks all tools, and their export for each provider.
fn check(list: &ToolList, dialects: &[Dialect]) -> (Vec<Finding>, Vec<Sum>) {
    let definitions = list.definitions();
    let options = ExportOptions::default();
    let sums: Vec<Sum> = dialects
        .iter()
        .map(|dialect| Sum::new(*dialect, dialect.export_tools(&definitions, &options)))
        .collect();
    let mut findings = Findings(Vec::new());
    let mut seen = HashSet::new();
    for (at, item) in list.items.iter().enumerate() {
        findings.check_tool(item);
        if !item.name.is_empty() && !seen.insert(item.name.as_str()) {
            let note = "another tool has the same name";
            let fix = "rename one of them; in an export the second gets a generated name";
            findings.add(Some(item), "same_name", "name", note, fix);
        }
        if item.schema.is_ok() {
            findings.check_exports(item, at, &sums);
        }
    }
    findings.check_set(list);
    (findings.0, sums)
}

struct Findings(Vec<Finding>);

impl Findings {
    fn add(
        &mut self,
        tool: Option<&Item>,
        name: &'static str,
        location: impl Into<String>,
        note: impl Into<String>,
        fix: impl Into<String>,
    ) {
        let tool = tool.map(Item::display_name);
        self.0.push(Finding {
            tool,
            name,
            location: location.into(),
            note: note.into(),
            fix: fix.into(),
        });
    }

    /// Checks the declaration of one tool.
    fn check_tool(&mut self, item: &Item) {
        let schema = match &item.schema {
            Ok(schema) => schema,
            Err(invalid) => {
                let fix = "correct it; until then the tool cannot be exported and its calls cannot be validated";
                self.add(Some(item), "unusable", invalid.keyword, &invalid.note, fix);
                return;
            }
        };
        if is_vague(&item.name) {
            let fix = "name the action and its object, as in `search_notes`";
            self.add(Some(item), "vague_name", "name", "the name is too general", fix);
        }
        let words = item.description.split_whitespace().count();
        if words == 0 {
            let fix = "say what it does, when to use it, and what it returns";
            self.add(
                Some(item),
                "no_description",
                "description",
                "the tool has no description",
                fix,
            );
        } else if words < MIN_DESCRIPTION_WORDS || restates(&item.name, &item.description) {
            let fix = "say when to use it and what it returns";
            let note = "the description says little more than the name";
            self.add(Some(item), "thin_description", "description", note, fix);
        }
        self.check_parameters(item, schema);
        if let Some(entry) = &item.entry {
            self.check_entry(item, entry);
        }
    }

    fn check_parameters(&mut self, item: &Item, schema: &Schema) {
        let parameters = schema::parameters(schema.source());
        for parameter in parameters.iter().filter(|p| p.description().trim().is_empty()) {
            let name = parameter.name.replace('~', "~0").replace('/', "~1");
            let location = format!("/properties/{name}");
            let note = format!("`{}` has no description", parameter.name);
            let fix = "say what it means, with an example value";
            self.add(Some(item), "undescribed_parameter", location, note, fix);
        }
        let optional = parameters.iter().filter(|p| p.is_optional_without_default()).count();
        if optional > MAX_OPTIONAL_ARGUMENTS {
            let note = format!("{optional} arguments are optional and have no `default`");
            let fix = "declare defaults, split the tool, or remove rarely used arguments";
            self.add(Some(item), "many_optionals", "/properties", note, fix);
        }
    }

    /// Checks what only a registered tool declares.
    fn check_entry(&mut self, item: &Item, entry: &RegisteredTool) {
        let spec = entry.spec();
        // Without a declaration the runtime's default limit applies.
        if spec.max_result == ResultLimit::Unbounded {
            let note = "the result has no length limit";
            let fix = "declare `max_result`: as many characters as a model needs";
            self.add(Some(item), "no_max_result", "max_result", note, fix);
        }
        let writes = match &spec.effects {
            Effects::Undeclared => false,
            Effects::Declared(list) => list
                .iter()
                .any(|effect| matches!(effect.operation, Operation::Write | Operation::Execute)),
        };
        let is_shared =
            spec.class == Some(ConcurrencyClass::ReadOnly) && !spec.per_call.contains(&"class");
        if is_shared && (writes || spec.read_only == Some(false) || spec.destructive == Some(true))
        {
            let note = "calls run in parallel, but they write";
            let fix = "declare `class = WriteExclusive` with keys, or choose the class per call";
            self.add(Some(item), "shared_write", "class", note, fix);
        }
        let longest = spec.timeout.into_iter().chain(spec.deadline).max();
        if longest.is_some_and(|time| time > LONG_RUN) && spec.interrupt.is_none() {
            let note = "it may run long and does not declare what an interrupt does";
            let fix = "declare `interrupt` as `cancel` or `block`";
            self.add(Some(item), "interrupt_undecided", "interrupt", note, fix);
        }
    }

    /// Checks the tools as a set.
    fn check_set(&mut self, list: &ToolList) {
        let is_always = |item: &&Item| {
            item.entry.as_ref().is_some_and(|e| e.spec().exposure == Exposure::Always)
        };
        let always = list.items.iter().filter(is_always).count();
        if always > MAX_ALWAYS_EXPOSED {
            let note = format!("{always} tools are always exposed");
            let fix = "use `always` only for tools that nearly every turn needs";
            self.add(None, "always_exposed", "exposure", note, fix);
        }
    }

    /// Checks the exports of one tool; one finding names all providers.
    fn check_exports(&mut self, item: &Item, at: usize, sums: &[Sum]) {
        for (kind, name, note) in [
            (LossKind::Refused, "left_out", "it cannot be exported for"),
            (LossKind::Narrowed, "narrowed", "some valid calls are not possible with"),
        ] {
            let losses: Vec<(&str, &Loss)> = sums
                .iter()
                .filter_map(|sum| Some((sum.dialect.as_str(), sum.tools[at].losses.get(&kind)?)))
                .collect();
            if let Some((_, loss)) = losses.first() {
                let providers: Vec<&str> = losses.iter().map(|(dialect, _)| *dialect).collect();
                let note = format!("{note} {} ({})", providers.join(", "), loss.note);
                self.add(Some(item), name, &loss.pointer, note, fix(loss));
            }
        }
        let most = sums.iter().map(|sum| (sum.tools[at].tokens, sum.dialect)).max();
        if let Some((tokens, dialect)) = most.filter(|(tokens, _)| *tokens > MAX_TOOL_TOKENS) {
            let note = format!("about {tokens} tokens for {dialect}");
            let fix = "shorten descriptions, remove rarely used arguments, or defer the tool";
            self.add(Some(item), "costly", "", note, fix);
        }
    }
}

/// The fix for a loss.
fn fix(loss: &Loss) -> &'static str {
    match (loss.kind, loss.keyword.as_str()) {
        (LossKind::Refused, _) => "write the schema as an object that some arguments match",
        (_, "additionalProperties") => {
            "set `additionalProperties: false` if there are no other arguments, or turn strict mode off"
        }
        _ => "use fewer keywords, or turn strict mode off",
    }
}

/// Whether a name has no information: only vague words and numbers.
fn is_vague(name: &str) -> bool {
    let word = name.to_ascii_lowercase();
    let word = word.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_' || c == '-');
    let parts: Vec<&str> = word.split(['_', '-']).filter(|part| !part.is_empty()).collect();
    word.len() < 2 || parts.iter().all(|part| VAGUE_WORDS.contains(part))
}

/// Whether a description only repeats the words of the name.
fn restates(name: &str, description: &str) -> bool {
    let fold = |text: &str| -> String {
        text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
    };
    let name = fold(name);
    let fillers = ["a", "an", "the", "this", "tool", "to"];
    description
        .split_whitespace()
        .map(fold)
        .all(|word| fillers.contains(&word.as_str()) || name.contains(word.trim_end_matches('s')))
}

/// The numbers of all tools for one provider.
struct Sum {
    dialect: Dialect,
    tools: Vec<Cost>,
    losses: [usize; KINDS.len()],
    strict: usize,
    left_out: usize,
}

/// The numbers of one tool for one provider.
struct Cost {
    /// An estimate.
    tokens: usize,
    /// The first loss of each kind.
    losses: HashMap<LossKind, Loss>,
}

const KINDS: [LossKind; 4] =
    [LossKind::Widened, LossKind::Narrowed, LossKind::Renamed, LossKind::Refused];

impl Sum {
    fn new(dialect: Dialect, all: impl Iterator<Item = ExportedTool>) -> Self {
        let mut sum =
            Self { dialect, tools: Vec::new(), losses: [0; KINDS.len()], strict: 0, left_out: 0 };
        for shown in all {
            sum.strict += usize::from(shown.strict);
            sum.left_out += usize::from(shown.tool.is_none());
            let mut losses = HashMap::new();
            for loss in shown.report {
                if let Some(at) = KINDS.iter().position(|kind| *kind == loss.kind) {
                    sum.losses[at] += 1;
                }
                losses.entry(loss.kind).or_insert(loss);
            }
            let bytes = shown.tool.map_or(0, |tool| tool.to_string().len());
            sum.tools.push(Cost { tokens: bytes.div_ceil(BYTES_PER_TOKEN), losses });
        }
        sum
    }

    fn tokens(&self) -> usize {
        self.tools.iter().map(|tool| tool.tokens).sum()
    }
}

fn data(list: &ToolList, findings: &[Finding], sums: &[Sum]) -> Value {
    let finding = |f: &Finding| json!({"tool": f.tool, "finding": f.name, "pointer": f.location, "note": f.note, "fix": f.fix});
    let provider = |sum: &Sum| {
        let losses: Map<String, Value> = KINDS
            .iter()
            .zip(sum.losses)
            .map(|(kind, count)| (kind.as_str().to_owned(), json!(count)))
            .collect();
        json!({
            "provider": sum.dialect.as_str(),
            "shown": sum.tools.len() - sum.left_out,
            "strict": sum.strict,
            "left_out": sum.left_out,
            "losses": losses,
            "tokens_estimate": sum.tokens(),
        })
    };
    let tool = |(at, item): (usize, &Item)| {
        let tokens: Map<String, Value> =
            sums.iter().map(|sum| (sum.dialect.to_string(), json!(sum.tools[at].tokens))).collect();
        json!({"id": item.id, "name": item.name, "tokens_estimate": tokens})
    };
    json!({
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "providers": sums.iter().map(provider).collect::<Vec<_>>(),
        "tools": list.items.iter().enumerate().map(tool).collect::<Vec<_>>(),
    })
}

fn page(source: &str, list: &ToolList, findings: &[Finding], sums: &[Sum]) -> String {
    let mut out = String::new();
    let mut last = None;
    for finding in findings {
        if last != Some(&finding.tool) {
            let tool = finding.tool.as_deref().unwrap_or("all tools");
            out += &format!("{}\n", style::paint(NAME.bold(), style::cell(tool)));
            last = Some(&finding.tool);
        }
        let location = if finding.location.is_empty() { "/" } else { &finding.location };
        out += &format!(
            "  {} at {}: {}\n    {} {}\n",
            style::paint(WARN, finding.name),
            style::visible(location),
            style::visible(&finding.note).replace('\n', " "),
            style::paint(DIM, "fix:"),
            finding.fix,
        );
    }
    if !findings.is_empty() {
        out += "\n";
    }
    let mut table = Table::new(0);
    let head =
        ["provider", "exported", "strict", "left out", "losses", "tokens (estimate)", "largest"];
    table.row(head.map(|word| (BOLD, word.to_owned())));
    for sum in sums {
        let losses: Vec<String> = KINDS
            .iter()
            .zip(sum.losses)
            .filter(|(_, count)| *count > 0)
            .map(|(kind, count)| format!("{kind} {count}"))
            .collect();
        let losses = if losses.is_empty() { "none".to_owned() } else { losses.join(", ") };
        let most = sum.tools.iter().zip(&list.items).max_by_key(|(cost, _)| cost.tokens);
        let most = most.map(|(cost, item)| format!("{} {}", item.label(), cost.tokens));
        let plain = Style::new();
        table.row([
            (NAME, sum.dialect.to_string()),
            (plain, (sum.tools.len() - sum.left_out).to_string()),
            (plain, sum.strict.to_string()),
            (plain, sum.left_out.to_string()),
            (plain, losses),
            (plain, sum.tokens().to_string()),
            (DIM, most.unwrap_or_default()),
        ]);
    }
    out += &table.to_string();
    let tools = style::count(list.items.len(), "tool");
    out + &format!("\n{} in {tools} of {source}\n", style::count(findings.len(), "finding"))
}

#[cfg(test)]
mod tests {
    use haft::{
        ToolRegistry,
        tool::{DynTool, Effect, Interrupt, ToolSpec},
    };

    use super::*;

    /// The findings about a correct tool after `change`.
    fn findings(change: impl Fn(ToolSpec) -> ToolSpec, count: usize) -> Vec<&'static str> {
        let mut registry = ToolRegistry::builder();
        for n in 0..count {
            let spec = ToolSpec::new(format!("count_words_{n}"), "Counts the words of a text.");
            let spec = change(spec.max_result(100));
            let schema = json!({"type": "object", "additionalProperties": false});
            registry = registry.add(DynTool::new(spec, schema, |_, _| async { "3" }));
        }
        let list = ToolList::of(
            &registry.build().unwrap().own().cloned().collect::<Vec<_>>(),
            Formats::Annotation,
        );
        check(&list, &[Dialect::Anthropic]).0.iter().map(|finding| finding.name).collect()
    }

    #[test]
    fn declaration_of_a_tool_is_linted() {
        assert_eq!(findings(|spec| spec, 1), [] as [&str; 0]);
        assert_eq!(findings(|spec| spec.max_result(ResultLimit::Unbounded), 1), ["no_max_result"]);
        let by_default = |spec: ToolSpec| spec.max_result(ResultLimit::default());
        assert_eq!(findings(by_default, 1), [] as [&str; 0], "the default is a limit");
        let shared = |spec: ToolSpec| {
            spec.class(ConcurrencyClass::ReadOnly).effects([Effect::write("/tmp/x")])
        };
        assert_eq!(findings(shared, 1), ["shared_write"]);
        let alone = |spec: ToolSpec| {
            spec.class(ConcurrencyClass::WriteExclusive).effects([Effect::write("/tmp/x")])
        };
        assert_eq!(findings(alone, 1), [] as [&str; 0]);
        let long = |spec: ToolSpec| spec.timeout(Duration::from_secs(60));
        assert_eq!(findings(long, 1), ["interrupt_undecided"]);
        let decided = |spec: ToolSpec| long(spec).interrupt(Interrupt::Cancel);
        assert_eq!(findings(decided, 1), [] as [&str; 0]);
    }

    #[test]
    fn many_always_exposed_tools_are_one_finding() {
        let always = |spec: ToolSpec| spec.exposure(Exposure::Always);
        assert_eq!(findings(always, MAX_ALWAYS_EXPOSED), [] as [&str; 0]);
        assert_eq!(findings(always, MAX_ALWAYS_EXPOSED + 1), ["always_exposed"]);
    }

    #[test]
    fn long_tool_is_costly() {
        let long = |mut spec: ToolSpec| {
            spec.description = "Much to read. ".repeat(1_000);
            spec
        };
        assert_eq!(findings(long, 1), ["costly"]);
    }

    #[test]
    fn vague_names_are_found() {
        for name in ["run", "Do", "tool1", "helper", "process_2", "run_task", "x", "handler-3", ""]
        {
            assert!(is_vague(name), "{name}");
        }
        for name in ["run_tests_of_crate", "search_notes", "add", "process_refund", "s3_upload"] {
            assert!(!is_vague(name), "{name}");
        }
    }

    #[test]
    fn description_that_repeats_the_name_is_found() {
        assert!(restates("read_note", "This tool reads a note."));
        assert!(!restates("read_note", "Reads one note by its name."));
    }
}
