//! Agents in files: Markdown with front matter, as in `.claude/agents/*.md`.
//!
//! In: the text of a file. Out: a name, a view of the tools, limits and instructions, with notes on
//! fields that have another effect here. Pure: the caller reads the file. A field can only narrow
//! what the agent may do.

use haft_core::ToolSpec;

use super::{definition::Agent, model::Model};
use crate::{
    front_matter::{FieldValue, FrontMatter, FrontMatterError},
    registry::ToolView,
};

/// An agent that a file defines.
///
/// ```
/// use haft::agent::{AgentFile, ScriptedModel};
///
/// let file = AgentFile::parse(
///     "---\nname: reviewer\ndescription: Reviews a change.\ntools: Read, Grep\nmaxTurns: 5\n\
///      ---\nLook for mistakes.\n",
/// )?;
/// assert_eq!((file.name.as_str(), file.max_turns), ("reviewer", Some(5)));
/// let agent = file.agent(ScriptedModel::parse(r#"{"text": "None found."}"#).unwrap());
/// let tool = agent.into_tool(file.tool_spec());
/// assert_eq!(tool.spec().name, "reviewer");
/// # Ok::<(), haft::front_matter::FrontMatterError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct AgentFile {
    /// Its name.
    pub name: String,
    /// What it does and when to use it.
    pub description: String,
    /// The system prompt: the text below the front matter.
    pub instructions: String,
    /// The tools that it sees, as patterns over names; `None` for all.
    pub tools: Option<Vec<String>>,
    /// The tools that it does not see.
    pub disallowed_tools: Vec<String>,
    /// The name of its model; `None` for that of the agent that calls it.
    pub model: Option<String>,
    /// How many turns it may make.
    pub max_turns: Option<u32>,
    /// Whether it sees read-only tools only (`permissionMode: plan`).
    pub is_read_only: bool,
    /// Fields that have no effect here, or a stricter one.
    pub notes: Vec<FrontMatterError>,
}

/// Fields that are read.
const WITH_EFFECT: [&str; 7] =
    ["name", "description", "tools", "disallowedTools", "model", "maxTurns", "permissionMode"];

/// Fields of other programs that have no effect here.
const WITHOUT_EFFECT: [&str; 8] =
    ["skills", "mcpServers", "hooks", "memory", "background", "effort", "isolation", "color"];

impl AgentFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Fails with the line if the front matter is malformed, `name` or `description` is missing, or
    /// a field that narrows the agent cannot be understood.
    pub fn parse(text: &str) -> Result<Self, FrontMatterError> {
        let read = FrontMatter::parse(text)?;
        let line = |key: &str| read.field(key).map_or(1, |field| field.line);
        let required = |key: &str| {
            let missing =
                || FrontMatterError::new(line(key), format!("the field `{key}` is missing"));
            single_text(&read, key)?.map(str::to_owned).ok_or_else(missing)
        };
        let name = required("name")?;
        if !haft_core::ToolName::is_safe(&name) {
            let why = "the name must be a letter, then letters, digits, `_` or `-`, at most 64";
            return Err(FrontMatterError::new(line("name"), why));
        }
        let description = required("description")?;
        let tools = tool_names(&read, "tools")?;
        let disallowed_tools = tool_names(&read, "disallowedTools")?.unwrap_or_default();
        let max_turns = match single_text(&read, "maxTurns")? {
            None => None,
            Some(text) => Some(text.parse().ok().filter(|turns| *turns > 0).ok_or_else(|| {
                FrontMatterError::new(line("maxTurns"), "`maxTurns` must be a number above zero")
            })?),
        };
        let mut notes = Vec::new();
        let is_read_only = match single_text(&read, "permissionMode")? {
            None | Some("default") => false,
            Some("plan") => true,
            Some("dontAsk") => {
                let why = "`permissionMode: dontAsk` has no effect: a call that needs approval \
                           still asks; deny it with a rule, or use `plan`";
                notes.push(FrontMatterError::new(line("permissionMode"), why));
                false
            }
            Some(mode @ ("acceptEdits" | "bypassPermissions" | "auto")) => {
                let why = format!("`permissionMode: {mode}` has no effect: rules decide");
                notes.push(FrontMatterError::new(line("permissionMode"), why));
                false
            }
            Some(mode) => {
                let why = format!("the mode `{mode}` is unknown; use `default` or `plan`");
                return Err(FrontMatterError::new(line("permissionMode"), why));
            }
        };
        let model = match read.field("model").map(|field| &field.value) {
            Some(FieldValue::Text(text)) if text.is_empty() => None,
            _ => {
                single_text(&read, "model")?.filter(|model| *model != "inherit").map(str::to_owned)
            }
        };
        for field in &read.fields {
            let (key, line) = (&*field.key, field.line);
            if WITHOUT_EFFECT.contains(&key) {
                notes.push(FrontMatterError::new(line, format!("`{key}` has no effect")));
            } else if !WITH_EFFECT.contains(&key) {
                let why = format!("the field `{key}` is unknown and has no effect");
                notes.push(FrontMatterError::new(line, why));
            }
        }
        Ok(Self {
            name,
            description,
            instructions: read.body.trim().to_owned(),
            tools,
            disallowed_tools,
            model,
            max_turns,
            is_read_only,
            notes,
        })
    }

    /// Returns the tools that it sees. Names of other programs count: `Bash` shows `shell`.
    #[must_use]
    pub fn view(&self) -> ToolView {
        let mut view = ToolView::all();
        if let Some(tools) = &self.tools {
            view = view.only(tools.iter().cloned());
        }
        if !self.disallowed_tools.is_empty() {
            view = view.without(self.disallowed_tools.iter().cloned());
        }
        if self.is_read_only {
            view = view.filter(ToolSpec::is_read_only);
        }
        view
    }

    /// Makes the agent with a model.
    pub fn agent(&self, model: impl Model) -> Agent {
        let mut agent = Agent::new(self.name.clone(), model)
            .instructions(self.instructions.clone())
            .tools(self.view());
        agent.limits.cycles = match (agent.limits.cycles, self.max_turns) {
            (Some(default), Some(own)) => Some(default.min(own)),
            (default, own) => default.or(own),
        };
        agent
    }

    /// Returns the spec of a tool that runs the agent.
    #[must_use]
    pub fn tool_spec(&self) -> ToolSpec {
        ToolSpec::new(self.name.clone(), self.description.clone())
    }
}

/// Returns the text of a field. FAIL CLOSED: a field without one is refused, not ignored.
fn single_text<'a>(
    read: &'a FrontMatter<'_>,
    key: &str,
) -> Result<Option<&'a str>, FrontMatterError> {
    match read.field(key).map(|field| (field.line, &field.value)) {
        None => Ok(None),
        Some((_, FieldValue::Text(text))) if !text.is_empty() => Ok(Some(text)),
        Some((line, _)) => {
            let why = format!("`{key}` must be one text; write `{key}: VALUE`, or remove it");
            Err(FrontMatterError::new(line, why))
        }
    }
}

/// Returns the tool names of a field. FAIL CLOSED: a text that is not a name would hide or show
/// another tool than its author expects.
fn tool_names(read: &FrontMatter<'_>, key: &str) -> Result<Option<Vec<String>>, FrontMatterError> {
    let Some(field) = read.field(key) else { return Ok(None) };
    let refuse = |why: String| Err(FrontMatterError::new(field.line, why));
    if matches!(field.value, FieldValue::Map(_)) {
        return refuse(format!("`{key}` must be a list of tools; write `{key}: [Read, Grep]`"));
    }
    let names = read.list(key);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.*?".contains(c);
    for name in &names {
        if name.contains('(') {
            // A pattern over arguments would show or hide the whole tool.
            return refuse(format!(
                "`{name}` has arguments; write the name alone, and a rule for the arguments"
            ));
        }
        if name.is_empty() || !name.chars().all(is_plain) {
            return refuse(format!(
                "`{name}` is not the name of a tool; write each name as an item of its own"
            ));
        }
    }
    Ok(Some(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> usize {
        AgentFile::parse(text).unwrap_err().line
    }

    #[test]
    fn file_has_what_its_front_matter_says() {
        let text = "---\nname: a\ndescription: x\ntools: [Read, Grep]\ndisallowedTools: Bash\n\
                    model: inherit\nmaxTurns: 3\npermissionMode: plan\nmemory: project\n---\nGo.\n";
        let file = AgentFile::parse(text).unwrap();
        assert_eq!(file.tools.as_deref().unwrap(), ["Read", "Grep"]);
        assert_eq!((file.disallowed_tools.len(), file.model.as_deref()), (1, None));
        assert!(file.is_read_only && file.instructions == "Go.");
        assert_eq!(file.notes.len(), 1);
        let lax = "---\nname: a\ndescription: x\npermissionMode: bypassPermissions\n---\n";
        let lax = AgentFile::parse(lax).unwrap();
        assert_eq!((lax.is_read_only, lax.notes[0].line), (false, 4), "it loosens nothing");
        let none = AgentFile::parse("---\nname: a\ndescription: x\ntools:\n---\n").unwrap();
        assert_eq!(none.tools.as_deref(), Some(&[][..]), "an empty list is no tool");
    }

    #[test]
    fn mistakes_name_their_line() {
        assert_eq!(line("---\nname: a\n---\n"), 1);
        assert_eq!(line("---\ndescription: x\nname: a b\n---\n"), 3);
        assert_eq!(line("---\nname: a\ndescription: x\nmaxTurns: 0\n---\n"), 4);
        assert_eq!(line("---\nname: a\ndescription: x\ntools: Bash(git *)\n---\n"), 4);
        assert_eq!(line("---\nname: a\ndescription: x\npermissionMode: all\n---\n"), 4);
    }

    fn with(fields: &str) -> Result<AgentFile, FrontMatterError> {
        AgentFile::parse(&format!("---\nname: a\ndescription: x\n{fields}\n---\n"))
    }

    #[test]
    fn field_of_a_wrong_form_is_refused_with_its_line() {
        for fields in [
            "disallowedTools:\n  Bash: true",
            "tools:\n  Bash: true",
            "permissionMode: [plan]",
            "permissionMode:\n  - plan",
            "permissionMode:",
            "maxTurns: [3]",
            "maxTurns:\n  limit: 3",
            "maxTurns: ''",
            "model: [a, b]",
            "tools:\n  - Read, Write",
            "disallowedTools:\n  - Bash, Write",
            "disallowedTools: ['Bash Write']",
            "disallowedTools: [[Bash]]",
            "disallowedTools:\n  - - Bash",
            "disallowedTools:\n  - tool: Bash",
            "disallowedTools: [\"\"]",
            "disallowedTools:\n  - # Bash",
            "disallowedTools: >-\n  Bash\n  # Write",
            "disallowedTools: \"'Bash'\"",
        ] {
            let error = with(fields).expect_err(fields);
            assert!((4..=5).contains(&error.line), "{fields}: {error}");
        }
        assert_eq!(line("---\nname: a\ndescription: [x]\n---\n"), 3);
    }

    #[test]
    fn comment_adds_no_tool() {
        for fields in [
            "tools: # never Bash or Write\n  - Read",
            "tools: Read\n  # Bash is not needed",
            "tools: Read # Bash",
            "tools: Read\t# Bash",
            "tools: \"Read\" # \"Bash\"",
            "tools: [Read] # [Bash]",
            "tools:\n# Bash\n- Read # Write\n  # Bash\n",
        ] {
            let file = with(fields).unwrap_or_else(|error| panic!("{fields}: {error}"));
            assert_eq!(file.tools.as_deref().unwrap(), ["Read"], "{fields}");
        }
        assert!(with("tools: Read # one\n  Bash").is_err(), "a comment ends the text");
    }

    #[test]
    fn every_field_without_effect_is_noted() {
        let file = with("color: red\ndisallowed-tools: Bash\npermissionMode: dontAsk").unwrap();
        let notes: Vec<_> = file.notes.iter().map(|note| (note.line, &*note.message)).collect();
        assert_eq!(notes.len(), 3, "{notes:?}");
        assert!(notes.iter().any(|(line, text)| *line == 4 && text.contains("`color`")));
        let unknown = |(line, text): &(usize, &str)| *line == 5 && text.contains("unknown");
        assert!(notes.iter().any(unknown), "{notes:?}");
        let asks = |(line, text): &(usize, &str)| *line == 6 && text.contains("still asks");
        assert!(notes.iter().any(asks), "{notes:?}");
    }
}
