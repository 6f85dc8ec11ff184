//! Git configuration inside the sandbox, where the home directory is private: the commit identity,
//! and nothing that runs a program (aliases, helpers, includes).

/// Git configuration for a private home directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct GitConfig {
    identity: Option<(String, String)>,
}

impl GitConfig {
    /// Name of the file.
    pub(crate) const NAME: &str = ".gitconfig";

    /// Sets the commit identity. The repository's configuration and `GIT_AUTHOR_NAME` override it.
    pub(crate) fn set_identity(&mut self, name: String, email: String) {
        self.identity = Some((name, email));
    }

    /// Returns the contents of the file.
    pub(crate) fn text(&self) -> String {
        // The command may run as another user than the repository's owner. Programs that the
        // repository's configuration starts are confined too.
        let mut text = "[safe]\n\tdirectory = *\n".to_owned();
        if let Some((name, email)) = &self.identity {
            text += &format!("[user]\n\tname = {}\n\temail = {}\n", quoted(name), quoted(email));
        }
        text
    }
}

/// Quotes a value, so that it cannot end its line (injection).
fn quoted(value: &str) -> String {
    let plain = value.chars().filter(|c| !c.is_control()).take(1_000);
    let escaped: String = plain
        .flat_map(|c| match c {
            '"' | '\\' => vec!['\\', c],
            c => vec![c],
        })
        .collect();
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_cannot_add_lines_to_the_configuration() {
        let mut config = GitConfig::default();
        assert_eq!(config.text(), "[safe]\n\tdirectory = *\n");
        config.set_identity("A \"B\"\n[core]\n\tfsmonitor = x".to_owned(), "a\\b@c".to_owned());
        let text = config.text();
        assert_eq!(text.lines().count(), 5, "{text}");
        assert!(text.contains(r#"name = "A \"B\"[core]fsmonitor = x""#), "{text}");
        assert!(text.contains(r#"email = "a\\b@c""#), "{text}");
    }
}
