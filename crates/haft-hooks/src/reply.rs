//! Parses the answer of a hook: exit code or status, text or JSON, old or new fields.
//!
//! Pure. A hook that fails closed denies the call on a problem; one that fails open reports it.
//!
//! INVARIANT: invalid JSON, a wrong type or an unknown value is a problem and never an allow.

use serde_json::{Map, Value};

/// Each text from a hook to the model or a person is truncated to this number of characters.
const MAX_TEXT_CHARS: usize = 10_000;

/// Characters that are ignored at the start of a line.
const IS_IGNORABLE: fn(char) -> bool =
    |c| c.is_whitespace() || c.is_control() || matches!(c, '\u{feff}' | '\u{200b}'..='\u{200f}');

/// The raw answer of a hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A command exited; without a code it was killed. `is_text` is false for invalid UTF-8.
    Exit {
        code: Option<i32>,
        stdout: String,
        is_text: bool,
        /// Standard output was longer than what is kept.
        is_truncated: bool,
        stderr: String,
    },
    /// An endpoint answered.
    Status { status: u16, body: String },
    /// An endpoint answered with status 2xx and a body that is too long.
    Truncated,
    /// The hook was not called, because a script of it changed since it was trusted.
    ScriptChanged(String),
    /// There is no answer, with the reason.
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
    /// Returns its name in the protocol.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Defer => "defer",
            Self::Deny => "deny",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Allow, Self::Ask, Self::Defer, Self::Deny].into_iter().find(|d| d.as_str() == name)
    }
}

/// The parsed answer of a hook, for any event.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct ParsedReply {
    /// It stops the call, or objects to what already happened.
    pub(crate) block: Option<String>,
    /// Its decision about the call, and why.
    pub(crate) decision: Option<(Decision, String)>,
    /// The rewritten arguments.
    pub(crate) rewrite: Option<Value>,
    /// The rewritten output.
    pub(crate) output: Option<Value>,
    /// The note for the model.
    pub(crate) context: Option<String>,
    /// The message for a person.
    pub(crate) message: Option<String>,
    /// Why it ends the run, if it does.
    pub(crate) halt: Option<String>,
    /// What is wrong with the answer; the other fields may still count.
    pub(crate) problem: Option<String>,
    /// Part of its answer was dropped because it is too long. That part may contain a deny, so this
    /// denies the call even if the hook fails open.
    pub(crate) is_truncated: bool,
    /// It was not called, because a script of it changed since it was trusted. The change may have
    /// removed a deny, so this denies the call even if the hook fails open.
    pub(crate) is_changed: bool,
}

impl ParsedReply {
    /// Returns whether its problem denies the call.
    pub(crate) fn is_refused(&self, fails_closed: bool) -> bool {
        self.problem.is_some() && (fails_closed || self.always_refuses())
    }

    /// Returns whether its problem denies the call even if the hook fails open.
    pub(crate) fn always_refuses(&self) -> bool {
        self.is_truncated || self.is_changed
    }

    /// Parses an answer to this event.
    pub(crate) fn parse(event: &str, reply: &Reply) -> Self {
        match reply {
            Reply::None(why) => Self::broken(why.clone()),
            Reply::Truncated => Self::truncated(),
            Reply::ScriptChanged(why) => Self { is_changed: true, ..Self::broken(why.clone()) },
            Reply::Exit { code: Some(2), stderr, .. } => {
                let reason = match stderr.trim() {
                    "" => "a hook blocked this without a reason",
                    reason => reason,
                };
                Self { block: Some(truncate(reason)), ..Self::default() }
            }
            // FAIL CLOSED: the dropped part may contain a deny.
            Reply::Exit { is_truncated: true, .. } => Self::truncated(),
            Reply::Exit { code: Some(0), stdout, is_text: true, .. } => {
                let text = stdout.trim();
                if text.starts_with('{') {
                    return Self::json(event, text).unwrap_or_else(Self::broken);
                }
                if let Some(why) = hidden_answer(text) {
                    return Self::broken(why);
                }
                // Plain text is a note for the model only at the start of a session.
                let context = (event == "SessionStart" && !text.is_empty()).then(|| truncate(text));
                Self { context, ..Self::default() }
            }
            Reply::Exit { code, stdout, stderr, .. } => {
                let mut why = match code {
                    Some(0) => "its answer is not UTF-8".to_owned(),
                    Some(code) => format!("it exited with code {code}"),
                    None => "it was killed".to_owned(),
                };
                if let Some(line) = stderr.lines().map(str::trim).find(|line| !line.is_empty()) {
                    let line: String = line.chars().take(200).collect();
                    why = format!("{why}: {line}");
                }
                let text = stdout.trim();
                let answer = if text.starts_with('{') {
                    Self::json(event, text).unwrap_or_default()
                } else {
                    Self::default()
                };
                // FAIL CLOSED: a hook that failed may deny, but not allow.
                let decision = answer.decision.filter(|(decision, _)| *decision > Decision::Allow);
                Self { problem: Some(why), decision, ..answer }
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

    fn truncated() -> Self {
        let why = "its answer is longer than 1 MiB and was truncated; print less".to_owned();
        Self { problem: Some(why), is_truncated: true, ..Self::default() }
    }

    fn json(event: &str, text: &str) -> Result<Self, String> {
        let value = haft::schema::strict_json(text)
            .map_err(|error| format!("its JSON is invalid: {error}"))?;
        let Value::Object(all) = value else {
            return Err("its answer must be a JSON object".to_owned());
        };
        let mut parsed = Self::default();
        let reason = bounded_text(&all, "reason")?;
        if let Some(value) = all.get("continue") {
            let continues = value.as_bool().ok_or("`continue` must be true or false")?;
            if !continues {
                let why = bounded_text(&all, "stopReason")?;
                parsed.halt = Some(why.unwrap_or_else(|| "a hook ended the run".to_owned()));
            }
        }
        parsed.message = bounded_text(&all, "systemMessage")?;
        let about_call = matches!(event, "PreToolUse" | "PermissionRequest");
        match string(&all, "decision")? {
            None => {}
            Some("block") if about_call => parsed.decide(Decision::Deny, reason),
            Some("block") => parsed.block = Some(reason.unwrap_or_else(default_reason)),
            Some("approve") if about_call => parsed.decide(Decision::Allow, reason),
            Some("approve") => {}
            Some(other) => return Err(format!("unknown `decision`: `{other}`")),
        }
        match all.get("hookSpecificOutput") {
            None | Some(Value::Null) => {}
            Some(Value::Object(own)) => parsed.specific(event, own)?,
            Some(_) => return Err("`hookSpecificOutput` must be an object".to_owned()),
        }
        if let Some(why) = misplaced_field(event, &all) {
            // FAIL CLOSED: the intent is unclear, so a deny counts and an allow does not.
            parsed.decision = parsed.decision.filter(|(decision, _)| *decision > Decision::Allow);
            parsed.problem = Some(why);
        }
        Ok(parsed)
    }

    fn specific(&mut self, event: &str, own: &Map<String, Value>) -> Result<(), String> {
        if let Some(named) = string(own, "hookEventName")?
            && named != event
        {
            return Err(format!("`hookEventName` is `{named}`, but the event is `{event}`"));
        }
        self.context = bounded_text(own, "additionalContext")?;
        match event {
            "PreToolUse" => {
                if let Some(decision) = string(own, "permissionDecision")? {
                    let decision = Decision::parse(decision)
                        .ok_or_else(|| format!("unknown `permissionDecision`: `{decision}`"))?;
                    self.decide(decision, bounded_text(own, "permissionDecisionReason")?);
                }
                self.rewrite = object(own, "updatedInput")?;
            }
            "PermissionRequest" => {
                if let Some(decision) = object(own, "decision")? {
                    let Value::Object(decision) = decision else { return Ok(()) };
                    match string(&decision, "behavior")? {
                        Some("allow") => self.decide(Decision::Allow, None),
                        Some("deny") => {
                            self.decide(Decision::Deny, bounded_text(&decision, "message")?);
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

    /// Adds a decision; of two the stricter is kept.
    fn decide(&mut self, decision: Decision, reason: Option<String>) {
        if self.decision.as_ref().is_none_or(|(own, _)| *own < decision) {
            let reason = reason.unwrap_or_else(|| match decision {
                Decision::Deny => default_reason(),
                other => format!("a hook decided `{}`", other.as_str()),
            });
            self.decision = Some((decision, reason));
        }
    }
}

/// The fields that carry a decision.
const DECIDING_FIELDS: &[&str] = &[
    "hookSpecificOutput",
    "permissionDecision",
    "decision",
    "behavior",
    "continue",
    "updatedInput",
    "updatedToolOutput",
];

/// Returns why plain text may contain an answer. Without this check a malformed deny would be
/// ignored.
fn hidden_answer(text: &str) -> Option<String> {
    if text.contains('\0') {
        return Some("its output contains NUL bytes; an answer is UTF-8 text".to_owned());
    }
    if text.lines().any(|line| line.trim_start_matches(IS_IGNORABLE).starts_with('{')) {
        return Some("its output has other text around the JSON object".to_owned());
    }
    let field = DECIDING_FIELDS.iter().find(|field| names_field(text, field))?;
    Some(format!("its output contains `{field}`, but is not one JSON object"))
}

/// Whether a text contains a quoted field name, also with escaped quotes, followed by a colon.
fn names_field(text: &str, field: &str) -> bool {
    text.match_indices(field).any(|(at, _)| {
        let after = text.get(at + field.len()..).unwrap_or_default().trim_start_matches('\\');
        text.get(..at).is_some_and(|before| before.ends_with(['"', '\'']))
            && after
                .strip_prefix(['"', '\''])
                .is_some_and(|rest| rest.trim_start().starts_with(':'))
    })
}

/// Returns an error if a deciding field is misspelled, or where the protocol ignores it.
fn misplaced_field(event: &str, all: &Map<String, Value>) -> Option<String> {
    let find = |map: &Map<String, Value>, valid: &[&str]| {
        let is_set = |key: &&String| map.get(key.as_str()).is_some_and(|value| !value.is_null());
        map.keys().filter(is_set).find_map(|key| {
            let field = DECIDING_FIELDS.iter().find(|field| is_misspelling(key, field))?;
            (!valid.contains(&key.as_str())).then(|| (key.clone(), *field))
        })
    };
    if let Some((key, field)) = find(all, &["hookSpecificOutput", "decision", "continue"]) {
        return Some(match field {
            "hookSpecificOutput" | "decision" | "continue" => {
                format!("`{key}` is not a field of an answer; write `{field}`")
            }
            _ => format!("`{key}` is valid only inside `hookSpecificOutput`; move it there"),
        });
    }
    let is_nested = |(key, value): &(&String, &Value)| {
        key.as_str() != "hookSpecificOutput" && contains_decision(value, 4)
    };
    if let Some((key, _)) = all.iter().find(is_nested) {
        return Some(format!("`{key}` contains a decision; move it to the top level"));
    }
    let own = all.get("hookSpecificOutput")?.as_object()?;
    let valid: &[&str] = match event {
        "PreToolUse" => &["permissionDecision", "updatedInput"],
        "PermissionRequest" => &["decision"],
        "PostToolUse" => &["updatedToolOutput"],
        _ => &[],
    };
    let (key, _) = find(own, valid)?;
    Some(format!("`{key}` inside `hookSpecificOutput` is not valid for `{event}`"))
}

/// Whether a key is a field of the protocol, ignoring case, separators, hidden characters and
/// typos: one in a short name (`decison`, but not `revision`), two in a long one.
fn is_misspelling(key: &str, field: &str) -> bool {
    let folded = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let (key, field) = (folded(key), folded(field));
    let max_typos = if field.len() <= 8 { 1 } else { 2 };
    key.len().abs_diff(field.len()) <= max_typos && strsim::osa_distance(&key, &field) <= max_typos
}

/// Whether a value contains a nested decision, which the protocol ignores.
fn contains_decision(value: &Value, depth: usize) -> bool {
    let decides = |key: &str| {
        is_misspelling(key, "hookSpecificOutput") || is_misspelling(key, "permissionDecision")
    };
    match value {
        Value::Object(map) if depth > 0 => {
            map.iter().any(|(key, value)| decides(key) || contains_decision(value, depth - 1))
        }
        Value::Array(list) if depth > 0 => {
            list.iter().any(|value| contains_decision(value, depth - 1))
        }
        _ => false,
    }
}

fn default_reason() -> String {
    "a hook objected without a reason".to_owned()
}

fn string<'a>(map: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{key}` must be a string")),
    }
}

fn bounded_text(map: &Map<String, Value>, key: &str) -> Result<Option<String>, String> {
    let text = string(map, key)?;
    Ok(text.filter(|text| !text.trim().is_empty()).map(truncate))
}

fn object(map: &Map<String, Value>, key: &str) -> Result<Option<Value>, String> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(object @ Value::Object(_)) => Ok(Some(object.clone())),
        Some(_) => Err(format!("`{key}` must be an object")),
    }
}

/// Truncates a long text, and notes it in the text.
fn truncate(text: &str) -> String {
    match text.char_indices().nth(MAX_TEXT_CHARS) {
        Some((at, _)) => {
            format!(
                "{}\n[truncated: only the first {MAX_TEXT_CHARS} characters are shown]",
                &text[..at]
            )
        }
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(code: i32, stdout: &str, stderr: &str) -> Reply {
        let (stdout, stderr) = (stdout.to_owned(), stderr.to_owned());
        Reply::Exit { code: Some(code), stdout, is_text: true, is_truncated: false, stderr }
    }

    fn pre(stdout: &str) -> ParsedReply {
        ParsedReply::parse("PreToolUse", &exit(0, stdout, ""))
    }

    #[test]
    fn exit_code_2_blocks_even_if_the_json_allows() {
        let allows = r#"{"hookSpecificOutput": {"permissionDecision": "allow"}}"#;
        let parsed = ParsedReply::parse("PreToolUse", &exit(2, allows, " not here \n"));
        assert_eq!(
            parsed,
            ParsedReply { block: Some("not here".into()), ..ParsedReply::default() }
        );
    }

    #[test]
    fn another_exit_code_is_a_problem_and_its_json_still_counts() {
        let parsed = ParsedReply::parse("PreToolUse", &exit(1, "", "line one\nline two"));
        assert_eq!(parsed.problem.as_deref(), Some("it exited with code 1: line one"));
        let denies = r#"{"decision": "block", "reason": "no"}"#;
        let parsed = ParsedReply::parse("PreToolUse", &exit(1, denies, ""));
        assert_eq!(parsed.decision, Some((Decision::Deny, "no".into())));
        assert!(parsed.problem.is_some());
        let allows = r#"{"decision": "approve"}"#;
        let parsed = ParsedReply::parse("PreToolUse", &exit(1, allows, ""));
        assert_eq!(parsed.decision, None, "a hook that failed cannot allow");
        let odd = Reply::Exit {
            code: Some(0),
            stdout: allows.to_owned(),
            is_text: false,
            is_truncated: false,
            stderr: String::new(),
        };
        let parsed = ParsedReply::parse("PreToolUse", &odd);
        assert_eq!(
            (parsed.decision, parsed.problem.as_deref()),
            (None, Some("its answer is not UTF-8"))
        );
    }

    #[test]
    fn text_before_an_answer_is_a_problem_and_never_ignored() {
        for answer in [
            "welcome to this machine\n{\"decision\": \"block\"}",
            "\u{feff}{\"decision\": \"block\"}",
            "hello\n  {\n\"decision\": \"block\"}",
        ] {
            assert!(pre(answer).problem.is_some(), "{answer}");
        }
        assert_eq!(pre("checked {all} of it"), ParsedReply::default());
    }

    #[test]
    fn truncated_answer_denies_even_if_the_hook_fails_open() {
        let exit = |code, stdout: &str| Reply::Exit {
            code: Some(code),
            stdout: stdout.to_owned(),
            is_text: true,
            is_truncated: true,
            stderr: "why".to_owned(),
        };
        let allows = r#"{"decision": "approve"}"#;
        for reply in [exit(0, "log"), exit(0, ""), exit(0, allows), exit(1, ""), Reply::Truncated] {
            let parsed = ParsedReply::parse("PreToolUse", &reply);
            assert!(parsed.is_refused(false));
            let why = parsed.problem.clone().unwrap_or_default();
            assert!(why.contains("truncated"), "{reply:?}: {parsed:?}");
            assert_eq!(parsed.decision, None, "{reply:?}");
        }
        let blocks = ParsedReply::parse("PreToolUse", &exit(2, ""));
        assert_eq!((blocks.block.as_deref(), blocks.problem), (Some("why"), None));
        assert!(!pre("{broken").is_refused(false), "a problem of the hook may fail open");
        assert!(pre("{broken").is_refused(true));
    }

    #[test]
    fn duplicate_keys_are_an_error_at_every_depth() {
        for answer in [
            r#"{"decision": "block", "decision": "approve"}"#,
            r#"{"decision": "approve", "d\u0065cision": "block"}"#,
            r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecision": "allow"}}"#,
            r#"{"hookSpecificOutput": {"updatedInput": {"x": [{"y": 1, "y": 2}]}}}"#,
        ] {
            let parsed = pre(answer);
            assert!(parsed.problem.is_some() && parsed.decision.is_none(), "{answer}: {parsed:?}");
            assert_eq!(parsed.rewrite, None, "{answer}");
            let body = answer.to_owned();
            let posted = ParsedReply::parse("PreToolUse", &Reply::Status { status: 200, body });
            assert!(posted.problem.is_some() && posted.decision.is_none(), "{answer}");
        }
    }

    #[test]
    fn json_with_other_text_around_it_is_never_ignored() {
        let deny = r#"{"decision": "block"}"#;
        for answer in [
            format!("{deny}\n{deny}"),
            format!("{deny} done"),
            format!("{deny}\0"),
            format!("\0{deny}"),
            format!("\0\0\n{deny}"),
            format!("\u{200b}{deny}"),
            format!("\u{1b}[0m{deny}"),
            format!("guard: {deny}"),
            format!("[{deny}]"),
            format!("{deny:?}"),
            deny.chars().flat_map(|c| ['\0', c]).collect(),
            deny.chars().flat_map(|c| [c, '\0']).collect(),
            "result: {'hookSpecificOutput' : {}}".to_owned(),
        ] {
            assert!(pre(&answer).problem.is_some(), "{answer:?}");
        }
        for answer in ["no decision: fine", "\"decision\" was easy", "behavior: ok {}", "[]"] {
            assert_eq!(pre(answer), ParsedReply::default(), "{answer:?}");
        }
    }

    #[test]
    fn misplaced_or_misspelled_decision_is_a_problem() {
        for answer in [
            r#"{"permissionDecision": "deny"}"#,
            r#"{"permission_decision": "deny"}"#,
            r#"{"Decision": "block"}"#,
            r#"{"hook_specific_output": {"permissionDecision": "deny"}}"#,
            r#"{"hookSpecificOutput": {"permission_decision": "deny"}}"#,
            r#"{"hookSpecificOutput": {"decision": "block"}}"#,
            r#"{"updatedInput": {"x": 1}}"#,
            r#"{"decison": "block"}"#,
            r#"{"decision ": "block"}"#,
            "{\"\u{200b}decision\": \"block\"}",
            r#"{"hookSpecificOutput": {"permissionDecison": "deny"}}"#,
            r#"{"hookSpecificOutput": {"permissionDecisions": "deny"}}"#,
            r#"{"hookSpecificOutput": {"permissionDecision\u0000": "deny"}}"#,
            r#"{"hookSpecificOutputs": {"permissionDecision": "deny"}}"#,
            r#"{"hookOutput": {"permissionDecision": "deny"}}"#,
            r#"{"output": {"hookSpecificOutput": {"permissionDecision": "deny"}}}"#,
        ] {
            assert!(pre(answer).problem.is_some(), "{answer}");
        }
        // A valid deny in the same answer still counts, an allow does not.
        let both = r#"{"decision": "block", "permissionDecision": "deny"}"#;
        assert_eq!(pre(both).decision.map(|(decision, _)| decision), Some(Decision::Deny));
        let both = r#"{"decision": "approve", "permissionDecision": "allow"}"#;
        assert_eq!(pre(both).decision, None);
        for fine in [
            r#"{"suppressOutput": true}"#,
            r#"{"permissionDecision": null}"#,
            "{}",
            r#"{"a": 1}"#,
            r#"{"revision": 7, "details": {"decision": "block"}}"#,
        ] {
            assert_eq!(pre(fine), ParsedReply::default(), "{fine}");
        }
    }

    #[test]
    fn text_is_no_decision_and_broken_json_is_a_problem() {
        assert_eq!(pre("all fine"), ParsedReply::default());
        assert_eq!(pre(""), ParsedReply::default());
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
            let parsed = pre(broken);
            assert!(parsed.problem.is_some(), "{broken}");
            assert_eq!(parsed.decision, None, "{broken}");
        }
        assert!(pre(&"[".repeat(100_000)).problem.is_none(), "text, as it does not start with {{");
        assert!(pre(&r#"{"a":"#.repeat(100_000)).problem.is_some(), "deep nesting is refused");
    }

    #[test]
    fn old_and_new_fields_are_equivalent_and_the_stricter_wins() {
        let decision = |text: &str| pre(text).decision.map(|(decision, _)| decision.as_str());
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
    fn only_status_2xx_with_json_decides() {
        let read = |status, body: &str| {
            ParsedReply::parse("PreToolUse", &Reply::Status { status, body: body.to_owned() })
        };
        assert_eq!(read(200, r#"{"decision": "block"}"#).decision.unwrap().0, Decision::Deny);
        for (status, body) in
            [(200, "fine"), (200, ""), (302, "{}"), (404, "{}"), (500, r#"{"decision":"approve"}"#)]
        {
            let parsed = read(status, body);
            assert!(parsed.problem.is_some() && parsed.decision.is_none(), "{status} {body}");
        }
    }

    #[test]
    fn long_text_is_truncated_on_a_character_boundary_with_a_note() {
        let long = "é".repeat(MAX_TEXT_CHARS + 5);
        let text = format!(r#"{{"hookSpecificOutput": {{"additionalContext": "{long}"}}}}"#);
        let context = pre(&text).context.unwrap();
        assert_eq!(context.matches('é').count(), MAX_TEXT_CHARS);
        assert!(context.ends_with("are shown]"));
    }
}
