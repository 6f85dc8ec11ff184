//! One line of a file that names a hook, set up: which calls it is about, and how it is called.

use std::{sync::Arc, time::Duration};

use haft::{
    Failure, FailureCode, Handler, HookScript, HookSpec, PathBase, Pattern, Ternary, ValidatedCall,
};
use serde_json::{Map, Value};

use crate::{
    command,
    error::Error,
    http,
    matcher::Matcher,
    names::Names,
    place::ProjectDir,
    ruling::{Reply, Ruling},
};

/// One hook, set up.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) event: String,
    matcher: Matcher,
    only_if: Option<Pattern>,
    handler: Handler,
    scripts: Arc<[HookScript]>,
    timeout: Duration,
    pub(crate) fails_closed: bool,
    pub(crate) place: Arc<ProjectDir>,
    /// Where the same handler is named before: what that one is called for is not called twice.
    earlier: Vec<Matcher>,
}

impl Line {
    /// Returns what a hook is called in messages: its event and where it is written.
    pub(crate) fn name_of(spec: &HookSpec) -> String {
        format!("{} at {}", spec.event, spec.place)
    }

    /// Sets a hook up. `before` are the hooks that are written before it.
    pub(crate) fn new(
        spec: &HookSpec,
        place: &Arc<ProjectDir>,
        before: &[HookSpec],
    ) -> Result<Self, Error> {
        let name = Self::name_of(spec);
        let matcher = |spec: &HookSpec| {
            Matcher::parse(spec.matcher.as_deref()).map_err(|why| {
                let text = spec.matcher.as_deref().unwrap_or_default();
                Error::new(&name, format!("the matcher `{text}` cannot be used: {why}")).hint(
                    "write the tools as a list, `Bash|Edit`, or an expression without look-around",
                )
            })
        };
        if let Some(mistake) = spec.handler.mistake() {
            return Err(Error::new(&name, mistake).hint(Handler::NEXT_STEP));
        }
        if spec.timeout.is_zero() {
            return Err(Error::new(&name, "a timeout of zero would never let it answer"));
        }
        // What a project's file names starts in that file's own directory.
        let place = match &spec.directory {
            Some(directory) if *directory != place.path => {
                Arc::new(ProjectDir { path: directory.clone(), ..ProjectDir::clone(place) })
            }
            _ => Arc::clone(place),
        };
        let anchor = PathBase { folder: Some(place.path.clone()), home: place.ground.home.clone() };
        let only_if = spec.only_if.as_deref().map(|text| {
            Pattern::parse(text, &anchor).map_err(|error| {
                let wrong = Error::new(
                    &name,
                    format!("the condition `{text}` is no pattern: {}", error.message),
                );
                match error.hint {
                    Some(hint) => wrong.hint(hint),
                    None => wrong,
                }
            })
        });
        // One with a condition may not have been called, and one that fails open is no guard; such a
        // one spares nobody the call.
        let twins = before.iter().filter(|other| {
            other.event == spec.event
                && other.handler == spec.handler
                && other.directory == spec.directory
                && other.only_if.is_none()
                && (other.fails_closed || !spec.fails_closed)
        });
        Ok(Self {
            matcher: matcher(spec)?,
            only_if: only_if.transpose()?,
            earlier: twins.map(matcher).collect::<Result<_, _>>()?,
            event: spec.event.clone(),
            handler: spec.handler.clone(),
            scripts: spec.scripts.clone().into(),
            timeout: spec.timeout,
            fails_closed: spec.fails_closed,
            place,
            name,
        })
    }

    /// Returns how long it may take in all, with a moment to be killed in.
    pub(crate) fn limit(&self) -> Duration {
        self.timeout.saturating_add(Duration::from_secs(5))
    }

    /// Returns whether it is about a tool of these names.
    pub(crate) fn is_about(&self, names: &Names) -> bool {
        let hit = |matcher: &Matcher| names.all().any(|name| matcher.matches(name));
        hit(&self.matcher) && !self.earlier.iter().any(hit)
    }

    /// Returns whether no line before it calls the same handler for everything.
    pub(crate) fn is_first(&self) -> bool {
        self.earlier.is_empty()
    }

    /// Returns whether it is about what an event that has no tool names.
    pub(crate) fn is_about_word(&self, word: &str) -> bool {
        self.only_if.is_none()
            && self.matcher.matches(word)
            && !self.earlier.iter().any(|earlier| earlier.matches(word))
    }

    /// Returns whether its condition holds for a call. What cannot be told holds.
    pub(crate) fn holds(&self, call: &ValidatedCall) -> bool {
        let is = self.only_if.as_ref().map(|pattern| pattern.is_about(call, &self.place.ground));
        is != Some(Ternary::No)
    }

    /// Returns whether its condition holds for a call that is only described.
    pub(crate) fn holds_for(&self, tool: &str, arguments: &Value) -> bool {
        let about =
            |pattern: &Pattern| pattern.is_about_example(tool, arguments, &self.place.ground);
        self.only_if.as_ref().map(about) != Some(Ternary::No)
    }

    /// Calls it and reads its answer.
    pub(crate) async fn call(&self, input: Map<String, Value>) -> Ruling {
        Ruling::read(&self.event, &self.reply(&Value::Object(input)).await)
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
                command::run(command, args, input.as_bytes(), &self.place, self.timeout).await
            }
            Handler::Http { url, headers, allowed_variables } => {
                let fill =
                    |text: &str| http::filled(text, allowed_variables, &self.place.variables);
                let headers =
                    headers.iter().map(|(name, value)| (name.clone(), fill(value))).collect();
                http::post(url, headers, input.into_bytes(), self.timeout).await
            }
            _ => Reply::None("this kind of hook cannot be called here".to_owned()),
        }
    }

    /// Says which script is not the one that was trusted. Between this and the moment the command
    /// opens the file there is a short window, which a process outside of the sandbox could use.
    async fn changed_script(&self) -> Option<String> {
        if self.scripts.is_empty() {
            return None;
        }
        let scripts = Arc::clone(&self.scripts);
        let compare = move || {
            let changed = scripts.iter().find(|script| !script.is_unchanged())?;
            Some(format!(
                "the script `{}` changed since it was trusted, so the hook was not run; \
                 `haft trust` shows what the project brings and trusts it again",
                changed.path.display()
            ))
        };
        match tokio::task::spawn_blocking(compare).await {
            Ok(changed) => changed,
            // FAIL CLOSED: what was not compared may have changed.
            Err(e) => Some(format!("the scripts of the hook could not be compared: {e}")),
        }
    }

    /// Returns the failure of a hook that could not look and refuses for that.
    pub(crate) fn refusal(&self, ruling: &Ruling) -> Failure {
        let why = ruling.problem.clone().unwrap_or_default();
        // Nothing that the hook said: the person has to see which script it is.
        if ruling.is_changed {
            return Failure::new(FailureCode::HookFailed, why);
        }
        Failure::new(FailureCode::HookFailed, "a check of the host could not be made")
            .with_source(why)
    }
}
