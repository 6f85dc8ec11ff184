//! Expands `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${input:id}`, `${workspaceFolder}` and
//! `${userHome}`. A variable that is not set keeps its text, with a note.
//!
//! It also makes the portable form of a text, which identifies a server: variables stay by name,
//! and the directories of this machine get one.

use std::path::Path;

use super::ConfigContext;
use crate::client::{HttpEndpoint, StdioCommand};

/// Expands the texts of one server, and collects notes.
#[derive(Debug)]
pub struct Variables<'a> {
    context: &'a ConfigContext,
    pub(super) notes: Vec<String>,
    /// Why the server cannot be used: an input that was not given.
    pub(super) missing: Option<String>,
    /// Whether values of the environment and of inputs stay names.
    keeps_names: bool,
}

impl<'a> Variables<'a> {
    pub(super) fn new(context: &'a ConfigContext) -> Self {
        Self { context, notes: Vec::new(), missing: None, keeps_names: false }
    }

    /// Makes a command of the texts of a file.
    pub(super) fn command(&mut self, program: &str, args: &[String]) -> StdioCommand {
        let mut command = StdioCommand::new(self.expand(program));
        command.args = args.iter().map(|arg| self.expand(arg)).collect();
        let written = std::iter::once(program).chain(args.iter().map(String::as_str));
        command.written = written.map(|word| self.portable(word)).collect();
        command
    }

    /// Makes an endpoint of the URL of a file.
    pub(super) fn endpoint(&mut self, url: &str) -> HttpEndpoint {
        let mut endpoint = HttpEndpoint::new(self.expand(url));
        endpoint.written = Some(self.portable(url));
        endpoint
    }

    /// The form of a text that is the same on every machine and has no secret.
    fn portable(&self, text: &str) -> String {
        let mut named = Variables { keeps_names: true, ..Variables::new(self.context) };
        self.context.portable(&named.expand(text))
    }

    /// Expands a text once: a value is never expanded again.
    pub(super) fn expand(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            out.push_str(before);
            let Some((name, behind)) = after.split_once('}') else {
                out.push_str("${");
                rest = after;
                continue;
            };
            match self.value(name) {
                Some(value) => out.push_str(&value),
                None => out.push_str(&format!("${{{name}}}")),
            }
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    fn value(&mut self, name: &str) -> Option<String> {
        if let Some(id) = name.strip_prefix("input:") {
            if self.keeps_names {
                return None;
            }
            let given = self.context.inputs.get(id).cloned();
            if given.is_none() {
                self.missing = Some(format!("it needs the input `{id}`"));
            }
            return given;
        }
        match name {
            "workspaceFolder" => return Some(self.context.workspace.display().to_string()),
            "userHome" => {
                let home = self.context.home.as_ref()?;
                return Some(home.display().to_string());
            }
            "pathSeparator" | "/" => return Some("/".to_owned()),
            _ => {}
        }
        let name = name.strip_prefix("env:").unwrap_or(name);
        let (name, default) = match name.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (name, None),
        };
        let value = self.context.variables.get(name).filter(|value| !value.is_empty());
        if self.keeps_names && value.is_some() {
            return Some(format!("${{{name}}}"));
        }
        let value = value.cloned().or_else(|| default.map(str::to_owned));
        if value.is_none() {
            self.notes.push(format!("the variable `{name}` is not set"));
        }
        value
    }
}

impl ConfigContext {
    /// Returns a text with names for the workspace and the home directory, so that it is the same
    /// on another machine.
    #[must_use]
    pub fn portable(&self, text: &str) -> String {
        let home = self.home.as_deref().map(|home| ("userHome", home));
        let mut places = vec![("workspaceFolder", self.workspace.as_path())];
        places.extend(home);
        // The longer one is often below the other.
        places.sort_by_key(|(_, path)| std::cmp::Reverse(path.as_os_str().len()));
        places.into_iter().fold(text.to_owned(), |text, (name, path)| named(&text, name, path))
    }
}

/// Puts a name in place of a directory, wherever a path starts with it.
fn named(text: &str, name: &str, directory: &Path) -> String {
    let Some(path) = directory.to_str().filter(|path| path.starts_with('/') && path.len() > 1)
    else {
        return text.to_owned();
    };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(path) {
        out.push_str(before);
        let starts = !before.ends_with(|c: char| is_part(c) || matches!(c, '/' | '}'));
        if starts && !after.starts_with(is_part) {
            out.push_str(&format!("${{{name}}}"));
        } else {
            out.push_str(path);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portable_text_has_names_in_place_of_values_and_directories() {
        let mut context = ConfigContext {
            workspace: "/home/ada/work".into(),
            home: Some("/home/ada".into()),
            ..ConfigContext::default()
        };
        context.variables.insert("TOKEN".into(), "s3cret".into());
        let cases = [
            ("--key=${TOKEN}", "--key=${TOKEN}"),
            ("${env:TOKEN}", "${TOKEN}"),
            ("${input:key}", "${input:key}"),
            ("${NO:-default}", "default"),
            ("${workspaceFolder}/a", "${workspaceFolder}/a"),
            ("/home/ada/work/a", "${workspaceFolder}/a"),
            ("--root=/home/ada/work", "--root=${workspaceFolder}"),
            ("${userHome}/work/b", "${workspaceFolder}/b"),
            ("/home/ada/.cache", "${userHome}/.cache"),
            ("/home/adam/x /mnt/home/ada/y", "/home/adam/x /mnt/home/ada/y"),
        ];
        for (text, portable) in cases {
            assert_eq!(Variables::new(&context).portable(text), portable, "{text}");
        }
        let mut variables = Variables::new(&context);
        let command = variables.command("srv", &["${TOKEN}".to_owned()]);
        assert_eq!(command.args, ["s3cret"]);
        assert_eq!(command.written, ["srv", "${TOKEN}"]);
        assert_eq!(
            variables.endpoint("https://h/?k=${TOKEN}").written.unwrap(),
            "https://h/?k=${TOKEN}"
        );
    }

    #[test]
    fn every_form_is_expanded_once() {
        let mut context = ConfigContext {
            workspace: "/work".into(),
            home: Some("/home/ada".into()),
            ..ConfigContext::default()
        };
        context.variables.insert("A".into(), "${B}".into());
        context.variables.insert("B".into(), "b".into());
        context.inputs.insert("key".into(), "secret".into());
        let mut variables = Variables::new(&context);
        let cases = [
            ("${B}", "b"),
            ("x${env:B}y", "xby"),
            ("${A}", "${B}"),
            ("${NO:-default}", "default"),
            ("${B:-default}", "b"),
            ("${workspaceFolder}/a", "/work/a"),
            ("${userHome}", "/home/ada"),
            ("${input:key}", "secret"),
            ("$B ${", "$B ${"),
        ];
        for (text, expanded) in cases {
            assert_eq!(variables.expand(text), expanded, "{text}");
        }
        assert!(variables.notes.is_empty() && variables.missing.is_none());
        assert_eq!(variables.expand("${NO}"), "${NO}", "kept");
        assert_eq!(variables.notes, ["the variable `NO` is not set"]);
        variables.expand("${input:other}");
        assert!(variables.missing.unwrap().contains("`other`"));
    }
}
