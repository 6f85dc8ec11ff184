//! The files of a project directory that configure haft: one list for code that reads or protects
//! them.
//!
//! The policy reads exactly these files. The sandbox and the built-in rules protect exactly these
//! names; tests in both crates compare their own lists with this one.
//!
//! INVARIANT: every file that can add a hook, an allow rule or a tool is listed here.

/// One file of a project directory that configures haft.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConfigFileInfo {
    /// Its path, relative to the project directory.
    pub path: &'static str,
    /// Whether it is one person's own and not shared with the project.
    pub is_local: bool,
    /// Whether it is written as settings of Claude Code, in JSON; otherwise it is TOML.
    pub is_settings: bool,
}

/// The file that an "always" answer is written to.
pub const LOCAL_FILE: &str = "haft.local.toml";

/// Every file of a project directory that configures haft, strongest first.
///
/// ```
/// use haft_core::config_files::CONFIG_FILES;
///
/// assert!(CONFIG_FILES.iter().any(|file| file.path == "haft.local.toml" && file.is_local));
/// ```
pub const CONFIG_FILES: [ConfigFileInfo; 4] = [
    ConfigFileInfo { path: LOCAL_FILE, is_local: true, is_settings: false },
    ConfigFileInfo { path: ".claude/settings.local.json", is_local: true, is_settings: true },
    ConfigFileInfo { path: "haft.toml", is_local: false, is_settings: false },
    ConfigFileInfo { path: ".claude/settings.json", is_local: false, is_settings: true },
];

/// A directory name that is reserved for haft's configuration. Nothing is read from it yet. It is
/// protected already, so that a file planted there now cannot take effect later.
pub const RESERVED_DIRECTORY: &str = ".haft";

/// The names that make a directory a project: those of its configuration, and a repository.
pub const PROJECT_MARKERS: [&str; 4] = ["haft.toml", LOCAL_FILE, ".claude", ".git"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_config_file_marks_its_directory_as_a_project() {
        for file in CONFIG_FILES {
            let first = file.path.split('/').next();
            assert!(PROJECT_MARKERS.iter().any(|name| Some(*name) == first), "{}", file.path);
        }
    }
}
