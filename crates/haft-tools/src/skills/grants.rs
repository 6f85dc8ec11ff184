//! `allowed-tools` of loaded skills: a hook that allows their calls where no rule decides.
//!
//! A grant belongs to one run, begins with the turn after the skill was loaded, and ends with the
//! next message of the user. It is a hook's allow: it replaces a missing rule, and a rule that asks
//! or denies still counts. FAIL CLOSED: a skill of a directory that is not trusted grants
//! nothing.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use haft::{
    Run,
    hooks::{Hook, PreCallDecision},
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules, Verdict},
    turn::ValidatedCall,
};
use haft_core::{BoxFuture, Failure, RunId, ToolContext};

use super::skill::Skill;

/// How many runs may have grants at once; the oldest are dropped.
const MAX_RUNS: usize = 1_000;

/// The grants of loaded skills, as a hook. Clones share them.
#[derive(Clone, Default)]
pub struct SkillGrants {
    active: Arc<Mutex<Active>>,
    context: Arc<Mutex<PolicyContext>>,
}

#[derive(Default)]
struct Active {
    /// The grants of each run.
    runs: HashMap<RunId, Vec<Grant>>,
    /// The runs in the order of their first grant.
    order: Vec<RunId>,
}

struct Grant {
    skill: String,
    rules: Arc<Rules>,
    /// The turn in which the skill was loaded.
    cycle: u32,
    /// How many messages the user had written then.
    messages: u32,
}

impl SkillGrants {
    /// Sets the context that the patterns are evaluated in: the directories of the workspace and
    /// the home directory.
    #[must_use]
    pub fn context(self, context: PolicyContext) -> Self {
        *lock(&self.context) = context;
        self
    }

    /// Activates what a skill grants, from the next turn on.
    pub(super) fn activate(&self, skill: &Skill, cx: &ToolContext) {
        if !skill.is_trusted || skill.allowed_tools.is_empty() {
            return;
        }
        let Some(messages) = Run::user_messages_of(cx) else { return };
        let patterns = skill.allowed_tools.iter();
        let patterns = patterns.filter_map(|text| Pattern::parse(text, &PathBase::default()).ok());
        let rules = patterns.map(|pattern| Rule::new(Decision::Allow, pattern)).collect();
        let context = lock(&self.context).clone();
        let Ok(rules) = Rules::new(rules, context) else { return };
        let grant = Grant {
            skill: skill.name.clone(),
            rules: Arc::new(rules),
            cycle: cx.scope().cycle,
            messages,
        };
        let run = cx.scope().run.clone();
        let mut active = lock(&self.active);
        if !active.runs.contains_key(&run) {
            active.order.push(run.clone());
        }
        if active.order.len() > MAX_RUNS {
            let oldest = active.order.remove(0);
            active.runs.remove(&oldest);
        }
        let grants = active.runs.entry(run).or_default();
        grants.retain(|own| own.skill != grant.skill);
        grants.push(grant);
    }

    /// Returns the skill that allows a call now.
    fn allows(&self, call: &ValidatedCall) -> Option<String> {
        let cx = call.context();
        let messages = Run::user_messages_of(cx)?;
        let mut active = lock(&self.active);
        let grants = active.runs.get_mut(&cx.scope().run)?;
        grants.retain(|grant| grant.messages == messages);
        let current: Vec<(String, Arc<Rules>)> = grants
            .iter()
            .filter(|grant| cx.scope().cycle > grant.cycle)
            .map(|grant| (grant.skill.clone(), Arc::clone(&grant.rules)))
            .collect();
        drop(active);
        let request = call.policy_request();
        // What the default allows is not the grant's.
        let found = current.into_iter().find(|(_, rules)| rules.allows_by_rule(&request));
        found.map(|(skill, _)| skill)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hook for SkillGrants {
    fn name(&self) -> &str {
        "skill grants"
    }

    fn before<'a>(
        &'a self,
        call: &'a ValidatedCall,
    ) -> BoxFuture<'a, Result<PreCallDecision, Failure>> {
        Box::pin(async move {
            Ok(match self.allows(call) {
                Some(skill) => {
                    let why = format!("the loaded skill `{skill}` lists this tool");
                    PreCallDecision::verdict(Verdict::allow(why))
                }
                None => PreCallDecision::proceed(),
            })
        })
    }
}

impl fmt::Debug for SkillGrants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SkillGrants")
    }
}
