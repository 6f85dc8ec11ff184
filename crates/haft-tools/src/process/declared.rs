//! Tools declared as commands in configuration, run in the sandbox.
//!
//! The declaration has the argument list; a call fills its placeholders. The sandbox grants only
//! what is declared: without `filesystem` nothing is writable, without `network` there is no
//! network.

use std::{sync::Arc, time::Duration};

use haft::policy::{CommandTool, NetworkAccess};
use haft_core::{
    CallProfile, ConcurrencyClass, DynTool, Effect, Effects, Failure, FailureCode, Operation,
    Output, ToolContext,
};
use haft_sandbox::{Command, Environment, Network, Profile, Workspace};
use serde_json::{Value, json};

use super::{
    ProcessOptions,
    boundary::Boundary,
    confined::Settings,
    git::GitConfig,
    masks,
    network::CommandNetwork,
    programs::Programs,
    run::{self, Finished, Job},
    start_directory,
};
use crate::network::variables;

/// Upper limit of a command; its own timeout and the runtime's apply too.
const MAX_TIME: Duration = Duration::from_secs(24 * 3_600);
/// Bytes of stderr in a failure message; all of it was streamed.
const MAX_STDERR_BYTES: usize = 2_000;

/// Builds a tool from a declaration.
pub(crate) fn tool(
    workspace: &Arc<Workspace>,
    options: &ProcessOptions,
    declared: CommandTool,
) -> DynTool {
    let mut profile = Profile::of(declared.granted_capabilities(), workspace);
    if declared.spec.is_read_only() {
        profile = profile.read_only();
    }
    let ProcessOptions { boundary, environment, git, network, settings } = options.clone();
    // The declaration itself says what the command may contact. The capability alone means all.
    let access = match (&declared.network, profile.network) {
        (Some(access), _) => access.clone(),
        (None, Network::Host) => NetworkAccess::all(),
        (None, _) => NetworkAccess::none(),
    };
    let network = CommandNetwork::declared(&network, access);
    let workspace = Arc::clone(workspace);
    let body = Arc::new(Body {
        workspace,
        boundary,
        environment,
        git,
        network,
        settings,
        profile,
        declared,
    });
    let (spec, schema) = (body.declared.spec.clone(), body.declared.input_schema.clone());
    let (checked, profiled, guarded) = (Arc::clone(&body), Arc::clone(&body), Arc::clone(&body));
    DynTool::new(spec, schema, move |arguments, cx| {
        let body = Arc::clone(&body);
        async move { body.call(&arguments, &cx).await }
    })
    .with_profile(move |profile, arguments, cx| profiled.profile(profile, arguments, cx))
    .with_check(move |arguments, cx| {
        let body = Arc::clone(&checked);
        Box::pin(async move { body.check(arguments, cx).await })
    })
    .with_guard(move |_, cx| {
        let body = &guarded;
        Ok(masks::guard(&body.workspace, &body.settings, body.boundary.level(), false, cx))
    })
    .in_sandbox()
}

struct Body {
    declared: CommandTool,
    workspace: Arc<Workspace>,
    boundary: Boundary,
    environment: Environment,
    git: GitConfig,
    network: CommandNetwork,
    settings: Settings,
    profile: Profile,
}

impl Body {
    /// Declares the files that a call names, resolved from the directory in which the command
    /// starts. The policy resolves paths from the run's working directory, which differs if the
    /// declaration has `cwd`.
    fn profile(
        &self,
        mut profile: CallProfile,
        arguments: &Value,
        cx: &ToolContext,
    ) -> CallProfile {
        // The declaration names a system program. A program of the workspace may do anything.
        if profile.read_only && !self.is_program_outside() {
            profile.read_only = false;
            profile.class = ConcurrencyClass::Unsafe;
        }
        if self.declared.cwd.is_none() {
            return profile;
        }
        let mut effects = self.files(arguments, cx);
        if effects.is_empty() {
            return profile;
        }
        match &profile.effects {
            Effects::Declared(own) => effects.extend(own.iter().cloned()),
            // The named files are complete only if the declaration says so.
            Effects::Undeclared
                if !profile.read_only || self.declared.spec.capabilities.is_none() =>
            {
                effects.push(Effect { operation: Operation::Unknown, target: None });
            }
            Effects::Undeclared => {}
        }
        profile.effects = effects.into();
        profile
    }

    /// Whether the program is outside the workspace. A path is the author's own choice.
    fn is_program_outside(&self) -> bool {
        let program = self.declared.program();
        program.contains('/') || self.programs().has(program)
    }

    fn programs(&self) -> Programs {
        Programs::of(&self.workspace, &self.settings, &self.environment)
    }

    /// Returns the effects on files that arguments name.
    fn files(&self, arguments: &Value, cx: &ToolContext) -> Vec<Effect> {
        let parameters = self.declared.input_schema.get("properties").and_then(Value::as_object);
        let cwd = self.declared.cwd.as_deref().unwrap_or(".");
        let start = super::find(&self.workspace, cx.working_directory(), cwd).ok();
        let mut effects = Vec::new();
        for (name, schema) in parameters.into_iter().flatten() {
            let operation = match schema.get("x-haft").and_then(Value::as_str) {
                Some("read_path") => Operation::Read,
                Some("write_path") => Operation::Write,
                _ => continue,
            };
            let values = match arguments.get(name) {
                Some(Value::Array(list)) => list.iter().collect(),
                Some(value) => vec![value],
                None => Vec::new(),
            };
            for path in values.into_iter().filter_map(Value::as_str) {
                // FAIL CLOSED: without a directory the file is unknown.
                let whole = start.as_ref().map(|start| start.absolute().join(path));
                let target = whole.map(|path| path.to_string_lossy().into_owned());
                effects.push(Effect { operation, target });
            }
        }
        effects
    }

    /// Refuses a call that cannot run, before approval.
    async fn check(&self, arguments: &Value, cx: &ToolContext) -> Result<(), Failure> {
        self.declared.argv(arguments)?;
        let level = self.boundary.get(cx).await?.tier().level;
        self.network.at(level)?;
        let cwd = self.declared.cwd.as_deref();
        masks::find(&self.workspace, &self.settings, level, cwd, cx).await.map(drop)
    }

    async fn call(&self, arguments: &Value, cx: &ToolContext) -> Result<Output, Failure> {
        let mut words = self.declared.argv(arguments)?.into_iter();
        let sandbox = self.boundary.get(cx).await?;
        let resolved = start_directory(&self.workspace, self.declared.cwd.as_deref(), cx).await?;
        // FAIL CLOSED: a call that was authorized as read-only finds no program of the workspace.
        let authorized_read_only = cx.profile().is_none_or(|profile| profile.read_only);
        let environment = if self.declared.spec.is_read_only() && authorized_read_only {
            self.programs().cleaned(&self.environment)
        } else {
            self.environment.clone()
        };
        let level = sandbox.tier().level;
        let reached = self.network.at(level)?;
        let environment =
            if reached == Network::Proxy { variables(environment) } else { environment };
        let command = Command::new(words.next().unwrap_or_default())
            .args(words)
            .environment(environment)
            .home_file(GitConfig::NAME, self.git.text())
            .input(self.declared.stdin(arguments))
            .current_dir(&resolved);
        let mut profile = self.settings.apply(self.profile.clone(), level);
        profile.network = reached;
        if self.declared.spec.is_read_only() {
            profile = profile.read_only();
        }
        let roots = masks::roots(&self.workspace, &self.settings);
        let masked = masks::apply(&mut profile, level, roots, &resolved.absolute(), cx).await?;
        let network = self.network.clone();
        let job = Job { sandbox, command, profile, masked, network, time: MAX_TIME };
        let finished = run::run(job, cx).await?;
        let is_success = matches!(finished.ended.exit, haft_sandbox::Exit::Code(code)
            if self.declared.success.contains(&code));
        if !is_success {
            let Finished { ended, masked, contacts } = finished;
            let how = run::exit(&ended);
            let stderr = ended.stderr.into_text();
            let stderr = stderr.trim();
            let from = stderr.ceil_char_boundary(stderr.len().saturating_sub(MAX_STDERR_BYTES));
            let message = match stderr.get(from..).filter(|stderr| !stderr.is_empty()) {
                Some(stderr) => format!("`{}`: {how}\n{stderr}", self.declared.program()),
                None => format!("`{}`: {how}", self.declared.program()),
            };
            let notes = [masked.note(&message), contacts.note()];
            let message =
                notes.into_iter().flatten().fold(message, |all, note| format!("{all}\n{note}"));
            return Err(Failure::new(FailureCode::ToolFailed, message)
                .with_next("fix the arguments if the error is about them; otherwise report the error to the user"));
        }
        Ok(finished.output(json!({})))
    }
}
