//! Expands `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${input:id}`, `${workspaceFolder}` and
//! `${userHome}`. A variable that is not set keeps its text, with a note.

use super::ConfigContext;

/// Expands the texts of one server, and collects notes.
#[derive(Debug)]
pub struct Variables<'a> {
    context: &'a ConfigContext,
    pub(super) notes: Vec<String>,
    /// Why the server cannot be used: an input that was not given.
    pub(super) missing: Option<String>,
}

impl<'a> Variables<'a> {
    pub(super) fn new(context: &'a ConfigContext) -> Self {
        Self { context, notes: Vec::new(), missing: None }
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
        let value = value.cloned().or_else(|| default.map(str::to_owned));
        if value.is_none() {
            self.notes.push(format!("the variable `{name}` is not set"));
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
