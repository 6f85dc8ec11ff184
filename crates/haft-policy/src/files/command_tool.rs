//! Tools that are declared as commands: `[tool.NAME] command = ["wc", "-l", "--", "{file}"]`.
//!
//! In: the table of one tool. Out: what a runtime needs to offer it, and every mistake in the table
//! with its location. [`CommandTool::argv`] builds the argv of a call; nothing here starts a
//! process.

use haft_core::{
    Backoff, Cache, Capabilities, Capability, ConcurrencyClass, Confidentiality, Exposure, Failure,
    Interrupt, Isolation, Permission, Rate, ResultLimit, RetryPolicy, ToolName, ToolSpec, Trust,
};
use serde_json::{Map, Value, json};

use super::{
    network,
    node::{Entry, Fields, FromNode as _, Kind, Node, Reader, words},
    template::{Placeholder, Template, Values},
    unused_parameters::unused,
};
use crate::{
    context::ArgumentKind,
    network::NetworkAccess,
    rule::{ConfigLayer, SourceLocation},
};
use haft_schema::Schema;

pub(super) const TOOL_KEYS: &[&str] = &[
    "args",
    "command",
    "description",
    "parameters",
    "title",
    "alias",
    "capabilities",
    "read_only",
    "destructive",
    "idempotent",
    "open_world",
    "class",
    "keys",
    "permission",
    "interrupt",
    "exposure",
    "concurrency",
    "abort_siblings",
    "timeout",
    "deadline",
    "approval_timeout",
    "rate",
    "cache",
    "cache_scope",
    "retry",
    "max_result",
    "trust",
    "confidentiality",
    "examples",
    "cwd",
    "stdin",
    "success",
    "network",
];
const PARAMETER_KEYS: &[&str] = &[
    "type",
    "description",
    "default",
    "enum",
    "min",
    "max",
    "min_length",
    "max_length",
    "max_items",
    "pattern",
    "required",
    "items",
    "about",
];
const RETRY_KEYS: &[&str] = &["max_attempts", "backoff", "initial_delay", "max_delay"];

words! {
    ConcurrencyClass {
        "read_only" => ReadOnly, "write_exclusive" => WriteExclusive, "unsafe" => Unsafe,
    }
    Permission { "required" => Required, "none" => None }
    Interrupt { "cancel" => Cancel, "block" => Block }
    Exposure { "always" => Always, "auto" => Auto, "deferred" => Deferred }
    Trust { "trusted" => Trusted, "workspace" => Workspace, "untrusted" => Untrusted }
    Confidentiality { "public" => Public, "internal" => Internal, "secret" => Secret }
    Backoff { "fixed" => Fixed, "linear" => Linear, "exponential" => Exponential }
}

/// Maximum number of parameters of one tool.
const MAX_PARAMETERS: usize = 100;

/// A tool that a file declares: a command with placeholders for arguments.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CommandTool {
    /// Its declaration, as for any tool. It must run in a sandbox.
    pub spec: ToolSpec,
    /// The JSON Schema of its arguments.
    pub input_schema: Value,
    /// The directory of the workspace that it starts in, if not the first.
    pub cwd: Option<String>,
    /// The exit codes that mean success.
    pub success: Vec<i32>,
    /// The hosts that it may contact; `None` if it does not say which.
    pub network: Option<NetworkAccess>,
    /// The location of its declaration.
    pub location: SourceLocation,
    /// The layer of the file that declares it.
    pub layer: ConfigLayer,
    command: Template,
    stdin: Option<Template>,
}

impl CommandTool {
    /// Returns the program and its arguments for one call.
    ///
    /// # Errors
    /// Refuses values that could be read as options (argument injection), and values that cannot be
    /// passed to a program.
    pub fn argv(&self, arguments: &Value) -> Result<Vec<String>, Failure> {
        self.command.fill(arguments)
    }

    /// Returns what the program reads on its standard input.
    #[must_use]
    pub fn stdin(&self, arguments: &Value) -> String {
        self.stdin.as_ref().map(|stdin| stdin.input(arguments)).unwrap_or_default()
    }

    /// Returns the program.
    #[must_use]
    pub fn program(&self) -> &str {
        self.command.program()
    }

    /// Returns the command as it was written, for people.
    #[must_use]
    pub fn command_text(&self) -> String {
        self.command.shown()
    }

    /// Returns the capabilities that the sandbox gives it: the declared ones, or none. Policies
    /// treat undeclared as everything, and the sandbox treats it as nothing.
    #[must_use]
    pub fn granted_capabilities(&self) -> Capabilities {
        self.spec.capabilities.unwrap_or(Capabilities::NONE)
    }
}

/// Reads one tool. It reads on after a mistake, so that all mistakes are found at once.
pub(super) fn read(
    reader: &mut Reader<'_>,
    entry: &Entry,
    fields: &Fields<'_>,
    layer: ConfigLayer,
) -> Option<CommandTool> {
    let before = reader.mistakes.count();
    if !ToolName::is_safe(&entry.key) {
        reader.wrong(
            entry.at,
            "this is not a valid tool name",
            "a name starts with a letter or `_`, followed by letters, digits, `_` or `-`; at most \
             64 characters",
        );
    }
    let description = match fields.get("description") {
        Some(_) => fields.field(reader, "description"),
        None => {
            reader.wrong(
                entry.at,
                format!("`[tool.{}]` without `description`", entry.key),
                "describe in one sentence what it does; the model chooses tools by their \
                 description",
            );
            None
        }
    };
    let (input_schema, placeholders) = parameters(reader, fields.get("parameters"));
    let command = command(reader, fields, &placeholders);
    let stdin = fields.get("stdin").and_then(|node| {
        let text = reader.text(node, "`stdin`")?;
        let mut template = Template::default();
        let pushed = template.push_input(text, &placeholders);
        let reader_of_programs = command.as_ref().and_then(Template::reads_program);
        match (pushed, reader_of_programs) {
            (Ok(()), Some(program)) if template.names().next().is_some() => {
                reader.wrong(
                    node.at,
                    format!("`{program}` would execute `stdin` as code"),
                    "a call may choose arguments, never code; name a script file in `command`",
                );
                None
            }
            (Ok(()), _) => Some(template),
            (Err((message, hint)), _) => {
                reader.wrong(node.at, message, hint);
                None
            }
        }
    });
    let spec = ToolSpec::new(&*entry.key, description.unwrap_or_else(String::new));
    let spec = options(reader, fields, spec.isolation(Isolation::Required));
    let (spec, network) = network::of_tool(reader, fields, spec);
    let cwd = fields.line(reader, "cwd");
    let success = match fields.get("success") {
        Some(node) => {
            let list = reader.list(node, "`success`").unwrap_or(&[]);
            list.iter().filter_map(|node| reader.whole(node, "an exit code", 0)).collect()
        }
        None => vec![0],
    };
    if reader.mistakes.count() == before {
        for problem in spec.problems() {
            reader.wrong(
                entry.at,
                format!("`[tool.{}]`: {problem}", entry.key),
                "use only one of the two",
            );
        }
        unused(reader, fields, &placeholders, command.as_ref(), stdin.as_ref());
    }
    if reader.mistakes.count() > before {
        return None;
    }
    let (command, location) = (command?, reader.location(entry.at));
    Some(CommandTool { spec, input_schema, cwd, success, network, location, layer, command, stdin })
}

fn command(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    placeholders: &[Placeholder],
) -> Option<Template> {
    let node = fields.get("command")?;
    let Kind::List(list) = &node.kind else {
        reader.wrong(
            node.at,
            "`command` must be a list of strings",
            "no shell is involved; write `[\"wc\", \"-l\", \"--\", \"{file}\"]`",
        );
        return None;
    };
    if list.is_empty() {
        reader.wrong(node.at, "`command` is empty", "its first item is the program");
        return None;
    }
    let mut template = Template::default();
    let mut is_sound = true;
    for word in list {
        let (words, is_group) = match &word.kind {
            Kind::List(words) => (words.as_slice(), true),
            _ => (std::slice::from_ref(word), false),
        };
        let texts: Option<Vec<&str>> =
            words.iter().map(|word| reader.text(word, "an item of `command`")).collect();
        let pushed = texts.map(|texts| template.push(&texts, is_group, placeholders));
        match pushed {
            Some(Ok(())) => {}
            Some(Err((message, hint))) => {
                reader.wrong(word.at, message, hint);
                is_sound = false;
            }
            None => is_sound = false,
        }
    }
    if is_sound && (template.program().is_empty() || template.program().contains('\0')) {
        reader.wrong(node.at, "`command` names no program", "its first item is the program");
        is_sound = false;
    }
    if is_sound && let Err(found) = template.check() {
        let at = found.at.and_then(|at| list.get(at)).map_or(node.at, |word| word.at);
        reader.wrong(at, found.wrong.0, found.wrong.1);
        is_sound = false;
    }
    is_sound.then_some(template)
}

/// Reads the parameters into a schema, and into the placeholders of the template.
fn parameters(reader: &mut Reader<'_>, node: Option<&Node>) -> (Value, Vec<Placeholder>) {
    let (mut properties, mut required, mut placeholders) = (Map::new(), Vec::new(), Vec::new());
    let table = node.and_then(|node| Some((node, reader.any_table(node, "`parameters`")?)));
    if let Some((node, table)) = table {
        if table.iter().count() > MAX_PARAMETERS {
            reader.wrong(
                node.at,
                "too many parameters",
                "models handle only a few parameters well",
            );
            return (json!({}), placeholders);
        }
        for entry in table.iter() {
            let is_word = |name: &str| {
                let mut bytes = name.bytes();
                bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
                    && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
                    && name.len() <= 64
            };
            if !is_word(&entry.key) {
                reader.wrong(
                    entry.at,
                    "this is not a valid parameter name",
                    "a name starts with a letter or `_`, followed by letters, digits or `_`",
                );
            }
            if let Some((schema, is_required, placeholder)) = parameter(reader, entry) {
                if is_required {
                    required.push(entry.key.clone());
                }
                properties.insert(entry.key.clone(), schema);
                placeholders.push(placeholder);
            } else {
                // It exists, even if it is invalid; the command may name it.
                let name = entry.key.clone();
                placeholders.push(Placeholder {
                    name,
                    is_list: false,
                    is_optional: true,
                    values: Values::Any,
                });
            }
        }
    }
    let schema = json!({"type": "object", "properties": properties, "required": required,
        "additionalProperties": false});
    (schema, placeholders)
}

fn parameter(reader: &mut Reader<'_>, entry: &Entry) -> Option<(Value, bool, Placeholder)> {
    let before = reader.mistakes.count();
    let what = format!("the parameter `{}`", entry.key);
    let fields = reader.table(&entry.value, &what, PARAMETER_KEYS)?;
    let types = [
        ("string", "string"),
        ("integer", "integer"),
        ("number", "number"),
        ("boolean", "boolean"),
        ("list", "array"),
    ];
    let kind = match fields.get("type") {
        Some(node) => reader.choice(node, "`type`", &types)?,
        None => "string",
    };
    let (is_list, is_number) = (kind == "array", matches!(kind, "integer" | "number"));
    let mut schema = Map::new();
    let mut of_items = Map::new();
    schema.insert("type".to_owned(), kind.into());
    let items = match fields.get("items") {
        Some(node) => reader.choice(node, "`items`", &types[..3])?,
        None => "string",
    };
    of_items.insert("type".to_owned(), items.into());
    let is_text = kind == "string" || is_list && items == "string";
    let counts = is_number || is_list && items != "string";
    let mut allowed = match kind {
        "boolean" => Values::Flag,
        _ => Values::Any,
    };
    for field in fields.iter() {
        let (key, node) = (&*field.key, &field.value);
        let fits = match key {
            "min" | "max" => counts,
            "min_length" | "max_length" | "pattern" => is_text,
            "max_items" | "items" => is_list,
            "enum" => kind != "boolean",
            _ => true,
        };
        if !fits {
            reader.wrong(
                field.at,
                format!("`{key}` does not apply to the type of {what}"),
                "`min` and `max` are for numbers, `pattern` and lengths for strings, `items` for \
                 lists",
            );
            continue;
        }
        let Some((keyword, value)) = keyword(reader, key, node) else { continue };
        if let ("enum", Value::Array(values)) = (keyword, &value) {
            let text =
                |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            allowed = Values::Choice(values.iter().map(text).collect());
        }
        // The limits of a list apply to each item.
        let of_each = is_list && !matches!(key, "description" | "max_items" | "about");
        let target = if of_each { &mut of_items } else { &mut schema };
        target.insert(keyword.to_owned(), value);
    }
    if is_list {
        schema.insert("items".to_owned(), Value::Object(of_items));
    }
    let default = fields.get("default");
    let required = fields.field(reader, "required");
    if let (Some(true), Some(node)) = (required, default) {
        reader.wrong(
            node.at,
            format!("{what} is required and also has a default"),
            "use only one of the two",
        );
    }
    // A keyword that could not be read is missing here, so a default is never refused wrongly.
    let schema = fitting(reader, entry, default, Value::Object(schema), &what)?;
    if reader.mistakes.count() > before {
        return None;
    }
    let is_required = required.unwrap_or(default.is_none());
    let is_optional = !is_required && default.is_none();
    let placeholder =
        Placeholder { name: entry.key.clone(), is_list, is_optional, values: allowed };
    Some((schema, is_required, placeholder))
}

/// Reads a key of a parameter into a keyword of JSON Schema with its value.
fn keyword(reader: &mut Reader<'_>, key: &str, node: &Node) -> Option<(&'static str, Value)> {
    let what = format!("`{key}`");
    Some(match key {
        "description" => ("description", reader.text(node, &what)?.into()),
        "pattern" => ("pattern", reader.text(node, &what)?.into()),
        "min" | "max" => {
            f64::from_node(reader, node, &what)?;
            (if key == "min" { "minimum" } else { "maximum" }, reader.value(node)?)
        }
        "min_length" => ("minLength", reader.whole::<u32>(node, &what, 0)?.into()),
        "max_length" => ("maxLength", reader.whole::<u32>(node, &what, 0)?.into()),
        "max_items" => ("maxItems", reader.whole::<u32>(node, &what, 1)?.into()),
        "enum" => {
            if reader.list(node, &what)?.is_empty() {
                reader.wrong(node.at, "`enum` is empty", "list the allowed values");
            }
            ("enum", reader.value(node)?)
        }
        "about" => {
            ArgumentKind::from_node(reader, node, &what)?;
            ("x-haft", reader.value(node)?)
        }
        _ => return None,
    })
}

/// Checks that a schema is valid and that the default matches it.
fn fitting(
    reader: &mut Reader<'_>,
    entry: &Entry,
    default: Option<&Node>,
    mut schema: Value,
    what: &str,
) -> Option<Value> {
    let compiled = match Schema::compile(&schema) {
        Ok(compiled) => compiled,
        Err(e) => {
            let hint = "is `pattern` a regular expression?";
            reader.wrong(entry.at, format!("{what} has an invalid schema: {e}"), hint);
            return None;
        }
    };
    if let Some(node) = default {
        let value = reader.value(node)?;
        if let Some(problem) = compiled.first_problem(&value) {
            let message = format!("the default of {what} is invalid: {problem}");
            reader.wrong(node.at, message, "use a value that a call could pass");
            return None;
        }
        schema["default"] = value;
    }
    Some(schema)
}

/// Reads the options that every tool has.
fn options(reader: &mut Reader<'_>, fields: &Fields<'_>, mut spec: ToolSpec) -> ToolSpec {
    spec.title = fields.line(reader, "title");
    for (name, at) in fields.texts(reader, "alias") {
        if ToolName::is_safe(name) {
            spec.aliases.push(name.to_owned());
        } else {
            let hint =
                "a name starts with a letter or `_`, followed by letters, digits, `_` or `-`";
            reader.wrong(at, format!("`{name}` is not a valid name"), hint);
        }
    }
    spec.capabilities = fields.with(reader, "capabilities", capabilities);
    spec.read_only = fields.field(reader, "read_only");
    spec.destructive = fields.field(reader, "destructive");
    spec.idempotent = fields.field(reader, "idempotent");
    spec.open_world = fields.field(reader, "open_world");
    spec.class = fields.field(reader, "class");
    spec.keys = fields.texts(reader, "keys").into_iter().map(|(key, _)| key.into()).collect();
    spec.permission = fields.field(reader, "permission").unwrap_or_default();
    spec.interrupt = fields.field(reader, "interrupt");
    spec.exposure = fields.field(reader, "exposure").unwrap_or_default();
    spec.concurrency = fields.whole(reader, "concurrency", 1);
    spec.abort_siblings = fields.field(reader, "abort_siblings").unwrap_or(false);
    spec.timeout = fields.field(reader, "timeout");
    spec.deadline = fields.field(reader, "deadline");
    spec.approval_timeout = fields.field(reader, "approval_timeout");
    spec.rate = fields.with(reader, "rate", rate);
    spec.cache = cache(reader, fields);
    spec.retry = fields.with(reader, "retry", retry);
    if let Some(chars) = fields.whole(reader, "max_result", 1) {
        spec.max_result = ResultLimit::Chars(chars);
    }
    spec.label.trust = fields.field(reader, "trust").unwrap_or_default();
    spec.label.confidentiality = fields.field(reader, "confidentiality").unwrap_or_default();
    let examples = fields.with(reader, "examples", |reader, node, what| reader.list(node, what));
    for node in examples.unwrap_or(&[]) {
        if reader.any_table(node, "an example").is_some() {
            spec.examples.extend(reader.value(node));
        }
    }
    spec
}

fn rate(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Rate> {
    match Rate::parse(reader.text(node, what)?) {
        Ok(rate) => Some(rate),
        Err(hint) => {
            reader.wrong(node.at, "this is not a rate", hint);
            None
        }
    }
}

fn cache(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<Cache> {
    let scope = fields.line(reader, "cache_scope");
    if let (Some(entry), None) = (fields.entry("cache_scope"), fields.get("cache")) {
        reader.wrong(entry.at, "`cache_scope` without `cache`", "set how long");
    }
    let cache = Cache::new(fields.field(reader, "cache")?);
    Some(match scope {
        Some(scope) => cache.within(scope),
        None => cache,
    })
}

/// It is a process, whatever else it declares.
fn capabilities(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<Capabilities> {
    let words: Vec<(&str, Capability)> =
        Capability::ALL.iter().map(|capability| (capability.as_str(), *capability)).collect();
    let mut all = Capabilities::NONE.with(Capability::Subprocess);
    for node in reader.list(node, what)? {
        if let Some(capability) = reader.choice(node, "a capability", &words) {
            all = all.with(capability);
        }
    }
    Some(all)
}

fn retry(reader: &mut Reader<'_>, node: &Node, what: &str) -> Option<RetryPolicy> {
    let fields = reader.table(node, what, RETRY_KEYS)?;
    let mut retries = RetryPolicy::default();
    if let Some(attempts) = fields.whole(reader, "max_attempts", 1) {
        retries.max_attempts = attempts;
    }
    retries.backoff = fields.field(reader, "backoff").unwrap_or(retries.backoff);
    let delay = fields.field_or(reader, "initial_delay", retries.initial_delay);
    let max_delay = fields.field_or(reader, "max_delay", retries.max_delay);
    (retries.initial_delay, retries.max_delay) = (delay?, max_delay?);
    Some(retries)
}
