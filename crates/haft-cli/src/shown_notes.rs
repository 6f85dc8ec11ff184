//! Remembers which notes about configuration files a person has seen, so that each is printed once.
//!
//! In: notes, and a digest of the files that they are about. Out: the notes that were not printed
//! before. A note is printed again after any of the files has changed. Without a state directory,
//! or if it cannot be written, every note is printed every time.

use std::{
    collections::BTreeSet,
    fs::{self, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use haft::policy::ConfigFile;
use sha2::{Digest as _, Sha256};

/// The name of the list in the state directory.
const FILE: &str = "notes-shown";
/// A longer list is forgotten: its notes are printed once more.
const MAX_BYTES: u64 = 256 << 10;

/// The notes that were printed before, about files with this content.
#[derive(Debug, Clone)]
pub(crate) struct ShownNotes {
    list: Option<PathBuf>,
    files: [u8; 32],
}

impl ShownNotes {
    /// Opens the list of the user for notes about these files. Nothing is read yet.
    pub(crate) fn open(state: Option<&Path>, files: &[ConfigFile]) -> Self {
        let mut digest = Sha256::new();
        for file in files {
            let path = file.path.as_os_str().as_encoded_bytes();
            for part in [path, file.text.as_bytes()] {
                digest.update((part.len() as u64).to_be_bytes());
                digest.update(part);
            }
        }
        Self { list: state.map(|state| state.join(FILE)), files: digest.finalize().into() }
    }

    /// Returns the notes that were not printed before, and remembers them.
    pub(crate) fn new_ones(&self, notes: Vec<String>) -> Vec<String> {
        let Some(list) = self.list.as_ref().filter(|_| !notes.is_empty()) else { return notes };
        let known = read(list);
        let (mut fresh, mut lines) = (Vec::new(), String::new());
        for note in notes {
            let key = self.key(&note);
            if !known.contains(&key) {
                lines += &format!("{key}\n");
                fresh.push(note);
            }
        }
        if !lines.is_empty() {
            // An unwritable list means that the notes are printed again.
            let _ = append(list, &lines);
        }
        fresh
    }

    fn key(&self, note: &str) -> String {
        let digest = Sha256::new().chain_update(self.files).chain_update(note).finalize();
        digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn read(list: &Path) -> BTreeSet<String> {
    match fs::metadata(list) {
        Ok(meta) if meta.is_file() && meta.len() <= MAX_BYTES => {
            let text = fs::read(list).unwrap_or_default();
            String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
        }
        Ok(meta) if meta.is_file() => {
            let _ = fs::remove_file(list);
            BTreeSet::new()
        }
        _ => BTreeSet::new(),
    }
}

fn append(list: &Path, lines: &str) -> io::Result<()> {
    if let Some(directory) = list.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(list)?.write_all(lines.as_bytes())
}

#[cfg(test)]
mod tests {
    use haft::policy::{ConfigLayer, FileFormat};

    use super::*;

    #[test]
    fn note_is_printed_once_until_a_file_changes() {
        let state = std::env::temp_dir().join(format!("haft-notes-{}", std::process::id()));
        let file = |text: &str| ConfigFile {
            layer: ConfigLayer::Project,
            form: FileFormat::Toml,
            path: "/w/haft.toml".into(),
            anchor: "/w".into(),
            text: text.to_owned(),
        };
        let notes = |text: &str| {
            let shown = ShownNotes::open(Some(&state), &[file(text)]);
            shown.new_ones(vec!["one".to_owned(), "two".to_owned()]).len()
        };
        assert_eq!((notes("a"), notes("a"), notes("b"), notes("a")), (2, 0, 2, 0));
        let nowhere = ShownNotes::open(None, &[]);
        assert_eq!(nowhere.new_ones(vec!["one".to_owned()]), ["one"]);
        fs::remove_dir_all(&state).unwrap();
    }
}
