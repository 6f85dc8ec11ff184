//! Tools that people declare as commands, run like any other confined process.
//!
//! The file says which words; a call fills in the places. What the file does not say the sandbox
//! does not give: no `filesystem`, nothing is writable; no `network`, no other machine.

use std::{sync::Arc, time::Duration};

use haft::CommandTool;
use haft_core::{
    CallProfile, ConcurrencyClass, DynTool, Effect, Effects, Failure, FailureCode, Operation,
    Output, ToolContext,
};
use haft_sandbox::{Command, Environment, Profile, Workspace};
use serde_json::{Value, json};

use super::{
    boundary::Boundary,
    confined::Settings,
    denied, folder,
    git::GitConfig,
    programs::Programs,
    run::{self, Job},
};
use crate::BuiltinTools;

/// As long as the longest one may take; its own timeout and the runtime's hold besides.
const LONGEST: Duration = Duration::from_secs(24 * 3_600);
/// So much of what it complains is part of the answer; the rest is in what was told.
const COMPLAINT: usize = 2_000;

/// Makes a tool of one that was declared.
pub(crate) fn tool(hands: &BuiltinTools, declared: CommandTool) -> DynTool {
    let mut profile = Profile::of(declared.given(), &hands.workspace);
    if declared.spec.is_read_only() {
        profile = profile.read_only();
    }
    let body = Arc::new(Body {
        workspace: Arc::clone(&hands.workspace),
        boundary: hands.boundary.clone(),
        environment: hands.environment.clone(),
        git: hands.git.clone(),
        settings: hands.settings.clone(),
        profile,
        declared,
    });
    let (spec, schema) = (body.declared.spec.clone(), body.declared.input_schema.clone());
    let (checked, claimed, guarded) = (Arc::clone(&body), Arc::clone(&body), Arc::clone(&body));
    DynTool::new(spec, schema, move |arguments, cx| {
        let body = Arc::clone(&body);
        async move { body.call(&arguments, &cx).await }
    })
    .with_profile(move |claim, arguments, cx| claimed.claim(claim, arguments, cx))
    .with_check(move |arguments, cx| {
        let body = Arc::clone(&checked);
        Box::pin(async move { body.check(arguments, cx).await })
    })
    .with_guard(move |_, cx| {
        let body = &guarded;
        Ok(denied::guard(&body.workspace, &body.settings, body.boundary.level(), false, cx))
    })
    .in_sandbox()
}

struct Body {
    declared: CommandTool,
    workspace: Arc<Workspace>,
    boundary: Boundary,
    environment: Environment,
    git: GitConfig,
    settings: Settings,
    profile: Profile,
}

impl Body {
    /// Says which files a call names, as seen from the folder that the command starts in. Judges read
    /// them from where the run works, which is another place if the file says `cwd`.
    fn claim(&self, mut claim: CallProfile, arguments: &Value, cx: &ToolContext) -> CallProfile {
        // The file names a program of the system. One of the workspace may do anything.
        if claim.read_only && !self.starts_outside() {
            claim.read_only = false;
            claim.class = ConcurrencyClass::Unsafe;
        }
        if self.declared.cwd.is_none() {
            return claim;
        }
        let mut effects = self.files(arguments, cx);
        if effects.is_empty() {
            return claim;
        }
        match &claim.effects {
            Effects::Declared(own) => effects.extend(own.iter().cloned()),
            // What is named is all of it only where the file says so.
            Effects::Undeclared
                if !claim.read_only || self.declared.spec.capabilities.is_none() =>
            {
                effects.push(Effect { operation: Operation::Unknown, target: None });
            }
            Effects::Undeclared => {}
        }
        claim.effects = effects.into();
        claim
    }

    /// Whether the program is found outside the workspace. A path is the author's own choice.
    fn starts_outside(&self) -> bool {
        let program = self.declared.program();
        program.contains('/') || self.programs().has(program)
    }

    fn programs(&self) -> Programs {
        Programs::of(&self.workspace, &self.settings, &self.environment)
    }

    /// Returns what is done to the files that arguments name.
    fn files(&self, arguments: &Value, cx: &ToolContext) -> Vec<Effect> {
        let parameters = self.declared.input_schema.get("properties").and_then(Value::as_object);
        let cwd = self.declared.cwd.as_deref().unwrap_or(".");
        let folder = super::find(&self.workspace, cx.working_directory(), cwd).ok();
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
                // FAIL CLOSED: without a folder nobody knows which file that is.
                let whole = folder.as_ref().map(|folder| folder.absolute().join(path));
                let target = whole.map(|path| path.to_string_lossy().into_owned());
                effects.push(Effect { operation, target });
            }
        }
        effects
    }

    /// Refuses what cannot run before anybody is asked about it.
    async fn check(&self, arguments: &Value, cx: &ToolContext) -> Result<(), Failure> {
        self.declared.argv(arguments)?;
        self.boundary.get(cx).await?;
        folder(&self.workspace, self.declared.cwd.as_deref(), cx).await?;
        denied::look(&self.workspace, &self.settings, cx).await.map(drop)
    }

    async fn call(&self, arguments: &Value, cx: &ToolContext) -> Result<Output, Failure> {
        let mut words = self.declared.argv(arguments)?.into_iter();
        let sandbox = self.boundary.get(cx).await?;
        let place = folder(&self.workspace, self.declared.cwd.as_deref(), cx).await?;
        // FAIL CLOSED: what was judged to only read finds no program of the workspace.
        let is_judged_reading = cx.profile().is_none_or(|claim| claim.read_only);
        let environment = match self.declared.spec.is_read_only() && is_judged_reading {
            true => self.programs().cleaned(&self.environment),
            false => self.environment.clone(),
        };
        let command = Command::new(words.next().unwrap_or_default())
            .args(words)
            .environment(environment)
            .home_file(GitConfig::NAME, self.git.text())
            .input(self.declared.stdin(arguments))
            .folder(&place);
        let level = sandbox.tier().level;
        let mut profile = self.settings.apply(self.profile.clone(), level);
        if self.declared.spec.is_read_only() {
            profile = profile.read_only();
        }
        let roots = denied::roots(&self.workspace, &self.settings);
        let masked = denied::apply(&mut profile, level, roots, &place.absolute(), cx).await?;
        let job = Job { sandbox, command, profile, masked, time: LONGEST };
        let (ended, masked) = run::run(job, cx).await?;
        let is_good = matches!(ended.exit, haft_sandbox::Exit::Code(code)
            if self.declared.success.contains(&code));
        if !is_good {
            let how = run::exit(&ended);
            let said = ended.stderr.into_text();
            let said = said.trim();
            let from = said.ceil_char_boundary(said.len().saturating_sub(COMPLAINT));
            let message = match said.get(from..).filter(|said| !said.is_empty()) {
                Some(said) => format!("`{}`: {how}\n{said}", self.declared.program()),
                None => format!("`{}`: {how}", self.declared.program()),
            };
            let message = match masked.note(&message) {
                Some(note) => format!("{message}\n{note}"),
                None => message,
            };
            return Err(Failure::new(FailureCode::ToolFailed, message)
                .with_next("mend the arguments if it complains about them, or tell the user"));
        }
        let mut output = run::output(ended, json!({}));
        masked.add_to(&mut output);
        Ok(output)
    }
}
