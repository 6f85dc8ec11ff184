//! `[sandbox]`: what commands may access besides the workspace, and whether they run confined
//! without approval.
//!
//! In: the table of a file. Out: roots and names of variables, each with its location. Roots that
//! would expose secrets are mistakes. Pure: the caller resolves symlinks, and checks the result
//! with [`SandboxSettings::refuses`] again.

use std::path::{Path, PathBuf};

use super::{
    ConfigFile,
    content::FileContent,
    network,
    node::{Fields, Node, Reader},
    relative_path::directory,
};
use crate::{network::NetworkAccess, pattern::PathBase, rule::SourceLocation};

const KEYS: &[&str] = &[
    "confine_unasked",
    "toolchains",
    "read_only_roots",
    "writable_roots",
    "pass_env",
    "network",
    "cgroup",
];

/// The merged sandbox settings of all files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SandboxSettings {
    /// Whether a command that is not known to write runs confined instead of needing approval.
    pub confine_unasked: bool,
    /// Whether toolchains in the home directory whose programs are in `PATH` are readable.
    pub toolchains: bool,
    /// Directories outside the workspace that commands may read.
    pub read_only_roots: Vec<(PathBuf, SourceLocation)>,
    /// Directories outside the workspace that commands may write, if they may write at all.
    pub writable_roots: Vec<(PathBuf, SourceLocation)>,
    /// Environment variables that are passed to commands. A trailing `*` matches any ending.
    pub pass_env: Vec<(String, SourceLocation)>,
    /// Hosts that commands may contact, if they may write at all.
    pub network: NetworkAccess,
    /// A delegated cgroup directory that keeps the memory limit of commands. The last file counts.
    pub cgroup: Option<(PathBuf, SourceLocation)>,
    /// Where `network` is set.
    pub network_location: Option<SourceLocation>,
    /// A file says `network = "none"`.
    has_no_network: bool,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            confine_unasked: true,
            toolchains: true,
            read_only_roots: Vec::new(),
            writable_roots: Vec::new(),
            pass_env: Vec::new(),
            network: NetworkAccess::none(),
            cgroup: None,
            network_location: None,
            has_no_network: false,
        }
    }
}

/// Files and directories below the home directory that contain secrets.
const SECRETS: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".git-credentials",
    ".password-store",
    ".config/gh",
    ".config/gcloud",
    ".config/op",
    ".config/git/credentials",
    ".config/haft",
    ".local/share/keyrings",
    ".local/share/haft",
    ".local/state/haft",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".claude",
    ".codex",
    ".gemini",
    ".mozilla",
];

impl SandboxSettings {
    /// Returns why a directory cannot be a root of commands; `None` if it can.
    #[must_use]
    pub fn refuses(root: &Path, home: Option<&Path>) -> Option<&'static str> {
        if root.parent().is_none() {
            return Some("it is the whole file system");
        }
        let home = home?;
        if home.starts_with(root) {
            return Some("it contains the home directory with all its secrets");
        }
        SECRETS
            .iter()
            .any(|secret| root.starts_with(home.join(secret)))
            .then_some("it contains secrets")
    }

    /// Returns the paths below a root that contain secrets, whether they exist or not.
    #[must_use]
    pub fn secrets_below(root: &Path, home: &Path) -> Vec<PathBuf> {
        let secrets = SECRETS.iter().map(|secret| home.join(secret));
        secrets.filter(|secret| secret.starts_with(root)).collect()
    }

    /// Joins the hosts of a file. `none` in one file disables all of them.
    fn add_network(&mut self, network: Option<(NetworkAccess, SourceLocation)>) {
        match network {
            None => {}
            Some((access, _)) if access.is_none() => {
                self.has_no_network = true;
                self.network = NetworkAccess::none();
            }
            Some(_) if self.has_no_network => {}
            Some((access, location)) => {
                self.network = std::mem::take(&mut self.network).join(&access);
                self.network_location.get_or_insert(location);
            }
        }
    }

    /// Merges the settings of a file. A feature that one file disables stays disabled.
    pub(super) fn add(&mut self, content: SandboxTable) {
        self.confine_unasked &= content.confine_unasked != Some(false);
        self.toolchains &= content.toolchains != Some(false);
        self.read_only_roots.extend(content.read_only_roots);
        self.writable_roots.extend(content.writable_roots);
        self.pass_env.extend(content.pass_env);
        self.add_network(content.network);
        self.cgroup = content.cgroup.or(self.cgroup.take());
    }
}

/// The sandbox settings of one file.
#[derive(Debug, Default)]
pub(super) struct SandboxTable {
    confine_unasked: Option<bool>,
    toolchains: Option<bool>,
    read_only_roots: Vec<(PathBuf, SourceLocation)>,
    writable_roots: Vec<(PathBuf, SourceLocation)>,
    pass_env: Vec<(String, SourceLocation)>,
    network: Option<(NetworkAccess, SourceLocation)>,
    cgroup: Option<(PathBuf, SourceLocation)>,
}

impl SandboxTable {
    /// Removes what would give commands more access, and reports each.
    pub(super) fn strip(&mut self, mut ignored: impl FnMut(&'static str, &SourceLocation)) {
        for (_, location) in self.read_only_roots.drain(..).chain(self.writable_roots.drain(..)) {
            ignored("root of commands", &location);
        }
        for (_, location) in self.pass_env.drain(..) {
            ignored("passed variable", &location);
        }
        if let Some((_, location)) = self.network.take_if(|(access, _)| !access.is_none()) {
            ignored("network access of commands", &location);
        }
        if let Some((_, location)) = self.cgroup.take() {
            ignored("cgroup", &location);
        }
    }
}

/// Reads `[sandbox]`.
pub(super) fn read(
    reader: &mut Reader<'_>,
    node: &Node,
    file: &ConfigFile,
    anchor: &PathBase,
    content: &mut FileContent,
) {
    let Some(fields) = reader.table(node, "`[sandbox]`", KEYS) else { return };
    let own = &mut content.sandbox;
    own.confine_unasked = fields.field(reader, "confine_unasked");
    own.toolchains = fields.field(reader, "toolchains");
    own.read_only_roots = roots(reader, &fields, "read_only_roots", file, anchor);
    own.writable_roots = roots(reader, &fields, "writable_roots", file, anchor);
    own.pass_env = variable_names(reader, &fields);
    own.network = fields.get("network").map(|node| {
        let access = network::read(reader, node, "`network` of `[sandbox]`");
        (access, reader.location(node.at))
    });
    if let Some(node) = fields.get("cgroup")
        && let Some(text) = reader.text(node, "`cgroup`")
    {
        if Path::new(text).is_absolute() {
            own.cgroup = Some((text.into(), reader.location(node.at)))
        } else {
            reader.wrong(
                node.at,
                format!("`{text}` is not an absolute path"),
                "name the delegated cgroup directory, as in `/sys/fs/cgroup/haft`",
            )
        }
    }
}

fn roots(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
    key: &str,
    file: &ConfigFile,
    anchor: &PathBase,
) -> Vec<(PathBuf, SourceLocation)> {
    let mut found = Vec::new();
    for (text, at) in fields.texts(reader, key) {
        match directory(text, file, anchor) {
            Err(why) => reader.wrong(
                at,
                format!("the directory `{text}` was not found: {why}"),
                "write an absolute path, as in `/srv/toolchain`, or start it with `~/`",
            ),
            Ok(path) => match SandboxSettings::refuses(&path, anchor.home.as_deref()) {
                Some(why) => reader.wrong(
                    at,
                    format!("`{text}` cannot be a root of commands: {why}"),
                    "name the directory that the program needs, as in `~/.rustup`",
                ),
                None => found.push((path, reader.location(at))),
            },
        }
    }
    found
}

/// Reads `pass_env`: names of environment variables.
pub(super) fn variable_names(
    reader: &mut Reader<'_>,
    fields: &Fields<'_>,
) -> Vec<(String, SourceLocation)> {
    let mut found = Vec::new();
    for (text, at) in fields.texts(reader, "pass_env") {
        let name = text.strip_suffix('*').unwrap_or(text);
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if is_name {
            found.push((text.to_owned(), reader.location(at)))
        } else {
            reader.wrong(
                at,
                format!("`{text}` is not a variable name"),
                "write a name such as `JAVA_HOME`; it may end with `*`, as in `CARGO_*`",
            )
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{super::*, *};

    fn read(text: &str, layer: ConfigLayer, trusted: bool) -> Result<PolicyConfig, Error> {
        let file = ConfigFile {
            layer,
            form: FileFormat::Toml,
            path: "haft.toml".into(),
            anchor: "/me/work".into(),
            text: text.to_owned(),
        };
        let options = LoadOptions { home: Some("/me".into()), trusted, ..LoadOptions::default() };
        PolicyConfig::read(&[file], &options)
    }

    const ALL: &str = "[sandbox]\nconfine_unasked = false\nread_only_roots = [\"~/.rustup\", \
        \"/srv/x\"]\n\
        writable_roots = [\"~/.npm\"]\npass_env = [\"JAVA_HOME\", \"CARGO_*\"]\ncgroup = \
        \"/sys/fs/cgroup/haft\"\n";

    #[test]
    fn roots_and_variables_of_a_trusted_file_apply() {
        let setup = read(ALL, ConfigLayer::Project, true).unwrap().sandbox;
        let paths = |list: &[(PathBuf, SourceLocation)]| -> Vec<String> {
            list.iter().map(|(path, _)| path.display().to_string()).collect()
        };
        assert_eq!(paths(&setup.read_only_roots), ["/me/.rustup", "/srv/x"]);
        assert_eq!(paths(&setup.writable_roots), ["/me/.npm"]);
        assert_eq!(setup.pass_env.len(), 2);
        assert!(!setup.confine_unasked && setup.toolchains);
        let cgroup = setup.cgroup.map(|(path, _)| path);
        assert_eq!(cgroup.as_deref(), Some(Path::new("/sys/fs/cgroup/haft")));
    }

    #[test]
    fn untrusted_project_can_only_restrict_the_sandbox() {
        let setup = read(ALL, ConfigLayer::Project, false).unwrap();
        let SandboxSettings { read_only_roots, writable_roots, pass_env, .. } = &setup.sandbox;
        assert!(read_only_roots.is_empty() && writable_roots.is_empty() && pass_env.is_empty());
        assert!(setup.sandbox.cgroup.is_none());
        assert!(!setup.sandbox.confine_unasked, "what is stricter counts");
        let notes: Vec<&str> = setup.notes.iter().map(|note| &*note.message).collect();
        assert!(notes.iter().any(|note| note.contains("3 roots of commands")), "{notes:?}");
        assert!(notes.iter().any(|note| note.contains("2 passed variables")), "{notes:?}");
    }

    #[test]
    fn feature_disabled_in_one_file_is_not_enabled_by_another() {
        let mut settings = SandboxSettings::default();
        let content = |on| SandboxTable { confine_unasked: Some(on), ..SandboxTable::default() };
        settings.add(content(false));
        settings.add(content(true));
        assert!(!settings.confine_unasked);
    }

    #[test]
    fn roots_that_expose_secrets_are_mistakes() {
        for (root, why) in [
            ("/", "the whole file system"),
            ("~", "the home directory"),
            ("~/", "the home directory"),
            ("~/.cargo/..", "the home directory"),
            ("/me", "the home directory"),
            ("~/.ssh", "it contains secrets"),
            ("~/.ssh/keys", "it contains secrets"),
            ("~/.aws", "it contains secrets"),
            ("~/.gnupg", "it contains secrets"),
            ("~/.config/gh", "it contains secrets"),
            ("~/.cargo/credentials.toml", "it contains secrets"),
        ] {
            for key in ["read_only_roots", "writable_roots"] {
                let text = format!("[sandbox]\n{key} = [\"{root}\"]\n");
                let error = read(&text, ConfigLayer::User, true).unwrap_err().to_string();
                assert!(error.contains(why) && error.contains("haft.toml:2"), "{root}: {error}");
            }
        }
        for (bad, why) in [
            ("read_only_roots = \"~/.rustup\"\nx = 1", "unknown key `x`"),
            ("pass_env = [\"A B\"]", "not a variable name"),
            ("pass_env = [\"*\"]", "not a variable name"),
            ("confine_unasked = \"no\"", "confine_unasked"),
            ("read_only_roots = [\"\"]", "it is empty"),
            ("read_only_roots = [3]", "read_only_roots"),
        ] {
            let error = read(&format!("[sandbox]\n{bad}\n"), ConfigLayer::User, true).unwrap_err();
            assert!(error.to_string().contains(why), "{bad}: {error}");
        }
    }

    #[test]
    fn network_is_joined_and_only_opened_by_trusted_files() {
        let list = "[sandbox]\nnetwork = [\"packages.example\", \"*.example.org\", \
            \"localhost:4873\"]\n";
        let setup = read(list, ConfigLayer::Project, true).unwrap();
        assert!(setup.sandbox.network.allows("packages.example", 443));
        assert_eq!(setup.context.network, setup.sandbox.network, "rules know it too");
        assert_eq!(setup.sandbox.network_location.map(|at| at.line), Some(2));
        let untrusted = read(list, ConfigLayer::Project, false).unwrap();
        assert!(untrusted.sandbox.network.is_none());
        let notes: Vec<&str> = untrusted.notes.iter().map(|note| &*note.message).collect();
        assert!(
            notes.iter().any(|note| note.contains("1 network access of commands")),
            "{notes:?}"
        );
        let word = |word: &str| {
            let text = format!("[sandbox]\nnetwork = \"{word}\"\n");
            read(&text, ConfigLayer::User, true).unwrap().sandbox.network
        };
        assert!(word("all").is_all() && word("none").is_none() && !word("ask").is_none());
        let mut settings = SandboxSettings::default();
        let at = SourceLocation::default;
        settings.add_network(Some((NetworkAccess::parse(["a.org"]).unwrap(), at())));
        settings.add_network(Some((NetworkAccess::parse(["b.org"]).unwrap(), at())));
        assert_eq!(settings.network.texts(), ["a.org", "b.org"]);
        settings.add_network(Some((NetworkAccess::none(), at())));
        settings.add_network(Some((NetworkAccess::all(), at())));
        assert!(settings.network.is_none(), "one file disables it for all");
        for (bad, why) in [
            ("[]", "empty list"),
            ("[\"https://x.org\"]", "a host has no scheme"),
            ("[\"localhost\"]", "needs a port"),
            ("[\"x.org:99999\"]", "from 1 to 65535"),
            ("true", "a string or a list of strings"),
        ] {
            let text = format!("[sandbox]\nnetwork = {bad}\n");
            let error = read(&text, ConfigLayer::User, true).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("haft.toml:2"), "{bad}: {error}");
        }
    }

    #[test]
    fn rules_and_declared_tools_list_hosts() {
        let text = "[[rule]]\nmatch = \"Bash(npm *)\"\ndecision = \"allow\"\nnetwork = \"a.org\"\n\
            [[rule]]\nmatch = \"Bash(x)\"\ndecision = \"ask\"\nnetwork = [\"b.org\"]\n\
            [tool.get]\ndescription = \"Gets.\"\ncommand = [\"get\"]\nnetwork = [\"c.org\"]\n";
        let setup = read(text, ConfigLayer::Project, true).unwrap();
        assert_eq!(setup.rules[0].network.texts(), ["a.org"]);
        let tool = &setup.tools[0];
        assert_eq!(tool.network.as_ref().unwrap().texts(), ["c.org"]);
        assert!(tool.granted_capabilities().has(haft_core::Capability::Network));
        let untrusted = read(text, ConfigLayer::Project, false).unwrap();
        assert!(untrusted.rules.iter().all(|rule| rule.network.is_none()), "asking opens nothing");
        let deny = "[[rule]]\nmatch = \"x\"\ndecision = \"deny\"\nnetwork = \"a.org\"\n";
        let error = read(deny, ConfigLayer::User, true).unwrap_err().to_string();
        assert!(error.contains("`network` in a rule that decides `deny`"), "{error}");
    }

    #[test]
    fn secrets_below_a_root_are_listed_to_be_hidden() {
        let below = SandboxSettings::secrets_below(Path::new("/me/.cargo"), Path::new("/me"));
        assert!(below.contains(&PathBuf::from("/me/.cargo/credentials.toml")));
        assert!(below.iter().all(|secret| secret.starts_with("/me/.cargo")));
        assert!(SandboxSettings::secrets_below(Path::new("/srv"), Path::new("/me")).is_empty());
    }
}
