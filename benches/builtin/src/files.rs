//! `search_files` compared with `rg`, and `read_file` of 100 MB compared with `sed` and `tail`.
//!
//! The tree is generated for the run: 6 000 files in 200 directories, about 50 MB, with ignore
//! files. Ours is a whole call: authorized, recorded, bounded.

use std::{
    fs::File,
    io::{BufWriter, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

use haft::{
    Run, Runtime, ToolCall, ToolRegistry,
    policy::AllowAll,
    serde_json::{Value, json},
};
use haft_sandbox::{Access, Workspace};
use haft_tools::BuiltinTools;
use tempfile::TempDir;
use tokio::runtime::Builder;

use crate::{Case, Group, without};

const DIRECTORIES: usize = 200;
const FILES: usize = 30;
/// The size of the large file.
const LARGE_FILE_BYTES: u64 = 100 << 20;
const WORDS: [&str; 8] = ["alpha", "beta", "gamma", "delta", "value", "return", "struct", "import"];

/// A directory, and a run in it.
struct Fixture {
    _home: TempDir,
    directory: PathBuf,
    run: Run,
    tokio: tokio::runtime::Runtime,
}

impl Fixture {
    fn new() -> Result<Self, String> {
        let home = tempfile::tempdir().map_err(|e| e.to_string())?;
        let directory = home.path().canonicalize().map_err(|e| e.to_string())?;
        let workspace = Workspace::builder().root(&directory, Access::Write).build();
        let tools = BuiltinTools::new(workspace.map_err(|e| e.to_string())?);
        let registry = ToolRegistry::builder().add(tools).build().map_err(|e| e.to_string())?;
        let runtime = Runtime::builder().registry(registry).policy(AllowAll).build();
        let runtime = runtime.map_err(|e| e.to_string())?;
        let run = runtime.run_builder().working_directory(&directory).start();
        let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        Ok(Self { _home: home, directory, run, tokio: tokio.map_err(|e| e.to_string())? })
    }

    fn call(&self, tool: &str, arguments: Value) -> Result<String, String> {
        let call = ToolCall::new("c", tool, arguments);
        self.tokio.block_on(async {
            let turn = self.run.turn().await.map_err(|e| e.to_string())?;
            let answer = turn.run(vec![call]).await.pop().ok_or("no answer")?;
            if answer.is_error() {
                Err(answer.text().into_owned())
            } else {
                Ok(answer.text().into_owned())
            }
        })
    }
}

pub(crate) fn groups(wants: &dyn Fn(&str) -> bool) -> Result<Vec<Group>, String> {
    let mut groups = Vec::new();
    if wants("search") {
        groups.extend(searches()?);
    }
    if wants("read") {
        groups.extend(reads()?);
    }
    Ok(groups)
}

fn searches() -> Result<Vec<Group>, String> {
    let fixture = Arc::new(Fixture::new()?);
    tree(&fixture.directory).map_err(|e| format!("cannot make the tree: {e}"))?;
    let has_rg = runs("rg");
    let patterns = [
        ("search: a rare word", "needle_[0-9]+", false),
        ("search: no match", "nowhere_to_be_found", false),
        ("search: any case", "NEEDLE_[0-9]+", true),
    ];
    let group = |(name, pattern, any_case): (&'static str, &'static str, bool)| {
        let ours = Arc::clone(&fixture);
        let mut cases = vec![Case::new("search_files", move || {
            let arguments = json!({"pattern": pattern, "ignore_case": any_case, "limit": 2000});
            let found_text = ours.call("search_files", arguments)?;
            let found = found_text.lines().filter(|line| line.contains(":let needle_")).count();
            is_right(pattern, found, &found_text)
        })];
        let directory = fixture.directory.clone();
        if has_rg {
            cases.push(Case::new("rg", move || {
                let mut command = Command::new("rg");
                // Without it rg checks whether the directory is a git repository.
                command.args(["-n", "--no-config", "--no-require-git", "-e", pattern]);
                if any_case {
                    command.arg("-i");
                }
                let found_text = output(command.arg(".").current_dir(&directory))?;
                is_right(pattern, found_text.lines().count(), &found_text)
            }));
        }
        Group {
            name: name.to_owned(),
            cases,
            times: 1,
            rest: Duration::ZERO,
            has_cpu: true,
            max_rounds: usize::MAX,
        }
    };
    Ok(patterns.into_iter().map(group).collect())
}

/// Subjects that find different matches do different work.
fn is_right(pattern: &str, found: usize, found_text: &str) -> Result<(), String> {
    let wanted = if pattern.starts_with("nowhere") { 0 } else { DIRECTORIES };
    if found == wanted {
        Ok(())
    } else {
        Err(format!("{found} of {wanted} were found for `{pattern}`: {found_text:.300}"))
    }
}

fn reads() -> Result<Vec<Group>, String> {
    let fixture = Arc::new(Fixture::new()?);
    let lines =
        large(&fixture.directory.join("large.txt")).map_err(|e| format!("no large file: {e}"))?;
    let mut groups = Vec::new();
    for (name, from) in [
        ("read: the first lines", 1),
        ("read: the middle of 100 MB", lines / 2),
        ("read: the end of 100 MB", lines - 99),
    ] {
        let ours = Arc::clone(&fixture);
        let wanted = format!("{from:09} ");
        let check = move |found_text: &str| {
            if found_text.contains(&wanted) {
                Ok(())
            } else {
                Err(format!("the wrong lines: {found_text:.100}"))
            }
        };
        let checks = [check.clone(), check.clone(), check];
        let [check_ours, check_sed, check_tail] = checks;
        let arguments = json!({"file_path": "large.txt", "offset": from, "limit": 100});
        let (sed_in, tail_in) = (fixture.directory.clone(), fixture.directory.clone());
        let script = format!("{from},{}p;{}q", from + 99, from + 99);
        let cases = vec![
            Case::new("read_file", move || check_ours(&ours.call("read_file", arguments.clone())?)),
            Case::new("sed -n", move || {
                let mut command = Command::new("sed");
                command.args(["-n", &script, "large.txt"]).current_dir(&sed_in);
                check_sed(&output(&mut command)?)
            }),
            Case::new("tail | head", move || {
                let mut command = Command::new("sh");
                let script = format!("tail -n +{from} large.txt | head -n 100");
                command.args(["-c", &script]).current_dir(&tail_in);
                check_tail(&output(&mut command)?)
            }),
        ];
        groups.push(Group {
            name: name.to_owned(),
            cases,
            times: 1,
            rest: Duration::ZERO,
            has_cpu: true,
            max_rounds: usize::MAX,
        });
    }
    Ok(groups)
}

/// Returns whether a program is installed, and prints a line if it is not.
pub(crate) fn runs(name: &str) -> bool {
    let asked = Command::new(name).arg("--version").stdout(Stdio::null()).status();
    match asked {
        Ok(status) if status.success() => return true,
        Ok(status) => without(name, &format!("`{name} --version` ended with {status}")),
        Err(e) => {
            without(name, &format!("it cannot be started ({e}); scripts/bench-builtin gets it"))
        }
    }
    false
}

fn output(command: &mut Command) -> Result<String, String> {
    let done = command.stderr(Stdio::null()).output().map_err(|e| format!("{command:?}: {e}"))?;
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// Lines that look like a program, the same in every run.
fn line(n: u64, to: &mut impl Write) -> std::io::Result<()> {
    let word = |shift: u64| {
        let mixed = n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17) >> shift;
        WORDS[usize::try_from(mixed % 8).unwrap_or(0)]
    };
    writeln!(to, "{n:09} let {} = {}({}, {});", word(3), word(11), word(19), n % 997)
}

fn tree(base: &Path) -> std::io::Result<()> {
    let file = |path: PathBuf| File::create(path).map(BufWriter::new);
    writeln!(file(base.join(".gitignore"))?, "*.log\nout/\n/secret.txt")?;
    for directory in 0..DIRECTORIES {
        let path = base.join(format!("part{}/directory{directory}", directory % 10));
        std::fs::create_dir_all(path.join("out"))?;
        writeln!(file(path.join("out/built.rs"))?, "let needle_0 = ignored;")?;
        for n in 0..FILES {
            let mut to = file(path.join(format!("file{n}.rs")))?;
            for row in 0..180 {
                line((directory * 10_000 + n * 200 + row) as u64, &mut to)?;
            }
            if n == 7 {
                writeln!(to, "let needle_{directory} = found;")?;
            }
        }
    }
    Ok(())
}

fn large(path: &Path) -> std::io::Result<u64> {
    let mut to = BufWriter::new(File::create(path)?);
    let (mut written, mut lines) = (0, 0);
    let mut row = Vec::new();
    while written < LARGE_FILE_BYTES {
        lines += 1;
        row.clear();
        line(lines, &mut row)?;
        to.write_all(&row)?;
        written += row.len() as u64;
    }
    to.flush()?;
    Ok(lines)
}
