//! `haft install`: rewrites the configuration of an MCP client, so that its servers run behind
//! haft, and puts the old file back.
//!
//! INVARIANT: the old file is kept before the new one is written, and the new one replaces it in
//! one step. Only the command of a server changes.

use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

use serde_json::{Value, json};

use crate::{
    args::{self, McpClient},
    error::Problem,
    host_env::HostEnv,
    input,
    install_edit::{self, Change, ClientFormat},
    mcp_files,
    style::{self, BOLD, DIM},
};

/// The end of the name of the old file.
const KEPT: &str = ".before-haft";

pub(crate) fn run(args: &args::Install, host: &HostEnv) -> Result<ExitCode, Problem> {
    let file = match &args.file {
        Some(file) => file.clone(),
        None => default_file(args.client, args.project, host)?,
    };
    // The target of a symlink is changed, so that it stays a symlink.
    let shown = file;
    let file = shown.canonicalize().unwrap_or_else(|_| shown.clone());
    if args.undo {
        undo(&file, &shown, args.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let text = input::file(&file)?;
    let program = this_program()?;
    let (new, changes) = install_edit::wrap_servers(&text, format_of(&file), &program)
        .map_err(|problem| Problem::new(format!("`{}`: {problem}", file.display())))?;
    if !args.dry_run && changes.iter().any(|change| change.after.is_some()) {
        keep_and_write(&file, &text, &new)?;
    }
    report(&shown, &changes, args)?;
    Ok(ExitCode::SUCCESS)
}

/// A TOML file is one of codex; every other file is JSON, with comments or without.
fn format_of(file: &Path) -> ClientFormat {
    if file.extension().is_some_and(|extension| extension == "toml") {
        ClientFormat::Toml
    } else {
        ClientFormat::Json
    }
}

fn this_program() -> Result<String, Problem> {
    let path = std::env::current_exe()
        .map_err(|e| Problem::new(format!("the path of this program is unknown: {e}")))?;
    path.to_str().map(str::to_owned).ok_or_else(|| {
        Problem::new("the path of this program is not UTF-8").hint("install haft elsewhere")
    })
}

fn default_file(client: McpClient, is_project: bool, host: &HostEnv) -> Result<PathBuf, Problem> {
    if is_project {
        let file = match client {
            McpClient::ClaudeCode => ".mcp.json",
            McpClient::Cursor => ".cursor/mcp.json",
            McpClient::VsCode => ".vscode/mcp.json",
            McpClient::Codex => ".codex/config.toml",
            McpClient::ClaudeDesktop => {
                return Err(Problem::new("Claude Desktop has no file of a project"));
            }
        };
        return Ok(host.here.join(file));
    }
    let home = host.home.as_ref().ok_or_else(|| {
        Problem::new("`HOME` is not set").hint("name the file with `--file FILE`")
    })?;
    let settings = home.join(mcp_files::applications());
    Ok(match client {
        McpClient::ClaudeCode => home.join(".claude.json"),
        McpClient::ClaudeDesktop => settings.join("Claude/claude_desktop_config.json"),
        McpClient::Cursor => home.join(".cursor/mcp.json"),
        McpClient::VsCode => settings.join("Code/User/mcp.json"),
        McpClient::Codex => host
            .variables
            .get("CODEX_HOME")
            .filter(|path| !path.is_empty())
            .map_or_else(|| home.join(".codex"), PathBuf::from)
            .join("config.toml"),
    })
}

fn kept_file(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(KEPT);
    name.into()
}

/// Keeps the old file, and then replaces it in one step.
fn keep_and_write(file: &Path, old: &str, new: &str) -> Result<(), Problem> {
    let failed =
        |what: &str, e: io::Error| Problem::new(format!("cannot {what} `{}`: {e}", file.display()));
    let kept = kept_file(file);
    // A second run must not replace what was there before the first.
    if !kept.exists() {
        write(&kept, old, file).map_err(|e| failed("keep the old content of", e))?;
    }
    replace(file, new)
}

/// Replaces a file in one step.
fn replace(file: &Path, new: &str) -> Result<(), Problem> {
    let failed =
        |what: &str, e: io::Error| Problem::new(format!("cannot {what} `{}`: {e}", file.display()));
    let mut temporary = file.as_os_str().to_owned();
    temporary.push(".haft-new");
    let temporary = PathBuf::from(temporary);
    write(&temporary, new, file).map_err(|e| failed("write a copy of", e))?;
    fs::rename(&temporary, file).map_err(|e| failed("replace", e))
}

/// Writes a file with the permissions of another one: it may have secrets.
#[expect(clippy::disallowed_methods, reason = "the person names the file of the client")]
fn write(path: &Path, text: &str, like: &Path) -> io::Result<()> {
    let permissions = fs::metadata(like)?.permissions();
    fs::write(path, "")?;
    fs::set_permissions(path, permissions)?;
    fs::write(path, text)
}

fn undo(file: &Path, shown: &Path, output: args::Output) -> Result<(), Problem> {
    let kept = kept_file(file);
    if !kept.exists() {
        return Err(Problem::new(format!("there is no `{}`", kept_file(shown).display()))
            .hint("haft keeps the old file only if it has changed it"));
    }
    let cannot = |e: io::Error| Problem::new(format!("cannot put `{}` back: {e}", file.display()));
    let changed = changed_since(file, &kept)?;
    match &changed {
        // What the client or the person wrote since then stays.
        Some((text, _)) => {
            replace(file, text)?;
            fs::remove_file(&kept).map_err(cannot)?;
        }
        None => fs::rename(&kept, file).map_err(cannot)?,
    }
    let servers = changed.map(|(_, servers)| servers);
    if output.json {
        let whole = json!({"file": shown, "restored": servers.is_none(), "unwrapped": servers});
        style::print(format_args!("{whole}\n"))?;
        return Ok(());
    }
    let name = style::visible(&shown.display().to_string());
    style::print_page(match servers {
        None => format!("put back {name}\n"),
        Some(servers) => format!(
            "{name} has changed since: {} put back, the rest stays\n",
            style::count(servers, "command")
        ),
    })?;
    Ok(())
}

/// If a file is not as haft wrote it: its text with the commands put back, and how many. A file
/// that is missing has nothing to keep.
fn changed_since(file: &Path, kept: &Path) -> Result<Option<(String, usize)>, Problem> {
    let Ok(now) = input::file(file) else { return Ok(None) };
    let format = format_of(file);
    let written = install_edit::wrap_servers(&input::file(kept)?, format, &this_program()?);
    if written.is_ok_and(|(written, _)| written == now) {
        return Ok(None);
    }
    let unwrapped = install_edit::unwrap_servers(&now, format).map_err(|problem| {
        Problem::new(format!("`{}`: {problem}", file.display()))
            .hint(format!("the file from before haft is `{}`", kept.display()))
    })?;
    Ok(Some(unwrapped))
}

fn report(file: &Path, changes: &[Change], args: &args::Install) -> Result<(), Problem> {
    if args.output.json {
        let servers: Vec<Value> = changes
            .iter()
            .map(|change| {
                let after = change.after.as_ref().and_then(|words| words.split_first());
                let after = after.map(|(command, args)| json!({"command": command, "args": args}));
                json!({"server": change.server, "after": after, "unchanged": change.why_not})
            })
            .collect();
        let whole = json!({"file": file, "dry_run": args.dry_run, "servers": servers});
        style::print(format_args!("{whole}\n"))?;
        return Ok(());
    }
    let file = style::visible(&file.display().to_string());
    let mut page = String::new();
    for change in changes {
        let name = style::paint(BOLD, style::visible(&change.server));
        match (&change.after, change.why_not) {
            (Some(words), _) => {
                page.push_str(&format!("{name}  {}\n", style::visible(&words.join(" "))));
            }
            (None, Some(why)) => {
                page.push_str(&format!(
                    "{name}  {}\n",
                    style::paint(DIM, format_args!("unchanged: {why}"))
                ));
            }
            (None, None) => {}
        }
    }
    let count = changes.iter().filter(|change| change.after.is_some()).count();
    let has_changes = count > 0;
    let count = style::count(count, "server");
    page.push_str(&if !has_changes {
        format!("nothing to change in {file}\n")
    } else if args.dry_run {
        format!("{count} in {file} would run behind haft\n")
    } else {
        format!("{count} in {file} now run behind haft; `--undo` puts the old file back\n")
    });
    style::print_page(page)?;
    Ok(())
}
