//! Command texts that need no shell: a single command of plain words.

/// Bash builtins and keywords, also those that differ from a program of the same name.
const BUILTINS: &[&str] = &[
    ".",
    ":",
    "[",
    "[[",
    "alias",
    "bg",
    "bind",
    "break",
    "builtin",
    "caller",
    "case",
    "cd",
    "command",
    "compgen",
    "complete",
    "compopt",
    "continue",
    "coproc",
    "declare",
    "dirs",
    "disown",
    "do",
    "done",
    "echo",
    "elif",
    "else",
    "enable",
    "esac",
    "eval",
    "exec",
    "exit",
    "export",
    "false",
    "fc",
    "fg",
    "fi",
    "for",
    "function",
    "getopts",
    "hash",
    "help",
    "history",
    "if",
    "in",
    "jobs",
    "kill",
    "let",
    "local",
    "logout",
    "mapfile",
    "popd",
    "printf",
    "pushd",
    "pwd",
    "read",
    "readarray",
    "readonly",
    "return",
    "select",
    "set",
    "shift",
    "shopt",
    "source",
    "suspend",
    "test",
    "then",
    "time",
    "times",
    "trap",
    "true",
    "type",
    "typeset",
    "ulimit",
    "umask",
    "unalias",
    "unset",
    "until",
    "wait",
    "while",
];

/// Returns the words of a text that is a single command of plain words.
pub(super) fn plain_words(text: &str) -> Option<Vec<String>> {
    // Characters with a meaning to the shell are left to the shell.
    if text.contains(|c: char| c.is_control() || "&|;()<>{}!#$`*?[]~\\=^%".contains(c)) {
        return None;
    }
    let script = haft_shell::parse(text).ok()?;
    let [command] = &*script.commands else { return None };
    if !command.assignments.is_empty() || !command.redirects.is_empty() {
        return None;
    }
    let words: Option<Vec<String>> =
        command.words.iter().map(|word| word.literal().map(str::to_owned)).collect();
    words.filter(|words| words.first().is_some_and(|name| !BUILTINS.contains(&&**name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_words_run_without_a_shell() {
        let words = |text: &str| plain_words(text).map(|words| words.join("|"));
        assert_eq!(words("git log -3").as_deref(), Some("git|log|-3"));
        assert_eq!(words("grep 'a b' \"c d\" ''").as_deref(), Some("grep|a b|c d|"));
        for shell in [
            "ls &",
            "! ls",
            "(ls)",
            "ls | wc",
            "ls; ls",
            "ls > x",
            "A=1 ls",
            "ls $X",
            "ls *.rs",
            "ls ~",
            "ls {a,b}",
            "cd src",
            "echo hi",
            "time ls",
            "ls # x",
            "ls\nls",
            "ls \\\n-l",
            "if ls",
            "'ls",
            "cat <(ls)",
            "`ls`",
            "",
            "  ",
            "[ -e x ]",
        ] {
            assert_eq!(words(shell), None, "{shell}");
        }
    }
}
