//! `haft tools check`: whether calls fit the schemas of their tools, line by line.
//!
//! The verdict is the schema's own: nothing is closed that it leaves open. A tool whose schema
//! cannot be used makes its calls invalid, and says so at each of them.

use std::{
    collections::{BTreeMap, HashMap},
    io::Write as _,
    path::Path,
};

use anstyle::Style;
use haft::{Formats, Repair, Schema, ToolRegistry};
use serde_json::{Value, json};

use crate::{
    args,
    error::Problem,
    input::{Line, Lines},
    style::{self, BAD, DIM, NAME, Table},
    tool_list::{self, Item, Shelf},
};

/// More rows than this are no table but a wall.
const ROWS: usize = 40;
/// How often the name that was meant is guessed, among how many, and how long they may be. Comparing
/// every wrong name with every right one would take forever.
const GUESSES: usize = 200;
const NAMES: usize = 2_000;
const NAME_LENGTH: usize = 128;

pub(crate) fn run(args: &args::Check, registry: &ToolRegistry) -> Result<(), Problem> {
    let formats = if args.formats { Formats::Asserted } else { Formats::Remarked };
    let stdin = Path::new("-");
    if args.calls == stdin && args.from.tools.as_deref() == Some(stdin) {
        return Err(Problem::new("only one of `--tools` and `--calls` can be stdin"));
    }
    let shelf = Shelf::open(args.from.tools.as_deref(), registry, formats)?;
    let mut judge = Judge { index: shelf.index(), shelf: &shelf, guesses: GUESSES };
    let mut out = style::lines();
    let mut summary = Summary::default();
    for line in Lines::open(&args.calls)? {
        let line = line?;
        let at = line.0;
        let verdict = judge.judge(line, args.repair);
        match args.output.json {
            true => writeln!(out, "{}", verdict.line())?,
            false => summary.count(at, &verdict),
        }
    }
    out.flush()?;
    if !args.output.json {
        summary.print(args.repair)?;
    }
    Ok(())
}

/// What is wrong with a call, in the shape of the library's problems.
struct Wrong {
    pointer: String,
    keyword: String,
    message: String,
}

/// What came of one call.
struct Verdict {
    /// How the call names its tool.
    schema_ref: Value,
    tool: String,
    problems: Vec<Wrong>,
    repairs: Vec<Repair>,
    /// The arguments, where they had to be repaired.
    repaired: Option<Value>,
    is_judged: bool,
}

impl Verdict {
    /// A call that could not be held against any schema.
    fn unjudged(schema_ref: Value, keyword: &str, message: String) -> Self {
        let tool = match schema_ref.is_null() {
            true => "-".to_owned(),
            false => style::cell(&tool_list::key(&schema_ref)),
        };
        let wrong = Wrong { pointer: String::new(), keyword: keyword.to_owned(), message };
        Self {
            schema_ref,
            tool,
            problems: vec![wrong],
            repairs: Vec::new(),
            repaired: None,
            is_judged: false,
        }
    }

    fn line(&self) -> Value {
        let problem =
            |p: &Wrong| json!({"pointer": p.pointer, "keyword": p.keyword, "message": p.message});
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

/// Holds calls against the tools of a shelf.
struct Judge<'a> {
    shelf: &'a Shelf,
    index: HashMap<String, &'a Item>,
    /// How many more times a name is guessed; after that, nobody reads the guesses.
    guesses: usize,
}

impl Judge<'_> {
    /// Holds one line against its tool.
    fn judge(&mut self, (at, line): Line, repair: bool) -> Verdict {
        let mut call: Value = match serde_json::from_slice(&line) {
            Ok(call) => call,
            Err(e) => {
                let message = format!("line {at} is not JSON: {e}");
                return Verdict::unjudged(Value::Null, "json", message);
            }
        };
        let named = ["schema_ref", "tool", "name"].iter().find_map(|key| match call.get(*key) {
            Some(id @ (Value::String(_) | Value::Number(_))) => Some(id.clone()),
            _ => None,
        });
        let Some(schema_ref) = named else {
            let message =
                format!("line {at} names no tool: a call needs `schema_ref` and `arguments`");
            return Verdict::unjudged(Value::Null, "schema_ref", message);
        };
        let key = tool_list::key(&schema_ref);
        let Some(item) = self.index.get(&key) else {
            let near = self.near(&key).map(|near| format!("; did you mean `{near}`?"));
            let near = near.unwrap_or_default();
            let message = format!("there is no tool `{key}`{near}");
            return Verdict::unjudged(schema_ref, "schema", message);
        };
        let schema = match &item.schema {
            Ok(schema) => schema,
            Err(trouble) => return Verdict::unjudged(schema_ref, "schema", trouble.note.clone()),
        };
        let Some(arguments) = call.get_mut("arguments").map(Value::take) else {
            let message = "the call has no `arguments`".to_owned();
            return Verdict::unjudged(schema_ref, "arguments", message);
        };
        let (problems, repairs, repaired) = hold(schema, arguments, repair, item.is_careful());
        let tool = item.label();
        Verdict { schema_ref, tool, problems, repairs, repaired, is_judged: true }
    }

    /// The name that was most likely meant.
    fn near(&mut self, key: &str) -> Option<String> {
        self.guesses = self.guesses.checked_sub(1)?;
        let names = self.shelf.items.iter().map(|item| item.name.as_str());
        let is_short = |name: &&str| name.len() <= NAME_LENGTH;
        let names = names.filter(is_short).take(NAMES);
        Some(key).filter(is_short).and_then(|key| style::nearest(key, names)).map(str::to_owned)
    }
}

/// Holds arguments against a schema; repairs them first if that is wanted and possible.
fn hold(
    schema: &Schema,
    mut arguments: Value,
    repair: bool,
    is_careful: bool,
) -> (Vec<Wrong>, Vec<Repair>, Option<Value>) {
    if schema.is_valid(&arguments) {
        return Default::default();
    }
    if repair {
        let repairs = schema.repair(&mut arguments, is_careful);
        if !repairs.is_empty() {
            return (Vec::new(), repairs, Some(arguments));
        }
    }
    let wrong = |p: haft::ValidationError| Wrong {
        pointer: p.pointer,
        keyword: p.keyword,
        message: p.message,
    };
    let mut problems: Vec<Wrong> = schema.problems(&arguments).into_iter().map(wrong).collect();
    if problems.is_empty() {
        // The verdict stands, also where nobody finds words for it.
        let message = "the arguments do not match the schema".to_owned();
        problems.push(Wrong { pointer: String::new(), keyword: String::new(), message });
    }
    (problems, Vec::new(), None)
}

/// What a person wants to know of many calls.
#[derive(Default)]
struct Summary {
    table: Option<Table>,
    valid: usize,
    invalid: usize,
    unjudged: usize,
    repaired: usize,
    kinds: BTreeMap<String, usize>,
}

impl Summary {
    fn count(&mut self, at: usize, verdict: &Verdict) {
        for repair in &verdict.repairs {
            let kind = json!(repair.kind).as_str().unwrap_or_default().replace('_', " ");
            *self.kinds.entry(kind).or_default() += 1;
        }
        self.repaired += usize::from(!verdict.repairs.is_empty());
        let Some(first) = verdict.problems.first() else {
            self.valid += 1;
            return;
        };
        match verdict.is_judged {
            true => self.invalid += 1,
            false => self.unjudged += 1,
        }
        if self.invalid + self.unjudged > ROWS {
            return;
        }
        let more = match verdict.problems.len() {
            1 => String::new(),
            all => format!(" (and {} more)", all - 1),
        };
        self.table.get_or_insert_with(|| Table::new(0)).row([
            (DIM, format!("line {at}")),
            (NAME, verdict.tool.clone()),
            (BAD, style::place(&first.pointer)),
            (Style::new(), style::visible(&first.message).replace('\n', " ") + &more),
        ]);
    }

    fn print(self, repair: bool) -> Result<(), Problem> {
        let wrong = self.invalid + self.unjudged;
        let mut page = self.table.map(|table| table.to_string()).unwrap_or_default();
        if wrong > ROWS {
            page += &format!("… and {} more; `--json` lists all\n", wrong - ROWS);
        }
        let calls = style::count(self.valid + wrong, "call");
        page += &format!("{calls}: {} valid, {} invalid", self.valid, self.invalid);
        if self.unjudged > 0 {
            page += &format!(", {} not validated", self.unjudged);
        }
        if repair {
            let kinds: Vec<String> =
                self.kinds.iter().map(|(kind, count)| format!("{kind} {count}")).collect();
            let kinds =
                if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
            page += &format!("; {} of the valid ones repaired{kinds}", self.repaired);
        }
        style::say(page + "\n")?;
        Ok(())
    }
}
