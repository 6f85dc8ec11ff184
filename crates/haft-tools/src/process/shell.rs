//! The tool `shell`: runs an argument list or a command text in the sandbox.
//!
//! The classifier (`haft_shell`) decides the call's profile and its sandbox: a read-only command
//! runs in parallel and cannot write. An argument list, and a text of plain words, runs without a
//! shell; anything else runs in bash. A read-only command that names all its files sees only these,
//! the workspace and the system. A program of the workspace is never proven read-only.
//!
//! INVARIANT: authorization and execution use the same words. The visible files follow from these
//! words alone, so a swapped symlink cannot widen them (TOCTOU).

use std::{
    path::{Component, Path, PathBuf},
    sync::{Arc, OnceLock},
    time::Duration,
};

use haft_core::{
    Block, CallProfile, Capabilities, Capability, ConcurrencyClass, Effect, Effects, Failure,
    FailureCode, Interrupt, Isolation, Output, Tool, ToolContext, ToolSpec, Verdict,
    host::HostContext, schemars,
};
use haft_sandbox::{Command, Environment, Level, Network, Profile, ReadableFiles, Workspace};
use haft_shell::{CommandEffect, Kind, classify};
use serde::Deserialize;
use serde_json::json;

use super::{
    boundary::Boundary,
    confined::{self, MAX_CONFINED_RESIDENT, Settings},
    find,
    git::GitConfig,
    masks,
    network::{CommandNetwork, NetworkOptions},
    plain_words::plain_words,
    programs::Programs,
    run::{self, Job},
    start_directory,
};
use crate::network::variables;

/// Default timeout: enough for the tests of a medium project.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum timeout; the deadline of the call applies too.
const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// The tool `shell`.
#[derive(Debug)]
pub(super) struct Shell {
    pub(super) workspace: Arc<Workspace>,
    pub(super) boundary: Boundary,
    pub(super) environment: Environment,
    /// Git configuration in the private home directory.
    pub(super) git: GitConfig,
    /// What commands may contact.
    pub(super) network: NetworkOptions,
    /// The operator's settings.
    pub(super) settings: Settings,
    /// The program directories, where commands are only explained.
    pub(super) known_programs: OnceLock<Arc<Programs>>,
}

#[derive(Debug, Clone, Deserialize, schemars::JsonSchema)]
#[schemars(crate = "haft_core::schemars")]
pub(super) struct Args {
    /// The command as text, run by bash: `grep -c x *.txt | sort`. Give this or `argv`.
    #[serde(default)]
    #[schemars(extend("x-haft" = "command"))]
    command: Option<String>,
    /// The command as an argument list, run without a shell: `["git", "log", "-3"]`. Give this or
    /// `command`.
    #[serde(default)]
    #[schemars(extend("x-haft" = "words"))]
    argv: Option<Vec<String>>,
    /// The directory to start in, inside the workspace. Default: the working directory of the run.
    #[serde(default)]
    #[schemars(extend("x-haft" = "directory"))]
    cwd: Option<String>,
    /// Timeout in milliseconds; default: 120000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 600_000))]
    timeout_ms: Option<u64>,
    /// Protected files that the command changes, as in `[".github/workflows/ci.yml"]`. Each needs
    /// approval. Without this the sandbox refuses to change them.
    #[serde(default)]
    may_change: Option<Vec<String>>,
    /// Hosts that the command must contact, as in `["packages.example"]`. Hosts that are not
    /// configured need approval. Only HTTP and HTTPS pass, through a proxy.
    #[serde(default)]
    #[schemars(extend("x-haft" = "network"))]
    network: Option<Vec<String>>,
    /// Standard input of the command; default: empty.
    #[serde(default)]
    stdin: Option<String>,
    /// A command that is not known to write runs without approval, read-only and without network.
    /// Set `write` if it must change files or use the network: this may need approval.
    #[serde(default)]
    access: Option<Needs>,
}

/// What a command needs beyond reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, schemars::JsonSchema)]
#[schemars(crate = "haft_core::schemars")]
#[serde(rename_all = "snake_case")]
enum Needs {
    /// It changes files or uses the network.
    Write,
}

impl Args {
    /// The protected files that the call names.
    fn may_change(&self) -> &[String] {
        self.may_change.as_deref().unwrap_or_default()
    }
}

/// Why a command may run, which decides its sandbox.
#[derive(Debug)]
enum Permission<'a> {
    /// It is proven read-only, and restricted to these programs.
    ReadOnly(&'a Programs),
    /// The sandbox prevents all effects.
    Confined(&'a Programs),
    /// Allowed by a rule, a hook or a person.
    Approved,
}

impl<'a> Permission<'a> {
    /// FAIL CLOSED: a confined call gets nothing else, whatever its words are. The same holds if
    /// the host sets no profile.
    fn of(command_line: &ShellCommand, programs: &'a Programs, cx: &ToolContext) -> Self {
        if cx.is_confined() {
            return Self::Confined(programs);
        }
        // TOCTOU: a call authorized as read-only finds no program of the workspace, even one
        // planted since.
        if cx.profile().is_none_or(|profile| profile.read_only)
            && command_line.kind == Kind::ReadOnly
        {
            Self::ReadOnly(programs)
        } else {
            Self::Approved
        }
    }
}

/// A requested command: its classification and its arguments.
struct ShellCommand {
    kind: Kind,
    known: CommandEffect,
    why: String,
    text: String,
    argv: Vec<String>,
    /// All files that it reads, if it is read-only and names them all.
    reads: Option<Vec<String>>,
}

impl ShellCommand {
    fn of(args: &Args) -> Result<Self, Failure> {
        let (text, words) = match (&args.command, &args.argv) {
            (Some(text), None) => (text.clone(), None),
            (None, Some(words)) => (haft_shell::quoted(words), Some(words.clone())),
            (Some(_), Some(_)) => return Err(bad_arguments("`command` and `argv` are both given")),
            (None, None) => return Err(bad_arguments("neither `command` nor `argv` is given")),
        };
        if words.as_ref().is_some_and(|words| words.first().is_none_or(String::is_empty))
            || text.trim().is_empty()
        {
            return Err(bad_arguments("the command is empty"));
        }
        if text.contains('\0') {
            return Err(bad_arguments("the command has a NUL byte in it"));
        }
        let known = classify(&text);
        let reads = haft_shell::reads(&text);
        let argv = words.or_else(|| plain_words(&text)).unwrap_or_else(|| {
            ["bash", "--noprofile", "--norc", "-c"]
                .map(str::to_owned)
                .into_iter()
                .chain([text.clone()])
                .collect()
        });
        let (kind, why, known) = (known.kind, known.why, known.known);
        Ok(Self { kind, known, why, text, argv, reads })
    }

    /// Returns why the command would fail without write access and network, judged by its words.
    fn cannot_confine(&self, args: &Args) -> Option<&'static str> {
        // Quoted or not: an unneeded approval is better than a run that must fail.
        let names_home = |word: &str| word == "~" || word.starts_with("~/");
        match self.known {
            CommandEffect::Writes => Some("the command is known to write"),
            CommandEffect::Network => Some("the command is known to reach the network"),
            _ if args.access.is_some() => Some("the call asks for write access"),
            _ if args.network.as_ref().is_some_and(|hosts| !hosts.is_empty()) => {
                Some("the call asks for network access")
            }
            _ if self.text.split_whitespace().any(names_home)
                || ["$HOME", "${HOME"].iter().any(|name| self.text.contains(name)) =>
            {
                Some("the command names the home directory, which is hidden from confined commands")
            }
            CommandEffect::ReadOnly | CommandEffect::Unknown => None,
        }
    }

    /// Returns the files that it reads, resolved from its directory.
    fn reads_from(&self, start: &Path) -> Option<Vec<PathBuf>> {
        Some(self.reads.as_ref()?.iter().map(|path| start.join(path)).collect())
    }
}

fn bad_arguments(what: &str) -> Failure {
    Failure::new(FailureCode::BadArguments, what).with_next(
        "give exactly one: `command` as a text, as in \"ls -l\", or `argv` as a list, as in \
         [\"ls\", \"-l\"]",
    )
}

impl Shell {
    fn capabilities(&self) -> Capabilities {
        let all = Capabilities::from([Capability::Subprocess, Capability::Filesystem]);
        // Listed hosts are known to the operator. A contact to any other is authorized by itself.
        if self.network.access.is_all() { all.with(Capability::Network) } else { all }
    }

    /// The profile of commands that a rule or a person allowed.
    fn whole_profile(&self, level: Level) -> Profile {
        self.settings.apply(Profile::of(self.capabilities(), &self.workspace), level)
    }

    /// The network of a call.
    fn call_network(&self, args: &Args) -> Result<CommandNetwork, Failure> {
        CommandNetwork::requested(&self.network, args.network.as_deref())
    }

    /// The sandbox profile. A read-only command cannot write or use the network. One that names its
    /// files sees no others.
    fn sandbox_profile(
        &self,
        command_line: &ShellCommand,
        start: &Path,
        level: Level,
        permission: &Permission<'_>,
    ) -> Profile {
        let profile = self.whole_profile(level);
        let allowed_programs = match permission {
            Permission::Confined(programs) => return confined::confined(profile, programs),
            Permission::ReadOnly(programs) => Some(programs),
            Permission::Approved => None,
        };
        if command_line.kind != Kind::ReadOnly {
            return profile;
        }
        let mut profile = Profile { network: Network::None, ..profile.read_only() };
        profile.limits.resident = MAX_CONFINED_RESIDENT;
        if let (Some(files), Some(programs)) = (command_line.reads_from(start), allowed_programs) {
            let roots = &profile.roots;
            let is_outside =
                |path: &PathBuf| !roots.iter().any(|root| path.starts_with(&root.path));
            // The approval showed these names. A symlink in the workspace is not an outside name.
            let shown = files.iter().map(|path| normalize_lexically(path)).filter(is_outside);
            profile.reads = ReadableFiles::Only(shown.chain(programs.directories()).collect());
        }
        profile
    }

    /// Resolves the program directories now (TOCTOU), or once if nothing runs.
    pub(super) fn programs(&self) -> Arc<Programs> {
        let now = || Arc::new(Programs::of(&self.workspace, &self.settings, &self.environment));
        if self.settings.explains_only {
            Arc::clone(self.known_programs.get_or_init(now))
        } else {
            now()
        }
    }

    /// Whether a command is proven read-only: by its classification, and because its programs are
    /// outside the workspace.
    fn is_proven_read_only(&self, command_line: &ShellCommand) -> bool {
        let programs = self.programs();
        let starts = |name: &String| programs.has(name);
        command_line.kind == Kind::ReadOnly
            && command_line.argv.first().is_some_and(starts)
            && programs.has_all(&command_line.text)
    }

    /// The effects of a read-only command: the files it names, or undeclared.
    ///
    /// A path with `..` is declared twice. A program resolves symlinks before `..`; a shell that
    /// changes directories, and the sandbox view, resolve it lexically.
    fn effects(&self, command_line: &ShellCommand, args: &Args, cx: &ToolContext) -> Effects {
        let cwd = args.cwd.as_deref().unwrap_or(".");
        let start = find(&self.workspace, cx.working_directory(), cwd).map(|at| at.absolute());
        let files = start.ok().and_then(|start| command_line.reads_from(&start));
        let Some(mut files) = files else { return Effects::Undeclared };
        let has_parent_dir =
            |path: &&PathBuf| path.components().any(|part| part == Component::ParentDir);
        let lexical: Vec<PathBuf> =
            files.iter().filter(has_parent_dir).map(|path| normalize_lexically(path)).collect();
        files.extend(lexical);
        let text = |path: PathBuf| path.into_os_string().into_string().ok().map(Effect::read);
        let effects: Option<Vec<Effect>> = files.into_iter().map(text).collect();
        effects.map_or(Effects::Undeclared, Effects::from)
    }
}

/// Removes `.` and `..` from an absolute path lexically.
fn normalize_lexically(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

impl Tool for Shell {
    type Args = Args;
    type Output = Output;
    const ISOLATED: bool = true;
    const GUARDS: bool = true;

    fn spec(&self) -> ToolSpec {
        // The model should not try to install or download something.
        let network = if self.network.access.is_none() { "there is no network, " } else { "" };
        let mut spec = ToolSpec::new(
            "shell",
            format!(
                "Runs a command in a sandbox and returns its output and exit status. Files \
                 outside the workspace cannot be changed, {network}no process keeps running \
                 afterwards, and there is no terminal for input. A non-zero exit code is a result \
                 too; its first line says so. A command that is not known to write may run \
                 read-only without approval; `access` requests more. Prefer the file tools for \
                 reading, searching and editing files."
            ),
        )
        .title("Shell")
        .capabilities(self.capabilities())
        .isolation(Isolation::Required)
        .interrupt(Interrupt::Cancel)
        .timeout(MAX_TIMEOUT)
        .example(json!({"argv": ["git", "log", "--oneline", "-3"]}))
        .example(json!({"command": "grep -rl TODO src | wc -l"}));
        spec.per_call = vec!["class", "read_only", "destructive", "effects"];
        spec
    }

    fn profile(&self, declared: CallProfile, args: &Args, cx: &ToolContext) -> CallProfile {
        let Ok(command_line) = ShellCommand::of(args) else { return CallProfile::strictest() };
        let confinable = command_line.cannot_confine(args).is_none();
        match command_line.kind {
            Kind::ReadOnly if self.is_proven_read_only(&command_line) => {
                let effects = self.effects(&command_line, args, cx);
                CallProfile {
                    class: ConcurrencyClass::ReadOnly,
                    read_only: true,
                    destructive: Some(false),
                    effects,
                    confinable,
                    ..declared
                }
            }
            // It may do anything that the sandbox permits; whether it is destructive is unknown.
            // The same holds for a program of the workspace, whatever its name.
            Kind::ReadOnly | Kind::Writes => {
                let effects = self.protected_effects(
                    &command_line.text,
                    args.may_change(),
                    args.cwd.as_deref(),
                    cx,
                );
                // A command that changes a protected file would only fail.
                let confinable = confinable && effects == Effects::Undeclared;
                CallProfile { class: ConcurrencyClass::Unsafe, effects, confinable, ..declared }
            }
            Kind::Destructive => {
                let effects = self.protected_effects(
                    &command_line.text,
                    args.may_change(),
                    args.cwd.as_deref(),
                    cx,
                );
                CallProfile {
                    class: ConcurrencyClass::Unsafe,
                    destructive: Some(true),
                    effects,
                    ..declared
                }
            }
            Kind::Unparseable => CallProfile::strictest(),
        }
    }

    async fn check(&self, args: &Args, cx: &ToolContext) -> Result<(), Failure> {
        let command_line = ShellCommand::of(args)?;
        let network = self.call_network(args)?;
        if self.settings.runs_elsewhere {
            cx.set_confinement(Err("it runs outside of the sandbox".to_owned()));
            return Ok(());
        }
        let sandbox = self.boundary.get(cx).await?;
        network.at(sandbox.tier().level)?;
        let (level, whole) = (sandbox.tier().level, self.whole_profile(sandbox.tier().level));
        let cwd = args.cwd.as_deref();
        let has_denied = masks::find(&self.workspace, &self.settings, level, cwd, cx).await?;
        cx.set_confinement(match command_line.cannot_confine(args) {
            Some(why) => Err(why.to_owned()),
            None if has_denied && confined::prints_history(&command_line.text) => {
                Err("rules deny files, and git could print them from its history".to_owned())
            }
            None => self.settings.confinement(&sandbox, &whole, &self.programs()),
        });
        Ok(())
    }

    /// Requires approval if denied paths cannot be hidden from the command.
    async fn guard(&self, args: &Args, cx: &ToolContext) -> Result<Option<Verdict>, Failure> {
        if self.settings.runs_elsewhere {
            return Ok(None);
        }
        let profile = self.profile(CallProfile::strictest(), args, cx);
        let is_proven = profile.read_only && profile.effects != Effects::Undeclared;
        Ok(masks::guard(&self.workspace, &self.settings, self.boundary.level(), is_proven, cx))
    }

    async fn call(&self, args: Args, cx: &ToolContext) -> Result<Output, Failure> {
        if self.settings.explains_only {
            return Err(Failure::new(FailureCode::NotRun, "commands are only explained here"));
        }
        let command_line = ShellCommand::of(&args)?;
        let network = self.call_network(&args)?;
        let sandbox = self.boundary.get(cx).await?;
        let resolved = start_directory(&self.workspace, args.cwd.as_deref(), cx).await?;
        let programs = self.programs();
        let permission = Permission::of(&command_line, &programs, cx);
        let environment = match &permission {
            Permission::ReadOnly(programs) => programs.cleaned(&self.environment),
            Permission::Confined(_) => confined::variables(&self.environment),
            Permission::Approved => self.environment.clone(),
        };
        let level = sandbox.tier().level;
        let mut profile =
            self.sandbox_profile(&command_line, &resolved.absolute(), level, &permission);
        if matches!(permission, Permission::Approved) && command_line.kind != Kind::ReadOnly {
            profile.network = network.at(level)?;
        }
        let environment =
            if profile.network == Network::Proxy { variables(environment) } else { environment };
        if matches!(permission, Permission::Approved) {
            profile.exceptions =
                self.exceptions(&command_line.text, args.may_change(), &resolved, cx);
        }
        let roots = masks::roots(&self.workspace, &self.settings);
        let masked = masks::apply(&mut profile, level, roots, &resolved.absolute(), cx).await?;
        // FAIL CLOSED: a command without approval must not see denied paths.
        if let (Permission::Confined(_), Some(why)) = (&permission, masked.missing()) {
            return Err(Failure::new(FailureCode::NotRun, why.to_owned())
                .with_next("call again with `access: \"write\"`; this may need approval"));
        }
        let mut words = command_line.argv.into_iter();
        let command = Command::new(words.next().unwrap_or_default())
            .args(words)
            .environment(environment)
            .home_file(GitConfig::NAME, self.git.text())
            .input(args.stdin.unwrap_or_default())
            .current_dir(&resolved);
        let time = args.timeout_ms.map_or(DEFAULT_TIMEOUT, Duration::from_millis).min(MAX_TIMEOUT);
        let job = Job { sandbox, command, profile, masked, network, time };
        let finished = run::run(job, cx).await?;
        let mut about = json!({"kind": command_line.kind.as_str(), "why": command_line.why});
        let mut note = None;
        if matches!(permission, Permission::Confined(_)) {
            about["confined"] = true.into();
            note = confined::note(&finished.ended, !self.network.access.is_none());
        }
        let mut output = finished.output(about);
        output.blocks.extend(note.map(Block::text));
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_one_of_command_and_argv_is_required() {
        let args = |command: Option<&str>, argv: Option<&[&str]>| Args {
            command: command.map(str::to_owned),
            argv: argv.map(|words| words.iter().map(|word| (*word).to_owned()).collect()),
            cwd: None,
            timeout_ms: None,
            stdin: None,
            may_change: None,
            network: None,
            access: None,
        };
        for bad in [
            args(None, None),
            args(Some("ls"), Some(&["ls"])),
            args(Some("  "), None),
            args(None, Some(&[])),
            args(None, Some(&[""])),
            args(Some("ls\0"), None),
        ] {
            assert_eq!(
                ShellCommand::of(&bad).err().map(|e| e.code()),
                Some(FailureCode::BadArguments),
                "{bad:?}"
            );
        }
        let list = ShellCommand::of(&args(None, Some(&["cat", "a; rm b"]))).unwrap();
        assert_eq!((list.kind, list.argv.len()), (Kind::ReadOnly, 2));
        let text = ShellCommand::of(&args(Some("cat a; rm b"), None)).unwrap();
        assert_eq!((text.kind, &*text.argv[0]), (Kind::Destructive, "bash"));
    }

    #[test]
    fn read_only_commands_get_no_write_access_and_no_network() {
        let temp = tempfile::tempdir().unwrap();
        let root = temp.path().canonicalize().unwrap();
        let workspace =
            Workspace::builder().root(&root, haft_sandbox::Access::Write).build().unwrap();
        let shell = Shell {
            workspace: Arc::new(workspace),
            boundary: Boundary::default(),
            environment: Environment::new(),
            git: GitConfig::default(),
            network: NetworkOptions {
                access: haft::policy::NetworkAccess::all(),
                ..NetworkOptions::default()
            },
            settings: Settings::default(),
            known_programs: OnceLock::new(),
        };
        let profile = |command: &str| {
            let args = json!({"command": command});
            let command_line = ShellCommand::of(&serde_json::from_value(args).unwrap()).unwrap();
            let programs = shell.programs();
            let permission = Permission::ReadOnly(&programs);
            shell.sandbox_profile(&command_line, &root.join("sub"), Level::Namespaces, &permission)
        };
        let reading = profile("cat $X");
        assert_eq!((reading.writable().count(), reading.network), (0, Network::None));
        assert_eq!(reading.reads, ReadableFiles::Everything, "a person was asked about it");
        assert_eq!(reading.limits.resident, 512 << 20);
        let writing = profile("touch a");
        assert!(writing.limits.resident > 512 << 20);
        assert_eq!((writing.writable().count(), writing.network), (1, Network::Host));
        assert_eq!(writing.reads, ReadableFiles::Everything);

        let shown = |command: &str| match profile(command).reads {
            ReadableFiles::Only(paths) => paths,
            ReadableFiles::Everything => panic!("`{command}` sees everything"),
        };
        for inside in ["ls", "cat a ../b", "grep -r x ..", "cat ../sub/../b"] {
            assert_eq!(shown(inside), Vec::<PathBuf>::new(), "{inside}");
        }
        assert_eq!(shown("cat a /srv/notes"), [PathBuf::from("/srv/notes")]);
        assert_eq!(shown("cat ../../x"), [root.parent().unwrap().join("x")]);
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        std::fs::create_dir_all(home.join(".cargo/bin")).unwrap();
        let path = format!("{0}/.cargo/bin:{0}:/usr/sbin", home.display());
        let shell = Shell { environment: Environment::new().set("PATH", path), ..shell };
        let programs: Vec<PathBuf> = shell.programs().directories().collect();
        assert_eq!(programs, [home.join(".cargo/bin"), PathBuf::from("/usr/sbin")]);
    }
}
