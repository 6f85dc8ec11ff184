//! Why a call was judged as it was: every check in order, the rule that decided, near misses, and
//! the smallest change that would flip the verdict.
//!
//! For people and records. The model gets the reason and a next step, never how to get around a
//! rule.

use std::fmt;

use haft_core::Verdict;
use serde::Serialize;

use super::rule::SourceLocation;

/// Why a call was judged as it was.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// The rule that decided, if one did.
    pub deciding: Option<RuleRef>,
    /// Every check, in the order it was made.
    pub checks: Vec<CheckStep>,
    /// Rules that nearly decided, and what was missing.
    pub near_misses: Vec<NearMiss>,
    /// The smallest change that would flip the verdict; for people only.
    pub smallest_change: Option<String>,
    /// What the call would touch, in a few words each: `write ./a`, `network api.x.org`, `destructive`.
    pub touches: Vec<String>,
    /// The results that made the run untrusted, whether or not that decided.
    pub tainted_by: Vec<String>,
}

/// One check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckStep {
    /// The check: `schema`, `guard …`, `deny rules`, `labels`, `the default`.
    pub check: String,
    /// The result: `passed`, `no match`, `allow`, `ask`, `deny`, …
    pub result: String,
    /// Why.
    pub why: String,
    /// Where that is written.
    pub location: Option<SourceLocation>,
}

/// A rule that is referred to.
#[derive(Debug, Clone, Serialize)]
pub struct RuleRef {
    /// Its id, if it has one.
    pub id: Option<String>,
    /// What it decides.
    pub decision: String,
    /// The pattern that matched, as written.
    pub pattern: String,
    /// Where it is written.
    pub location: SourceLocation,
}

/// A rule that nearly decided.
#[derive(Debug, Clone, Serialize)]
pub struct NearMiss {
    /// The rule.
    pub rule: RuleRef,
    /// What was missing.
    pub missing: String,
}

impl Explanation {
    /// Makes an explanation that consists of a verdict alone.
    #[must_use]
    pub fn of(verdict: Verdict) -> Self {
        Self {
            verdict,
            deciding: None,
            checks: Vec::new(),
            near_misses: Vec::new(),
            smallest_change: None,
            touches: Vec::new(),
            tainted_by: Vec::new(),
        }
    }
}

/// The text for people, the same in the prompt, in the record and on the command line.
impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.verdict.decision.as_str(), self.verdict.reason)?;
        write!(f, "\n  decided by  {}", self.verdict.source)?;
        if self.verdict.confined {
            write!(f, "\n  holds only  in haft's sandbox; outside of it, it needs approval")?;
        }
        for (at, risk) in self.touches.iter().enumerate() {
            write!(f, "\n  {}  {risk}", if at == 0 { "touches   " } else { "          " })?;
        }
        for (at, taint) in self.tainted_by.iter().enumerate() {
            write!(f, "\n  {}  {taint}", if at == 0 { "has read  " } else { "          " })?;
        }
        let width = |of: fn(&CheckStep) -> &str| {
            self.checks.iter().map(|check| of(check).chars().count()).max().unwrap_or_default()
        };
        let (what, result) = (width(|check| &check.check), width(|check| &check.result));
        for check in &self.checks {
            write!(
                f,
                "\n  check       {:what$}  {:result$}  {}",
                check.check, check.result, check.why
            )?;
        }
        for near in &self.near_misses {
            write!(f, "\n  nearly      {}: {}", near.rule, near.missing)?;
        }
        match &self.smallest_change {
            Some(flip) => write!(f, "\n  to flip it  {flip}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RuleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} \"{}\"", self.location, self.decision, self.pattern)
    }
}

impl Explanation {
    /// Changes every text that may quote the call, for a host that redacts secrets.
    pub fn change_texts(&mut self, mut change: impl FnMut(&mut String)) {
        for text in [&mut self.verdict.reason, &mut self.verdict.source] {
            let mut shown = text.to_string();
            change(&mut shown);
            if shown != **text {
                *text = shown.into();
            }
        }
        self.checks.iter_mut().for_each(|check| change(&mut check.why));
        self.near_misses.iter_mut().for_each(|near| change(&mut near.missing));
        self.smallest_change.iter_mut().for_each(&mut change);
        self.touches.iter_mut().for_each(&mut change);
        self.tainted_by.iter_mut().for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanation_text_names_every_check() {
        let mut explanation =
            Explanation::of(Verdict::ask("shared branches").by("haft.toml:14 ask \"x\""));
        explanation.touches = vec!["run `git push`".to_owned(), "may destroy".to_owned()];
        let step = |what: &str, result: &str, why: &str| CheckStep {
            check: what.to_owned(),
            result: result.to_owned(),
            why: why.to_owned(),
            location: None,
        };
        explanation.checks = vec![
            step("admit", "passed", "it fits"),
            step("deny rules", "no match", "there are none"),
        ];
        explanation.smallest_change = Some("add `except`".to_owned());
        insta::assert_snapshot!(explanation, @r#"
        ask: shared branches
          decided by  haft.toml:14 ask "x"
          touches     run `git push`
                      may destroy
          check       admit       passed    it fits
          check       deny rules  no match  there are none
          to flip it  add `except`
        "#);
    }
}
