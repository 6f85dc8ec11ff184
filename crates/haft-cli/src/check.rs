//! `haft tools check`: validates calls against the schemas of their tools, line by line.
//!
//! The schema is used unchanged: `additionalProperties` is not closed. The calls of a tool with an
//! unusable schema are invalid.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write as _,
    path::Path,
    sync::Arc,
};

use anstyle::Style;
use haft::{
    registry::RegisteredTool,
    schema::{Formats, Repair, Schema},
};
use serde_json::{Value, json};

use crate::{
    args,
    error::Problem,
    input::{Line, Lines},
    style::{self, BAD, DIM, NAME, Table},
    tool_list::{self, Item, ToolList},
};

/// The limit on printed rows.
const MAX_ROWS: usize = 40;
/// Limits on the search for similar names: searches, names compared in each, bytes of a name.
/// Comparing every unknown name with every tool would be quadratic.
const MAX_NAME_SEARCHES: usize = 200;
const MAX_NAMES_COMPARED: usize = 2_000;
const MAX_NAME_BYTES: usize = 128;

pub(crate) fn run(args: &args::Check, tools: &[Arc<RegisteredTool>]) -> Result<(), Problem> {
    let formats = if args.formats { Formats::Assertion } else { Formats::Annotation };
    let stdin = Path::new("-");
    if args.calls == stdin && args.from.tools.as_deref() == Some(stdin) {
        return Err(Problem::new("only one of `--tools` and `--calls` can be stdin"));
    }
    let list = ToolList::open(args.from.tools.as_deref(), tools, formats)?;
    let mut checker = Checker { index: list.index(), list: &list, searches: MAX_NAME_SEARCHES };
    let mut out = style::stdout_writer();
    let mut summary = Summary::default();
    for line in Lines::open(&args.calls)? {
        let line = line?;
        let at = line.0;
        let check = checker.check(line, args.repair);
        if args.output.json {
            writeln!(out, "{}", check.line())?
        } else {
            summary.count(at, &check)
        }
    }
    out.flush()?;
    if !args.output.json {
        summary.print(args.repair)?;
    }
    Ok(())
}

/// One validation error of a call.
struct Violation {
    pointer: String,
    keyword: String,
    message: String,
}

/// The result of checking one call.
struct CallCheck {
    /// The reference to the tool, as written in the call.
    schema_ref: Value,
    tool: String,
    problems: Vec<Violation>,
    repairs: Vec<Repair>,
    /// The arguments, if they were repaired.
    repaired: Option<Value>,
    is_validated: bool,
}

impl CallCheck {
    /// A call that could not be validated.
    fn not_validated(schema_ref: Value, keyword: &str, message: String) -> Self {
        let tool = if schema_ref.is_null() {
            "-".to_owned()
        } else {
            style::cell(&tool_list::key(&schema_ref))
        };
        let wrong = Violation { pointer: String::new(), keyword: keyword.to_owned(), message };
        Self {
            schema_ref,
            tool,
            problems: vec![wrong],
            repairs: Vec::new(),
            repaired: None,
            is_validated: false,
        }
    }

    fn line(&self) -> Value {
        let problem = |p: &Violation| json!({"pointer": p.pointer, "keyword": p.keyword, "message": p.message});
        let mut line = json!({
            "schema_ref": self.schema_ref,
            "valid": self.problems.is_empty(),
            "problems": self.problems.iter().map(problem).collect::<Vec<_>>(),
            "repairs": self.repairs,
        });
        if let Some(arguments) = &self.repaired {
            line["arguments"] = arguments.clone();
        }
        line
    }
}

/// Validates calls against a list of tools.
struct Checker<'a> {
    list: &'a ToolList,
    index: HashMap<String, &'a Item>,
    /// How many more searches for a similar name are made.
    searches: usize,
}

impl Checker<'_> {
    /// Validates one line.
    fn check(&mut self, (at, line): Line, repair: bool) -> CallCheck {
        let mut call: Value = match serde_json::from_slice(&line) {
            Ok(call) => call,
            Err(e) => {
                let message = format!("line {at} is not JSON: {e}");
                return CallCheck::not_validated(Value::Null, "json", message);
            }
        };
        let named = ["schema_ref", "tool", "name"].iter().find_map(|key| match call.get(*key) {
            Some(id @ (Value::String(_) | Value::Number(_))) => Some(id.clone()),
            _ => None,
        });
        let Some(schema_ref) = named else {
            let message =
                format!("line {at} names no tool: a call needs `schema_ref` and `arguments`");
            return CallCheck::not_validated(Value::Null, "schema_ref", message);
        };
        let key = tool_list::key(&schema_ref);
        let Some(item) = self.index.get(&key) else {
            let near = self.similar(&key).map(|near| format!("; did you mean `{near}`?"));
            let near = near.unwrap_or_default();
            let message = format!("there is no tool `{key}`{near}");
            return CallCheck::not_validated(schema_ref, "schema", message);
        };
        let schema = match &item.schema {
            Ok(schema) => schema,
            Err(invalid) => {
                return CallCheck::not_validated(schema_ref, "schema", invalid.note.clone());
            }
        };
        let Some(arguments) = call.get_mut("arguments").map(Value::take) else {
            let message = "the call has no `arguments`".to_owned();
            return CallCheck::not_validated(schema_ref, "arguments", message);
        };
        let (problems, repairs, repaired) = validate(schema, arguments, repair, item.is_careful());
        let tool = item.label();
        CallCheck { schema_ref, tool, problems, repairs, repaired, is_validated: true }
    }

    /// The most similar tool name.
    fn similar(&mut self, key: &str) -> Option<String> {
        self.searches = self.searches.checked_sub(1)?;
        let names = self.list.items.iter().map(|item| item.name.as_str());
        let is_short = |name: &&str| name.len() <= MAX_NAME_BYTES;
        let names = names.filter(is_short).take(MAX_NAMES_COMPARED);
        Some(key).filter(is_short).and_then(|key| style::nearest(key, names)).map(str::to_owned)
    }
}

/// Validates arguments; repairs them first if that is requested and possible.
fn validate(
    schema: &Schema,
    mut arguments: Value,
    repair: bool,
    is_careful: bool,
) -> (Vec<Violation>, Vec<Repair>, Option<Value>) {
    if schema.is_valid(&arguments) {
        return Default::default();
    }
    if repair {
        let repairs = schema.repair(&mut arguments, is_careful);
        if !repairs.is_empty() {
            return (Vec::new(), repairs, Some(arguments));
        }
    }
    let wrong = |p: haft::schema::ValidationError| Violation {
        pointer: p.pointer,
        keyword: p.keyword,
        message: p.message,
    };
    let mut problems: Vec<Violation> = schema.problems(&arguments).into_iter().map(wrong).collect();
    if problems.is_empty() {
        // Invalid, but the validator reports no error.
        let message = "the arguments do not match the schema".to_owned();
        problems.push(Violation { pointer: String::new(), keyword: String::new(), message });
    }
    (problems, Vec::new(), None)
}

/// The counts and the table for a person.
#[derive(Default)]
struct Summary {
    table: Option<Table>,
    valid: usize,
    invalid: usize,
    not_validated: usize,
    repaired: usize,
    kinds: BTreeMap<String, usize>,
}

impl Summary {
    fn count(&mut self, at: usize, check: &CallCheck) {
        for repair in &check.repairs {
            let kind = json!(repair.kind).as_str().unwrap_or_default().replace('_', " ");
            *self.kinds.entry(kind).or_default() += 1;
        }
        self.repaired += usize::from(!check.repairs.is_empty());
        let Some(first) = check.problems.first() else {
            self.valid += 1;
            return;
        };
        if check.is_validated {
            self.invalid += 1
        } else {
            self.not_validated += 1
        }
        if self.invalid + self.not_validated > MAX_ROWS {
            return;
        }
        let more = match check.problems.len() {
            1 => String::new(),
            all => format!(" (and {} more)", all - 1),
        };
        self.table.get_or_insert_with(|| Table::new(0)).row([
            (DIM, format!("line {at}")),
            (NAME, check.tool.clone()),
            (BAD, style::location(&first.pointer)),
            (Style::new(), style::visible(&first.message).replace('\n', " ") + &more),
        ]);
    }

    fn print(self, repair: bool) -> Result<(), Problem> {
        let wrong = self.invalid + self.not_validated;
        let mut page = self.table.map(|table| table.to_string()).unwrap_or_default();
        if wrong > MAX_ROWS {
            page += &format!("… and {} more; `--json` lists all\n", wrong - MAX_ROWS);
        }
        let calls = style::count(self.valid + wrong, "call");
        page += &format!("{calls}: {} valid, {} invalid", self.valid, self.invalid);
        if self.not_validated > 0 {
            page += &format!(", {} not validated", self.not_validated);
        }
        if repair {
            let kinds: Vec<String> =
                self.kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            let kinds =
                if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
            page += &format!("; {} of the valid ones repaired{kinds}", self.repaired);
        }
        style::print_page(page + "\n")?;
        Ok(())
    }
}
