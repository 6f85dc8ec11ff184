//! Hooks around a turn: before the model is queried, and when all calls have their results.
//!
//! FAIL CLOSED: a hook that fails before a turn refuses all of its calls; one that fails after a
//! turn halts the run, because the calls have already run.

use haft_core::FailureCode;
use smallvec::SmallVec;

use crate::call::TurnCore;
use crate::{
    call::add_notes,
    event::Event,
    hooks::{AnsweredCall, HookEffects, TurnInfo, around_turn},
    tool_result::ToolResult,
};

const NOT_LOOKED: &str = "a hook of the host failed";

impl TurnCore {
    fn facts(&self) -> TurnInfo {
        TurnInfo::new(self.scope.clone(), self.snapshot.entries().count())
    }

    /// Asks the hooks about a turn that begins.
    pub(crate) async fn before_turn(&self) {
        let facts = self.facts();
        let (effects, broken) =
            around_turn(&self.run.inner.hooks, &*self.run.inner.clock, |hook| {
                hook.before_turn(&facts)
            })
            .await;
        let notes = self.apply_hook_effects(effects);
        self.set_host_notes(notes);
        if let Some((hook, why)) = broken {
            self.problem(hook, "before the turn", &why);
            self.block_calls(
                FailureCode::HookFailed,
                format!("{NOT_LOOKED} before this turn, so nothing is run"),
            );
        }
    }

    /// Asks the hooks about a turn whose calls are all answered.
    pub(crate) async fn after_turn(&self, answers: &mut [ToolResult]) {
        if answers.is_empty() {
            return;
        }
        let facts = self.facts();
        let answered: SmallVec<[AnsweredCall<'_>; 4]> = answers
            .iter()
            .map(|answer| AnsweredCall {
                answer,
                tool: self.snapshot.get(answer.tool_name().as_str()),
                redactor: &self.run.inner.redactor,
            })
            .collect();
        let (effects, broken) =
            around_turn(&self.run.inner.hooks, &*self.run.inner.clock, |hook| {
                hook.after_turn(&facts, &answered)
            })
            .await;
        drop(answered);
        let notes = self.apply_hook_effects(effects);
        if let Some(first) = answers.first_mut() {
            add_notes(first, self.host_notes(), &self.run.inner.redactor);
        }
        if let Some(last) = answers.last_mut() {
            add_notes(last, &notes, &self.run.inner.redactor);
        }
        if let Some((hook, why)) = broken {
            self.problem(hook, "after the turn", &why);
            self.run.halt(&format!("{NOT_LOOKED} after the last calls"));
        }
    }

    /// Applies the effects of hooks, and returns their notes for the model.
    fn apply_hook_effects(&self, effects: Vec<(&str, HookEffects)>) -> Vec<String> {
        let mut notes = Vec::new();
        for (hook, effect) in effects {
            notes.extend(effect.aside);
            if let Some(why) = effect.problem {
                self.emit(|| Event::HookFailedOpen {
                    run: self.scope.run.clone(),
                    call: None,
                    hook: hook.to_owned(),
                    why,
                });
            }
            if let Some(reason) = effect.halt {
                self.run.halt(&reason);
            }
        }
        notes
    }

    fn problem(&self, hook: &str, when: &str, why: &str) {
        self.emit(|| Event::Problem {
            run: self.scope.run.clone(),
            message: format!("hook `{hook}` failed {when}: {why}"),
        });
    }
}
