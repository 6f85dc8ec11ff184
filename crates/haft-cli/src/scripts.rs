//! Finds the files of the project that a hook runs. Trust covers them, and a sandboxed command
//! cannot write them.
//!
//! In: a hook and its working directory. Out: paths, and whether the list is complete. The command
//! is parsed by the shell parser, through wrappers and a literal `cd`. If a part is only known at
//! run time, every word that names a file of the project is taken. Files that a script runs itself
//! are not found.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use haft::policy::{Handler, HookSpec};
use haft_shell::{Program, RedirectKind, Script, SimpleCommand, Word, Wrappers};

/// Placeholders for values of variables while a line is parsed: a value may contain quotes and
/// blanks.
const PROJECT_MARK: &str = "/.haft-project-directory";
const HOME_MARK: &str = "/.haft-home-directory";

/// The limit on directories that `cd` with literal names can reach.
const MAX_DIRECTORIES: usize = 16;

/// Directories of system programs, which do not belong to the project.
const SYSTEM_DIRECTORIES: &[&str] =
    &["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"];

/// Variables that make a program load other files.
const LOADING_VARIABLES: &[&str] = &[
    "PATH",
    "BASH_ENV",
    "ENV",
    "CDPATH",
    "PYTHONPATH",
    "PYTHONHOME",
    "NODE_OPTIONS",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "RUBYLIB",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
];

/// Programs that run files named in their arguments, in ways that the parser does not know.
const RUNNERS: &[&str] = &["bun", "deno", "npx", "pwsh", "uv", "uvx"];

/// Where the command of a hook starts, and the values of its variables.
#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    /// The project directory; a hook of a file below it starts in that file's directory.
    pub(crate) project: &'a Path,
    pub(crate) home: Option<&'a Path>,
}

/// The files that a hook runs.
#[derive(Debug, Default)]
pub(crate) struct Scripts {
    /// Their paths, as the hook opens them; a file may be missing.
    pub(crate) files: Vec<PathBuf>,
    /// Whether a part of the command is only known at run time.
    pub(crate) is_partial: bool,
}

/// Returns the files that a hook runs.
pub(crate) fn of(hook: &HookSpec, start: Start<'_>) -> Scripts {
    let Handler::Command { command, args } = &hook.handler else { return Scripts::default() };
    let directory = hook.directory.as_deref().unwrap_or(start.project);
    let mut finder = Finder {
        start,
        directory,
        directories: vec![directory.to_owned()],
        words: Vec::new(),
        found: Scripts::default(),
    };
    match args {
        Some(args) => {
            let words = std::iter::once(command).chain(args);
            let words = words.map(|word| Word::text(word.as_str())).collect();
            finder.command(&SimpleCommand { words, ..SimpleCommand::default() });
        }
        None => {
            let text = marked(command);
            finder.words = text.split(is_separator).map(str::to_owned).collect();
            match haft_shell::parse(&text) {
                Ok(script) => finder.script(&script),
                Err(_) => finder.found.is_partial = true,
            }
        }
    }
    if finder.found.is_partial {
        finder.cover_words();
    }
    finder.found
}

/// Whether a character ends a word in a text that is not parsed.
fn is_separator(c: char) -> bool {
    c.is_whitespace() || "\"'`$;|&(){}<>=,:\\".contains(c)
}

/// Replaces known variables and `~/` by placeholders.
fn marked(command: &str) -> String {
    let mut known = vec![
        ("CLAUDE_PROJECT_DIR", PROJECT_MARK),
        ("HAFT_PROJECT_DIR", PROJECT_MARK),
        ("HOME", HOME_MARK),
    ];
    if !command.contains("cd") && !command.contains("pushd") {
        known.push(("PWD", PROJECT_MARK));
    }
    let mut out = String::new();
    let mut rest = command;
    while let Some(c) = rest.chars().next() {
        let name = |tail: &str, name: &str| {
            let tail = tail.strip_prefix('$')?;
            if let Some(tail) = tail.strip_prefix('{') {
                return tail.strip_prefix(name)?.strip_prefix('}').map(str::len);
            }
            let tail = tail.strip_prefix(name)?;
            let goes_on = tail.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
            (!goes_on).then_some(tail.len())
        };
        let variable = known.iter().find_map(|(own, mark)| Some((name(rest, own)?, *mark)));
        let is_home = rest.starts_with("~/") && out.chars().next_back().is_none_or(is_separator);
        let (length, mark) = match variable {
            Some((left, mark)) => (rest.len() - left, Some(mark)),
            None if is_home => (1, Some(HOME_MARK)),
            None => (c.len_utf8(), None),
        };
        match mark {
            Some(mark) => out.push_str(mark),
            None => out.push(c),
        }
        rest = rest.get(length..).unwrap_or_default();
    }
    out
}

struct Finder<'a> {
    start: Start<'a>,
    /// Where the command starts.
    directory: &'a Path,
    /// Where a simple command may run, as far as `cd` has been followed.
    directories: Vec<PathBuf>,
    /// The words of the text, however it is read.
    words: Vec<String>,
    found: Scripts,
}

impl Finder<'_> {
    fn script(&mut self, script: &Script) {
        for command in &script.commands {
            self.command(command);
        }
    }

    fn command(&mut self, command: &SimpleCommand) {
        let is_loading = |name: &str| LOADING_VARIABLES.contains(&name);
        self.found.is_partial |= command.assignments.iter().any(|a| is_loading(&a.name));
        let views = command.unwrapped(Wrappers::All);
        let mut has_input = false;
        for view in views.iter().map(|view| &view.command) {
            self.words.extend(view.words.iter().filter_map(Word::literal).map(str::to_owned));
            has_input |= self.view(view);
        }
        // Input from a named file is known, although the parser does not read it.
        let is_unknown = |view: &haft_shell::UnwrappedCommand| {
            view.is_unread || view.command.words.first().is_some_and(Word::has_unknown)
        };
        if !has_input && views.iter().any(is_unknown) {
            self.found.is_partial = true;
        }
    }

    /// Adds the files that one command runs. Returns whether its program is a file on stdin.
    fn view(&mut self, view: &SimpleCommand) -> bool {
        let Some(name) = view.words.first().and_then(Word::literal) else { return false };
        let arguments = || view.words.iter().skip(1);
        if name.contains('/') {
            self.add(name);
        }
        match name {
            "cd" => self.follow(view),
            "pushd" | "popd" | "chdir" => self.found.is_partial = true,
            "." | "source" => match view.words.get(1).map(Word::literal) {
                Some(Some(file)) => self.add(file),
                _ => self.found.is_partial = true,
            },
            "env" | "sudo" | "doas" | "systemd-run" | "export" => {
                let moves = |word: &str| {
                    let is_option = ["-C", "-D", "--chdir"].iter().any(|own| word.starts_with(own));
                    let variable = word.split_once('=').map(|(variable, _)| variable);
                    is_option || variable.is_some_and(|own| LOADING_VARIABLES.contains(&own))
                };
                let mut words = arguments().filter_map(Word::literal);
                self.found.is_partial |= words.any(moves);
            }
            name if RUNNERS.contains(&name) => {
                let words: Vec<&str> = arguments().filter_map(Word::literal).collect();
                words.into_iter().for_each(|word| self.add_existing(word));
            }
            _ => {}
        }
        self.programs(view)
    }

    fn programs(&mut self, view: &SimpleCommand) -> bool {
        let mut has_input = false;
        for program in view.programs() {
            match program {
                Program::File { file, .. } => match file.literal() {
                    Some(file) => self.add(file),
                    None => self.found.is_partial = true,
                },
                Program::Input => {
                    let is_input =
                        |kind| matches!(kind, RedirectKind::Read | RedirectKind::ReadWrite);
                    let inputs = view.redirects.iter().filter(|r| is_input(r.kind));
                    let inputs: Vec<Option<&str>> = inputs.map(|r| r.target.literal()).collect();
                    for input in &inputs {
                        match input {
                            Some(file) => self.add(file),
                            None => self.found.is_partial = true,
                        }
                    }
                    has_input |= !inputs.is_empty();
                    let is_here = view.redirects.iter().any(|r| r.kind == RedirectKind::Here);
                    self.found.is_partial |= inputs.is_empty() && !is_here;
                }
                Program::Module { module, .. } => match module.literal() {
                    Some(module) => {
                        let path = module.replace('.', "/");
                        self.add_existing(&format!("{path}.py"));
                        self.add_existing(&format!("{path}/__main__.py"));
                    }
                    _ => self.found.is_partial = true,
                },
                // A program in another language may open the files that it names.
                Program::Text(text) => {
                    let text = text.literal().unwrap_or_default().to_owned();
                    text.split(is_separator).for_each(|word| self.add_existing(word));
                }
            }
        }
        has_input
    }

    /// Follows `cd DIRECTORY`. It may fail or affect only a subshell, so the earlier directories
    /// remain possible.
    fn follow(&mut self, view: &SimpleCommand) {
        let target = match &*view.words {
            [_, target] => target.literal(),
            [_, dashes, target] if dashes.literal() == Some("--") => target.literal(),
            _ => None,
        };
        let Some(target) = target.filter(|target| !target.starts_with('-')) else {
            self.found.is_partial = true;
            return;
        };
        let next: Vec<PathBuf> =
            self.directories.iter().map(|own| self.path(target, own)).collect();
        for directory in next {
            if self.directories.len() >= MAX_DIRECTORIES {
                self.found.is_partial = true;
            } else if !self.directories.contains(&directory) {
                self.directories.push(directory);
            }
        }
    }

    /// Adds a file that is run. A missing one is added too, because it must not appear later.
    fn add(&mut self, word: &str) {
        for directory in self.directories.clone() {
            let mut path = self.path(word, &directory);
            // Python runs a directory by this file, unless the directory is empty.
            if fs::read_dir(&path).is_ok_and(|mut all| all.next().is_some()) {
                path.push("__main__.py");
            }
            let is_system = |own: &&str| path.parent() == Some(Path::new(own));
            if !SYSTEM_DIRECTORIES.iter().any(is_system)
                && !path.starts_with("/dev")
                && !self.found.files.contains(&path)
            {
                self.found.files.push(path);
            }
        }
    }

    /// Adds a word if it names a file of the project.
    fn add_existing(&mut self, word: &str) {
        if word.is_empty() {
            return;
        }
        for directory in self.directories.clone() {
            let path = self.path(word, &directory);
            let is_own = path.starts_with(self.start.project) || path.starts_with(self.directory);
            if is_own && path.is_file() && !self.found.files.contains(&path) {
                self.found.files.push(path);
            }
        }
    }

    /// Adds every word that names a file of the project, in any directory that a word names.
    fn cover_words(&mut self) {
        let words = std::mem::take(&mut self.words);
        // The beginning of a word may be a variable that is not known: `$X/hooks/guard.sh`.
        let words: Vec<&str> =
            words.iter().flat_map(|word| [word.as_str(), word.trim_start_matches('/')]).collect();
        for word in &words {
            let path = self.path(word, self.directory);
            if self.directories.len() < MAX_DIRECTORIES
                && path.starts_with(self.directory)
                && path.is_dir()
                && !self.directories.contains(&path)
            {
                self.directories.push(path);
            }
        }
        words.into_iter().for_each(|word| self.add_existing(word));
    }

    /// Resolves a word relative to a directory, without `.` and `..`.
    fn path(&self, word: &str, directory: &Path) -> PathBuf {
        let below = |mark: &str| word.strip_prefix(mark).map(|rest| rest.trim_start_matches('/'));
        let joined = match (below(PROJECT_MARK), below(HOME_MARK), self.start.home) {
            (Some(rest), ..) => self.directory.join(rest),
            (None, Some(rest), Some(home)) => home.join(rest),
            _ => directory.join(word),
        };
        let has_parent = joined.components().any(|part| part == Component::ParentDir);
        // `symlink/..` is not the directory of the symlink.
        if has_parent
            && let (Some(above), Some(name)) = (joined.parent(), joined.file_name())
            && let Ok(above) = above.canonicalize()
        {
            return above.join(name);
        }
        let mut path = PathBuf::new();
        for part in joined.components() {
            match part {
                Component::CurDir => {}
                Component::ParentDir => {
                    path.pop();
                }
                other => path.push(other),
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Shows the files that a hook of this crate's directory runs, and `?` where there may be more.
    fn found(command: &str, args: Option<&[&str]>) -> String {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let args = args.map(|args| args.iter().map(|&word| word.to_owned()).collect());
        let handler = Handler::Command { command: command.to_owned(), args };
        let home = here.join("tests");
        let start = Start { project: here, home: Some(&home) };
        let found = of(&HookSpec::new("PreToolUse", handler), start);
        let shown = found.files.iter().map(|path| path.strip_prefix(here).unwrap_or(path));
        let mut shown: Vec<String> = shown.map(|path| path.display().to_string()).collect();
        shown.extend(found.is_partial.then(|| "?".to_owned()));
        shown.join(" ")
    }

    #[test]
    fn script_of_a_hook_is_found_and_its_arguments_are_not() {
        for (command, script) in [
            ("./Cargo.toml", "Cargo.toml"),
            ("src/main.rs --fast", "src/main.rs"),
            ("sh Cargo.toml src/main.rs", "Cargo.toml"),
            ("/usr/bin/env python3 -u src/main.rs", "src/main.rs"),
            ("\"$CLAUDE_PROJECT_DIR\"/src/main.rs", "src/main.rs"),
            ("${HAFT_PROJECT_DIR}/src/../Cargo.toml", "Cargo.toml"),
            ("A=1 timeout 5 bash -e 'Cargo.toml'", "Cargo.toml"),
            ("true && ./Cargo.toml | sh src/main.rs", "Cargo.toml src/main.rs"),
            ("cat Cargo.toml", ""),
            ("echo x >> Cargo.toml", ""),
            ("./nothing", "nothing"),
            ("sh nothing Cargo.toml", "nothing"),
        ] {
            assert_eq!(found(command, None), script, "{command}");
        }
        assert_eq!(found("/usr/bin/python3", Some(&["-u", "src/main.rs", "x"])), "src/main.rs");
    }

    #[test]
    fn script_is_found_through_wrappers_groups_redirections_and_cd() {
        for command in [
            "timeout 5s src/main.rs",
            "bash -o pipefail src/main.rs",
            "if true; then src/main.rs; fi",
            "{ src/main.rs; }",
            "! src/main.rs",
            "src/main.rs>/dev/null",
            "sh < src/main.rs",
            "python3 -X dev src/main.rs",
            "stdbuf -oL src/main.rs",
            "setsid src/main.rs",
            "bash -c 'src/main.rs --x'",
            "jq -r .x | src/main.rs",
            "x=$(src/main.rs)",
            ". src/main.rs",
            "eval 'src/main.rs'",
            "python3 -c 'exec(open(\"src/main.rs\").read())'",
            "$PWD/src/main.rs",
        ] {
            assert_eq!(found(command, None), "src/main.rs", "{command}");
        }
        assert_eq!(found("cd src && ./main.rs", None), "main.rs src/main.rs");
        assert_eq!(found("~/it/main.rs", None), "tests/it/main.rs");
        assert_eq!(found("\"$HOME\"/it/main.rs -v", None), "tests/it/main.rs");
    }

    #[test]
    fn common_hook_commands_are_known_and_add_no_data_files() {
        for command in [
            "jq -r '.tool_input.file_path' | xargs npx prettier --write",
            "jq -r '\"\\(.tool_input.command) - \\(.x // \"none\")\"' >> ~/.claude/log.txt",
            "jq -r .x | { read f; if echo \"$f\" | grep -q '\\.ts$'; then npx prettier --write \"$f\"; fi; }",
            "python3 -c \"import json, sys; sys.exit(2 if '.env' in json.load(sys.stdin) else 0)\"",
            "notify-send 'Title' 'Awaiting your input'",
            "npm run lint",
            "cargo fmt",
            "make check",
            "uv run ruff check .",
            "[ -f Cargo.toml ] && cat Cargo.toml",
            "f=$(jq -r .x); case \"$f\" in *.rs) rustfmt \"$f\";; esac",
            "cat > /tmp/x.json; grep -q rm /tmp/x.json && exit 2; exit 0",
        ] {
            assert_eq!(found(command, None), "", "{command}");
        }
        assert_eq!(found("python3 src", None), "src/__main__.py");
    }

    #[test]
    fn every_word_that_names_a_file_is_added_if_the_command_is_unknown() {
        for command in [
            "$RUN src/main.rs",
            "eval \"$X src/main.rs\"",
            "\"$ROOT\"/src/main.rs",
            "cd \"$X\" && src/main.rs",
            "cat src/main.rs | sh",
            "PATH=src:$PATH main.rs",
            "env -C src ./main.rs",
            "echo $((ls); src/main.rs)",
        ] {
            let shown = found(command, None);
            assert!(shown.contains("src/main.rs") && shown.ends_with('?'), "{command}: {shown}");
        }
    }
}
