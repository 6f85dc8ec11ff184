//! The names by which hooks know tools: those of the program the protocol comes from.

use haft::RegisteredTool;

/// Our own tools, and what the protocol calls such a tool.
const KNOWN: [(&str, &str); 7] = [
    ("shell", "Bash"),
    ("read_file", "Read"),
    ("write_file", "Write"),
    ("edit_file", "Edit"),
    ("search_files", "Grep"),
    ("list_files", "Glob"),
    ("fetch_url", "WebFetch"),
];

/// A tool's names: the one hooks are told, its own, and those that rules know it by. A matcher may
/// use any of them: whatever a rule for `Bash` is about, a hook for `Bash` is about too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) shown: String,
    pub(crate) own: String,
    known: Vec<&'static str>,
}

impl Names {
    /// Returns the names of a tool, whatever a view calls it.
    pub(crate) fn of(tool: &RegisteredTool) -> Self {
        let own = tool.registered().as_str();
        let server = tool.source().strip_prefix("source `").and_then(|rest| rest.strip_suffix('`'));
        match server {
            Some(server) if !own.starts_with("mcp__") => {
                let there = own
                    .strip_prefix(server)
                    .and_then(|rest| rest.strip_prefix("__"))
                    .unwrap_or(own);
                Self {
                    shown: format!("mcp__{server}__{there}"),
                    own: own.to_owned(),
                    known: tool.known_as().to_vec(),
                }
            }
            _ => {
                let mut names = Self { known: tool.known_as().to_vec(), ..Self::plain(own) };
                if names.shown == names.own
                    && let Some(known) = names.known.first()
                {
                    names.shown = (*known).to_owned();
                }
                names
            }
        }
    }

    /// Returns all of them.
    pub(crate) fn all(&self) -> impl Iterator<Item = &str> {
        [&*self.shown, &*self.own].into_iter().chain(self.known.iter().copied())
    }

    /// Returns the names of a tool of which only the name is known, in either spelling.
    pub(crate) fn plain(name: &str) -> Self {
        let pair = KNOWN.iter().find(|(own, known)| *own == name || *known == name);
        let (own, shown) = pair.map_or((name, name), |(own, known)| (*own, *known));
        Self { shown: shown.to_owned(), own: own.to_owned(), known: Vec::new() }
    }
}
