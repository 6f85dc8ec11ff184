//! `tool_search`: the tool with which a model finds and loads deferred tools.
//!
//! It searches the tools that its turn offers, so what a rule denies or a view hides is never
//! found. What it finds is shown with its schema from the next turn of the run on.

use std::sync::Arc;

use haft_core::{
    CallProfile, Capabilities, Effects, Exposure, Failure, Label, Output, Permission, Tool,
    ToolContext, ToolSpec, host::HostContext, schemars::JsonSchema, serde::Deserialize,
};
use serde_json::Value;

use crate::{
    call::TurnCore,
    registry::{RegisteredTool, TOOL_SEARCH, ToolQuery},
    text::shortened,
};

/// How many tools one search loads, unless the model asks for more.
const DEFAULT_MATCHES: usize = 5;
/// How much of a description a match shows, in characters.
const MAX_ABOUT_CHARS: usize = 200;
/// How many parameters a match shows.
const MAX_SHOWN_PARAMETERS: usize = 12;

/// The tool `tool_search`. Add it to a registry: deferred tools are then left out of requests until
/// it finds them. A registry without it shows every tool.
///
/// ```
/// use haft::ToolRegistry;
/// use haft::search::SearchTools;
///
/// let registry = ToolRegistry::builder().add(SearchTools).build()?;
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct SearchTools;

/// Arguments of `tool_search`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(crate = "haft_core::serde")]
#[schemars(crate = "haft_core::schemars")]
pub struct SearchToolsArgs {
    /// What the tool should do, for example `cancel an order`.
    #[schemars(length(max = 1000))]
    query: Option<String>,
    /// Regular expression over names, descriptions and parameters, instead of a query.
    #[schemars(length(max = 200))]
    pattern: Option<String>,
    /// Exact names of tools to load, instead of a query.
    #[schemars(length(max = 50))]
    names: Option<Vec<String>>,
    /// How many tools to load at most.
    #[schemars(range(min = 1, max = 50))]
    limit: Option<usize>,
}

impl Tool for SearchTools {
    type Args = SearchToolsArgs;
    type Output = Output;

    const CHECKS: bool = false;
    const GUARDS: bool = false;

    fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec::new(
            TOOL_SEARCH,
            "Finds tools that are not loaded, and loads them: from your next message on you can \
             call them with their parameters. Search by words (`query`), by regular expression \
             (`pattern`) or by exact `names`.",
        )
        .read_only()
        .effects(Effects::none())
        .capabilities(Capabilities::NONE)
        .exposure(Exposure::Always);
        spec.permission = Permission::None;
        spec.open_world = Some(false);
        // Definitions are part of every request; showing one again adds nothing to read.
        spec.label = Label::CLEAN;
        spec
    }

    fn profile(&self, declared: CallProfile, _: &SearchToolsArgs, _: &ToolContext) -> CallProfile {
        declared
    }

    async fn call(&self, args: SearchToolsArgs, cx: &ToolContext) -> Result<Output, Failure> {
        let host = cx.host().and_then(|host| host.downcast::<TurnCore>().ok());
        let Some(turn) = host else {
            return Err(Failure::hidden("tool_search runs only inside a runtime of its own crate"));
        };
        let query = query_of(&args)?;
        let limit = match &query {
            ToolQuery::Names(names) => names.len(),
            _ => args.limit.unwrap_or(DEFAULT_MATCHES),
        };
        let found = turn.snapshot.search(&query, limit)?;
        let deferred = found.iter().filter(|tool| turn.snapshot.is_deferred(tool));
        turn.run.load_tools(deferred.map(|tool| tool.name()));
        Ok(Output::text(listed(&found, &query)))
    }
}

/// Converts the arguments to a query; fails unless they ask for one thing.
fn query_of(args: &SearchToolsArgs) -> Result<ToolQuery, Failure> {
    match (&args.query, &args.pattern, &args.names) {
        (Some(words), None, None) => Ok(ToolQuery::Words(words.clone())),
        (None, Some(pattern), None) => Ok(ToolQuery::Pattern(pattern.clone())),
        (None, None, Some(names)) => Ok(ToolQuery::Names(names.clone())),
        _ => Err(Failure::invalid("exactly one of `query`, `pattern` and `names` is needed")
            .with_next("send the words of what you are looking for as `query`")),
    }
}

/// The matches, one line each.
fn listed(found: &[&Arc<RegisteredTool>], query: &ToolQuery) -> String {
    if found.is_empty() {
        return match query {
            ToolQuery::Names(_) => "No tool has such a name. Search by words in `query`.",
            _ => "No tool matches. Try other words, fewer words, or the name of a service.",
        }
        .to_owned();
    }
    let mut text = String::from("Loaded. Call them from your next message on:");
    for tool in found {
        let about = tool.spec().description.split_whitespace().collect::<Vec<_>>().join(" ");
        let parameters = parameters(tool.input_schema());
        let about = shortened(&about, MAX_ABOUT_CHARS);
        text.push_str(&format!("\n{}({parameters}): {about}", tool.name()));
    }
    text
}

/// The names of the parameters; optional ones with a question mark.
fn parameters(schema: &Value) -> String {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required =
        |name: &str| required.is_some_and(|list| list.iter().any(|own| own.as_str() == Some(name)));
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return String::new();
    };
    let mut names: Vec<String> = properties
        .keys()
        .take(MAX_SHOWN_PARAMETERS)
        .map(|name| if is_required(name) { name.clone() } else { format!("{name}?") })
        .collect();
    if properties.len() > MAX_SHOWN_PARAMETERS {
        names.push("…".to_owned());
    }
    names.join(", ")
}
