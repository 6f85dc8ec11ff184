//! The names by which hooks know tools: those of the program the protocol comes from.

use haft::Entry;

/// Our own tools, and what the protocol calls such a tool.
const KNOWN: [(&str, &str); 9] = [
    ("shell", "Bash"),
    ("read_file", "Read"),
    ("write_file", "Write"),
    ("edit_file", "Edit"),
    ("search_files", "Grep"),
    ("find_files", "Glob"),
    ("list_files", "LS"),
    ("fetch", "WebFetch"),
    ("web_search", "WebSearch"),
];

/// A tool's names: the one hooks are told, and its own. A matcher may use either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Names {
    pub(crate) shown: String,
    pub(crate) own: String,
}

impl Names {
    /// Returns the names of a tool.
    pub(crate) fn of(tool: &Entry) -> Self {
        let own = tool.name().as_str();
        let server = tool.source().strip_prefix("source `").and_then(|rest| rest.strip_suffix('`'));
        match server {
            Some(server) if !own.starts_with("mcp__") => {
                let there = own
                    .strip_prefix(server)
                    .and_then(|rest| rest.strip_prefix("__"))
                    .unwrap_or(own);
                Self { shown: format!("mcp__{server}__{there}"), own: own.to_owned() }
            }
            _ => Self::plain(own),
        }
    }

    /// Returns the names of a tool of which only the name is known, in either spelling.
    pub(crate) fn plain(name: &str) -> Self {
        let pair = KNOWN.iter().find(|(own, known)| *own == name || *known == name);
        match pair {
            Some((own, known)) => Self { shown: (*known).to_owned(), own: (*own).to_owned() },
            None => Self { shown: name.to_owned(), own: name.to_owned() },
        }
    }
}
