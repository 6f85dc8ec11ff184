//! Which configuration files apply to a directory, and the project root for a start directory.
//!
//! Pure: a list of candidates and a walk up a path. The caller checks what exists and reads it.
//!
//! INVARIANT: a file below a project's root never moves the root, and never hides a file above it.

use std::{
    ffi::OsString,
    path::{Component, Path, PathBuf},
};

use haft_core::config_files::{CONFIG_FILES, PROJECT_MARKERS};

use super::{ConfigFile, FileFormat};
use crate::rule::ConfigLayer;

/// A configuration file that applies if it exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigPath {
    /// Its layer.
    pub layer: ConfigLayer,
    /// Its format.
    pub form: FileFormat,
    /// Its path.
    pub path: PathBuf,
    /// The directory that its `/…` patterns start from.
    pub anchor: PathBuf,
}

impl ConfigPath {
    /// Makes a `ConfigFile` of it, once it was read.
    #[must_use]
    pub fn with(self, text: impl Into<String>) -> ConfigFile {
        let Self { layer, form, path, anchor } = self;
        ConfigFile { layer, form, path, anchor, text: text.into() }
    }
}

/// Where Claude Code reads the organisation's settings.
#[cfg(target_os = "macos")]
const MANAGED_SETTINGS: (&str, &str) =
    ("/Library/Application Support/ClaudeCode", "managed-settings.json");
#[cfg(not(target_os = "macos"))]
const MANAGED_SETTINGS: (&str, &str) = ("/etc/claude-code", "managed-settings.json");

/// Returns where Claude Code reads the organisation's settings.
#[must_use]
pub fn managed_settings_file() -> PathBuf {
    let (directory, name) = MANAGED_SETTINGS;
    Path::new(directory).join(name)
}

/// Returns the files that are merged on top of an organisation's settings, strongest first: those
/// of the directory `managed-settings.d` next to them, of which `names` are all entries. A later
/// name is stronger. Names that start with a dot, or do not end in `.json`, are ignored.
pub fn managed_drop_ins(
    settings: &Path,
    names: impl IntoIterator<Item = OsString>,
) -> Vec<ConfigPath> {
    let directory = settings.with_extension("d");
    let anchor = settings.parent().unwrap_or(&directory);
    let is_settings = |name: &OsString| {
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        !is_hidden && Path::new(name).extension().is_some_and(|extension| extension == "json")
    };
    let mut names: Vec<OsString> = names.into_iter().filter(is_settings).collect();
    names.sort();
    let file =
        |name| candidate(ConfigLayer::Managed, FileFormat::Settings, directory.join(name), anchor);
    names.into_iter().rev().map(file).collect()
}

fn candidate(layer: ConfigLayer, form: FileFormat, path: PathBuf, anchor: &Path) -> ConfigPath {
    ConfigPath { layer, form, path, anchor: anchor.to_owned() }
}

/// Returns the files of one project directory, strongest first.
#[must_use]
pub fn project_files(directory: &Path) -> Vec<ConfigPath> {
    let file = |file: &haft_core::config_files::ConfigFileInfo| {
        let layer = if file.is_local { ConfigLayer::Local } else { ConfigLayer::Project };
        let form = if file.is_settings { FileFormat::Settings } else { FileFormat::Toml };
        candidate(layer, form, directory.join(file.path), directory)
    };
    CONFIG_FILES.iter().map(file).collect()
}

/// Returns the files that apply to a directory, strongest first. `user_config` is haft's own
/// directory in the user's configuration, such as `~/.config/haft`.
///
/// ```
/// use std::path::Path;
///
/// let files = haft_policy::config_paths(Path::new("/notes"), Some(Path::new("/me/.config/haft")), None);
/// assert_eq!(files[0].path, Path::new("/etc/haft/haft.toml"));
/// assert!(files.iter().any(|file| file.path == Path::new("/notes/.claude/settings.json")));
/// ```
#[must_use]
pub fn config_paths(
    directory: &Path,
    user_config: Option<&Path>,
    home: Option<&Path>,
) -> Vec<ConfigPath> {
    files_from(directory, directory, user_config, home)
}

/// Returns the files that apply to a program started in `start`, strongest first: those of every
/// directory from `start` up to `root`, and those of the organisation and the user. Of two files of
/// one layer the one nearer to the start is the stronger.
///
/// ```
/// use std::path::Path;
///
/// let files = haft_policy::files_from(Path::new("/notes/sub"), Path::new("/notes"), None, None);
/// let is_read = |path: &str| files.iter().any(|file| file.path == Path::new(path));
/// assert!(is_read("/notes/sub/haft.toml") && is_read("/notes/haft.toml"));
/// assert!(!is_read("/haft.toml"));
/// ```
#[must_use]
pub fn files_from(
    start: &Path,
    root: &Path,
    user_config: Option<&Path>,
    home: Option<&Path>,
) -> Vec<ConfigPath> {
    let managed = Path::new("/etc/haft");
    let settings = managed_settings_file();
    let settings_directory = settings.parent().unwrap_or(managed).to_owned();
    let mut files = vec![
        candidate(ConfigLayer::Managed, FileFormat::Toml, managed.join("haft.toml"), managed),
        candidate(ConfigLayer::Managed, FileFormat::Settings, settings, &settings_directory),
    ];
    let directories = start.ancestors().take_while(|directory| directory.starts_with(root));
    files.extend(directories.flat_map(project_files));
    files.sort_by_key(|file| file.layer);
    if let Some(config) = user_config {
        files.push(candidate(
            ConfigLayer::User,
            FileFormat::Toml,
            config.join("config.toml"),
            config,
        ));
    }
    if let Some(home) = home {
        let own = home.join(".claude");
        let settings = own.join("settings.json");
        // In the home directory, the user's settings are not also the project's.
        files.retain(|file| file.path != settings);
        files.push(candidate(ConfigLayer::User, FileFormat::Settings, settings, &own));
    }
    files
}

/// World-writable directories; a file there would configure the projects of every user.
const SHARED_DIRECTORIES: [&str; 4] = ["/tmp", "/var/tmp", "/dev/shm", "/private/tmp"];

/// Returns the project root for a program started in `start`: the outermost directory that has
/// `haft.toml`, `haft.local.toml`, `.claude` or `.git`, else `start` itself. The files of every
/// directory from the root down to `start` apply. The home directory and its parents, and the
/// shared temporary directories, count only for a program started there.
pub fn project_root(
    start: &Path,
    home: Option<&Path>,
    is_there: impl Fn(&Path) -> bool,
) -> PathBuf {
    let mut root = start;
    for directory in start.ancestors() {
        let too_high = home.is_some_and(|home| home.starts_with(directory))
            || SHARED_DIRECTORIES.iter().any(|shared| Path::new(shared) == directory);
        if too_high && directory != start {
            break;
        }
        if PROJECT_MARKERS.iter().any(|marker| is_there(&directory.join(marker))) {
            root = directory;
        }
    }
    root.to_owned()
}

/// Removes `.` and `..` from a path lexically, without file system access.
pub(super) fn normalize_lexically(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // The parent of the root is the root; above a relative start `..` is kept.
            Component::ParentDir if out.has_root() => {
                out.pop();
            }
            Component::ParentDir if out.ends_with("..") || !out.pop() => out.push(".."),
            Component::ParentDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_listed_strongest_first() {
        let files = config_paths(
            Path::new("/me/work"),
            Some(Path::new("/me/.config/haft")),
            Some(Path::new("/me")),
        );
        let shown: Vec<String> = files
            .iter()
            .map(|f| format!("{:?} {} {}", f.layer, f.path.display(), f.anchor.display()))
            .collect();
        assert_eq!(
            shown[2..],
            [
                "Local /me/work/haft.local.toml /me/work",
                "Local /me/work/.claude/settings.local.json /me/work",
                "Project /me/work/haft.toml /me/work",
                "Project /me/work/.claude/settings.json /me/work",
                "User /me/.config/haft/config.toml /me/.config/haft",
                "User /me/.claude/settings.json /me/.claude",
            ]
        );
        assert!(files.is_sorted_by_key(|file| file.layer));
    }

    #[test]
    fn user_settings_in_the_home_directory_are_listed_once() {
        let home = Path::new("/me");
        let files = config_paths(home, None, Some(home));
        let own = home.join(".claude/settings.json");
        let found: Vec<_> = files.iter().filter(|file| file.path == own).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].layer, ConfigLayer::User);
    }

    fn root(start: &str, there: &[&str]) -> String {
        let found = project_root(Path::new(start), Some(Path::new("/home/me")), |path| {
            there.contains(&path.to_str().unwrap())
        });
        found.display().to_string()
    }

    #[test]
    fn outermost_directory_with_a_marker_is_the_root() {
        assert_eq!(root("/home/me/a/b", &["/home/me/a/.git"]), "/home/me/a");
        assert_eq!(
            root("/home/me/a/b", &["/home/me/a/.git", "/home/me/a/b/.claude"]),
            "/home/me/a"
        );
        assert_eq!(root("/home/me/a/b", &["/home/me/a/b/haft.toml"]), "/home/me/a/b");
        assert_eq!(root("/home/me/a/b", &["/home/me/.claude"]), "/home/me/a/b");
        assert_eq!(root("/home/me/a/b", &["/home/haft.toml"]), "/home/me/a/b");
        assert_eq!(root("/home/me", &["/home/me/.claude"]), "/home/me");
        assert_eq!(root("/home/me", &["/home/haft.toml"]), "/home/me");
        assert_eq!(root("/srv/x/y", &["/srv/haft.toml"]), "/srv");
        assert_eq!(root("/srv/x/y", &["/haft.toml"]), "/srv/x/y");
        assert_eq!(root("/tmp/x/y", &["/tmp/haft.toml", "/tmp/x/.git"]), "/tmp/x");
        assert_eq!(root("/tmp", &["/tmp/haft.toml"]), "/tmp");
        assert_eq!(root("/var/www/x", &["/var/haft.toml"]), "/var");
    }

    proptest::proptest! {
        #[test]
        fn file_below_never_moves_the_root(
            names in "[ab]{1}(/[ab]){1,4}", marked in 0usize..4, planted in 0usize..6,
        ) {
            let start = PathBuf::from("/srv").join(&names);
            let depth = start.components().count();
            let at = |n: usize| start.ancestors().nth((depth - 2).saturating_sub(n)).unwrap();
            let before = at(marked).join(".git");
            let root = project_root(&start, None, |path| path == before);
            let planted = at(planted).join("haft.local.toml");
            let after = project_root(&start, None, |path| path == before || path == planted);
            // Only a marker above the old root moves it, and then outwards.
            proptest::prop_assert!(root.starts_with(&after));
            if planted.starts_with(&root) {
                proptest::prop_assert_eq!(after, root);
            }
        }
    }

    #[test]
    fn files_of_every_directory_up_to_the_root_are_read_nearest_first() {
        let files = files_from(Path::new("/p/a/b"), Path::new("/p"), None, None);
        let shown = |layer| {
            let all = files.iter().filter(|f| f.layer == layer && f.form == FileFormat::Toml);
            all.map(|f| f.path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            shown(ConfigLayer::Local),
            ["/p/a/b/haft.local.toml", "/p/a/haft.local.toml", "/p/haft.local.toml"]
        );
        assert_eq!(
            shown(ConfigLayer::Project),
            ["/p/a/b/haft.toml", "/p/a/haft.toml", "/p/haft.toml"]
        );
        assert!(files.iter().all(|file| file.path.starts_with(&file.anchor)));
    }

    #[test]
    fn drop_ins_of_an_organisation_are_read_by_name_and_the_last_is_the_strongest() {
        let names = ["20-b.json", ".hidden.json", "10-a.json", "notes.txt", "json"];
        let all = managed_drop_ins(
            Path::new("/etc/claude-code/managed-settings.json"),
            names.map(OsString::from),
        );
        let shown: Vec<String> = all.iter().map(|f| f.path.display().to_string()).collect();
        assert_eq!(
            shown,
            [
                "/etc/claude-code/managed-settings.d/20-b.json",
                "/etc/claude-code/managed-settings.d/10-a.json"
            ]
        );
        assert!(
            all.iter().all(|f| f.layer == ConfigLayer::Managed && f.form == FileFormat::Settings)
        );
    }

    #[test]
    fn lexical_normalization_never_leaves_the_root() {
        for (path, tidied) in
            [("/a/../b", "/b"), ("/../../b", "/b"), ("a/./../..", ".."), ("/a/b/../c/.", "/a/c")]
        {
            assert_eq!(normalize_lexically(Path::new(path)), Path::new(tidied), "{path}");
        }
    }
}
