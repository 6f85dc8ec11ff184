//! `allowed-tools` of loaded skills: a hook that allows their calls where no rule decides.
//!
//! A grant belongs to one run in memory, not to its id: a run that is reopened, or that has the
//! same id, starts without grants. A grant begins with the turn after the skill was loaded, and
//! ends with the next message of the user. It is a hook's allow: it replaces a missing rule, and a
//! rule that asks or denies still counts. A skill that is not trusted grants nothing.

use std::{
    fmt,
    sync::{Arc, Mutex, Weak},
};

use haft::{
    Run,
    hooks::{Hook, PreCallDecision},
    policy::{Decision, PathBase, Pattern, PolicyContext, Rule, Rules, Verdict},
    turn::ValidatedCall,
};
use haft_core::{BoxFuture, Failure, RunScope, ToolContext, sync::lock};

use super::skill::Skill;

/// How many runs may have grants at once; the oldest are dropped.
const MAX_RUNS: usize = 1_000;

/// The grants of loaded skills, as a hook. Clones share them.
#[derive(Clone, Default)]
pub struct SkillGrants {
    active: Arc<Mutex<Active>>,
    context: Arc<Mutex<PolicyContext>>,
}

/// The grants of each run, in the order of its first grant.
#[derive(Default)]
struct Active(Vec<RunGrants>);

struct RunGrants {
    /// The data of the run, which identifies it: two runs may have the same id. Its address is not
    /// used again while this exists.
    run: Weak<RunScope>,
    grants: Vec<Grant>,
}

impl Active {
    fn of_run(&mut self, run: &Arc<RunScope>) -> Option<&mut Vec<Grant>> {
        let found = self.0.iter_mut().find(|own| own.run.as_ptr() == Arc::as_ptr(run));
        found.map(|own| &mut own.grants)
    }

    /// Adds a grant. It replaces an earlier one of the same skill.
    fn add(&mut self, run: &Arc<RunScope>, grant: Grant) {
        if let Some(grants) = self.of_run(run) {
            grants.retain(|own| own.skill != grant.skill);
            grants.push(grant);
            return;
        }
        self.0.retain(|own| own.run.strong_count() > 0);
        if self.0.len() >= MAX_RUNS {
            self.0.remove(0);
        }
        self.0.push(RunGrants { run: Arc::downgrade(run), grants: vec![grant] });
    }
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
        lock(&self.active).add(&cx.scope().run_scope, grant);
    }

    /// Returns the skill that allows a call now.
    fn allows(&self, call: &ValidatedCall) -> Option<String> {
        let cx = call.context();
        let messages = Run::user_messages_of(cx)?;
        let mut active = lock(&self.active);
        let grants = active.of_run(&cx.scope().run_scope)?;
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
