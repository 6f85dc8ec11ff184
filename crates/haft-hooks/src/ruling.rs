//! Reads what a hook answered: exit code or status, text or JSON, old words or new.
//!
//! Pure. Doubt is a problem, never a yes: JSON that is broken, a field of the wrong kind, a word
//! nobody knows. What a problem means is up to the hook: one that fails closed refuses, one that
//! fails open lets go and says so.

use serde_json::{Map, Value};

/// What hooks say to model and people is cut to so many characters each.
const MAX_WORDS: usize = 10_000;

/// What may stand before the first word of a line.
const NO_WORD: fn(char) -> bool = |c| c.is_whitespace() || c == '\u{feff}';

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A command ended; without a code it was killed. What is not UTF-8 is no text.
    Exit { code: Option<i32>, stdout: String, is_text: bool, stderr: String },
    /// An address answered.
    Status { status: u16, body: String },
    /// There is no answer, and why.
    None(String),
}

/// What a hook decided about a call. Ordered: later is stricter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Decision {
    Allow,
    Ask,
    Defer,
    Deny,
}

impl Decision {
    /// Returns its word in the protocol.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Defer => "defer",
            Self::Deny => "deny",
        }
    }

    fn parse(word: &str) -> Option<Self> {
        [Self::Allow, Self::Ask, Self::Defer, Self::Deny].into_iter().find(|d| d.word() == word)
    }
}

/// What a hook said, whatever the event.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Ruling {
    /// It stops the call, or objects to what already happened.
    pub(crate) block: Option<String>,
    /// Its decision about the call, and why.
    pub(crate) decision: Option<(Decision, String)>,
    /// The arguments it wants instead.
    pub(crate) rewrite: Option<Value>,
    /// The output it wants instead.
    pub(crate) output: Option<Value>,
    /// What it wants the model to read.
    pub(crate) context: Option<String>,
    /// What it wants a person to read.
    pub(crate) message: Option<String>,
    /// It ends the run, and why.
    pub(crate) halt: Option<String>,
    /// It did not answer as it should; the rest may still count.
    pub(crate) problem: Option<String>,
}

impl Ruling {
    /// Reads an answer to this event.
    pub(crate) fn read(event: &str, reply: &Reply) -> Self {
        match reply {
            Reply::None(why) => Self::broken(why.clone()),
            Reply::Exit { code: Some(2), stderr, .. } => {
                let reason = match stderr.trim() {
                    "" => "a hook blocked this, without saying why",
                    reason => reason,
                };
                Self { block: Some(cut(reason)), ..Self::default() }
            }
            Reply::Exit { code: Some(0), stdout, is_text: true, .. } => {
                let text = stdout.trim();
                if text.starts_with('{') {
                    return Self::json(event, text).unwrap_or_else(Self::broken);
                }
                // Words before an answer would turn a no into mere words.
                if text.lines().any(|line| line.trim_start_matches(NO_WORD).starts_with('{')) {
                    return Self::broken("its JSON does not stand by itself".to_owned());
                }
                // Plain words are for the model only where a session starts.
                let context = (event == "SessionStart" && !text.is_empty()).then(|| cut(text));
                Self { context, ..Self::default() }
            }
            Reply::Exit { code, stdout, stderr, .. } => {
                let mut why = match code {
                    Some(0) => "its answer is not UTF-8".to_owned(),
                    Some(code) => format!("it ended with exit code {code}"),
                    None => "it was killed".to_owned(),
                };
                if let Some(line) = stderr.lines().map(str::trim).find(|line| !line.is_empty()) {
                    let line: String = line.chars().take(200).collect();
                    why = format!("{why}: {line}");
                }
                let text = stdout.trim();
                let said = match text.starts_with('{') {
                    true => Self::json(event, text).unwrap_or_default(),
                    false => Self::default(),
                };
                // FAIL CLOSED: a hook that failed may object, and does not get to allow.
                let decision = said.decision.filter(|(decision, _)| *decision > Decision::Allow);
                Self { problem: Some(why), decision, ..said }
            }
            Reply::Status { status: 200..=299, body } => {
                Self::json(event, body.trim()).unwrap_or_else(Self::broken)
            }
            Reply::Status { status, .. } => Self::broken(format!("it answered with {status}")),
        }
    }

    fn broken(why: String) -> Self {
        Self { problem: Some(why), ..Self::default() }
    }

    fn json(event: &str, text: &str) -> Result<Self, String> {
        let parsed: Value = serde_json::from_str(text)
            .map_err(|error| format!("its JSON cannot be read: {error}"))?;
        let Value::Object(all) = parsed else {
            return Err("its answer must be a JSON object".to_owned());
        };
        let mut ruling = Self::default();
        let reason = words(&all, "reason")?;
        if let Some(goes_on) = all.get("continue") {
            let goes_on = goes_on.as_bool().ok_or("`continue` must be true or false")?;
            if !goes_on {
                let why = words(&all, "stopReason")?;
                ruling.halt = Some(why.unwrap_or_else(|| "a hook ended the run".to_owned()));
            }
        }
        ruling.message = words(&all, "systemMessage")?;
        let about_call = matches!(event, "PreToolUse" | "PermissionRequest");
        match word(&all, "decision")? {
            None => {}
            Some("block") if about_call => ruling.decide(Decision::Deny, reason),
            Some("block") => ruling.block = Some(reason.unwrap_or_else(objects)),
            Some("approve") if about_call => ruling.decide(Decision::Allow, reason),
            Some("approve") => {}
            Some(other) => return Err(format!("`decision` is `{other}`, which nobody knows")),
        }
        match all.get("hookSpecificOutput") {
            None | Some(Value::Null) => {}
            Some(Value::Object(own)) => ruling.specific(event, own)?,
            Some(_) => return Err("`hookSpecificOutput` must be an object".to_owned()),
        }
        Ok(ruling)
    }

    fn specific(&mut self, event: &str, own: &Map<String, Value>) -> Result<(), String> {
        if let Some(named) = word(own, "hookEventName")?
            && named != event
        {
            return Err(format!("it answers `{named}`, but was asked about `{event}`"));
        }
        self.context = words(own, "additionalContext")?;
        match event {
            "PreToolUse" => {
                if let Some(decision) = word(own, "permissionDecision")? {
                    let decision = Decision::parse(decision).ok_or_else(|| {
                        format!("`permissionDecision` is `{decision}`, which nobody knows")
                    })?;
                    self.decide(decision, words(own, "permissionDecisionReason")?);
                }
                self.rewrite = object(own, "updatedInput")?;
            }
            "PermissionRequest" => {
                if let Some(decision) = object(own, "decision")? {
                    let Value::Object(decision) = decision else { return Ok(()) };
                    match word(&decision, "behavior")? {
                        Some("allow") => self.decide(Decision::Allow, None),
                        Some("deny") => {
                            self.decide(Decision::Deny, words(&decision, "message")?);
                        }
                        other => {
                            return Err(format!(
                                "`behavior` must be `allow` or `deny`, got {other:?}"
                            ));
                        }
                    }
                    self.rewrite = object(&decision, "updatedInput")?;
                }
            }
            "PostToolUse" => {
                let output =
                    own.get("updatedToolOutput").or_else(|| own.get("updatedMCPToolOutput"));
                self.output = output.filter(|output| !output.is_null()).cloned();
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes a decision in; of two the stricter stays.
    fn decide(&mut self, decision: Decision, reason: Option<String>) {
        if self.decision.as_ref().is_none_or(|(own, _)| *own < decision) {
            let reason = reason.unwrap_or_else(|| match decision {
                Decision::Deny => objects(),
                other => format!("a hook says `{}`", other.word()),
            });
            self.decision = Some((decision, reason));
        }
    }
}

fn objects() -> String {
    "a hook objects, without saying why".to_owned()
}

fn word<'a>(map: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{key}` must be a text")),
    }
}

fn words(map: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    let text = word(map, key)?;
    Ok(text.filter(|text| !text.trim().is_empty()).map(cut))
}

fn object(map: &Map<String, Value>, key: &str) -> Result<Option<Value>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(object @ Value::Object(_)) => Ok(Some(object.clone())),
        Some(_) => Err(format!("`{key}` must be an object")),
    }
}

/// Cuts a long text, and says so in it.
fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_WORDS) {
        Some((at, _)) => {
            format!("{}\n[cut: only the first {MAX_WORDS} characters are shown]", &text[..at])
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32, stdout: &str, stderr: &str) -> Reply {
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        Reply::Exit { code: Some(code), stdout, is_text: true, stderr }
    }

    fn pre(stdout: &str) -> Ruling {
        Ruling::read("PreToolUse", &exit(0, stdout, ""))
    }

    #[test]
    fn exit_two_blocks_whatever_the_json_says() {
        let allows = r#"{"hookSpecificOutput": {"permissionDecision": "allow"}}"#;
        let ruling = Ruling::read("PreToolUse", &exit(2, allows, " not here \n"));
        assert_eq!(ruling, Ruling { block: Some("not here".into()), ..Ruling::default() });
    }

    #[test]
    fn another_exit_code_is_a_problem_and_its_json_still_counts() {
        let ruling = Ruling::read("PreToolUse", &exit(1, "", "line one\nline two"));
        assert_eq!(ruling.problem.as_deref(), Some("it ended with exit code 1: line one"));
        let denies = r#"{"decision": "block", "reason": "no"}"#;
        let ruling = Ruling::read("PreToolUse", &exit(1, denies, ""));
        assert_eq!(ruling.decision, Some((Decision::Deny, "no".into())));
        assert!(ruling.problem.is_some());
        let allows = r#"{"decision": "approve"}"#;
        let ruling = Ruling::read("PreToolUse", &exit(1, allows, ""));
        assert_eq!(ruling.decision, None, "one that failed does not get to allow");
        let odd = Reply::Exit {
            code: Some(0),
            stdout: allows.to_owned(),
            is_text: false,
            stderr: String::new(),
        };
        let ruling = Ruling::read("PreToolUse", &odd);
        assert_eq!(
            (ruling.decision, ruling.problem.as_deref()),
            (None, Some("its answer is not UTF-8"))
        );
    }

    #[test]
    fn words_before_an_answer_are_a_problem_and_never_silence() {
        for said in [
            "welcome to this machine\n{\"decision\": \"block\"}",
            "\u{feff}{\"decision\": \"block\"}",
            "hello\n  {\n\"decision\": \"block\"}",
        ] {
            assert!(pre(said).problem.is_some(), "{said}");
        }
        assert_eq!(pre("checked {all} of it"), Ruling::default());
    }

    #[test]
    fn text_is_no_decision_and_broken_json_is_a_problem() {
        assert_eq!(pre("all fine"), Ruling::default());
        assert_eq!(pre(""), Ruling::default());
        for broken in [
            "{",
            r#"{"continue": "no"}"#,
            r#"{"decision": "maybe"}"#,
            r#"{"hookSpecificOutput": []}"#,
            r#"{"hookSpecificOutput": {"permissionDecision": "yes"}}"#,
            r#"{"hookSpecificOutput": {"permissionDecision": true}}"#,
            r#"{"hookSpecificOutput": {"updatedInput": "x"}}"#,
            r#"{"hookSpecificOutput": {"hookEventName": "PostToolUse"}}"#,
        ] {
            let ruling = pre(broken);
            assert!(ruling.problem.is_some(), "{broken}");
            assert_eq!(ruling.decision, None, "{broken}");
        }
        assert!(pre(&"[".repeat(100_000)).problem.is_none(), "text, as it does not start with {{");
        assert!(pre(&r#"{"a":"#.repeat(100_000)).problem.is_some(), "deep nesting is refused");
    }

    #[test]
    fn old_and_new_words_mean_the_same_and_the_stricter_stays() {
        let decision = |text: &str| pre(text).decision.map(|(decision, _)| decision.word());
        for (text, is) in [
            (r#"{"decision": "approve"}"#, Some("allow")),
            (r#"{"decision": "block"}"#, Some("deny")),
            (r#"{"hookSpecificOutput": {"permissionDecision": "defer"}}"#, Some("defer")),
            (
                r#"{"decision": "block", "hookSpecificOutput": {"permissionDecision": "allow"}}"#,
                Some("deny"),
            ),
            (
                r#"{"decision": "approve", "hookSpecificOutput": {"permissionDecision": "ask"}}"#,
                Some("ask"),
            ),
            (r#"{"continue": true}"#, None),
        ] {
            assert_eq!(decision(text), is, "{text}");
        }
        assert_eq!(
            pre(r#"{"continue": false, "stopReason": "done"}"#).halt.as_deref(),
            Some("done")
        );
    }

    #[test]
    fn only_a_good_status_with_json_decides() {
        let read = |status, body: &str| {
            Ruling::read("PreToolUse", &Reply::Status { status, body: body.to_owned() })
        };
        assert_eq!(read(200, r#"{"decision": "block"}"#).decision.unwrap().0, Decision::Deny);
        for (status, body) in
            [(200, "fine"), (200, ""), (302, "{}"), (404, "{}"), (500, r#"{"decision":"approve"}"#)]
        {
            let ruling = read(status, body);
            assert!(ruling.problem.is_some() && ruling.decision.is_none(), "{status} {body}");
        }
    }

    #[test]
    fn long_words_are_cut_between_characters_and_say_so() {
        let long = "é".repeat(MAX_WORDS + 5);
        let text = format!(r#"{{"hookSpecificOutput": {{"additionalContext": "{long}"}}}}"#);
        let context = pre(&text).context.unwrap();
        assert_eq!(context.matches('é').count(), MAX_WORDS);
        assert!(context.ends_with("are shown]"));
    }
}
