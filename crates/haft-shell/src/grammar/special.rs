//! Custom checks of single commands, where an option list is not enough.

use crate::{
    Word,
    grammar::{Checked, Given, Grammar, strict},
};

const UNKNOWN_ARGUMENTS: &str = "its arguments are known only at run time";

/// Returns all arguments, if all are known.
fn texts(words: &[Word]) -> Result<Vec<&str>, String> {
    let texts: Option<Vec<_>> = words.iter().skip(1).map(Word::literal).collect();
    texts.ok_or_else(|| UNKNOWN_ARGUMENTS.to_owned())
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Refuses an unlisted word.
fn unlisted<T>(text: &str) -> Result<T, String> {
    Err(format!("`{text}` is not in the read-only list"))
}

/// `date`: an operand is a format; any other would set the clock.
pub(crate) fn date(given: &Given<'_>) -> Checked {
    match &*given.known()? {
        [] => Ok(()),
        [format] if format.starts_with('+') => Ok(()),
        _ => Err("with such an operand it would set the clock".to_owned()),
    }
}

/// `printf`: `-v` sets a variable, and so does `%n` in the format.
pub(crate) fn printf(words: &[Word]) -> Checked {
    let at = 1 + usize::from(words.get(1).and_then(Word::literal) == Some("--"));
    let Some(format) = words.get(at).and_then(Word::literal) else {
        return Err("its format is known only at run time".to_owned());
    };
    if at == 1 && format.starts_with('-') || may_contain_percent_n(format) {
        return Err("it may set a variable".to_owned());
    }
    Ok(())
}

/// Returns whether a format may contain `%n`, with any flags in between. An escape sequence could
/// write either character.
fn may_contain_percent_n(format: &str) -> bool {
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.next().is_none_or(|c| !"abefnrtv\\\"'".contains(c)) => return true,
            '%' => {
                let between = |c: &char| "#0- +'I*.123456789hlLjzt".contains(*c);
                while chars.next_if(between).is_some() {}
                if chars.next() == Some('n') {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// `test`: `-v` evaluates a subscript in its argument.
pub(crate) fn test(words: &[Word]) -> Checked {
    let evaluates = words.iter().any(|word| matches!(word.literal(), Some("-v" | "-R")));
    if evaluates && words.iter().any(Word::has_unknown) {
        return Err(UNKNOWN_ARGUMENTS.to_owned());
    }
    Ok(())
}

/// `[[ … ]]` and `(( … ))`: assignments in them are checked for the whole text.
pub(crate) fn condition(_: &[Word]) -> Checked {
    Ok(())
}

/// `read`: sets variables, which must be the script's own.
pub(crate) fn read(given: &Given<'_>) -> Checked {
    match given.known()?.iter().find(|name| !is_script_variable(name)) {
        None => Ok(()),
        Some(name) => Err(format!("it sets `{name}`, which can change what is started")),
    }
}

/// `exit`, `return`, `break`, `continue`, `shift`: at most a number.
pub(crate) fn number(words: &[Word]) -> Checked {
    match &*texts(words)? {
        [] => Ok(()),
        [number] if is_digits(number) => Ok(()),
        [other, ..] => unlisted(other),
    }
}

/// `set`: only options that change error handling or tracing.
pub(crate) fn set(words: &[Word]) -> Checked {
    let texts = texts(words)?;
    if texts.is_empty() {
        return Err("it shows all variables and functions".to_owned());
    }
    let mut rest = texts.into_iter();
    while let Some(text) = rest.next() {
        let Some(letters) = text.strip_prefix(['-', '+']).filter(|l| !l.is_empty()) else {
            return unlisted(text);
        };
        if !letters.chars().all(|c| "euxfCo".contains(c)) {
            return unlisted(text);
        }
        for _ in letters.matches('o') {
            match rest.next() {
                Some("pipefail" | "errexit" | "nounset" | "xtrace" | "noglob" | "noclobber") => {}
                _ => return unlisted(text),
            }
        }
    }
    Ok(())
}

/// `shopt`: only glob options. Others change how later lines are parsed.
pub(crate) fn shopt(words: &[Word]) -> Checked {
    for text in texts(words)? {
        match text {
            "-s" | "-u" | "-q" | "globstar" | "nullglob" | "dotglob" | "failglob"
            | "nocaseglob" | "nocasematch" => {}
            other => return unlisted(other),
        }
    }
    Ok(())
}

/// `export -p` and similar: prints variables. Anything else sets them.
pub(crate) fn shown(words: &[Word]) -> Checked {
    match &*texts(words)? {
        ["-p"] => Ok(()),
        _ => Err("it sets variables".to_owned()),
    }
}

/// `kill`: lists signals, or checks whether a process exists.
pub(crate) fn kill(words: &[Word]) -> Checked {
    match &*texts(words)? {
        ["-l" | "-L"] => Ok(()),
        ["-0", process] if is_digits(process) => Ok(()),
        _ => Err("it sends a signal".to_owned()),
    }
}

/// `tee`: copies to `/dev/null` only.
pub(crate) fn tee(given: &Given<'_>) -> Checked {
    match given.known()?.iter().find(|file| **file != "/dev/null") {
        None => Ok(()),
        Some(file) => Err(format!("it writes to `{file}`")),
    }
}

/// `tar`: only lists. A name with `:` is a remote archive, opened by a program.
pub(crate) fn tar(words: &[Word]) -> Checked {
    const LETTERS: &str = "tvfzjJ";
    const LONG_OPTIONS: [&str; 12] = [
        "--list",
        "--verbose",
        "--gzip",
        "--gunzip",
        "--bzip2",
        "--xz",
        "--zstd",
        "--wildcards",
        "--numeric-owner",
        "--full-time",
        "--utc",
        "--force-local",
    ];
    let texts = texts(words)?;
    let mut lists = false;
    let mut archives = Vec::new();
    let mut rest = texts.iter().copied().enumerate();
    while let Some((at, text)) = rest.next() {
        if let Some(file) = text.strip_prefix("--file=") {
            archives.push(file);
        } else if text.starts_with("--exclude=") || text.starts_with("--strip-components=") {
        } else if LONG_OPTIONS.contains(&text) {
            lists |= text == "--list";
        } else if let Some(letters) = text.strip_prefix('-').or((at == 0).then_some(text)) {
            if letters.is_empty() || !letters.chars().all(|c| LETTERS.contains(c)) {
                return unlisted(text);
            }
            lists |= letters.contains('t');
            match letters.split_once('f') {
                // `-ft` names an archive `t`, where `ft` lists.
                Some((_, after)) if !after.is_empty() => return unlisted(text),
                Some(_) => archives.push(rest.next().ok_or("a value is missing")?.1),
                None => {}
            }
        }
    }
    if !lists {
        return Err("it does more than list".to_owned());
    }
    match archives.iter().find(|file| file.contains(':') || file.starts_with('-') && **file != "-")
    {
        Some(file) => unlisted(file),
        None => Ok(()),
    }
}

/// `gzip` and similar: writes to stdout, lists or tests, and never replaces the file. If both are
/// given, some versions test and some decompress.
pub(crate) fn compressor(given: &Given<'_>) -> Checked {
    let outside = given.has(&["c", "stdout", "to-stdout"]);
    let looks = given.has(&["l", "t", "list", "test"]);
    let unpacks = given.has(&["d", "decompress", "uncompress"]);
    if outside || looks && !unpacks { Ok(()) } else { Err("it replaces the file".to_owned()) }
}

/// `unzip`: only lists, tests, or writes to stdout.
pub(crate) fn unzip(words: &[Word]) -> Checked {
    match &*texts(words)? {
        ["-l" | "-v" | "-lv" | "-t" | "-tq" | "-p" | "-Z" | "-Z1" | "-ql" | "-qql", files @ ..]
            if files.iter().all(|file| !file.starts_with('-')) =>
        {
            Ok(())
        }
        _ => Err("it may unpack".to_owned()),
    }
}

/// `ar t`, `7z l`: the first word is the operation.
pub(crate) fn archive_lister(words: &[Word]) -> Checked {
    match &*texts(words)? {
        ["t" | "tv" | "l", files @ ..]
            if files.iter().all(|file| !file.starts_with(['-', '@'])) =>
        {
            Ok(())
        }
        _ => Err("it may do more than list".to_owned()),
    }
}

/// `nm` and similar: a word that starts with `@` is a file with options.
pub(crate) fn no_options_file(given: &Given<'_>) -> Checked {
    let values = given.options.iter().filter_map(|(_, value)| *value);
    match given.known()?.into_iter().chain(values).find(|text| text.starts_with('@')) {
        None => Ok(()),
        Some(other) => unlisted(other),
    }
}

/// `xmllint`: an operand with `:` is a URL and would be fetched.
pub(crate) fn no_url(given: &Given<'_>) -> Checked {
    match given.known()?.iter().find(|file| file.contains(':')) {
        None => Ok(()),
        Some(other) => unlisted(other),
    }
}

/// `hostname`, `mount` and others: with an operand they would change something.
pub(crate) fn no_operands(given: &Given<'_>) -> Checked {
    if given.operands.is_empty() {
        Ok(())
    } else {
        Err("with an operand it would change something".to_owned())
    }
}

/// `lsof` and others: numeric addresses only (no DNS lookup), and nothing is set.
pub(crate) fn numeric_addresses(given: &Given<'_>) -> Checked {
    let routes = matches!(given.name, "arp" | "route");
    if routes {
        no_operands(given)?;
    }
    let asks = given.name != "lsof" || given.has(&["i"]) || given.options.is_empty();
    if asks && !given.has(&["n", "numeric"]) {
        Err("without `-n` it makes DNS lookups".to_owned())
    } else {
        Ok(())
    }
}

/// `xxd`: options are single words identified by their first letter, a second operand is an output
/// file, and `-r` writes too.
pub(crate) fn xxd(words: &[Word]) -> Checked {
    let mut operands = 0;
    let texts = texts(words)?;
    let mut rest = texts.into_iter();
    while let Some(text) = rest.next() {
        let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) else {
            operands += 1;
            continue;
        };
        match option {
            _ if operands > 0 => return Err("an option follows an operand".to_owned()),
            "a" | "b" | "C" | "d" | "e" | "E" | "h" | "i" | "p" | "ps" | "plain" | "u" | "v" => {}
            "c" | "g" | "l" | "n" | "o" | "s" | "cols" | "len" | "seek" => {
                rest.next().ok_or("a value is missing")?;
            }
            other => match other.strip_prefix(['c', 'g', 'l', 'o', 's']) {
                Some(number) if number.bytes().all(|b| b.is_ascii_hexdigit() || b == b'x') => {}
                _ => return unlisted(text),
            },
        }
    }
    if operands > 1 { Err("its second operand is a file to write".to_owned()) } else { Ok(()) }
}

/// `tree`: some versions take values only from the next word, so `-Po` may be `-P` and `-o`.
pub(crate) fn tree(words: &[Word]) -> Checked {
    const TREE: Grammar = strict(
        "tree",
        "adflxL:P:I:psughDFNQqiACnJXvtcUrSH:T:",
        "noreport dirsfirst filesfirst gitignore prune si du inodes device matchdirs ignore-case",
    );
    let attached = |word: &&Word| {
        let letters = word.literal().and_then(|text| text.strip_prefix('-'));
        let letters = letters.filter(|letters| !letters.starts_with('-')).unwrap_or_default();
        let digits = letters.strip_prefix('L').is_some_and(is_digits);
        !digits
            && letters.char_indices().any(|(at, c)| "LPIHT".contains(c) && at + 1 < letters.len())
    };
    match words.iter().skip(1).find(attached).and_then(Word::literal) {
        Some(text) => unlisted(text),
        None => TREE.check(words),
    }
}

/// `sysctl`: `=` sets a value.
pub(crate) fn sysctl(given: &Given<'_>) -> Checked {
    if given.known()?.iter().any(|name| name.contains('=')) {
        Err("it sets a value".to_owned())
    } else {
        Ok(())
    }
}

/// `ip`: shows one kind of object. It accepts any prefix of a word; only full words are listed.
pub(crate) fn ip(words: &[Word]) -> Checked {
    let mut texts = texts(words)?;
    let options =
        ["-4", "-6", "-br", "-brief", "-c", "-color", "-o", "-s", "-j", "-p", "-d", "-details"];
    texts.retain(|text| !options.contains(text));
    match &*texts {
        ["addr" | "address" | "a" | "link" | "l" | "route" | "r" | "neigh" | "n" | "rule"] => {
            Ok(())
        }
        [
            "addr" | "address" | "a" | "link" | "l" | "route" | "r" | "neigh" | "n",
            "show" | "list" | "ls",
        ] => Ok(()),
        [
            "addr" | "address" | "a" | "link" | "l" | "route" | "r" | "neigh" | "n",
            "show" | "list" | "ls",
            "dev",
            name,
        ] if !name.starts_with('-') => Ok(()),
        ["addr" | "address" | "a" | "link" | "l", "show" | "list" | "ls", name]
            if !name.starts_with('-') =>
        {
            Ok(())
        }
        _ => Err("it may do more than show".to_owned()),
    }
}

/// `systemctl` and similar: the first operand is the operation.
pub(crate) fn manager(given: &Given<'_>) -> Checked {
    match given.known()?.first() {
        None
        | Some(
            &("status" | "show" | "cat" | "is-active" | "is-enabled" | "is-failed" | "list-units"
            | "list-unit-files" | "list-timers" | "list-sockets" | "list-dependencies"
            | "is-system-running" | "get-default"),
        ) => Ok(()),
        Some(other) => unlisted(other),
    }
}

/// `getent`: only local tables. Others are looked up in the network.
pub(crate) fn getent(given: &Given<'_>) -> Checked {
    match given.known()?.first() {
        Some(&("passwd" | "group" | "services" | "protocols" | "shells")) => Ok(()),
        Some(other) => unlisted(other),
        None => Ok(()),
    }
}

/// `man`: names of pages, not files or URLs.
pub(crate) fn man(given: &Given<'_>) -> Checked {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._+-[]:".contains(c);
    match given.known()?.iter().find(|name| !name.chars().all(fits)) {
        None => Ok(()),
        Some(other) => unlisted(other),
    }
}

/// `less` and `more`: a word that starts with `+` is a command.
pub(crate) fn pager(given: &Given<'_>) -> Checked {
    match given.known()?.iter().find(|name| name.starts_with('+')) {
        None => Ok(()),
        Some(other) => unlisted(other),
    }
}

/// `tput`: prints terminal properties.
pub(crate) fn tput(words: &[Word]) -> Checked {
    match &*texts(words)? {
        ["cols" | "lines" | "colors"] => Ok(()),
        _ => Err("it may do more than print".to_owned()),
    }
}

/// `stty`: prints terminal settings.
pub(crate) fn stty(words: &[Word]) -> Checked {
    match &*texts(words)? {
        [] | ["-a" | "-g" | "--all" | "size"] => Ok(()),
        _ => Err("it may set something".to_owned()),
    }
}

/// `crontab -l`, `swapon -s`: one option that lists, and nothing else.
pub(crate) fn one_list(words: &[Word]) -> Checked {
    match (words.first().and_then(Word::literal), &*texts(words)?) {
        (Some("crontab"), ["-l"]) => Ok(()),
        (Some("swapon"), ["-s" | "--show" | "--summary"]) => Ok(()),
        _ => Err("it may do more than list".to_owned()),
    }
}

/// `dpkg`: queries. Its other options install and remove.
pub(crate) fn dpkg(words: &[Word]) -> Checked {
    match &*texts(words)? {
        [
            "-l"
            | "-L"
            | "-s"
            | "-S"
            | "-p"
            | "--list"
            | "--listfiles"
            | "--status"
            | "--search"
            | "--get-selections"
            | "--print-architecture"
            | "--audit"
            | "--print-foreign-architectures",
            names @ ..,
        ] if names.iter().all(|name| !name.starts_with('-')) => Ok(()),
        _ => Err("it may do more than print".to_owned()),
    }
}

/// `history`: the number of entries.
pub(crate) fn no_arguments_or_number(words: &[Word]) -> Checked {
    match words.len() {
        1 => Ok(()),
        _ => number(words),
    }
}

/// Returns whether a variable is certainly the script's own: no shell or program reads it.
/// Variables with a meaning are upper-case, with few exceptions.
pub(crate) fn is_script_variable(name: &str) -> bool {
    const SPECIAL_VARIABLES: [&str; 12] = [
        "path",
        "fpath",
        "cdpath",
        "manpath",
        "mailpath",
        "module_path",
        "argv",
        "status",
        "prompt",
        "histchars",
        "auto_resume",
        "signals",
    ];
    let mut chars = name.chars();
    let fits = chars.next().is_some_and(|c| c.is_ascii_lowercase() || c == '_')
        && chars.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (fits && !SPECIAL_VARIABLES.contains(&name) && !name.ends_with("_proxy"))
        || matches!(name, "RANDOM" | "SECONDS" | "LINENO")
}
