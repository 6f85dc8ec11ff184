//! One configured hook of a file: which calls it matches, and how it is called.
//!
//! INVARIANT: a script that changed since the project was trusted is not run.

use std::{sync::Arc, time::Duration};

use haft::{
    Failure, FailureCode,
    policy::{Handler, HookScript, HookSpec, PathBase, Pattern, Ternary},
    turn::ValidatedCall,
};
use serde_json::{Map, Value};

use crate::{
    command,
    error::HookError,
    http,
    matcher::Matcher,
    names::Names,
    project_dir::ProjectDir,
    reply::{ParsedReply, Reply},
};

/// One configured hook.
#[derive(Debug, Clone)]
pub(crate) struct ConfiguredHook {
    pub(crate) name: String,
    pub(crate) event: String,
    matcher: Matcher,
    only_if: Option<Pattern>,
    handler: Handler,
    scripts: Arc<[HookScript]>,
    timeout: Duration,
    pub(crate) fails_closed: bool,
    pub(crate) project_dir: Arc<ProjectDir>,
    /// The matchers of earlier hooks with the same handler, so that it is not called twice.
    earlier: Vec<Matcher>,
}

impl ConfiguredHook {
    /// Returns the name of a hook in messages: its event and its location.
    pub(crate) fn name_of(spec: &HookSpec) -> String {
        format!("{} at {}", spec.event, spec.location)
    }

    /// Configures a hook. `before` are the hooks before it in the files.
    pub(crate) fn new(
        spec: &HookSpec,
        project_dir: &Arc<ProjectDir>,
        before: &[HookSpec],
    ) -> Result<Self, HookError> {
        let name = Self::name_of(spec);
        let matcher = |spec: &HookSpec| {
            Matcher::parse(spec.matcher.as_deref()).map_err(|why| {
                let text = spec.matcher.as_deref().unwrap_or_default();
                HookError::new(&name, format!("invalid matcher `{text}`: {why}")).hint(
                    "write the tools as a list, `Bash|Edit`, or an expression without look-around",
                )
            })
        };
        if let Some(message) = spec.handler.mistake() {
            return Err(HookError::new(&name, message).hint(Handler::NEXT_STEP));
        }
        if spec.timeout.is_zero() {
            return Err(HookError::new(&name, "the timeout must be above zero"));
        }
        // A hook of a project's file starts in the directory of that file.
        let project_dir = match &spec.directory {
            Some(directory) if *directory != project_dir.path => {
                Arc::new(ProjectDir { path: directory.clone(), ..ProjectDir::clone(project_dir) })
            }
            _ => Arc::clone(project_dir),
        };
        let base = PathBase {
            directory: Some(project_dir.path.clone()),
            home: project_dir.context.home.clone(),
        };
        let only_if = spec.only_if.as_deref().map(|text| {
            Pattern::parse(text, &base).map_err(|error| {
                let invalid =
                    HookError::new(&name, format!("invalid condition `{text}`: {}", error.message));
                match error.hint {
                    Some(hint) => invalid.hint(hint),
                    None => invalid,
                }
            })
        });
        // An earlier hook counts only if it is always called and as strict: one with a condition
        // may be skipped, and one that fails open does not replace one that fails closed.
        let duplicates = before.iter().filter(|other| {
            other.event == spec.event
                && other.handler == spec.handler
                && other.directory == spec.directory
                && other.only_if.is_none()
                && (other.fails_closed || !spec.fails_closed)
        });
        Ok(Self {
            matcher: matcher(spec)?,
            only_if: only_if.transpose()?,
            earlier: duplicates.map(matcher).collect::<Result<_, _>>()?,
            event: spec.event.clone(),
            handler: spec.handler.clone(),
            scripts: spec.scripts.clone().into(),
            timeout: spec.timeout,
            fails_closed: spec.fails_closed,
            project_dir,
            name,
        })
    }

    /// Returns how long it may take in all, including the time to kill it.
    pub(crate) fn limit(&self) -> Duration {
        self.timeout.saturating_add(Duration::from_secs(5))
    }

    /// Returns whether it matches a tool with these names.
    pub(crate) fn matches_tool(&self, names: &Names) -> bool {
        let matches = |matcher: &Matcher| names.all().any(|name| matcher.matches(name));
        matches(&self.matcher) && !self.earlier.iter().any(matches)
    }

    /// Returns whether no earlier hook has the same handler.
    pub(crate) fn is_first(&self) -> bool {
        self.earlier.is_empty()
    }

    /// Returns whether it matches the value of an event without a tool.
    pub(crate) fn matches_value(&self, value: &str) -> bool {
        self.only_if.is_none()
            && self.matcher.matches(value)
            && !self.earlier.iter().any(|earlier| earlier.matches(value))
    }

    /// Returns whether its condition holds for a call. An undecidable condition holds.
    pub(crate) fn condition_holds(&self, call: &ValidatedCall) -> bool {
        let matched = self
            .only_if
            .as_ref()
            .map(|pattern| pattern.is_about(&call.policy_request(), &self.project_dir.context));
        matched != Some(Ternary::No)
    }

    /// Returns whether its condition holds for a call given by name and arguments.
    pub(crate) fn condition_holds_for(&self, tool: &str, arguments: &Value) -> bool {
        let about = |pattern: &Pattern| {
            pattern.is_about_example(tool, arguments, &self.project_dir.context)
        };
        self.only_if.as_ref().map(about) != Some(Ternary::No)
    }

    /// Calls it and parses its answer.
    pub(crate) async fn call(&self, input: Map<String, Value>) -> ParsedReply {
        ParsedReply::parse(&self.event, &self.reply(&Value::Object(input)).await)
    }

    /// Calls it.
    pub(crate) async fn reply(&self, input: &Value) -> Reply {
        let input = input.to_string();
        match &self.handler {
            Handler::Command { command, args } => {
                if let Some(why) = self.changed_script().await {
                    return Reply::ScriptChanged(why);
                }
                let args = args.as_deref();
                command::run(command, args, input.as_bytes(), &self.project_dir, self.timeout).await
            }
            Handler::Http { url, headers, allowed_variables } => {
                let fill = |text: &str| {
                    http::expand_variables(text, allowed_variables, &self.project_dir.variables)
                };
                let headers =
                    headers.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
                http::post(url, headers, input.into_bytes(), self.timeout).await
            }
            _ => Reply::None("this kind of hook is not supported".to_owned()),
        }
    }

    /// Returns an error if a script changed since it was trusted. TOCTOU: a process outside of the
    /// sandbox could still change it between this check and the start of the command.
    async fn changed_script(&self) -> Option<String> {
        if self.scripts.is_empty() {
            return None;
        }
        let scripts = Arc::clone(&self.scripts);
        let compare = move || {
            let changed = scripts.iter().find(|script| !script.is_unchanged())?;
            Some(format!(
                "the script `{}` changed since it was trusted, so the hook was not run; \
                 run `haft trust` to review the project and trust it again",
                changed.path.display()
            ))
        };
        match tokio::task::spawn_blocking(compare).await {
            Ok(changed) => changed,
            // FAIL CLOSED: a script that was not compared may have changed.
            Err(e) => Some(format!("the scripts of the hook could not be checked: {e}")),
        }
    }

    /// Returns the failure of a hook that has a problem and fails closed.
    pub(crate) fn refusal(&self, parsed: &ParsedReply) -> Failure {
        let why = parsed.problem.clone().unwrap_or_default();
        // This text is not from the hook: the person must see which script it is.
        if parsed.is_changed {
            return Failure::new(FailureCode::HookFailed, why);
        }
        Failure::new(FailureCode::HookFailed, "a hook of the host failed").with_source(why)
    }
}
