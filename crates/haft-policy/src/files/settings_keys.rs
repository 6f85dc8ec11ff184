//! The keys of Claude Code settings: those that are honoured here, those that are known, and
//! misspelt ones.

use haft_schema::near::nearest;

/// Keys that decide here.
const HONOURED: [&str; 4] =
    ["permissions", "hooks", "allowManagedPermissionRulesOnly", "allowManagedHooksOnly"];

/// Keys of `permissions` that decide here.
const PERMISSIONS: [&str; 6] = [
    "allow",
    "ask",
    "deny",
    "defaultMode",
    "additionalDirectories",
    "disableBypassPermissionsMode",
];

/// Other known keys that restrict what an agent may do, and have no effect here.
const RESTRICTING: [&str; 11] = [
    "sandbox",
    "disableAllHooks",
    "blockWritesOutsideWorkingDirectories",
    "denyInsteadOfPrompting",
    "allowedMcpServers",
    "deniedMcpServers",
    "enabledMcpjsonServers",
    "disabledMcpjsonServers",
    "enableAllProjectMcpServers",
    "allowManagedMcpServersOnly",
    "strictKnownMarketplaces",
];

/// Other known keys. They decide nothing about calls.
const OTHERS: [&str; 34] = [
    "$schema",
    "alwaysThinkingEnabled",
    "apiKeyHelper",
    "attribution",
    "autoMemoryEnabled",
    "autoUpdatesChannel",
    "awsAuthRefresh",
    "awsCredentialExport",
    "cleanupPeriodDays",
    "companyAnnouncements",
    "defaultShell",
    "editorMode",
    "effortLevel",
    "enabledPlugins",
    "env",
    "extraKnownMarketplaces",
    "fastMode",
    "feedbackSurveyState",
    "fileSuggestion",
    "forceLoginMethod",
    "forceLoginOrgUUID",
    "includeCoAuthoredBy",
    "language",
    "model",
    "otelHeadersHelper",
    "outputStyle",
    "plansDirectory",
    "respectGitignore",
    "showTurnDuration",
    "spinnerTipsEnabled",
    "spinnerVerbs",
    "statusLine",
    "theme",
    "verbose",
];

/// Returns whether a key belongs to a settings file.
pub(super) fn is_known(key: &str) -> bool {
    HONOURED.contains(&key) || RESTRICTING.contains(&key) || OTHERS.contains(&key)
}

/// Returns whether a key that is not honoured would restrict something.
pub(super) fn restricts(key: &str) -> bool {
    let lower = key.to_lowercase();
    RESTRICTING.contains(&key) || lower.contains("permission") || lower.contains("hook")
}

/// Returns the key that a misspelt one means: what is below it would have no effect.
pub(super) fn misspelt(key: &str) -> Option<&'static str> {
    if is_known(key) {
        return None;
    }
    nearest(key, HONOURED)
}

/// The same for a key of `permissions`.
pub(super) fn misspelt_permission(key: &str) -> Option<&'static str> {
    nearest(key, PERMISSIONS)
}

/// Keys of one entry of a hook event.
pub(super) const HOOK: &[&str] = &["matcher", "hooks"];

/// Keys of a handler of a hook.
pub(super) const HANDLER: &[&str] = &[
    "type",
    "command",
    "args",
    "shell",
    "async",
    "asyncRewake",
    "url",
    "headers",
    "allowedEnvVars",
    "server",
    "tool",
    "input",
    "prompt",
    "model",
    "continueOnBlock",
    "if",
    "timeout",
    "statusMessage",
    "once",
];

/// Returns the known key that one differs from by a typo: at most two letters in one position, or
/// upper and lower case. A newer key may be similar to an old one, so nothing else counts.
pub(super) fn typo(key: &str, known: &[&'static str]) -> Option<&'static str> {
    let is_typo = |known: &&&str| {
        let same = |(a, b): &(char, char)| a == b;
        let start = key.chars().zip(known.chars()).take_while(same).count();
        let (own, other) = (key.chars().count() - start, known.chars().count() - start);
        let ends = key.chars().rev().zip(known.chars().rev()).take_while(same).count();
        let ends = ends.min(own).min(other);
        // Of a key of a few letters, nothing would be left.
        start + ends >= 3 && own - ends <= 2 && other - ends <= 2 || key.eq_ignore_ascii_case(known)
    };
    known.iter().find(is_typo).copied()
}

/// Parameters of `Bash` that the shell of haft does not have: it runs every command in the
/// foreground and in the sandbox. No command has such a name.
const BASH_PARAMETERS: [&str; 2] = ["run_in_background", "dangerouslyDisableSandbox"];

/// Returns the pattern of a rule about a parameter of `Bash`, if it is about one.
pub(super) fn bash_parameter(rule: &str) -> Option<String> {
    let inside = rule.trim().strip_prefix("Bash(")?.strip_suffix(')')?;
    let (name, value) = inside.split_once(':')?;
    let is_plain = !value.is_empty() && !value.contains([' ', '\'', '"']);
    (BASH_PARAMETERS.contains(&name) && is_plain).then(|| format!("Bash arg.{name}={value}"))
}

/// Returns the pattern of a rule about a parameter of `Agent`, if the rule can be read so.
pub(super) fn agent_parameter(rule: &str) -> Option<String> {
    let (tool, rest) = rule.trim().split_once('(')?;
    let (name, value) = rest.strip_suffix(')')?.split_once(':')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let is_plain = !value.is_empty() && !value.contains([' ', '\'', '"']);
    (["Agent", "Task"].contains(&tool) && is_name && is_plain)
        .then(|| format!("{tool} arg.{name}={value}"))
}

/// Whether a specifier names a parameter, and not a command, a path, a host or a name.
pub(super) fn is_parameter(tool: &str, specifier: &str) -> bool {
    const OTHERS: &[&str] = &["Bash", "Read", "Edit", "Agent", "Task", "Skill", "Cd"];
    let Some((name, _)) = specifier.split_once(':') else { return false };
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name && !OTHERS.contains(&tool) && !(tool == "WebFetch" && name == "domain")
}
