//! What a judge said about one call.
//!
//! The strictest verdict wins. A verdict always says why and who said it.

use std::fmt;

use serde::Serialize;

use crate::words::Words;

/// The four things a judge can say. Ordered: later is stricter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Let it run.
    Allow,
    /// A person must allow it.
    Ask,
    /// A person must supply the named argument first.
    NeedInput(String),
    /// Do not run it.
    Deny,
}

impl Decision {
    /// Returns its word.
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

/// A decision, why, and whose it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// What was decided.
    pub decision: Decision,
    /// Why, in words that a person and a model can read.
    pub reason: Words,
    /// Who decided: a guard, a rule with file and line, the default.
    pub source: Words,
}

impl Verdict {
    /// Makes a verdict.
    #[must_use]
    pub fn new(decision: Decision, reason: impl Into<Words>) -> Self {
        Self { decision, reason: reason.into(), source: Words::default() }
    }

    /// Lets the call run.
    #[must_use]
    pub fn allow(reason: impl Into<Words>) -> Self {
        Self::new(Decision::Allow, reason)
    }

    /// Wants a person to look.
    #[must_use]
    pub fn ask(reason: impl Into<Words>) -> Self {
        Self::new(Decision::Ask, reason)
    }

    /// Wants a person to supply an argument.
    #[must_use]
    pub fn need_input(argument: impl Into<String>, reason: impl Into<Words>) -> Self {
        Self::new(Decision::NeedInput(argument.into()), reason)
    }

    /// Refuses the call.
    #[must_use]
    pub fn deny(reason: impl Into<Words>) -> Self {
        Self::new(Decision::Deny, reason)
    }

    /// Says who decided.
    #[must_use]
    pub fn by(mut self, source: impl Into<Words>) -> Self {
        self.source = source.into();
        self
    }

    /// Returns the stricter of the two; of equals, the first.
    #[must_use]
    pub fn strictest(self, other: Verdict) -> Verdict {
        if other.decision > self.decision { other } else { self }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({})", self.decision.as_str(), self.reason, self.source)
    }
}

/// What the function behind `guard = …` may return: a verdict, perhaps none, perhaps an error.
/// An error is not an opinion; it refuses the call.
pub trait IntoVerdict {
    /// Turns it into a verdict, nothing, or the error's text.
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
    fn the_stricter_verdict_wins_either_way_round() {
        let allow = Verdict::allow("fine");
        let deny = Verdict::deny("no");
        assert_eq!(allow.clone().strictest(deny.clone()), deny);
        assert_eq!(deny.clone().strictest(allow), deny);
        assert_eq!(Verdict::ask("a").strictest(Verdict::ask("b")).reason, "a");
    }
}
