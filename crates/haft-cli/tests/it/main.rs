//! Runs the real command and checks exit code, stdout and stderr.

#![expect(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "the helpers belong to the tests, and a skipped test is reported"
)]

mod agent_runs;
mod audit;
mod calls;
mod checks;
mod claude_rules;
mod demo;
mod explain;
mod exports;
mod guide;
mod help_examples;
mod builtin;
mod hooks;
#[path = "../../../haft-sandbox/tests/it/host_git.rs"]
mod host_git;
mod json_output;
mod lints;
#[cfg(target_os = "linux")]
mod live;
mod mcp;
mod mcp_files;
mod models;
mod network;
#[cfg(feature = "otlp")]
mod otlp;
mod hostile_config;
mod policy;
mod prompt;
mod responses;
mod results;
mod sandbox;
mod serve;
mod shell;
mod signals;
mod streams;
mod sub_agents;
mod terminal;
mod trace;
mod trust;
mod usage;
mod wrapping;

use std::{
    ffi::OsString,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    sync::OnceLock,
};

use serde_json::Value;

/// Every dialect, in order.
const DIALECTS: [&str; 9] = [
    "anthropic",
    "openai-responses",
    "openai-chat",
    "gemini",
    "gemini-json",
    "bedrock",
    "mistral",
    "ollama",
    "mcp",
];

/// How one run of the command ended.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// Everything on one page, for snapshots.
    fn page(&self) -> String {
        let mut page = format!("exit {}\n", self.code.unwrap());
        for (name, text) in [("stdout", &self.out), ("stderr", &self.err)] {
            if !text.is_empty() {
                page += &format!("--- {name}\n{text}");
            }
        }
        page
    }

    fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "one line of JSON: {self:?}");
        serde_json::from_str(&self.out).unwrap()
    }
}

/// The command, without environment variables that affect it.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
    for name in ["HAFT_MAX_CONCURRENCY", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(name);
    }
    isolated(&mut command).current_dir(workspace()).stdin(Stdio::null());
    command
}

/// The directory in which commands run that do not need one of their own. It has a few notes.
fn workspace() -> PathBuf {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    let make = || {
        let workspace = Path::new(env!("CARGO_TARGET_TMPDIR")).join("workspace");
        std::fs::create_dir_all(workspace.join(".git")).unwrap(); // the project ends here
        write_notes(&workspace);
        workspace
    };
    MADE.get_or_init(make).clone()
}

#[expect(clippy::disallowed_methods, reason = "the tests make the files they work with")]
fn write_notes(workspace: &Path) {
    std::fs::create_dir_all(workspace.join("notes")).unwrap();
    for (name, text) in NOTES {
        std::fs::write(workspace.join("notes").join(name), text).unwrap();
    }
}

/// The notes of a workspace.
const NOTES: [(&str, &str); 2] = [
    ("garden.txt", "Water the beans before nine.\nNo rain until Friday.\n"),
    ("trip.txt", "Night bus to Lisbon, seat 61.\nTake a rain coat.\n"),
];

/// What `read_file` prints of the first note.
const GARDEN: &str = "1\tWater the beans before nine.\n2\tNo rain until Friday.\n";

/// Hides the rules of this machine and of the user who runs the tests.
fn isolated(command: &mut Command) -> &mut Command {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("empty-home");
    command.env("HOME", &home).env("XDG_CONFIG_HOME", home.join("config"));
    for key in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"] {
        command.env_remove(key);
    }
    command.env_remove("XDG_STATE_HOME");
    command.env_remove("HAFT_MANAGED_FILE")
}

/// A directory for one test, with files and a home directory.
struct TempDir(PathBuf);

impl TempDir {
    #[expect(clippy::disallowed_methods, reason = "the test makes the directory it works in")]
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("dirs").join(name);
        let _ = std::fs::remove_dir_all(&dir);
        let (work, home) = (dir.join("work"), dir.join("home"));
        std::fs::create_dir_all(work.join(".git")).unwrap();
        std::fs::create_dir_all(home).unwrap();
        write_notes(&work);
        for (name, text) in files {
            let path = work.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(dir.canonicalize().unwrap())
    }

    /// The same, trusted.
    fn trusted(name: &str, files: &[(&str, &str)]) -> Self {
        let dir = Self::new(name, files);
        let trust = dir.run(["trust", "--yes"]);
        assert_eq!(trust.code, Some(0), "{trust:?}");
        dir
    }

    fn work(&self) -> PathBuf {
        self.0.join("work")
    }

    /// Writes a file of the working directory.
    #[expect(clippy::disallowed_methods, reason = "the test makes the files it works with")]
    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.work().join(name), text).unwrap();
    }

    /// Writes a file of a directory next to the working directory.
    #[expect(clippy::disallowed_methods, reason = "the test makes the files it works with")]
    fn put_in_sibling(&self, directory: &str, name: &str, text: &str) {
        std::fs::create_dir_all(self.0.join(directory)).unwrap();
        std::fs::write(self.0.join(directory).join(name), text).unwrap();
    }

    fn command(&self) -> Command {
        let mut command = command();
        let home = self.0.join("home");
        command.current_dir(self.work());
        command.env("XDG_CONFIG_HOME", home.join("config")).env("HOME", home);
        command
    }

    fn run(&self, words: impl IntoIterator<Item = impl Into<OsString>>) -> Ran {
        let output = self.command().args(words.into_iter().map(Into::into)).output().unwrap();
        let mut ran = Ran::of(output);
        for text in [&mut ran.out, &mut ran.err] {
            *text = text.replace(&self.0.display().to_string(), "[dir]");
        }
        ran
    }
}

/// Runs a command line; words are split at spaces.
fn haft(line: &str) -> Ran {
    haft_words(line.split_whitespace())
}

fn haft_words(words: impl IntoIterator<Item = impl Into<OsString>>) -> Ran {
    Ran::of(command().args(words.into_iter().map(Into::into)).output().unwrap())
}

/// Runs a command line with something on stdin.
fn haft_fed(line: &str, stdin: &[u8]) -> Ran {
    let mut child = command()
        .args(line.split_whitespace())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read all of it may have ended.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    Ran::of(child.wait_with_output().unwrap())
}

/// Writes a file and returns its path.
#[expect(clippy::disallowed_methods, reason = "the test makes the files it points at")]
fn file(name: &str, content: impl AsRef<[u8]>) -> String {
    let path = workspace().join(name).display().to_string();
    std::fs::write(&path, content).unwrap();
    path
}

/// Returns the text between the markers of a result.
fn unframed(shown: &Value) -> String {
    let shown = shown.as_str().unwrap();
    let (opening, rest) = shown.split_once('\n').unwrap();
    let (body, closing) = rest.rsplit_once('\n').unwrap();
    let nonce = opening.strip_prefix("[haft ").and_then(|rest| rest.split(' ').next()).unwrap();
    assert_eq!(closing, format!("[/haft {nonce}]"), "{shown}");
    body.to_owned()
}

/// Removes the random number from the markers of results.
fn unnumbered(text: &str) -> String {
    let mut parts = text.split("haft ");
    let mut out = parts.next().unwrap().to_owned();
    for part in parts {
        let is_mark = out.ends_with('[') || out.ends_with("[/");
        out += "haft ";
        out += if is_mark { part.get(10..).unwrap() } else { part };
    }
    out
}

/// Reads lines of JSON.
fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[expect(clippy::disallowed_methods, reason = "the test reads what it compares with")]
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// The directory with real tools and calls, if it exists.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
fn corpus() -> Option<PathBuf> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/corpora");
    let dir = std::env::var_os("HAFT_CORPORA").map_or_else(|| default.into(), PathBuf::from);
    let is_there = dir.join("tool-schemas/tools.jsonl").exists();
    if !is_there {
        eprintln!("skipped: there are no corpora at {}", dir.display());
    }
    is_there.then_some(dir)
}
