//! Formats the explanation of a verdict for `haft explain` and for the key `?` of a prompt.

use std::path::Path;

use anstyle::Style;
use haft::policy::{Explanation, Verdict};

use crate::style::{self, BAD, DIM, GOOD, WARN, one_line};

/// The text of an explanation, as records have it, with marks and colours, and with relative paths.
pub(crate) fn page(explanation: &Explanation, here: &Path) -> String {
    let mut out = String::new();
    let here = format!("{}/", here.display());
    let text = sanitized(explanation).to_string().replace(&here, "");
    let mut checks = explanation.checks.iter();
    for (at, line) in text.lines().enumerate() {
        if at > 0 && line.starts_with(CHECK) {
            let result = checks.next().map_or("", |check| &check.result);
            let (colour, mark) = mark(result);
            out += &format!("{}{}\n", style::paint(colour, mark), &line[1..]);
        } else if at == 0 {
            let colour = style::decision(&explanation.verdict.decision).bold();
            out += &format!("{}\n", style::paint(colour, line));
        } else {
            out += &format!("{line}\n");
        }
    }
    out
}

/// The prefix of a check's line.
const CHECK: &str = "  check ";

/// Sanitizes every text to one line: text of a call or a file must not forge a line of the
/// explanation.
fn sanitized(explanation: &Explanation) -> Explanation {
    let mut clean = explanation.clone();
    let verdict = &explanation.verdict;
    clean.verdict = Verdict::new(verdict.decision.clone(), one_line(&verdict.reason))
        .by(one_line(&verdict.source));
    clean.verdict.confined = verdict.confined;
    let texts =
        clean.touches.iter_mut().chain(&mut clean.tainted_by).chain(&mut clean.smallest_change);
    texts.for_each(|text| *text = one_line(text));
    for check in &mut clean.checks {
        for text in [&mut check.check, &mut check.result, &mut check.why] {
            *text = one_line(text);
        }
    }
    for near in &mut clean.near_misses {
        near.rule.pattern = one_line(&near.rule.pattern);
        near.missing = one_line(&near.missing);
    }
    clean
}

/// A mark and colour for the result of a check.
fn mark(result: &str) -> (Style, &'static str) {
    match result {
        "passed" | "allow" => (GOOD, "✓"),
        "ask" | "need_input" => (WARN, "?"),
        "no match" | "no opinion" | "no concern" | "not called" | "not covered" | "masked" => {
            (DIM, "·")
        }
        _ => (BAD, "✗"),
    }
}
