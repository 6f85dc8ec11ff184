//! The tool names that hooks use: those of Claude Code, where the protocol comes from.

use haft::registry::RegisteredTool;

/// Built-in tools and their names in the protocol.
const PROTOCOL_NAMES: [(&str, &str); 7] = [
    ("shell", "Bash"),
    ("read_file", "Read"),
    ("write_file", "Write"),
    ("edit_file", "Edit"),
    ("search_files", "Grep"),
    ("list_files", "Glob"),
    ("fetch_url", "WebFetch"),
];

/// The names of a tool: in the protocol, in the registry, and in rules. A matcher may use any of
/// them, so that a hook for `Bash` matches the same tools as a rule for `Bash`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) protocol: String,
    pub(crate) registered: String,
    in_rules: Vec<&'static str>,
}

impl Names {
    /// Returns the names of a tool. A rename by a view does not change them.
    pub(crate) fn of(tool: &RegisteredTool) -> Self {
        let own = tool.registered().as_str();
        let server = tool.source().strip_prefix("source `").and_then(|rest| rest.strip_suffix('`'));
        match server {
            Some(server) if !own.starts_with("mcp__") => {
                let tool_name = own
                    .strip_prefix(server)
                    .and_then(|rest| rest.strip_prefix("__"))
                    .unwrap_or(own);
                Self {
                    protocol: format!("mcp__{server}__{tool_name}"),
                    registered: own.to_owned(),
                    in_rules: tool.known_as().to_vec(),
                }
            }
            _ => {
                let mut names = Self { in_rules: tool.known_as().to_vec(), ..Self::from_name(own) };
                if names.protocol == names.registered
                    && let Some(known) = names.in_rules.first()
                {
                    names.protocol = (*known).to_owned();
                }
                names
            }
        }
    }

    /// Returns all names.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        [&*self.protocol, &*self.registered].into_iter().chain(self.in_rules.iter().copied())
    }

    /// Returns the names of a tool by its registered name or its name in the protocol.
    pub(crate) fn from_name(name: &str) -> Self {
        let pair = PROTOCOL_NAMES.iter().find(|(own, known)| *own == name || *known == name);
        let (own, known) = pair.map_or((name, name), |(own, known)| (*own, *known));
        Self { protocol: known.to_owned(), registered: own.to_owned(), in_rules: Vec::new() }
    }
}
