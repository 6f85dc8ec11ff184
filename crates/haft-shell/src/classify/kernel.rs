//! Writes to the kernel or a device through `/proc`, `/sys` and `/dev`.
//!
//! Paths are compared after normalizing `.`, `..` and repeated slashes. Nothing is looked up: a
//! symlink elsewhere is not detected here; the sandbox handles it.

use crate::{RedirectKind, SimpleCommand, Word, WordPiece, classify::shown};

/// Directories with kernel files and devices.
const ROOTS: [&str; 3] = ["dev", "proc", "sys"];

/// Prefixes of harmless devices.
const HARMLESS: [&str; 14] = [
    "null", "zero", "full", "stdin", "stdout", "stderr", "tty", "fd/", "tcp/", "udp/", "pts/",
    "shm/", "random", "urandom",
];

/// Programs that write or link every operand; and some that write their last one.
const WRITE_ALL: &str =
    "tee sponge ln truncate touch chmod chown chgrp chattr setfacl ed ex vi vim nano";
const WRITE_LAST: &str = "cp mv install rsync scp";

/// Programs whose option `-o` or `--output` names an output file. Elsewhere it means other things:
/// `grep -o /sys/x` prints.
const WRITE_OUTPUT: &str = "curl wget wget2 aria2c sort shuf tree iconv uniq cc gcc g++ clang ld as objcopy \
    openssl xz zstd ffmpeg dd dcfldd gpg rustc go tcc";

/// Returns the kernel file or device that a command would write. `directories` are possible start
/// directories of relative paths.
pub(super) fn written(command: &SimpleCommand, directories: &[&str]) -> Option<String> {
    let is_write = |kind| matches!(kind, RedirectKind::Write | RedirectKind::ReadWrite);
    let redirected = command.redirects.iter().filter(|r| is_write(r.kind)).map(|r| &r.target);
    redirected
        .cloned()
        .chain(operands(command))
        .find(|word| is_special(word, directories))
        .map(|word| shown(&word))
}

/// Describes such a write.
pub(super) fn describe(file: &str) -> String {
    if file.contains("/proc") || file.contains("/sys") {
        format!("it writes to the kernel through `{file}`")
    } else {
        format!("it writes to the device `{file}`")
    }
}

/// Returns whether a word names a device with data.
pub(super) fn is_device(word: &Word) -> bool {
    matches!(word.pieces.first(), Some(WordPiece::Text(text)) if text.starts_with("/dev/"))
        && is_special(word, &[])
}

/// Returns the words of a command that name a file it writes.
fn operands(command: &SimpleCommand) -> Vec<Word> {
    let Some(name) = command.words.first().and_then(Word::literal) else { return Vec::new() };
    let is = |list: &str| list.split(' ').any(|own| own == name);
    let words = command.words.get(1..).unwrap_or_default();
    let is_option = |word: &&Word| word.literal().is_some_and(|text| text.starts_with('-'));
    if is(WRITE_ALL) {
        return words.iter().filter(|word| !is_option(word)).cloned().collect();
    }
    if is(WRITE_LAST) {
        let after = |at: usize| words.get(at + 1);
        let target = words.iter().enumerate().filter_map(|(at, word)| match word.literal()? {
            "-t" | "--target-directory" => after(at).cloned(),
            text => text.strip_prefix("--target-directory=").map(Word::text),
        });
        return target.chain(words.last().cloned()).collect();
    }
    // `dd of=x`, `curl -o x`, `sort --output=x`, `sed -i x`.
    let in_place = name.ends_with("sed")
        && words
            .iter()
            .filter_map(Word::literal)
            .any(|t| t.starts_with("-i") || t.starts_with("--in"));
    if !in_place && !WRITE_OUTPUT.split_whitespace().any(|own| own == name) {
        return Vec::new();
    }
    let value = |(at, word): (usize, &Word)| {
        let Some(WordPiece::Text(text)) = word.pieces.first() else { return None };
        if matches!(&**text, "-o" | "-O" | "--output" | "--output-document") {
            return words.get(at + 1).cloned();
        }
        let named = text.starts_with("of=") || text.starts_with("--output");
        match text.split_once('=') {
            Some((option, _)) if named => Some(without_prefix(word, option.len() + 1)),
            _ if in_place && !text.starts_with('-') => Some(word.clone()),
            _ if text.starts_with("-o") || text.starts_with("-O") => Some(without_prefix(word, 2)),
            _ => None,
        }
    };
    words.iter().enumerate().filter_map(value).collect()
}

/// Returns a word without the first bytes of its first piece.
fn without_prefix(word: &Word, bytes: usize) -> Word {
    let mut word = word.clone();
    if let Some(WordPiece::Text(text)) = word.pieces.first_mut() {
        *text = text.get(bytes..).unwrap_or_default().to_owned();
    }
    word
}

/// Returns whether a file is a kernel file or a device with data.
fn is_special(file: &Word, directories: &[&str]) -> bool {
    let Some(WordPiece::Text(start)) = file.pieces.first() else { return false };
    let is_whole = file.pieces.len() == 1;
    if start.starts_with('/') {
        return is_kernel_path(start, is_whole);
    }
    // Path traversal: enough `..` reach the root from any directory.
    let after_parents = start.trim_start_matches("./").trim_start_matches("../");
    start.starts_with("..") && is_kernel_path(&format!("/{after_parents}"), is_whole)
        || directories.iter().any(|own| is_kernel_path(&format!("{own}/{start}"), is_whole))
}

/// Returns whether an absolute path, or a path with this prefix, is such a file.
fn is_kernel_path(path: &str, is_whole: bool) -> bool {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => drop(steps.pop()),
            step => steps.push(step),
        }
    }
    let ends = path.ends_with('/');
    let Some((root, rest)) = steps.split_first() else { return false };
    if rest.is_empty() && !ends {
        // `/d*/sda`, `/pro$x`: the rest may complete the name.
        return ROOTS.iter().any(|own| own == root || !is_whole && own.starts_with(root));
    }
    let mut rest = rest.join("/");
    if ends && !rest.is_empty() {
        rest.push('/');
    }
    match *root {
        "sys" => true,
        // Streams that are already open.
        "proc" => {
            let own = rest.split_once('/').filter(|(process, _)| {
                matches!(*process, "self" | "thread-self" | "$$")
                    || process.bytes().all(|b| b.is_ascii_digit())
            });
            !own.is_some_and(|(_, file)| file.starts_with("fd/"))
        }
        "dev" => {
            (!rest.is_empty() || !is_whole)
                && !HARMLESS
                    .iter()
                    .any(|own| rest.starts_with(own) || own.trim_end_matches('/') == rest)
        }
        _ => false,
    }
}

/// Returns the directory to which a plain `cd` changes.
pub(super) fn changes_directory_to(command: &SimpleCommand) -> Option<&str> {
    match &*command.words {
        [name, directory] if matches!(name.literal(), Some("cd" | "pushd" | "chdir")) => {
            directory.literal().filter(|text| text.starts_with('/'))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<String> {
        let script = crate::parse(text).unwrap();
        let directories: Vec<&str> =
            script.commands.iter().filter_map(changes_directory_to).collect();
        script.commands.iter().find_map(|command| written(command, &directories))
    }

    #[test]
    fn kernel_writes_are_detected_in_every_spelling() {
        for text in [
            "echo b > /proc/sysrq-trigger",
            "echo 1 >> /proc/sys/kernel/sysrq",
            "echo x > /sys/power/state",
            "echo x > //sys//power/./state",
            "echo x > /tmp/../sys/power/state",
            "echo x > ../../../../proc/sysrq-trigger",
            "cd /proc && echo b > sysrq-trigger",
            "cat x > /dev/sda",
            "cat x > /dev/./mem",
            "cat x > /dev/sd*",
            "cat x > /d*/sda",
            "echo b | tee /proc/sysrq-trigger",
            "cp x /dev/mem",
            "cp -t /sys x",
            "dd if=x of=/dev/nvme0n1",
            "curl -o /dev/sda x",
            "sed -i s/a/b/ /proc/sys/x",
            "echo x > /proc/1/oom_score_adj",
        ] {
            assert!(of(text).is_some(), "{text}");
        }
        for text in [
            "echo x > /dev/null",
            "echo x > /dev/stderr",
            "echo x > /proc/self/fd/2",
            "cp /proc/cpuinfo x",
            "cat /sys/class/net/eth0/address > x",
            "echo x > proc/a",
            "echo x > sys/a",
            "echo x > dev/a",
            "echo x > /srv/a",
            "echo x > /dev/shm/a",
            "cp a /tmp/dev/x",
            "grep -o /sys/class x",
            "find . -o /dev/sda",
            "ps -o /dev/x",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }
}
