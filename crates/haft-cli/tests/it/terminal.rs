//! Runs the command at a real terminal (a pty that `script` makes), types, and reads the screen.

#![cfg(unix)]

use std::{
    ffi::{OsStr, OsString},
    io::{Read as _, Write as _},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// How many bytes at the end of the screen are searched.
const LOOKED_AT: usize = 16 << 10;

/// A terminal, with the environment and the directory of a command.
pub(crate) struct Terminal {
    variables: Vec<(OsString, OsString)>,
    directory: PathBuf,
    has_colours: bool,
}

/// The output of a terminal session, and the exit code.
pub(crate) struct Screen {
    /// Everything that was written, in order.
    pub(crate) raw: String,
    pub(crate) code: Option<i32>,
}

impl Screen {
    /// Everything that was written, without carriage returns, and how it ended.
    pub(crate) fn page(&self) -> String {
        format!("{}\nexit {}", self.raw.replace('\r', ""), self.code.unwrap_or(-1))
    }

    /// The lines that a person sees in the end: later text is drawn over earlier text.
    pub(crate) fn lines(&self) -> Vec<String> {
        let (mut lines, mut row, mut column) = (Vec::new(), Vec::new(), 0);
        for c in self.raw.chars() {
            match c {
                '\n' => {
                    lines.push(std::mem::take(&mut row));
                    column = 0;
                }
                '\r' => column = 0,
                c => {
                    if column == row.len() {
                        row.push(c);
                    } else {
                        row[column] = c;
                    }
                    column += 1;
                }
            }
        }
        lines.push(row);
        let text = |row: Vec<char>| row.into_iter().collect::<String>().trim_end().to_owned();
        lines.into_iter().map(text).collect()
    }
}

impl Terminal {
    /// A terminal with the environment of a command.
    pub(crate) fn like(command: &Command) -> Self {
        let given = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let directory = command.get_current_dir().unwrap_or(Path::new("/")).to_owned();
        let own = |(name, value): (&OsStr, &OsStr)| (name.to_owned(), value.to_owned());
        Self { variables: given.map(own).collect(), directory, has_colours: false }
    }

    /// The same with colours.
    pub(crate) fn with_colours(mut self) -> Self {
        self.has_colours = true;
        self
    }

    /// Runs a shell line to its end, for at most a minute. `keys` sees the end of what was written
    /// so far after each piece, and returns what is typed then. `None` where there is no `script`.
    #[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
    pub(crate) fn run(
        &self,
        line: &str,
        mut keys: impl FnMut(&str) -> Option<&'static str>,
    ) -> Option<Screen> {
        let bin = Path::new(env!("CARGO_BIN_EXE_haft")).parent().unwrap();
        let mut script = Command::new("timeout");
        // Without `exec`, some shells stay between `script` and the command, and die of Ctrl-C.
        let line = if line.starts_with("haft ") { format!("exec {line}") } else { line.to_owned() };
        script.args(["-k", "1", "60", "script", "-qec", &line, "/dev/null"]);
        let unset = ["HAFT_MAX_CONCURRENCY", "HAFT_MANAGED_FILE", "XDG_STATE_HOME"];
        for name in unset.into_iter().chain(["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"]) {
            script.env_remove(name);
        }
        let child = script
            .current_dir(&self.directory)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            // `script -c` runs the line with it.
            .env("SHELL", "/bin/sh")
            .env(if self.has_colours { "CLICOLOR_FORCE" } else { "NO_COLOR" }, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let Ok(mut child) = child else {
            eprintln!("skipped: there is no `timeout` here");
            return None;
        };
        let (mut typed, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (mut seen, mut piece) = (Vec::new(), [0; 4096]);
        while let Ok(length @ 1..) = screen.read(&mut piece) {
            seen.extend_from_slice(&piece[..length]);
            let end = &seen[seen.len().saturating_sub(LOOKED_AT)..];
            if let Some(keys) = keys(&String::from_utf8_lossy(end)) {
                // The command may have ended meanwhile.
                let _ = typed.write_all(keys.as_bytes());
            }
        }
        let mut problem = String::new();
        let _ = child.stderr.take().unwrap().read_to_string(&mut problem);
        let code = child.wait().unwrap().code();
        if code == Some(127) || problem.contains("option") {
            // Some systems have no `script`, and some versions of it know no `-c`.
            eprintln!("skipped: `script` does not run commands here: {problem}");
            return None;
        }
        Some(Screen { raw: String::from_utf8_lossy(&seen).into_owned(), code })
    }
}

/// Types once, as soon as the screen shows this.
pub(crate) fn once(
    until: &'static str,
    keys: &'static str,
) -> impl FnMut(&str) -> Option<&'static str> {
    let mut is_typed = false;
    move |seen| {
        let is_due = !is_typed && seen.contains(until);
        is_typed |= is_due;
        is_due.then_some(keys)
    }
}
