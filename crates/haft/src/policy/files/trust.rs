//! The folders a person trusts: a small file among the person's own settings.
//!
//! ```toml
//! # Written by `haft trust`.
//! trusted = ["/home/me/work"]
//! ```
//!
//! A folder is trusted if it, or a folder above it, stands in the book. Folders stand there by their
//! canonical path, so a link cannot lend its name. A book that cannot be read trusts nobody.

use std::path::{Component, Path, PathBuf};

use super::{MAX_FILE, mistake::Mistakes, node::Reader, source::Source, toml};
use crate::{
    error::{Error, ErrorKind},
    policy::keep::quoted,
};

/// The folders a person trusts.
///
/// ```
/// use std::path::Path;
///
/// let mut book = haft::TrustBook::default();
/// book.add(Path::new("/home/me/work"))?;
/// assert!(book.is_trusted(Path::new("/home/me/work/deep")));
/// assert!(!book.is_trusted(Path::new("/home/me/works")));
/// assert_eq!(haft::TrustBook::parse(&book.to_text())?, book);
/// # Ok::<(), haft::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TrustBook {
    /// Sorted, each once.
    folders: Vec<String>,
}

/// More folders than anybody works in.
const MOST: usize = 10_000;

impl TrustBook {
    /// The name of its file.
    pub const FILE: &'static str = "trust.toml";

    /// Reads a book. An empty text is an empty book.
    ///
    /// # Errors
    /// Fails with every mistake. Whoever goes on without it goes on with `TrustBook::default()`,
    /// which trusts nobody.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let source = Source::new(Path::new(Self::FILE), text);
        let mut mistakes = Mistakes::default();
        let mut book = Self::default();
        if text.len() > MAX_FILE {
            mistakes.add(source.place(0), || ("the book is too long to be one".to_owned(), None));
        } else if let Some(root) = toml::parse(&source, &mut mistakes) {
            let mut reader = Reader { source: &source, mistakes: &mut mistakes };
            let folders = reader
                .table(&root, "the book", &["trusted"])
                .and_then(|fields| fields.get("trusted"))
                .and_then(|node| reader.list(node, "`trusted`"));
            for node in folders.unwrap_or(&[]) {
                let Some(text) = reader.text(node, "a folder") else { continue };
                if let Err(why) = book.insert(Path::new(text)) {
                    reader.wrong(node.at, why, "folders are added with `haft trust`");
                }
            }
        }
        match mistakes.into_error() {
            Some(error) => Err(error),
            None => Ok(book),
        }
    }

    /// Returns whether a folder is trusted. The path must be canonical.
    #[must_use]
    pub fn is_trusted(&self, folder: &Path) -> bool {
        self.trusted_by(folder).is_some()
    }

    /// Returns the entry that makes a folder trusted: itself, or a folder above it.
    #[must_use]
    pub fn trusted_by(&self, folder: &Path) -> Option<&Path> {
        let plain = check(folder).ok()?;
        Path::new(&plain).ancestors().find_map(|above| {
            let text = above.to_str()?;
            let at = self.folders.binary_search_by(|own| (**own).cmp(text)).ok()?;
            Some(Path::new(&self.folders[at]))
        })
    }

    /// Trusts a folder and what is below it. Returns whether it was not in the book yet.
    ///
    /// # Errors
    /// Fails when the path is not canonical, or is one that a book cannot hold.
    pub fn add(&mut self, folder: &Path) -> Result<bool, Error> {
        self.insert(folder).map_err(|why| Error::new(ErrorKind::BadConfig, why))
    }

    /// Takes a folder out of the book. Returns whether it was there; a folder above it may still
    /// make it trusted, see [`trusted_by`](Self::trusted_by).
    pub fn remove(&mut self, folder: &Path) -> bool {
        let before = self.folders.len();
        self.folders.retain(|own| Path::new(own) != folder);
        self.folders.len() < before
    }

    /// Returns the folders in the book.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(Path::new)
    }

    /// Returns it as it is written.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text =
            "# Written by `haft trust`: folders whose files may allow calls.\n".to_owned();
        text.push_str("trusted = [\n");
        for folder in &self.folders {
            // Checked when it was added, so that there is nothing to escape that cannot be.
            if let Some(folder) = quoted(folder) {
                text.push_str(&format!("  {folder},\n"));
            }
        }
        text.push_str("]\n");
        text
    }

    fn insert(&mut self, folder: &Path) -> Result<bool, String> {
        let text = check(folder)?;
        if self.folders.len() >= MOST {
            return Err(format!("the book has {MOST} folders, and that is enough"));
        }
        match self.folders.binary_search(&text) {
            Ok(_) => Ok(false),
            Err(at) => {
                self.folders.insert(at, text);
                Ok(true)
            }
        }
    }
}

/// Takes a path that can stand in a book.
fn check(folder: &Path) -> Result<String, String> {
    let shown = folder.display();
    let plain: PathBuf = folder.components().collect();
    let steps =
        folder.components().any(|part| matches!(part, Component::ParentDir | Component::CurDir));
    if !folder.is_absolute() || steps {
        return Err(format!("`{shown}` is not the whole path of a folder"));
    }
    if plain.parent().is_none() {
        return Err(format!("`{shown}` holds every folder there is; trust one of them"));
    }
    match plain.to_str() {
        Some(text) if !text.contains(char::is_control) => Ok(text.to_owned()),
        _ => Err(format!("`{shown}` has a name that cannot be written down")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book(folders: &[&str]) -> TrustBook {
        let mut book = TrustBook::default();
        for folder in folders {
            book.add(Path::new(folder)).unwrap();
        }
        book
    }

    #[test]
    fn a_folder_is_trusted_with_what_is_below_and_nothing_beside() {
        let book = book(&["/home/me/work", "/srv"]);
        for (folder, is) in [
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
            assert_eq!(book.is_trusted(Path::new(folder)), is, "{folder}");
        }
        assert_eq!(book.trusted_by(Path::new("/srv/x/y")), Some(Path::new("/srv")));
    }

    #[test]
    fn a_book_survives_being_written_and_read() {
        let book = book(&["/a \"b\"\\c", "/ü/ö", "/a"]);
        assert_eq!(TrustBook::parse(&book.to_text()).unwrap(), book);
        assert_eq!(TrustBook::parse("").unwrap(), TrustBook::default());
    }

    #[test]
    fn removing_a_folder_leaves_those_above() {
        let mut book = book(&["/a", "/a/b"]);
        assert!(book.remove(Path::new("/a/b")));
        assert!(!book.remove(Path::new("/a/b")));
        assert_eq!(book.trusted_by(Path::new("/a/b")), Some(Path::new("/a")));
    }

    #[test]
    fn what_cannot_stand_in_a_book_is_refused() {
        let mut book = TrustBook::default();
        for folder in ["/", "", "a", "./a", "/a/../b", "/a\nb"] {
            assert!(book.add(Path::new(folder)).is_err(), "{folder:?}");
        }
        assert_eq!(book, TrustBook::default());
    }

    #[test]
    fn a_bad_book_is_an_error_with_every_mistake() {
        let error = TrustBook::parse("trusted = [\n 1,\n \"x\",\n]\ntrust = []\n").unwrap_err();
        let text = error.to_string();
        assert!(text.contains("trust.toml:2:2: a folder must be a text"), "{text}");
        assert!(text.contains("trust.toml:3:2: `x` is not the whole path"), "{text}");
        assert!(text.contains("trust.toml:5:1: unknown key `trust`"), "{text}");
        assert!(TrustBook::parse("trusted = [").is_err());
    }
}
