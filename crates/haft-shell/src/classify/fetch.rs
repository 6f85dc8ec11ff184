//! Commands that download from the network, and the files that they save.

use crate::{RedirectKind, SimpleCommand, Word, WordPiece, interpreters::without_prefix};

/// Programs that print or save what another host sends.
const FETCHERS: &str = "curl wget wget2 fetch aria2c axel GET lwp-request http https httpie xh curlie lynx \
    w3m links elinks nc ncat netcat socat telnet ftp sftp tftp lftp ssh scp rsh dig nslookup drill gh \
    glab aws gcloud gsutil az rclone s3cmd svn";

/// Returns the program of a command if it downloads from the network.
pub(super) fn fetcher(command: &SimpleCommand) -> Option<&str> {
    let name = command.words.first().and_then(Word::literal)?;
    let word = |n: usize| command.words.get(n).and_then(Word::literal);
    let is_fetcher = FETCHERS.split_whitespace().any(|own| own == name)
        || name == "openssl" && word(1) == Some("s_client")
        || name == "rsync"
            && command
                .words
                .iter()
                .skip(1)
                .filter_map(Word::literal)
                .any(|text| text.contains(':'));
    let opens = command.redirects.iter().any(|redirect| redirect.reaches().is_some());
    (is_fetcher || opens).then_some(name)
}

/// A file name without its directory; `None` if it is known only at run time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileName(Option<String>);

impl FileName {
    /// Returns the file name in a word.
    pub(super) fn of(word: &Word) -> Self {
        let Some(WordPiece::Text(last)) = word.pieces.last() else { return Self(None) };
        match last.rsplit_once('/') {
            Some((_, base)) if !base.is_empty() => Self(Some(base.to_owned())),
            _ if word.pieces.len() == 1 && !last.is_empty() => Self(Some(last.clone())),
            _ => Self(None),
        }
    }

    /// Returns whether this saved file may be the executed one. An unknown executed name may be any
    /// file; a known one is not assumed to be a file saved under an unknown name.
    pub(super) fn may_be(&self, run: &Self) -> bool {
        match (&self.0, &run.0) {
            (Some(own), Some(run)) => own == run,
            (_, None) => true,
            (None, Some(_)) => false,
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.0.is_some()
    }
}

/// Returns the files to which a command saves its output or download.
pub(super) fn saved(command: &SimpleCommand) -> Vec<FileName> {
    let is_write = |kind| matches!(kind, RedirectKind::Write | RedirectKind::ReadWrite);
    let redirects = command.redirects.iter().filter(|r| is_write(r.kind) && !r.is_harmless());
    let mut found: Vec<FileName> = redirects.map(|r| FileName::of(&r.target)).collect();
    let words = command.words.get(1..).unwrap_or_default();
    let Some(name) = command.words.first().and_then(Word::literal) else { return found };
    let is_operand = |word: &&Word| !word.literal().is_some_and(|text| text.starts_with('-'));
    match name {
        "tee" | "sponge" => found.extend(words.iter().filter(is_operand).map(FileName::of)),
        "cp" | "mv" | "install" | "ln" | "scp" | "rsync" => {
            found.extend(words.last().map(FileName::of));
        }
        _ if fetcher(command).is_some() => fetched(words, &mut found),
        _ => {}
    }
    found
}

/// Adds the file names in the words of a downloader, and those it derives from the URL.
///
/// Too many names do no harm: a name counts only if a file of this name is executed.
fn fetched(words: &[Word], found: &mut Vec<FileName>) {
    for (at, word) in words.iter().enumerate() {
        let Some(WordPiece::Text(text)) = word.pieces.first() else { continue };
        let value = |behind: usize| match without_prefix(word, behind) {
            attached if attached.pieces.is_empty() => words.get(at + 1).cloned(),
            attached => Some(attached),
        };
        if text.starts_with("--") {
            // Some programs accept any unambiguous prefix of a long option.
            if text.starts_with("--out") {
                let behind = text.find('=').map_or(text.len(), |equals| equals + 1);
                found.extend(value(behind).as_ref().map(FileName::of));
            }
        } else if text.starts_with('-') {
            // In a cluster (`-fsSLo y`, `-qOy`) the text after the letter is the file.
            for (letter, _) in text.match_indices(['o', 'O']) {
                found.extend(value(letter + 1).as_ref().map(FileName::of));
            }
        } else if word.pieces.len() == 1 {
            found.extend(remote_names(text).map(|name| FileName(Some(name.to_owned()))));
        }
    }
}

/// Returns the names that a downloader derives from a URL: `wget http://x/install.sh` saves
/// `install.sh`, and `wget http://x` saves `index.html`.
fn remote_names(address: &str) -> impl Iterator<Item = &str> {
    let path = address.split(['?', '#']).next().unwrap_or_default();
    let plain = path.rsplit('/').next().unwrap_or_default();
    let with_query = address.get(path.len() - plain.len()..).unwrap_or_default();
    // A word without `/` may be a local file that is uploaded.
    let named = path.contains('/').then_some([plain, with_query]);
    let has_path = path.split_once("://").map_or(path, |(_, rest)| rest).contains('/');
    let index = (plain.is_empty() || !has_path).then_some("index.html");
    named.into_iter().flatten().filter(|name| !name.is_empty()).chain(index)
}

/// Returns whether a command names one of these files after its own name, or reads it.
pub(super) fn names_any_of(command: &SimpleCommand, files: &[FileName]) -> bool {
    let is_read = |kind| matches!(kind, RedirectKind::Read | RedirectKind::ReadWrite);
    let read = command.redirects.iter().filter(|r| is_read(r.kind)).map(|r| &r.target);
    command.words.iter().skip(1).chain(read).map(FileName::of).any(|name| {
        name.is_known() && files.iter().any(|file| file.is_known() && file.may_be(&name))
    })
}
