//! The inputs of VS Code files (`${input:id}`): from a variable, or asked once at the terminal.
//!
//! FAIL CLOSED: a server whose input is not known does not start.

use std::{
    collections::BTreeMap,
    io::{self, IsTerminal as _},
    path::Path,
};

use haft_core::sync::lock;
use haft_mcp::config::{self, ConfigInput};

use crate::{setup::Setup, style, tty_mode};

/// The inputs that the servers of a file use, as far as they are known.
pub(crate) fn of_file(
    path: &Path,
    text: &str,
    setup: &Setup,
    asks: bool,
) -> BTreeMap<String, String> {
    let mut known = BTreeMap::new();
    for input in config::inputs(text) {
        let key = (path.to_owned(), input.id.clone());
        let mut answers = lock(&setup.inputs);
        let name = variable(&input.id);
        let given = setup.variables().get(&name).cloned();
        let value = given.or_else(|| answers.get(&key).cloned());
        let value = match value {
            None if asks && is_terminal() => ask(path, &input),
            value => value,
        };
        match value {
            Some(value) => {
                answers.insert(key, value.clone());
                known.insert(input.id, value);
            }
            None if asks => setup.note(format!(
                "the input `{}` of `{}` is asked for at a terminal; without one, set `{name}`",
                input.id,
                path.display()
            )),
            None => {}
        }
    }
    known
}

/// The variable that has the value of an input.
fn variable(id: &str) -> String {
    let part = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    format!("HAFT_INPUT_{}", id.chars().map(part).collect::<String>())
}

fn is_terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks the person; `None` for an empty line without a default.
fn ask(path: &Path, input: &ConfigInput) -> Option<String> {
    let file = style::visible(&path.display().to_string());
    let what = style::visible(input.description.as_deref().unwrap_or(&input.id));
    let mut question = format!("`{file}` needs the input `{}`: {what}", style::visible(&input.id));
    if !input.options.is_empty() {
        question.push_str(&format!(" ({})", style::visible(&input.options.join(", "))));
    }
    let _lines = tty_mode::LineModeOnDrop;
    if input.is_secret {
        // Before the question, so that no key of the answer is shown.
        tty_mode::hide_typing();
    }
    style::message(question);
    let mut line = String::new();
    io::stdin().read_line(&mut line).ok()?;
    let typed = line.trim_end_matches(['\n', '\r']);
    let value = if typed.is_empty() { input.default.clone()? } else { typed.to_owned() };
    (input.options.is_empty() || input.options.contains(&value)).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_has_a_variable_of_its_own() {
        assert_eq!(variable("api-key"), "HAFT_INPUT_API_KEY");
    }
}
