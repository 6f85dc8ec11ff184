//! Which files speak about a folder, and which folder a program started in belongs to.
//!
//! Pure: a list of candidates and a walk up a path. Whoever calls looks what is there and reads it.

use std::path::{Component, Path, PathBuf};

use super::{File, Form};
use crate::policy::rule::Layer;

/// A file that would count if it were there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Whose it is.
    pub layer: Layer,
    /// In which language it is written.
    pub form: Form,
    /// Where it would lie.
    pub path: PathBuf,
    /// The folder that its `/…` patterns start from.
    pub anchor: PathBuf,
}

impl Candidate {
    /// Makes the file of it, once it was read.
    #[must_use]
    pub fn with(self, text: impl Into<String>) -> File {
        let Self { layer, form, path, anchor } = self;
        File { layer, form, path, anchor, text: text.into() }
    }
}

/// Where Claude Code looks for the organisation's settings.
#[cfg(target_os = "macos")]
const MANAGED_SETTINGS: (&str, &str) =
    ("/Library/Application Support/ClaudeCode", "managed-settings.json");
#[cfg(not(target_os = "macos"))]
const MANAGED_SETTINGS: (&str, &str) = ("/etc/claude-code", "managed-settings.json");

/// Returns the files that speak about a folder, strongest first. `user_config` is haft's own folder
/// among the person's settings, such as `~/.config/haft`.
///
/// ```
/// use std::path::Path;
///
/// let files = haft::files_of(Path::new("/notes"), Some(Path::new("/me/.config/haft")), None);
/// assert_eq!(files[0].path, Path::new("/etc/haft/haft.toml"));
/// assert!(files.iter().any(|file| file.path == Path::new("/notes/.claude/settings.json")));
/// ```
#[must_use]
pub fn files_of(folder: &Path, user_config: Option<&Path>, home: Option<&Path>) -> Vec<Candidate> {
    let one = |layer, form, path: PathBuf, anchor: &Path| Candidate {
        layer,
        form,
        path,
        anchor: anchor.to_owned(),
    };
    let claude = folder.join(".claude");
    let managed = Path::new("/etc/haft");
    let (settings, settings_name) = MANAGED_SETTINGS;
    let settings = Path::new(settings);
    let mut files = vec![
        one(Layer::Managed, Form::Toml, managed.join("haft.toml"), managed),
        one(Layer::Managed, Form::Settings, settings.join(settings_name), settings),
        one(Layer::Local, Form::Toml, folder.join("haft.local.toml"), folder),
        one(Layer::Local, Form::Settings, claude.join("settings.local.json"), folder),
        one(Layer::Project, Form::Toml, folder.join("haft.toml"), folder),
        one(Layer::Project, Form::Settings, claude.join("settings.json"), folder),
    ];
    if let Some(config) = user_config {
        files.push(one(Layer::User, Form::Toml, config.join("config.toml"), config));
    }
    if let Some(home) = home {
        let own = home.join(".claude");
        let settings = own.join("settings.json");
        // Started at home, the person's own settings are not also the folder's.
        files.retain(|file| file.path != settings);
        files.push(one(Layer::User, Form::Settings, settings, &own));
    }
    files
}

/// Returns the folder whose files count for a program started in `start`: the nearest one upwards
/// that has `haft.toml`, `haft.local.toml`, `.claude` or `.git`, else `start` itself. The home folder
/// and what lies above it count only for a program started there.
pub fn project_root(
    start: &Path,
    home: Option<&Path>,
    is_there: impl Fn(&Path) -> bool,
) -> PathBuf {
    const SIGNS: [&str; 4] = ["haft.toml", "haft.local.toml", ".claude", ".git"];
    for folder in start.ancestors() {
        let too_high = home.is_some_and(|home| home.starts_with(folder));
        if too_high && folder != start {
            break;
        }
        if SIGNS.iter().any(|sign| is_there(&folder.join(sign))) {
            return folder.to_owned();
        }
    }
    start.to_owned()
}

/// Takes `.` and `..` out of a path without touching the disk.
pub(super) fn tidy(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            // Above the root there is only the root; above a relative start `..` stays visible.
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
        let files = files_of(
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
    fn at_home_the_persons_settings_are_listed_once() {
        let home = Path::new("/me");
        let files = files_of(home, None, Some(home));
        let own = home.join(".claude/settings.json");
        let found: Vec<_> = files.iter().filter(|file| file.path == own).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].layer, Layer::User);
    }

    #[test]
    fn the_nearest_folder_with_a_sign_is_the_root() {
        let root = |start: &str, there: &[&str]| {
            let found = project_root(Path::new(start), Some(Path::new("/home/me")), |path| {
                there.contains(&path.to_str().unwrap())
            });
            found.display().to_string()
        };
        assert_eq!(root("/home/me/a/b", &["/home/me/a/.git"]), "/home/me/a");
        assert_eq!(
            root("/home/me/a/b", &["/home/me/a/.git", "/home/me/a/b/.claude"]),
            "/home/me/a/b"
        );
        assert_eq!(root("/home/me/a/b", &["/home/me/.claude"]), "/home/me/a/b");
        assert_eq!(root("/home/me/a/b", &["/home/haft.toml"]), "/home/me/a/b");
        assert_eq!(root("/home/me", &["/home/me/.claude"]), "/home/me");
        assert_eq!(root("/home/me", &["/home/haft.toml"]), "/home/me");
        assert_eq!(root("/srv/x/y", &["/srv/haft.toml"]), "/srv");
        assert_eq!(root("/srv/x/y", &["/haft.toml"]), "/srv/x/y");
    }

    #[test]
    fn tidying_never_climbs_above_the_root() {
        for (path, tidied) in
            [("/a/../b", "/b"), ("/../../b", "/b"), ("a/./../..", ".."), ("/a/b/../c/.", "/a/c")]
        {
            assert_eq!(tidy(Path::new(path)), Path::new(tidied), "{path}");
        }
    }
}
