//! What the schema of a tool marks its arguments as: files, hosts, commands.

use haft_core::Operation;
use serde_json::Value;

use super::{Facts, Part};
use crate::{
    context::ArgumentKind,
    network::NetworkAccess,
    request::traits::{self, Mark, Traits},
};

impl Facts<'_> {
    /// Adds what the schema marks its arguments as.
    pub(super) fn add_marked(&mut self, schema: &Value, traits: &Traits) {
        let arguments = self.arguments;
        let starts_elsewhere = |(name, mark): &(String, Mark)| {
            let directory = arguments.get(name).filter(|_| *mark == Mark::Directory);
            directory.is_some_and(|path| !path.is_null() && path != "." && path != "")
        };
        self.starts_elsewhere = traits.marks.iter().any(starts_elsewhere);
        if traits.deep {
            let mut marked = Vec::new();
            let found = &mut |value, mark| marked.push((value, mark));
            let complete = traits::walk(schema, arguments, found);
            for (value, mark) in marked {
                self.add_mark(value, mark);
            }
            if !complete {
                self.add_all_unknown("its schema is too complex to find every argument");
            }
        }
        for (name, mark) in &traits.marks {
            if let Some(value) = arguments.get(name) {
                self.add_mark(value, *mark);
            }
        }
    }

    fn add_mark(&mut self, value: &Value, mark: Mark) {
        match mark {
            Mark::About(about) => self.add_about(value, about),
            Mark::Words => self.add_words(value),
            Mark::Directory => self.add_about(value, ArgumentKind::ReadPath),
            Mark::Network => self.add_network(value),
            Mark::Agent => {}
            // FAIL CLOSED: a mark of a later version may mean anything.
            Mark::Unknown => self.add_all_unknown("its schema has an unknown `x-haft` value"),
        }
    }

    /// Adds the hosts that a command may contact beyond those of every command. An entry that is
    /// not a public host on the usual ports is a part that only an equal entry of a rule covers.
    fn add_network(&mut self, value: &Value) {
        let texts: Option<Vec<&str>> = match value {
            Value::Null => return,
            Value::Array(list) => list.iter().map(Value::as_str).collect(),
            _ => None,
        };
        let Some(Ok(access)) = texts.map(NetworkAccess::parse) else {
            return self.add_unknown(ArgumentKind::Url, "its list of hosts is not valid");
        };
        let allowed = &self.context.network;
        let whole = (access.is_all() && !allowed.is_all()).then_some(None);
        let hosts = access.hosts().filter(|entry| !allowed.covers(entry)).cloned().map(Some);
        for entry in whole.into_iter().chain(hosts) {
            self.does(Operation::External);
            let part = Part::Host(match &entry {
                None => Err("it requests the whole network".to_owned()),
                Some(entry) => match entry.public_host() {
                    Some(host) => Ok(host.to_owned()),
                    None => Err(format!("`{entry}` is more than one public host")),
                },
            });
            self.add(part.clone());
            if let Some(at) = self.parts.iter().position(|own| *own == part) {
                self.requested_hosts.push((at, entry));
            }
        }
    }

    /// Adds a command whose argv is a list.
    fn add_words(&mut self, value: &Value) {
        let words: Option<Vec<&str>> = match value {
            Value::Null => return,
            Value::Array(list) => list.iter().map(Value::as_str).collect(),
            _ => None,
        };
        match words {
            Some(words) => {
                self.does(Operation::Execute);
                self.add_command(&haft_shell::quoted(words));
            }
            None => self.add_unknown(ArgumentKind::Command, "it is not a list of strings"),
        }
    }
}
