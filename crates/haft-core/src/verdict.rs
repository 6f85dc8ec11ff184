//! `Verdict`: what a guard or the policy decided about one call.
//!
//! INVARIANT: the strictest verdict wins. Every verdict has a reason and a source.

use std::{cmp::Ordering, fmt};

use serde::{Deserialize, Serialize};

use crate::shared_str::SharedStr;

/// What a guard or the policy can decide. Ordered: later is stricter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Run the call.
    Allow,
    /// A person must approve it.
    Ask,
    /// A person must supply the named argument first.
    NeedInput(String),
    /// Do not run the call.
    Deny,
}

impl Decision {
    /// Returns its name.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::NeedInput(_) => "need_input",
            Self::Deny => "deny",
        }
    }
}

/// A decision with its reason and source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// What was decided.
    pub decision: Decision,
    /// Why, as text for people and models.
    pub reason: SharedStr,
    /// Who decided: a guard, a rule with file and line, the default.
    pub source: SharedStr,
    /// Whether the call is allowed only because its body runs sandboxed. The body must prevent
    /// every write and all network access.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confined: bool,
}

impl Verdict {
    /// Makes a verdict.
    #[must_use]
    pub fn new(decision: Decision, reason: impl Into<SharedStr>) -> Self {
        Self { decision, reason: reason.into(), source: SharedStr::default(), confined: false }
    }

    /// Allows the call.
    #[must_use]
    pub fn allow(reason: impl Into<SharedStr>) -> Self {
        Self::new(Decision::Allow, reason)
    }

    /// Requires approval by a person.
    #[must_use]
    pub fn ask(reason: impl Into<SharedStr>) -> Self {
        Self::new(Decision::Ask, reason)
    }

    /// Requires an argument from a person.
    #[must_use]
    pub fn need_input(argument: impl Into<String>, reason: impl Into<SharedStr>) -> Self {
        Self::new(Decision::NeedInput(argument.into()), reason)
    }

    /// Denies the call.
    #[must_use]
    pub fn deny(reason: impl Into<SharedStr>) -> Self {
        Self::new(Decision::Deny, reason)
    }

    /// Sets who decided.
    #[must_use]
    pub fn by(mut self, source: impl Into<SharedStr>) -> Self {
        self.source = source.into();
        self
    }

    /// Allows the call only if its body runs sandboxed.
    #[must_use]
    pub fn confine(mut self) -> Self {
        self.confined = true;
        self
    }

    /// Returns the decision about a body that runs outside of the sandbox, such as a command that
    /// another agent starts: an allow that needs the sandbox is an ask there.
    ///
    /// ```
    /// # use haft_core::{Decision, Verdict};
    /// let confined = Verdict::allow("it runs without writes and network").confine();
    /// assert_eq!(confined.decision, Decision::Allow);
    /// assert_eq!(confined.unconfined_decision(), Decision::Ask);
    /// assert_eq!(Verdict::allow("a rule allows it").unconfined_decision(), Decision::Allow);
    /// ```
    #[must_use]
    pub fn unconfined_decision(&self) -> Decision {
        match self.decision {
            Decision::Allow if self.confined => Decision::Ask,
            ref decision => decision.clone(),
        }
    }

    /// Returns the stricter of the two; of equals, the first. A sandboxed allow is stricter than a
    /// plain one.
    #[must_use]
    pub fn strictest(self, other: Verdict) -> Verdict {
        match other.decision.cmp(&self.decision) {
            Ordering::Greater => other,
            Ordering::Equal if other.confined && !self.confined => other,
            Ordering::Equal | Ordering::Less => self,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.decision.as_str(), self.reason, self.source)
    }
}

/// What the function of `guard = …` may return: a verdict, an `Option` of one, or a `Result`. An
/// error denies the call.
pub trait IntoVerdict {
    /// Converts it into a verdict, `None`, or the error's text.
    fn into_verdict(self) -> Result<Option<Verdict>, String>;
}

impl IntoVerdict for Verdict {
    fn into_verdict(self) -> Result<Option<Verdict>, String> {
        Ok(Some(self))
    }
}

impl IntoVerdict for Option<Verdict> {
    fn into_verdict(self) -> Result<Option<Verdict>, String> {
        Ok(self)
    }
}

impl<V: IntoVerdict, E: fmt::Display> IntoVerdict for Result<V, E> {
    fn into_verdict(self) -> Result<Option<Verdict>, String> {
        self.map_err(|e| e.to_string())?.into_verdict()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stricter_verdict_wins_in_either_order() {
        let allow = Verdict::allow("fine");
        let deny = Verdict::deny("no");
        assert_eq!(allow.clone().strictest(deny.clone()), deny);
        assert_eq!(deny.clone().strictest(allow), deny);
        assert_eq!(Verdict::ask("a").strictest(Verdict::ask("b")).reason, "a");
    }

    #[test]
    fn an_allow_never_removes_the_sandbox_of_another_allow() {
        let (free, confined) = (Verdict::allow("a"), Verdict::allow("b").confine());
        assert!(free.clone().strictest(confined.clone()).confined);
        assert!(confined.clone().strictest(free).confined);
        assert_eq!(confined.strictest(Verdict::ask("c")).decision, Decision::Ask);
    }
}
