//! `find`: checks its expression part by part.

use crate::{SimpleCommand, Word, grammar::Checked, wrappers::unwrap::replaced};

/// Parts without a value.
const WITHOUT_VALUE: &str = "-print -print0 -ls -prune -quit -depth -mount -xdev -follow -noleaf -daystart \
    -ignore_readdir_race -noignore_readdir_race -empty -executable -readable -writable -nouser \
    -nogroup -true -false -not -a -and -o -or -warn -nowarn , ( ) !";

/// Parts with one value.
const WITH_VALUE: &str = "-name -iname -path -ipath -wholename -iwholename -regex -iregex -regextype \
    -type -xtype -size -maxdepth -mindepth -mtime -mmin -ctime -cmin -atime -amin -newer -anewer \
    -cnewer -perm -user -group -uid -gid -links -inum -lname -ilname -samefile -fstype -used \
    -context -printf";

/// Checks the words of `find`; `judge` checks the commands that it starts.
pub(super) fn check(words: &[Word], judge: &dyn Fn(&SimpleCommand) -> Checked) -> Checked {
    let mut texts = Vec::new();
    for word in words.iter().skip(1) {
        // An unknown directory may be named `-delete`.
        texts.push(word.literal().ok_or("its arguments are known only at run time")?);
    }
    let is = |list: &str, part: &str| list.split_whitespace().any(|own| own == part);
    let mut at = 0;
    while matches!(texts.get(at), Some(&("-H" | "-L" | "-P" | "-O0" | "-O1" | "-O2" | "-O3"))) {
        at += 1;
    }
    let begins = |text: &&&str| text.starts_with('-') || matches!(**text, "(" | ")" | "!" | ",");
    at += texts.iter().skip(at).take_while(|text| !begins(text)).count();
    while let Some(&part) = texts.get(at) {
        at += 1;
        if is(WITHOUT_VALUE, part) {
            continue;
        }
        if is(WITH_VALUE, part) || is_newer(part) {
            at += 1;
            if at > texts.len() {
                return Err(format!("`{part}` has no value"));
            }
            continue;
        }
        if !matches!(part, "-exec" | "-execdir") {
            return Err(format!("its part `{part}` is not in the read-only list"));
        }
        let rest = texts.get(at..).unwrap_or_default();
        let Some(length) = rest.iter().position(|text| matches!(*text, ";" | "+")) else {
            return Err(format!("`{part}` has no end"));
        };
        let inner = rest.get(..length).unwrap_or_default();
        // Otherwise `+` is a word of the command, which then continues.
        if rest.get(length) == Some(&"+") && inner.last() != Some(&"{}") {
            return Err(format!("it is not clear where `{part}` ends"));
        }
        let words = inner.iter().map(|text| replaced(&Word::text(*text), "{}")).collect();
        judge(&SimpleCommand { words, ..SimpleCommand::default() })?;
        at += length + 1;
    }
    Ok(())
}

/// `-newerXY`, where each letter names a timestamp.
fn is_newer(part: &str) -> bool {
    let letters = part.strip_prefix("-newer").map(str::as_bytes);
    matches!(letters, Some([b'a' | b'B' | b'c' | b'm', b'a' | b'B' | b'c' | b'm' | b't']))
}
