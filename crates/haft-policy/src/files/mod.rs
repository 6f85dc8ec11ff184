//! Reads configuration files: `haft.toml`, and the settings of Claude Code in place.
//!
//! In: the texts of files, each with its path and layer. Out: rules, hooks, budget and mode, with
//! notes on what is ignored or handled differently. Pure: the caller reads the files. Every mistake
//! names file, line, column and the fix.

mod call_limits;
mod source;
mod mistake;
mod negated;
mod network;
mod node;
mod json;
mod content;
mod amount;
mod open;
mod toml;
mod settings;
mod settings_keys;
mod template;
mod command_tool;
mod sandbox;
mod model;
mod mcp;
mod audit;
mod relative_path;
mod rule_options;
mod merge;
mod config_path;
mod trust;
mod unused_parameters;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use serde::Serialize;
use serde_json::Value;

pub(super) use self::open::{Symlinks, read};
pub use self::{
    call_limits::CallLimits,
    command_tool::CommandTool,
    config_path::{
        ConfigPath, config_paths, files_from, managed_drop_ins, managed_settings_file,
        project_files, project_root,
    },
    mcp::McpServerTable,
    model::{KeyReference, ModelEndpoint, ModelPrice, ModelSettings},
    open::{read_config_file, read_regular_file},
    sandbox::SandboxSettings,
    trust::{DirectoryId, TrustEntry, TrustedDirs, UntrustedReason},
};
use self::{mistake::Mistakes, source::Source};
use super::{
    budget::Budget,
    context::PolicyContext,
    rule::{ConfigLayer, Rule, SourceLocation},
};
use haft_core::Error;

/// Maximum size of a file in bytes; 20 000 rules fit.
pub(crate) const MAX_FILE: usize = 1 << 20;
/// Maximum number of rules in one file.
const MAX_RULES: usize = 20_000;

/// One configuration file, as it was read.
#[derive(Debug, Clone)]
pub struct ConfigFile {
    /// Its layer.
    pub layer: ConfigLayer,
    /// Its format.
    pub form: FileFormat,
    /// Its path.
    pub path: PathBuf,
    /// The directory that its `/…` patterns start from.
    pub anchor: PathBuf,
    /// Its content.
    pub text: String,
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileFormat {
    /// `haft.toml` and `haft.local.toml`.
    Toml,
    /// Settings of Claude Code.
    Settings,
}

/// Options that are known before the files are read.
#[derive(Debug, Clone, Default)]
pub struct LoadOptions {
    /// The home directory, for `~`.
    pub home: Option<PathBuf>,
    /// Whether the user trusts the directory: otherwise its allows, hooks and roots do not apply.
    pub trusted: bool,
    /// The files of a trusted directory that trust does not cover, by path, with the reason: they
    /// may only deny and ask.
    pub untrusted_files: BTreeMap<PathBuf, UntrustedReason>,
    /// The file that "always" writes to; not used while the directory is not trusted.
    pub always_file: Option<PathBuf>,
}

/// The merged content of all files.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PolicyConfig {
    /// The rules of all files.
    pub rules: Vec<Rule>,
    /// The context that they are evaluated in.
    pub context: PolicyContext,
    /// The hooks of all files, in order.
    pub hooks: Vec<HookSpec>,
    /// Environment variables that hooks get besides the harmless ones. A trailing `*` matches any
    /// ending.
    pub hooks_env: Vec<String>,
    /// The tools that files declare as commands.
    pub tools: Vec<CommandTool>,
    /// What a run may use.
    pub budget: Budget,
    /// The runtime's limits that the files set.
    pub limits: CallLimits,
    /// What commands may access besides the workspace.
    pub sandbox: SandboxSettings,
    /// The file that every call is written to.
    pub audit_file: Option<PathBuf>,
    /// The model of `haft run` and `haft chat`.
    pub model: ModelSettings,
    /// The MCP servers.
    pub mcp_servers: Vec<McpServerTable>,
    /// Whether the mode may be `bypassPermissions`, wherever it is set.
    pub may_bypass: bool,
    /// What is ignored or handled differently.
    pub notes: Vec<FileNote>,
}

impl PolicyConfig {
    /// Reads all files together.
    ///
    /// # Errors
    /// Fails with every mistake in every file, in one error with one hint line each.
    ///
    /// ```
    /// use haft_policy::{ConfigFile, ConfigLayer, FileFormat, LoadOptions, PolicyConfig};
    ///
    /// let file = |text: &str| ConfigFile {
    ///     layer: ConfigLayer::Project,
    ///     form: FileFormat::Toml,
    ///     path: "haft.toml".into(),
    ///     anchor: "/notes".into(),
    ///     text: text.to_owned(),
    /// };
    /// let rule = file("[[rule]]\nmatch = \"Bash(git push *)\"\ndecision = \"ask\"\n");
    /// let setup = PolicyConfig::read(&[rule], &LoadOptions::default())?;
    /// assert_eq!(setup.rules[0].location.to_string(), "haft.toml:2");
    ///
    /// let slip = file("[defaults]\ntimeot = \"5s\"\n");
    /// let error = PolicyConfig::read(&[slip], &LoadOptions::default()).unwrap_err();
    /// assert!(error.message().starts_with("haft.toml:2:1: unknown key `timeot`"));
    /// # Ok::<(), haft_core::Error>(())
    /// ```
    pub fn read(files: &[ConfigFile], options: &LoadOptions) -> Result<Self, Error> {
        let mut mistakes = Mistakes::default();
        let mut content = Vec::with_capacity(files.len());
        for file in files {
            if file.text.len() > MAX_FILE {
                mistakes.add(Source::new(&file.path, "").location(0), || {
                    let long = file.text.len();
                    let message = format!("{long} bytes; a rule file may have at most {MAX_FILE}");
                    (message, Some("check that this is the right file".to_owned()))
                });
                continue;
            }
            let mut one = match file.form {
                FileFormat::Toml => toml::read(file, options, &mut mistakes),
                FileFormat::Settings => settings::read(file, options, &mut mistakes),
            };
            one.locate(file, options);
            if let Some(UntrustedReason::Script(script)) = &one.untrusted_files {
                // FAIL CLOSED: if a guard may not run, the call must not go on without it.
                mistakes.add(Source::new(&file.path, "").location(0), || {
                    let message = format!(
                        "`{script}`, which a hook of this file runs, changed since it was trusted"
                    );
                    let hint =
                        "to see the hooks and to trust the script as it is now, run `haft trust`";
                    (message, Some(hint.to_owned()))
                });
            }
            content.push(one);
        }
        match mistakes.into_error() {
            Some(error) => Err(error),
            None => Ok(merge::merge(content, options)),
        }
    }
}

/// A note about a file, for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileNote {
    /// Where.
    pub location: SourceLocation,
    /// What.
    pub message: String,
}

/// One hook that a file names.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HookSpec {
    /// When it is called: `PreToolUse`, `PostToolUse`, ….
    pub event: String,
    /// The tools it applies to; `None` means all.
    pub matcher: Option<String>,
    /// A further condition, as one rule pattern.
    pub only_if: Option<String>,
    /// What is called.
    pub handler: Handler,
    /// How long it may take.
    pub timeout: Duration,
    /// Whether the call is refused if the hook fails.
    pub fails_closed: bool,
    /// The location of its declaration.
    pub location: SourceLocation,
    /// The layer of the file that declares it.
    pub layer: ConfigLayer,
    /// The directory of the project file that declares it: commands start there. `None` means the
    /// project's root.
    pub directory: Option<PathBuf>,
    /// The files that its command runs, with their digests at the time of trust. They are compared
    /// right before the command starts. A difference refuses the call, even if the hook fails open.
    pub scripts: Vec<HookScript>,
}

/// A file that a hook runs, and its content when it was trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookScript {
    /// Its path, as the hook opens it: a symlink is followed for the comparison.
    pub path: PathBuf,
    /// Its digest ([`TrustedDirs::digest`]); `None` means that there was no such file.
    pub digest: Option<String>,
}

impl HookScript {
    /// Maximum size of a script. A larger program cannot be compared.
    pub const MAX_BYTES: usize = 64 << 20;

    /// Makes a script with the digest of its content; `None` if there is no such file.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>, content: Option<&[u8]>) -> Self {
        Self { path: path.into(), digest: content.map(TrustedDirs::digest) }
    }

    /// Returns whether the file is unchanged. A missing file is a difference, and so is something
    /// that is not a regular file.
    #[must_use]
    pub fn is_unchanged(&self) -> bool {
        let found = read_regular_file(&self.path, Self::MAX_BYTES);
        found.is_ok_and(|now| now.as_deref().map(TrustedDirs::digest) == self.digest)
    }
}

impl HookSpec {
    /// Every event of the protocol, supported or not. Any other name is a mistake.
    pub const PROTOCOL: &'static [&'static str] = &[
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "Notification",
        "UserPromptSubmit",
        "UserPromptExpansion",
        "SessionStart",
        "SessionEnd",
        "Stop",
        "StopFailure",
        "SubagentStart",
        "SubagentStop",
        "PreCompact",
        "PostCompact",
        "PreModelSwitch",
        "PostModelSwitch",
        "PermissionRequest",
        "PermissionDenied",
        "Setup",
        "TeammateIdle",
        "TaskCreated",
        "TaskCompleted",
        "Elicitation",
        "ElicitationResult",
        "ConfigChange",
        "WorktreeCreate",
        "WorktreeRemove",
        "InstructionsLoaded",
        "CwdChanged",
        "FileChanged",
        "DirectoryAdded",
        "MessageDisplay",
    ];

    /// The events that hooks are called for.
    pub const EVENTS: &'static [&'static str] = &[
        "PreToolUse",
        "PostToolUse",
        "PostToolUseFailure",
        "PostToolBatch",
        "PermissionRequest",
        "PermissionDenied",
        "SessionStart",
        "Notification",
    ];

    /// Returns whether an event is about a call of one tool, so that `if` applies.
    fn about_tools(event: &str) -> bool {
        matches!(
            event,
            "PreToolUse"
                | "PostToolUse"
                | "PostToolUseFailure"
                | "PermissionRequest"
                | "PermissionDenied"
        )
    }

    /// Makes a hook that is called at every such event, may take ten minutes as its protocol says,
    /// and fails closed.
    #[must_use]
    pub fn new(event: impl Into<String>, handler: Handler) -> Self {
        Self {
            event: event.into(),
            matcher: None,
            only_if: None,
            handler,
            timeout: Duration::from_secs(600),
            fails_closed: true,
            location: SourceLocation::default(),
            layer: ConfigLayer::Code,
            directory: None,
            scripts: Vec::new(),
        }
    }
}

/// What a hook calls.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Handler {
    /// A command line for a shell, or a program with its arguments.
    Command {
        /// The command line, or the program.
        command: String,
        /// The arguments; with them no shell is started.
        args: Option<Vec<String>>,
    },
    /// A URL that receives a POST request.
    Http {
        /// The URL.
        url: String,
        /// Headers, in which `$NAME` is replaced by an environment variable.
        headers: Vec<(String, String)>,
        /// The variables that headers may use.
        allowed_variables: Vec<String>,
    },
    /// Anything else, kept as written and reported.
    Other(Value),
}

impl Handler {
    /// Returns why a handler could never object, if that is so. An empty command ends with exit
    /// code 0, which means "no objection".
    #[must_use]
    pub fn mistake(&self) -> Option<&'static str> {
        match self {
            Self::Command { command, .. } if is_blank(command) => Some("the command is empty"),
            Self::Command { command, args } => {
                let args = args.as_deref().unwrap_or_default();
                let mut all = args.iter().chain([command]);
                let words: Vec<&str> =
                    std::iter::once(command).chain(args).map(String::as_str).collect();
                if all.any(|text| text.contains('\0')) {
                    Some("the command contains a NUL byte")
                } else if args.is_empty() && is_comment(command) {
                    Some("the command is only a comment")
                } else if has_empty_script(&words) || args.is_empty() && runs_nothing(command) {
                    Some("the script after `-c` is empty, or the line runs no command")
                } else {
                    None
                }
            }
            Self::Http { url, .. } if is_blank(url) => Some("the URL is empty"),
            Self::Http { .. } | Self::Other(_) => None,
        }
    }

    /// The next step for a handler with a [`Handler::mistake`].
    pub const NEXT_STEP: &'static str = "name what to run, as in `./guard.sh`, or remove the hook";
}

/// Whether a text has no visible character.
fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c.is_control() || haft_sanitize::is_invisible(c))
}

/// Whether a shell is given a script without a command: `sh -c ''`, `env bash -lc '# x'`.
fn has_empty_script(words: &[&str]) -> bool {
    let is_shell = |word: &&str| {
        let name = word.rsplit('/').next().unwrap_or_default();
        matches!(name, "sh" | "bash" | "dash" | "ash" | "zsh" | "ksh" | "fish")
    };
    let takes_script =
        |flag: &str| flag.starts_with('-') && !flag.starts_with("--") && flag.ends_with('c');
    let shell = words.iter().position(is_shell).unwrap_or(words.len());
    words
        .iter()
        .skip(shell)
        .zip(words.iter().skip(shell + 1))
        .any(|(flag, script)| takes_script(flag) && is_comment(script))
}

/// Whether no command of a line runs anything: `sh -c ''`, `> /dev/null`, a lone line continuation.
/// A line that cannot be parsed may run something.
fn runs_nothing(line: &str) -> bool {
    let is_empty = |command: &haft_shell::SimpleCommand| {
        let words: Option<Vec<&str>> =
            command.words.iter().map(haft_shell::Word::literal).collect();
        words.is_some_and(|words| {
            words.iter().all(|word| word.is_empty()) || has_empty_script(&words)
        })
    };
    haft_shell::parse(line).is_ok_and(|script| script.commands.iter().all(is_empty))
}

/// Whether a script has no command: every line is blank or a comment.
fn is_comment(script: &str) -> bool {
    script.lines().all(|line| is_blank(line) || line.trim_start().starts_with('#'))
}
