//! `envFile`: a file of variables (dotenv) that a server gets, as VS Code and Cursor read it.
//!
//! FAIL CLOSED: a file that is missing, too large or outside of the project refuses the server, and
//! a variable that decides which code runs is not taken from it: trust covers the configuration,
//! not this file.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{ConfigContext, expand::Variables};

/// The largest file that is read.
const MAX_BYTES: usize = 256 << 10;
/// Variables that decide which code a program loads, and their prefixes.
const CODE_VARIABLES: &[&str] = &[
    "PATH",
    "SHELL",
    "ENV",
    "BASH_ENV",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "PROMPT_COMMAND",
    "IFS",
];
const CODE_PREFIXES: &[&str] =
    &["LD_", "DYLD_", "PYTHON", "PERL5", "RUBY", "GIT_", "BASH_FUNC_", "NPM_CONFIG_", "UV_"];

/// Which files a configuration may name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ConfigFiles {
    /// None: a server that needs one cannot be used.
    #[default]
    Refused,
    /// They are not read: the servers are shown to a person and not started.
    NotRead,
    /// Those below this directory: for a file of a project.
    Below(PathBuf),
    /// All: for the user's own files.
    All,
}

/// Reads the variables of a file into `environment`.
pub(super) fn read(
    written: &str,
    context: &ConfigContext,
    variables: &mut Variables<'_>,
    environment: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    let root = match &context.files {
        ConfigFiles::NotRead => return Ok(()),
        ConfigFiles::Refused => return Err(format!("the file `{written}` may not be read here")),
        ConfigFiles::Below(root) => Some(root),
        ConfigFiles::All => None,
    };
    let expanded = variables.expand(written);
    let path = match (expanded.strip_prefix("~/"), &context.home) {
        (Some(below), Some(home)) => home.join(below),
        _ => context.workspace.join(&expanded),
    };
    if let Some(root) = root {
        // A symlink may lead out of the project.
        let (file, root) = (canonical(&path), canonical(root));
        if !file.starts_with(&root) {
            return Err(format!("the file `{written}` is outside of the project"));
        }
    }
    let bytes = haft::policy::read_regular_file(&path, MAX_BYTES).map_err(|why| why.to_string())?;
    let bytes = bytes.ok_or_else(|| format!("there is no file `{written}`"))?;
    let text =
        String::from_utf8(bytes).map_err(|_| format!("the file `{written}` is not UTF-8"))?;
    let mut refused = Vec::new();
    for (name, value) in parse(&text)
        .map_err(|line| format!("the file `{written}`, line {line}: this is not `NAME=value`"))?
    {
        if decides_code(&name) {
            refused.push(name);
        } else {
            environment.insert(name, value);
        }
    }
    if !refused.is_empty() {
        let names = refused.join("`, `");
        let note = format!("`{names}` of `{written}` is not used: write it to `env`");
        variables.notes.push(note);
    }
    Ok(())
}

fn canonical(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn decides_code(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    CODE_VARIABLES.contains(&&*name) || CODE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Parses lines `NAME=value`, with `export`, comments and quotes. A value in quotes may have
/// several lines; in double quotes `\n`, `\"` and `\\` are escapes. Returns the number of a line
/// that is something else.
fn parse(text: &str) -> Result<Vec<(String, String)>, usize> {
    let mut found = Vec::new();
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let (mut rest, mut number) = (text, 0);
    while !rest.is_empty() {
        number += 1;
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let line = line.trim();
        let start = line.strip_prefix("export ").unwrap_or(line);
        if start.is_empty() || start.starts_with('#') {
            rest = after;
            continue;
        }
        let (name, value) = start.split_once('=').ok_or(number)?;
        let name = name.trim_end();
        let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty()
            || !name.chars().all(is_letter)
            || name.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(number);
        }
        let value = value.trim_start();
        match value.chars().next() {
            Some(quote @ ('"' | '\'')) => {
                // From the quote on, because the value may go on in the next line.
                let at = rest.find(quote).ok_or(number)? + 1;
                let (value, length) = quoted(&rest[at..], quote).ok_or(number)?;
                found.push((name.to_owned(), value));
                let used = at + length;
                number += rest[..used].matches('\n').count();
                rest = rest[used..].split_once('\n').map_or("", |(_, after)| after);
            }
            _ => {
                let value = value.split(" #").next().unwrap_or_default().trim_end();
                found.push((name.to_owned(), value.to_owned()));
                rest = after;
            }
        }
    }
    Ok(found)
}

/// The value up to the closing quote, and how many bytes of the text it takes with the quote.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => return Some((value, at + c.len_utf8())),
            '\\' if quote == '"' => match chars.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                c @ ('"' | '\\' | '$') => value.push(c),
                c => value.extend(['\\', c]),
            },
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotenv_lines_are_parsed_with_quotes_and_comments() {
        let text = "\u{feff}# comment\nexport A=1\nB = two words # why\r\nC='a # $B'\n\
                    D=\"x\\ny \\\"z\\\"\"\nE=\"first\nsecond\" # end\nF=\nG=a=b\n";
        let found = parse(text).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a # $B"),
            ("D", "x\ny \"z\""),
            ("E", "first\nsecond"),
            ("F", ""),
            ("G", "a=b"),
        ];
        assert_eq!(found, expected);
        for (bad, line) in [("A=1\nnonsense", 2), ("A=\"open", 1), ("1A=x", 1), ("A B=x", 1)] {
            assert_eq!(parse(bad), Err(line), "{bad}");
        }
    }

    fn load(
        files: ConfigFiles,
        directory: &Path,
        written: &str,
    ) -> Result<(String, usize), String> {
        let workspace = directory.to_owned();
        let context = ConfigContext { workspace, files, ..ConfigContext::default() };
        let (mut variables, mut environment) = (Variables::new(&context), BTreeMap::new());
        read(written, &context, &mut variables, &mut environment)?;
        let names: Vec<String> = environment.into_keys().collect();
        Ok((names.join(" "), variables.notes.len()))
    }

    #[test]
    fn file_is_read_only_where_the_configuration_may_name_files() {
        let dir = tempfile::tempdir().unwrap();
        let project = dir.path().join("project");
        std::fs::create_dir(&project).unwrap();
        let write = |path: PathBuf, text: &[u8]| {
            std::io::Write::write_all(&mut std::fs::File::create(path).unwrap(), text).unwrap();
        };
        write(project.join(".env"), b"KEY=v\nLD_PRELOAD=./evil.so\nNode_Options=-r ./x\n");
        write(dir.path().join("outside"), b"SECRET=v\n");
        write(project.join("large"), &vec![b'#'; MAX_BYTES + 1]);
        std::os::unix::fs::symlink("../outside", project.join("link")).unwrap();
        let below = || ConfigFiles::Below(project.clone());
        let own = Ok(("KEY".to_owned(), 1));
        assert_eq!(load(below(), &project, ".env"), own, "what loads code is a note");
        assert_eq!(load(ConfigFiles::All, &project, "${workspaceFolder}/.env"), own);
        assert_eq!(load(ConfigFiles::NotRead, &project, ".env"), Ok((String::new(), 0)));
        assert!(load(ConfigFiles::Refused, &project, ".env").is_err());
        for bad in ["../outside", "link", "missing", "large", "/dev/zero", "."] {
            assert!(load(below(), &project, bad).is_err(), "{bad}");
        }
        assert_eq!(load(ConfigFiles::All, &project, "../outside"), Ok(("SECRET".to_owned(), 0)));
    }
}
