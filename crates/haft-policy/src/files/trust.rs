//! The directories that a person trusts, and what was shown of each: a small file in the user's
//! configuration.
//!
//! ```toml
//! # Written by `haft trust`.
//! [[trusted]]
//! directory = "/home/me/work"
//! device = "66306"
//! inode = "1315"
//! [trusted.files]
//! "haft.toml" = "sha256:…"
//! ```
//!
//! Trust covers a configuration file if an entry at or above its directory lists its relative path
//! with the digest of its text, and the directory is still the one that was trusted. New or changed
//! files are not covered: a command may have planted them. Directories are stored by canonical
//! path, so a symlink cannot impersonate one. A trust file that cannot be read trusts nothing.
//!
//! INVARIANT: only `add` and `record` make a file covered, and both take the digest of a text.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use haft_core::{Error, ErrorKind};
use sha2::{Digest as _, Sha256};

use super::{
    MAX_FILE,
    mistake::Mistakes,
    node::{FromNode as _, Node, Reader},
    source::Source,
    toml,
};
use crate::toml_string::quoted;

/// The directories that a person trusts.
///
/// ```
/// use std::path::Path;
///
/// use haft_policy::{TrustEntry, TrustedDirs, UntrustedReason};
///
/// let text = "[[rule]]\nmatch = \"Bash(make *)\"\ndecision = \"allow\"\n";
/// let mut entry = TrustEntry::new("/home/me/work", None);
/// entry.files.insert("haft.toml".to_owned(), TrustedDirs::digest(text.as_bytes()));
/// let mut dirs = TrustedDirs::default();
/// dirs.add(entry)?;
///
/// let file = Path::new("/home/me/work/haft.toml");
/// let identify = |_: &Path| None;
/// assert_eq!(dirs.covers(file, text.as_bytes(), identify), Ok(()));
/// assert_eq!(dirs.covers(file, b"# other", identify), Err(UntrustedReason::Changed));
/// let below = Path::new("/home/me/work/sub/haft.toml");
/// assert_eq!(dirs.covers(below, text.as_bytes(), identify), Err(UntrustedReason::New));
/// assert_eq!(TrustedDirs::parse(&dirs.to_text())?, dirs);
/// # Ok::<(), haft_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustedDirs {
    /// By directory.
    entries: BTreeMap<String, TrustEntry>,
    /// Directories of an older format, which did not record what was trusted.
    outdated: Vec<String>,
}

/// A trusted directory, and what was shown of it when it was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrustEntry {
    /// Its canonical path.
    pub directory: PathBuf,
    /// The identity of the directory; `None` if the system has none.
    pub id: Option<DirectoryId>,
    /// The files that were shown, by their path below the directory, with their digests.
    pub files: BTreeMap<String, String>,
}

/// The identity of a directory independent of its path: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectoryId {
    /// The device it is on.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
}

/// Why trust does not cover a configuration file. Such a file may only deny and ask.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UntrustedReason {
    /// Its directory is not trusted.
    Untrusted,
    /// It did not exist when its directory was trusted.
    New,
    /// Its content has changed since its directory was trusted.
    Changed,
    /// The path now belongs to another directory than the trusted one.
    Replaced,
    /// A script that its hooks run has changed.
    Script(String),
}

impl TrustEntry {
    /// Makes an entry that covers no file yet.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>, id: Option<DirectoryId>) -> Self {
        Self { directory: directory.into(), id, files: BTreeMap::new() }
    }
}

/// Maximum number of directories, and of files of one directory.
const MAX_ENTRIES: usize = 10_000;

const ENTRY_KEYS: &[&str] = &["directory", "device", "inode", "files"];

impl TrustedDirs {
    /// The name of its file.
    pub const FILE: &'static str = "trust.toml";

    /// Returns the digest of a text, as written in the file.
    #[must_use]
    pub fn digest(text: &[u8]) -> String {
        let hex = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        format!("sha256:{hex}")
    }

    /// Parses a trust file. An empty text trusts nothing.
    ///
    /// # Errors
    /// Fails with every mistake. A host that continues without it uses `TrustedDirs::default()`,
    /// which trusts nothing.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let source = Source::new(Path::new(Self::FILE), text);
        let mut mistakes = Mistakes::default();
        let mut dirs = Self::default();
        if text.len() > MAX_FILE {
            mistakes.add(source.location(0), || ("the trust file is too long".to_owned(), None));
        } else if let Some(root) = toml::parse(&source, &mut mistakes) {
            let mut reader = Reader { source: &source, mistakes: &mut mistakes };
            dirs.read(&root, &mut reader);
        }
        match mistakes.into_error() {
            Some(error) => Err(error),
            None => Ok(dirs),
        }
    }

    fn read(&mut self, root: &Node, reader: &mut Reader<'_>) {
        let Some(fields) = reader.table(root, "the trust file", &["trusted", "outdated"]) else {
            return;
        };
        for key in ["trusted", "outdated"] {
            let list = fields.get(key).and_then(|node| reader.list(node, &format!("`{key}`")));
            for node in list.unwrap_or(&[]) {
                let read = if reader.is_text(node) || key == "outdated" {
                    // Entries of an older format cover nothing.
                    reader.text(node, "a directory").map(|text| self.outdate(text))
                } else {
                    entry(node, reader).map(|entry| self.insert(entry).map(drop))
                };
                if let Some(Err(why)) = read {
                    reader.wrong(node.at, why, "directories are added with `haft trust`");
                }
            }
        }
    }

    fn outdate(&mut self, text: &str) -> Result<(), String> {
        let text = check(Path::new(text))?;
        if self.outdated.len() >= MAX_ENTRIES {
            return Err(format!("the trust file has more than {MAX_ENTRIES} directories"));
        }
        if !self.outdated.contains(&text) {
            self.outdated.push(text);
        }
        Ok(())
    }

    /// Returns the entry that a directory is trusted by: its own, or the nearest above it. The path
    /// must be canonical. An entry whose directory was replaced is ignored.
    pub fn trusted_by(
        &self,
        directory: &Path,
        identify: impl Fn(&Path) -> Option<DirectoryId>,
    ) -> Option<&TrustEntry> {
        let mut entries = self.entries_above(directory);
        entries.find(|entry| entry.id == identify(&entry.directory))
    }

    /// Returns the entries at and above a directory, nearest first.
    pub fn entries_above(&self, directory: &Path) -> impl Iterator<Item = &TrustEntry> {
        let plain = check(directory).ok().map(PathBuf::from).unwrap_or_default();
        let above: Vec<PathBuf> = plain.ancestors().map(Path::to_owned).collect();
        above.into_iter().filter_map(|above| self.entries.get(above.to_str()?))
    }

    /// Returns whether an older format, which is no longer valid, lists a directory or one above.
    #[must_use]
    pub fn is_outdated(&self, directory: &Path) -> bool {
        directory.ancestors().any(|above| self.outdated.iter().any(|own| Path::new(own) == above))
    }

    /// Returns whether trust covers a file with this content. `identify` returns the identity of
    /// the directory that is at a path now. The path must be canonical up to the file's project
    /// directory.
    ///
    /// # Errors
    /// Returns why it does not.
    pub fn covers(
        &self,
        file: &Path,
        content: &[u8],
        identify: impl Fn(&Path) -> Option<DirectoryId>,
    ) -> Result<(), UntrustedReason> {
        let digest = Self::digest(content);
        let mut why = None;
        for entry in file.parent().into_iter().flat_map(|above| self.entries_above(above)) {
            let recorded = relative(file, entry).and_then(|name| entry.files.get(&name));
            let is_same_directory = entry.id == identify(&entry.directory);
            let found = match recorded {
                _ if !is_same_directory => UntrustedReason::Replaced,
                Some(known) if *known == digest => return Ok(()),
                Some(_) => UntrustedReason::Changed,
                None => UntrustedReason::New,
            };
            why.get_or_insert(found); // the nearest entry says it best
        }
        Err(why.unwrap_or(UntrustedReason::Untrusted))
    }

    /// Makes a file covered with the digest of what was just written to it, in the nearest entry
    /// that its directory is trusted by. Returns whether there is one.
    pub fn record(
        &mut self,
        file: &Path,
        content: &[u8],
        identify: impl Fn(&Path) -> Option<DirectoryId>,
    ) -> bool {
        let Some(above) = file.parent() else { return false };
        let Some(entry) = self.trusted_by(above, identify) else { return false };
        let (Some(name), Some(key)) = (relative(file, entry), entry.directory.to_str()) else {
            return false;
        };
        let key = key.to_owned();
        let Some(entry) = self.entries.get_mut(&key) else { return false };
        entry.files.insert(name, Self::digest(content));
        true
    }

    /// Trusts a directory and the files that the entry lists. Returns whether that changed
    /// anything.
    ///
    /// # Errors
    /// Fails if the path is not canonical, or if the entry cannot be stored.
    pub fn add(&mut self, entry: TrustEntry) -> Result<bool, Error> {
        let before = self.clone();
        let wrong = |why: String| Error::new(ErrorKind::BadConfig, why);
        let changed = self.insert(entry).map_err(wrong)?;
        if self.to_text().len() > MAX_FILE {
            *self = before;
            return Err(wrong("the list of trusted directories is full".to_owned())
                .hint("remove a directory with `haft trust --revoke DIR`"));
        }
        Ok(changed)
    }

    /// Removes a directory. Returns whether it was listed. A directory above it may still make it
    /// trusted, see [`entries_above`](Self::entries_above).
    pub fn remove(&mut self, directory: &Path) -> bool {
        let before = self.entries.len() + self.outdated.len();
        self.outdated.retain(|own| Path::new(own) != directory);
        self.entries.retain(|own, _| Path::new(own) != directory);
        self.entries.len() + self.outdated.len() < before
    }

    /// Returns all entries.
    pub fn entries(&self) -> impl Iterator<Item = &TrustEntry> {
        self.entries.values()
    }

    /// Returns whether an entry lists a file, whatever its content is now.
    #[must_use]
    pub fn lists(&self, file: &Path) -> bool {
        let mut above = file.parent().into_iter().flat_map(|above| self.entries_above(above));
        above.any(|entry| relative(file, entry).is_some_and(|name| entry.files.contains_key(&name)))
    }

    /// Returns all directories.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        self.entries.keys().map(Path::new)
    }

    /// Returns the text of the trust file.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text =
            "# Written by `haft trust`: directories whose configuration may allow calls, \
                        and the files that were shown.\n"
                .to_owned();
        // Checked in `add`, so everything can be quoted.
        let quote = |text: &str| quoted(text).unwrap_or_else(|| "\"\"".to_owned());
        if !self.outdated.is_empty() {
            let list: Vec<String> = self.outdated.iter().map(|own| quote(own)).collect();
            text.push_str(&format!("outdated = [{}]\n", list.join(", ")));
        }
        for (directory, entry) in &self.entries {
            text.push_str(&format!("\n[[trusted]]\ndirectory = {}\n", quote(directory)));
            if let Some(DirectoryId { device, inode }) = entry.id {
                text.push_str(&format!("device = \"{device}\"\ninode = \"{inode}\"\n"));
            }
            text.push_str("[trusted.files]\n");
            for (name, digest) in &entry.files {
                text.push_str(&format!("{} = {}\n", quote(name), quote(digest)));
            }
        }
        text
    }

    fn insert(&mut self, mut entry: TrustEntry) -> Result<bool, String> {
        let text = check(&entry.directory)?;
        entry.directory = PathBuf::from(&text);
        for (name, digest) in &entry.files {
            if name.contains(char::is_control) || !is_digest(digest) {
                return Err(format!("{name:?} has a name or a digest that cannot be stored"));
            }
        }
        if self.entries.len() >= MAX_ENTRIES || entry.files.len() > MAX_ENTRIES {
            return Err(format!("the trust file has more than {MAX_ENTRIES} directories or files"));
        }
        self.outdated.retain(|own| *own != text);
        let before = self.entries.insert(text, entry.clone());
        Ok(before != Some(entry))
    }
}

/// Reads one entry.
fn entry(node: &Node, reader: &mut Reader<'_>) -> Option<TrustEntry> {
    let fields = reader.table(node, "a trusted directory", ENTRY_KEYS)?;
    let Some(directory) = fields.get("directory") else {
        reader.wrong(node.at, "an entry without `directory`", "entries are made by `haft trust`");
        return None;
    };
    let mut entry = TrustEntry::new(reader.text(directory, "`directory`")?, None);
    let mut number = |key: &str| {
        let node = fields.get(key)?;
        let text = reader.text(node, &format!("`{key}`"))?;
        let number = text.parse::<u64>().ok();
        if number.is_none() {
            reader.wrong(node.at, format!("`{key}` is not a number"), "run `haft trust` again");
        }
        number
    };
    let (device, inode) = (number("device"), number("inode"));
    entry.id = device.zip(inode).map(|(device, inode)| DirectoryId { device, inode });
    entry.files = fields.map(reader, "files", String::from_node);
    Some(entry)
}

/// The path of a file below an entry's directory, as the entry lists it.
fn relative(file: &Path, entry: &TrustEntry) -> Option<String> {
    Some(file.strip_prefix(&entry.directory).ok()?.to_str()?.to_owned())
}

fn is_digest(text: &str) -> bool {
    let hex = text.strip_prefix("sha256:");
    hex.is_some_and(|hex| hex.len() == 64 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Checks that a path can be stored.
fn check(directory: &Path) -> Result<String, String> {
    let shown = directory.display();
    let plain: PathBuf = directory.components().collect();
    let steps =
        directory.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir));
    if !directory.is_absolute() || steps {
        return Err(format!("`{shown}` is not an absolute path of a directory"));
    }
    if plain.parent().is_none() {
        return Err(format!("`{shown}` contains every directory; trust one of them"));
    }
    match plain.to_str() {
        Some(text) if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(format!("`{shown}` has a name that cannot be stored")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: DirectoryId = DirectoryId { device: 1, inode: u64::MAX };

    fn same(_: &Path) -> Option<DirectoryId> {
        Some(ID)
    }

    fn entry(directory: &str, files: &[(&str, &str)]) -> TrustEntry {
        let mut entry = TrustEntry::new(directory, Some(ID));
        for (name, text) in files {
            entry.files.insert((*name).to_owned(), TrustedDirs::digest(text.as_bytes()));
        }
        entry
    }

    fn dirs(directories: &[&str]) -> TrustedDirs {
        let mut dirs = TrustedDirs::default();
        for directory in directories {
            dirs.add(entry(directory, &[("haft.toml", "a"), ("sub/haft.toml", "b")])).unwrap();
        }
        dirs
    }

    #[test]
    fn directory_is_trusted_with_its_subdirectories_only() {
        let dirs = dirs(&["/home/me/work", "/srv"]);
        for (path, is) in [
            ("/home/me/work", true),
            ("/home/me/work/", true),
            ("/home/me/work/a/b", true),
            ("/srv/x", true),
            ("/home/me/work-evil", false),
            ("/home/me", false),
            ("/", false),
            ("home/me/work", false),
            ("/home/me/work/../other", false),
            ("/other/../srv", false),
        ] {
            assert_eq!(dirs.trusted_by(Path::new(path), same).is_some(), is, "{path}");
        }
        let found = dirs.trusted_by(Path::new("/srv/x/y"), same).unwrap();
        assert_eq!(found.directory, Path::new("/srv"));
        assert!(dirs.trusted_by(Path::new("/srv"), |_| None).is_none(), "it was replaced");
    }

    #[test]
    fn trust_covers_shown_files_and_no_new_or_changed_ones() {
        let dirs = dirs(&["/w"]);
        let covers = |file: &str, text: &str| dirs.covers(Path::new(file), text.as_bytes(), same);
        assert_eq!(covers("/w/haft.toml", "a"), Ok(()));
        assert_eq!(covers("/w/sub/haft.toml", "b"), Ok(()));
        assert_eq!(covers("/w/haft.toml", "b"), Err(UntrustedReason::Changed));
        assert_eq!(covers("/w/haft.local.toml", "a"), Err(UntrustedReason::New));
        assert_eq!(covers("/w/sub/sub/haft.toml", "b"), Err(UntrustedReason::New));
        assert_eq!(covers("/v/haft.toml", "a"), Err(UntrustedReason::Untrusted));
        let replaced = dirs.covers(Path::new("/w/haft.toml"), b"a", |_| None);
        assert_eq!(replaced, Err(UntrustedReason::Replaced));
    }

    #[test]
    fn any_entry_above_may_cover_and_the_nearest_gives_the_reason() {
        let mut dirs = dirs(&["/w"]);
        dirs.add(entry("/w/sub", &[("haft.toml", "c")])).unwrap();
        let covers = |text: &str| dirs.covers(Path::new("/w/sub/haft.toml"), text.as_bytes(), same);
        assert_eq!((covers("b"), covers("c")), (Ok(()), Ok(())));
        assert_eq!(covers("d"), Err(UntrustedReason::Changed));
    }

    #[test]
    fn recorded_file_is_covered_only_in_a_trusted_directory() {
        let mut dirs = dirs(&["/w"]);
        let file = Path::new("/w/haft.local.toml");
        assert!(!dirs.record(file, b"x", |_| None), "the directory was replaced");
        assert!(dirs.record(file, b"x", same));
        assert_eq!(dirs.covers(file, b"x", same), Ok(()));
        assert_eq!(dirs.covers(file, b"y", same), Err(UntrustedReason::Changed));
        assert!(!dirs.record(Path::new("/v/haft.local.toml"), b"x", same));
    }

    #[test]
    fn trust_file_round_trips() {
        let mut dirs = dirs(&["/a \"b\"\\c", "/ü/ö", "/a"]);
        dirs.add(TrustEntry::new("/none", None)).unwrap();
        assert_eq!(TrustedDirs::parse(&dirs.to_text()).unwrap(), dirs);
        assert_eq!(TrustedDirs::parse("").unwrap(), TrustedDirs::default());
    }

    #[test]
    fn older_trust_file_trusts_nothing_and_is_reported() {
        let mut dirs = TrustedDirs::parse("trusted = [\"/a\", \"/b\"]\n").unwrap();
        assert!(dirs.trusted_by(Path::new("/a"), same).is_none());
        assert!(dirs.is_outdated(Path::new("/a/deep")) && !dirs.is_outdated(Path::new("/c")));
        dirs.add(entry("/a", &[])).unwrap();
        assert!(!dirs.is_outdated(Path::new("/a")) && dirs.is_outdated(Path::new("/b")));
        assert_eq!(TrustedDirs::parse(&dirs.to_text()).unwrap(), dirs);
    }

    #[test]
    fn removing_a_directory_keeps_its_parents() {
        let mut dirs = dirs(&["/a", "/a/b"]);
        assert!(dirs.remove(Path::new("/a/b")));
        assert!(!dirs.remove(Path::new("/a/b")));
        let above = dirs.trusted_by(Path::new("/a/b"), same).unwrap();
        assert_eq!(above.directory, Path::new("/a"));
    }

    #[test]
    fn entry_that_cannot_be_stored_is_refused() {
        let mut dirs = TrustedDirs::default();
        for directory in ["/", "", "a", "./a", "/a/../b", "/a\nb"] {
            assert!(dirs.add(entry(directory, &[])).is_err(), "{directory:?}");
        }
        let mut odd = entry("/a", &[]);
        odd.files.insert("haft.toml".to_owned(), "sha256:12".to_owned());
        assert!(dirs.add(odd).is_err());
        let mut long = entry("/a", &[]);
        for n in 0..9_999 {
            long.files.insert(format!("{n}/{}", "x".repeat(100)), TrustedDirs::digest(b""));
        }
        assert!(dirs.add(long).is_err(), "it could not be read again");
        assert_eq!(dirs, TrustedDirs::default());
    }

    #[test]
    fn invalid_trust_file_reports_every_mistake() {
        let error = TrustedDirs::parse("trusted = [\n 1,\n \"x\",\n]\ntrust = []\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("trust.toml:2:2: a trusted directory must be a table"), "{text}");
        assert!(text.contains("trust.toml:3:2: `x` is not an absolute path"), "{text}");
        assert!(text.contains("trust.toml:5:1: unknown key `trust`"), "{text}");
        assert!(TrustedDirs::parse("trusted = [").is_err());
        let entry = "[[trusted]]\ndirectory = \"/a\"\ndevice = \"x\"\n[trusted.files]\nf = \"1\"\n";
        let text = TrustedDirs::parse(entry).unwrap_err().to_string();
        assert!(text.contains("`device` is not a number"), "{text}");
    }
}
