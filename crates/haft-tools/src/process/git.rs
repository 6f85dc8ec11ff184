//! What git reads of its user inside the sandbox, where the home directory is private: a name and an
//! address for commits, and nothing that runs a program (aliases, helpers, includes).

/// A configuration of git for one private home directory.
#[derive(Debug, Clone, Default)]
pub(crate) struct GitConfig {
    identity: Option<(String, String)>,
}

impl GitConfig {
    /// The file that git reads.
    pub(crate) const NAME: &str = ".gitconfig";

    /// Sets who commits are by. The configuration of a repository and `GIT_AUTHOR_NAME` and the like
    /// go before it.
    pub(crate) fn set_identity(&mut self, name: String, email: String) {
        self.identity = Some((name, email));
    }

    /// Writes the file.
    pub(crate) fn text(&self) -> String {
        // The command may have another user number than the owner of the repository. What a
        // repository's configuration starts is confined like the command.
        let mut text = "[safe]\n\tdirectory = *\n".to_owned();
        if let Some((name, email)) = &self.identity {
            text += &format!("[user]\n\tname = {}\n\temail = {}\n", quoted(name), quoted(email));
        }
        text
    }
}

/// Quotes a value, so that it cannot end its line.
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
