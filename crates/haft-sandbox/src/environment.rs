//! Filters the environment variables of a sandboxed process: an allowlist of names, minus names
//! that carry secrets or make programs load code (`LD_PRELOAD`, `GIT_SSH_COMMAND`).
//!
//! In: the host's variables as a value, and the names in the profile. Out: the variables to pass.
//! Nothing here reads the environment of this process.

use std::collections::BTreeMap;

/// Variables for a sandboxed process.
///
/// ```
/// use haft_sandbox::Environment;
///
/// let host = [("PATH", "/bin"), ("API_TOKEN", "s3cret"), ("LC_ALL", "C")];
/// let names = ["PATH", "API_TOKEN", "LC_*"].map(str::to_owned);
/// let given = Environment::from_host(host, &names);
/// assert_eq!(given.get("LC_ALL"), Some("C"));
/// assert_eq!(given.get("API_TOKEN"), None, "a name that looks like a secret is not passed");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment(BTreeMap<String, String>);

/// Parts of the names of variables that carry secrets.
const SECRET_PARTS: &[&str] = &[
    "KEY",
    "TOKEN",
    "SECRET",
    "PASSWORD",
    "PASSWD",
    "CREDENTIAL",
    "AUTH",
    "COOKIE",
    "PRIVATE",
    "SESSION",
];
/// Prefixes of variables that make programs run or load other code.
const CODE_PREFIXES: &[&str] = &[
    "LD_",
    "DYLD_",
    "BASH_ENV",
    "ENV",
    "GIT_",
    "NODE_OPTIONS",
    "PYTHON",
    "PERL5",
    "PERLLIB",
    "RUBYOPT",
    "RUBYLIB",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "PROMPT_COMMAND",
    "BASH_FUNC_",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "GCONV_PATH",
    "GLIBC_TUNABLES",
    "MALLOC_",
    "SSH_",
    "DBUS_",
    "XDG_RUNTIME_DIR",
    "DOCKER_",
    "KUBE",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "LESSOPEN",
    "LESSCLOSE",
];
/// Author and committer of commits. They carry no secret and load no code, despite their names.
const GIT_IDENTITY: &[&str] =
    &["GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"];
/// Limit for the name and value of one variable.
const MAX_VARIABLE_BYTES: usize = 64 << 10;

impl Environment {
    /// Creates an empty environment.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Copies the host's variables that a profile names.
    ///
    /// FAIL CLOSED: names that carry secrets or make programs load code are left out even if the
    /// profile names them. To pass one anyway, use [`set`](Self::set).
    pub fn from_host<K: Into<String>, V: Into<String>>(
        host: impl IntoIterator<Item = (K, V)>,
        names: &[String],
    ) -> Self {
        let mut given = Self::new();
        for (name, value) in host {
            let name = name.into();
            if is_named(&name, names) && !is_dangerous(&name) {
                given = given.set(name, value);
            }
        }
        given
    }

    /// Returns whether a variable of this name may be copied from the host: the name does not
    /// suggest that it carries a secret or makes programs load code.
    #[must_use]
    pub fn may_pass(name: &str) -> bool {
        !is_dangerous(name)
    }

    /// Returns it with one more variable. Invalid ones are ignored: an empty name, a name with `=`,
    /// a NUL byte, or more than 64 KiB.
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let (name, value) = (name.into(), value.into());
        let is_valid = !name.is_empty()
            && !name.contains(['=', '\0'])
            && !value.contains('\0')
            && name.len() + value.len() <= MAX_VARIABLE_BYTES;
        if is_valid {
            self.0.insert(name, value);
        }
        self
    }

    /// Returns the value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Iterates over the variables, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

fn is_named(name: &str, names: &[String]) -> bool {
    names.iter().any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    })
}

fn is_dangerous(name: &str) -> bool {
    if GIT_IDENTITY.contains(&name) {
        return false;
    }
    let upper = name.to_ascii_uppercase();
    SECRET_PARTS.iter().any(|part| upper.contains(part))
        || CODE_PREFIXES.iter().any(|start| match *start {
            "ENV" | "IFS" | "EDITOR" | "VISUAL" | "PAGER" => upper == *start,
            start => upper.starts_with(start),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_and_code_loading_variables_are_dropped_even_if_the_profile_names_them() {
        let host = [
            "AWS_SECRET_ACCESS_KEY",
            "GITHUB_TOKEN",
            "LD_PRELOAD",
            "BASH_ENV",
            "GIT_DIR",
            "PYTHONPATH",
            "NODE_OPTIONS",
            "my_password",
            "MY_SECRET",
            "SSH_AUTH_SOCK",
            "BASH_FUNC_x%%",
            "ENV",
            "GLIBC_TUNABLES",
        ];
        let given = Environment::from_host(host.map(|name| (name, "x")), &["*".to_owned()]);
        assert_eq!(given.iter().count(), 0, "{given:?}");
    }

    #[test]
    fn git_identity_variables_are_passed_and_other_git_variables_are_not() {
        let host =
            ["GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL", "GIT_CONFIG_COUNT", "GIT_SSH_COMMAND"];
        let names = crate::Profile::default().environment;
        let given = Environment::from_host(host.map(|name| (name, "x")), &names);
        let given: Vec<_> = given.iter().map(|(name, _)| name).collect();
        assert_eq!(given, ["GIT_AUTHOR_NAME", "GIT_COMMITTER_EMAIL"]);
    }

    #[test]
    fn only_variables_that_the_profile_names_are_passed() {
        let host = [("PATH", "/bin"), ("HOME", "/home/x"), ("LC_TIME", "C"), ("LCX", "no")];
        let given = Environment::from_host(host, &["PATH".to_owned(), "LC_*".to_owned()]);
        assert_eq!(given.iter().collect::<Vec<_>>(), [("LC_TIME", "C"), ("PATH", "/bin")]);
    }

    #[test]
    fn invalid_variables_are_ignored() {
        let odd = Environment::new()
            .set("", "x")
            .set("A=B", "x")
            .set("A\0", "x")
            .set("A", "x\0")
            .set("A", "x".repeat(MAX_VARIABLE_BYTES));
        assert_eq!(odd.iter().count(), 0);
        assert_eq!(Environment::new().set("A", "").get("A"), Some(""));
    }
}
