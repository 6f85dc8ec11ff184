//! The author of commits: `user.name` and `user.email` of the user's git configuration.
//!
//! Only these two values are read. Aliases, helpers and includes are ignored, because git runs
//! programs for them. The configuration itself is not visible inside the sandbox.

use std::{collections::BTreeMap, path::PathBuf};

/// Returns name and address; `None` unless both are set.
///
/// # Errors Fails if one of the files is not a regular file or cannot be read. It is opened
/// non-blocking: a command may have replaced it by a FIFO, which would block every later start.
pub(crate) fn identity(
    variables: &BTreeMap<String, String>,
) -> Result<Option<(String, String)>, haft::Error> {
    let directory = |name: &str| {
        variables.get(name).map(PathBuf::from).filter(|directory| directory.is_absolute())
    };
    let home = directory("HOME");
    let config = directory("XDG_CONFIG_HOME").or_else(|| Some(home.as_ref()?.join(".config")));
    // The second overrides the first, as in git.
    let files =
        [config.map(|config| config.join("git/config")), home.map(|h| h.join(".gitconfig"))];
    let (mut name, mut email) = (None, None);
    for path in files.into_iter().flatten() {
        let Some(text) = haft::policy::read_config_file(&path)? else { continue };
        let found = user(&text);
        name = found.0.or(name);
        email = found.1.or(email);
    }
    Ok(name.zip(email))
}

/// Reads name and address from the `[user]` sections; the last line wins.
fn user(text: &str) -> (Option<String>, Option<String>) {
    let (mut name, mut email) = (None, None);
    let mut is_user = false;
    for line in text.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            is_user =
                section.split(']').next().is_some_and(|s| s.trim().eq_ignore_ascii_case("user"));
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| is_user) else { continue };
        match key.trim().to_ascii_lowercase().as_str() {
            "name" => name = value_of(value),
            "email" => email = value_of(value),
            _ => {}
        }
    }
    (name, email)
}

/// Parses a value: removes quotes and escapes; a comment ends it.
fn value_of(text: &str) -> Option<String> {
    let (mut value, mut is_quoted) = (String::new(), false);
    let mut chars = text.trim().chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => value.extend(chars.next().filter(|c| matches!(c, '"' | '\\'))),
            c => value.push(c),
        }
    }
    let value = value.trim();
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_user_name_and_email_are_read() {
        let text = "[core]\n\tname = no\n[user]\n\tname = \"A \\\"B\\\" C\" ; comment\n\temail = a@b.c # x\n\
                    [user \"other\"]\n\tname = no\n[alias]\n\tx = !sh\n";
        let (name, email) = user(text);
        assert_eq!((name.as_deref(), email.as_deref()), (Some("A \"B\" C"), Some("a@b.c")));
        assert_eq!(user("[User]\nNAME=x\nname=y\n").0.as_deref(), Some("y"));
        assert_eq!(user("name = x\n[user]\nname =\n"), (None, None));
    }
}
