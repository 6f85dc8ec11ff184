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
