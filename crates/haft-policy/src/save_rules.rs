//! Writes the rules of an "always" answer to their file, atomically.
//!
//! In: the suggested rules that a person approved. Out: the file with one more `[[rule]]` block for
//! each missing rule, everything else unchanged byte for byte.
//!
//! This is the only module of the library that writes configuration. The person was shown the rule
//! and the file; the path comes from the host, never from a model. The new text is written to a
//! temporary file and then renamed, so a failed write leaves the old file.
//!
//! INVARIANT: a valid file stays valid, and means the same plus the rules that were shown.

use std::{
    fmt, fs,
    io::{self, Write},
    path::{Path, PathBuf},
};

use haft_core::{Decision, Error, ErrorKind};

use super::{
    SuggestedRules,
    files::{self, ConfigFile, FileFormat, LoadOptions, MAX_FILE, PolicyConfig, Symlinks},
    request::Subject,
    rule::{ConfigLayer, Rule},
    toml_string::quoted,
};

/// The reason in the file. No date: the same answer writes the same text.
const REASON: &str = "a person allowed this permanently";

/// A pending write of an "always" rule. A host that records which files it trusts checks the old
/// content, commits the write, and records the new content.
///
/// Dropped without a commit, nothing is written.
pub struct RuleWrite<'a> {
    file: &'a Path,
    before: Option<&'a str>,
    after: &'a str,
    commit: Box<dyn FnOnce() -> Result<(), Error> + 'a>,
}

impl RuleWrite<'_> {
    /// Returns the file that is written.
    #[must_use]
    pub fn file(&self) -> &Path {
        self.file
    }

    /// Returns its current content; `None` if it does not exist.
    #[must_use]
    pub fn before(&self) -> Option<&str> {
        self.before
    }

    /// Returns its new content.
    #[must_use]
    pub fn after(&self) -> &str {
        self.after
    }

    /// Writes it.
    ///
    /// # Errors
    /// Fails if it cannot be written, or if its content is no longer [`before`](Self::before).
    pub fn commit(self) -> Result<(), Error> {
        (self.commit)()
    }
}

impl fmt::Debug for RuleWrite<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleWrite").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The host's callback around the write.
pub(super) type Recorder = dyn Fn(RuleWrite<'_>) -> Result<(), Error> + Send + Sync;

/// Writes the suggested rules to their file, unless they are there.
pub(super) fn save(
    offer: &SuggestedRules,
    home: Option<&Path>,
    recorder: Option<&Recorder>,
) -> Result<(), Error> {
    let wrong = |why: &str| {
        Error::new(ErrorKind::BadConfig, format!("{} was not written: {why}", offer.file.display()))
    };
    let directory = match offer.file.parent() {
        Some(directory) if offer.file.is_absolute() => directory,
        _ => return Err(wrong("its path is not absolute")),
    };
    if offer.file.extension().is_none_or(|extension| extension != "toml") {
        return Err(wrong("rules are stored in a `.toml` file"));
    }
    let old = read(&offer.file).map_err(|e| wrong(e.message()).because(e))?;
    let text = match &old {
        Some(old) => {
            std::str::from_utf8(old).map_err(|e| wrong("it is not UTF-8 text").because(e))?
        }
        None => "",
    };
    let Some(new) = appended(text, offer, directory, home)? else { return Ok(()) };
    let write = RuleWrite {
        file: &offer.file,
        before: old.as_ref().map(|_| text),
        after: &new,
        commit: Box::new(|| {
            let written = replace(&offer.file, directory, old.as_deref(), &new);
            written.map_err(|e| wrong(&e.to_string()).because(e))
        }),
    };
    match recorder {
        Some(recorder) => recorder(write),
        None => write.commit(),
    }
}

/// Returns the text with the missing rules appended; `None` if none is missing.
fn appended(
    old: &str,
    offer: &SuggestedRules,
    directory: &Path,
    home: Option<&Path>,
) -> Result<Option<String>, Error> {
    let wrong = |why: String| Error::new(ErrorKind::BadConfig, why);
    let before = rules(old, offer, directory, home)?;
    let mut lacking: Vec<&String> = Vec::new();
    for rule in &offer.rules {
        if !lacking.contains(&rule) && !before.iter().any(|there| is_same(there, rule)) {
            lacking.push(rule);
        }
    }
    if lacking.is_empty() {
        return Ok(None);
    }
    let end = if old.contains("\r\n") { "\r\n" } else { "\n" };
    let mut new = old.to_owned();
    if !new.is_empty() && !new.ends_with('\n') {
        new.push_str(end);
    }
    for rule in &lacking {
        let text =
            quoted(rule).ok_or_else(|| wrong(format!("{rule:?} contains invisible characters")))?;
        if !new.is_empty() {
            new.push_str(end);
        }
        let lines =
            ["[[rule]]".to_owned(), format!("match = {text}"), "decision = \"allow\"".to_owned()];
        for line in lines.into_iter().chain([format!("reason = \"{REASON}\"")]) {
            new.push_str(&line);
            new.push_str(end);
        }
    }
    // FAIL CLOSED: the text is written only if it parses to the old rules plus the ones that were
    // shown.
    let after = rules(&new, offer, directory, home)?;
    let added = after.get(before.len()..).unwrap_or(&[]);
    let as_shown = added.len() == lacking.len()
        && added.iter().zip(&lacking).all(|(rule, text)| is_same(rule, text));
    if as_shown {
        Ok(Some(new))
    } else {
        Err(wrong("the saved rules would differ from the ones that were shown".to_owned()))
    }
}

/// Parses the rules of a text as those of the target file.
fn rules(
    text: &str,
    offer: &SuggestedRules,
    directory: &Path,
    home: Option<&Path>,
) -> Result<Vec<Rule>, Error> {
    let file = ConfigFile {
        layer: ConfigLayer::Local,
        form: FileFormat::Toml,
        path: offer.file.clone(),
        anchor: directory.to_owned(),
        text: text.to_owned(),
    };
    let location =
        LoadOptions { home: home.map(Path::to_owned), trusted: true, ..LoadOptions::default() };
    Ok(PolicyConfig::read(&[file], &location)?.rules)
}

/// Whether a rule allows exactly this, without conditions.
fn is_same(rule: &Rule, text: &str) -> bool {
    rule.decision == Decision::Allow
        && rule.matches.len() == 1
        && rule.matches.iter().all(|pattern| pattern.as_str() == text)
        && rule.except.is_empty()
        && rule.rewrite.is_empty()
        && rule.network.is_none()
        && rule.subject == Subject::Any
        && rule.enabled
}

/// Reads a regular file that is not a symlink. `None` if it does not exist.
fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    files::read(path, Symlinks::Refuse, MAX_FILE)
}

/// Replaces the content atomically.
fn replace(path: &Path, directory: &Path, old: Option<&[u8]>, new: &str) -> io::Result<()> {
    let (temporary, mut file) = open_temporary(path, directory)?;
    let written = (|| {
        file.write_all(new.as_bytes())?;
        if old.is_some() {
            file.set_permissions(fs::symlink_metadata(path)?.permissions())?;
        }
        file.sync_all()?;
        // The file may have been edited in the meantime; that edit must not be lost.
        if read(path).map_err(io::Error::other)?.as_deref() != old {
            return Err(io::Error::other("it changed in the meantime; try again"));
        }
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// Creates a temporary file next to another one, readable only by its owner.
fn open_temporary(path: &Path, directory: &Path) -> io::Result<(PathBuf, fs::File)> {
    const MAX_TRIES: u32 = 16;
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("rules");
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut last = None;
    for n in 0..MAX_TRIES {
        let temporary = directory.join(format!(".{name}.{}-{n}.new", std::process::id()));
        match options.open(&temporary) {
            Ok(file) => return Ok((temporary, file)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => last = Some(e),
            Err(e) => return Err(e),
        }
    }
    Err(last.unwrap_or_else(|| io::Error::other("no free name for a temporary file next to it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(rules: &[&str]) -> SuggestedRules {
        SuggestedRules {
            rules: rules.iter().map(|&rule| rule.to_owned()).collect(),
            file: "/w/haft.local.toml".into(),
        }
    }

    fn append(old: &str, rules: &[&str]) -> Result<Option<String>, Error> {
        appended(old, &offer(rules), Path::new("/w"), None)
    }

    #[test]
    fn rule_is_appended_and_the_rest_is_unchanged() {
        let old = "# mine\n[defaults]\nmode   = \"plan\" # odd  spacing";
        let new = append(old, &["Bash(git push origin *)"]).unwrap().unwrap();
        assert!(new.starts_with(old));
        insta::assert_snapshot!(new, @r#"
        # mine
        [defaults]
        mode   = "plan" # odd  spacing

        [[rule]]
        match = "Bash(git push origin *)"
        decision = "allow"
        reason = "a person allowed this permanently"
        "#);
    }

    #[test]
    fn the_same_rule_is_not_written_twice() {
        let once = append("", &["Bash(ls)", "Bash(ls)"]).unwrap().unwrap();
        assert_eq!(once.matches("[[rule]]").count(), 1);
        assert_eq!(append(&once, &["Bash(ls)"]).unwrap(), None);
        let narrower = once.replace("reason", "except = \"Bash(ls x)\"\nreason");
        assert!(append(&narrower, &["Bash(ls)"]).unwrap().is_some());
        let other = append(&once, &["Bash(ls)", "Bash(pwd)"]).unwrap().unwrap();
        assert_eq!(other.matches("[[rule]]").count(), 2);
    }

    #[test]
    fn crlf_line_endings_are_kept() {
        let new = append("[defaults]\r\n", &["Bash(ls)"]).unwrap().unwrap();
        assert!(!new.replace("\r\n", "").contains(['\r', '\n']), "{new:?}");
        assert_eq!(append(&new, &["Bash(ls)"]).unwrap(), None);
    }

    #[test]
    fn invalid_rule_file_is_never_written() {
        for old in ["[defaults", "what = 1\n", "[defaults]\ntext = \"\"\"\n", "rule = []\n"] {
            assert!(append(old, &["Bash(ls)"]).is_err(), "{old}");
        }
        assert!(append("", &["Bash(ls\u{7}"]).is_err());
        assert!(append("", &["Bash(a\nb)"]).is_err());
    }
}
