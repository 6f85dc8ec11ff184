//! Reads what a hook answered: exit code or status, text or JSON, old words or new.
//!
//! Pure. Doubt is a problem, never a yes: JSON that is broken, a field of the wrong kind, a word
//! nobody knows. What a problem means is up to the hook: one that fails closed refuses, one that
//! fails open lets go and says so.

use serde_json::{Map, Value};

/// What hooks say to model and people is cut to so many characters each.
const MAX_WORDS: usize = 10_000;

/// What may stand before the first word of a line.
const NO_WORD: fn(char) -> bool =
    |c| c.is_whitespace() || c.is_control() || matches!(c, '\u{feff}' | '\u{200b}'..='\u{200f}');

/// How a hook ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// A command ended; without a code it was killed. What is not UTF-8 is no text.
    Exit {
        code: Option<i32>,
        stdout: String,
        is_text: bool,
        /// Standard output was longer than what is kept.
        is_truncated: bool,
        stderr: String,
    },
    /// An address answered.
    Status { status: u16, body: String },
    /// An address answered with a good status and a body that is longer than what is read.
    Truncated,
    /// The hook was not called, because a script of it is not the one that was trusted.
    ScriptChanged(String),
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
    /// Part of its answer was dropped because it is too long. That part may hold a deny, and the
    /// hook did its work, so this refuses even where the hook fails open.
    pub(crate) is_truncated: bool,
    /// It was not called, because a script of it is not the one that was trusted. The change may
    /// have been made to take a deny away, so this refuses even where the hook fails open.
    pub(crate) is_changed: bool,
}

impl Ruling {
    /// Returns whether its problem refuses the call, without a decision.
    pub(crate) fn is_refused(&self, fails_closed: bool) -> bool {
        self.problem.is_some() && (fails_closed || self.always_refuses())
    }

    /// Returns whether its problem refuses the call even where the hook fails open.
    pub(crate) fn always_refuses(&self) -> bool {
        self.is_truncated || self.is_changed
    }

    /// Reads an answer to this event.
    pub(crate) fn read(event: &str, reply: &Reply) -> Self {
        match reply {
            Reply::None(why) => Self::broken(why.clone()),
            Reply::Truncated => Self::truncated(),
            Reply::ScriptChanged(why) => Self { is_changed: true, ..Self::broken(why.clone()) },
            Reply::Exit { code: Some(2), stderr, .. } => {
                let reason = match stderr.trim() {
                    "" => "a hook blocked this, without saying why",
                    reason => reason,
                };
                Self { block: Some(cut(reason)), ..Self::default() }
            }
            // FAIL CLOSED: the deny may be in the part that was dropped.
            Reply::Exit { is_truncated: true, .. } => Self::truncated(),
            Reply::Exit { code: Some(0), stdout, is_text: true, .. } => {
                let text = stdout.trim();
                if text.starts_with('{') {
                    return Self::json(event, text).unwrap_or_else(Self::broken);
                }
                if let Some(why) = hidden_answer(text) {
                    return Self::broken(why);
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

    fn truncated() -> Self {
        let why = "its answer is longer than 1 MiB and was truncated; print less".to_owned();
        Self { problem: Some(why), is_truncated: true, ..Self::default() }
    }

    fn json(event: &str, text: &str) -> Result<Self, String> {
        let parsed =
            haft::strict_json(text).map_err(|error| format!("its JSON cannot be read: {error}"))?;
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
        if let Some(why) = misplaced_field(event, &all) {
            // FAIL CLOSED: what it meant is unknown, so an objection counts and an allow does not.
            ruling.decision = ruling.decision.filter(|(decision, _)| *decision > Decision::Allow);
            ruling.problem = Some(why);
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

/// The fields that decide something.
const DECIDING_FIELDS: &[&str] = &[
    "hookSpecificOutput",
    "permissionDecision",
    "decision",
    "behavior",
    "continue",
    "updatedInput",
    "updatedToolOutput",
];

/// Why plain text may carry an answer after all: taken for mere text, a deny would be silence.
fn hidden_answer(text: &str) -> Option<String> {
    if text.contains('\0') {
        return Some("its output contains NUL bytes; an answer is UTF-8 text".to_owned());
    }
    if text.lines().any(|line| line.trim_start_matches(NO_WORD).starts_with('{')) {
        return Some("its JSON does not stand by itself".to_owned());
    }
    let field = DECIDING_FIELDS.iter().find(|field| names_field(text, field))?;
    Some(format!("its output names `{field}`, but is not one JSON object"))
}

/// Whether a text holds a field name in quotes, also escaped ones, with a colon after it.
fn names_field(text: &str, field: &str) -> bool {
    text.match_indices(field).any(|(at, _)| {
        let after = text.get(at + field.len()..).unwrap_or_default().trim_start_matches('\\');
        text.get(..at).is_some_and(|before| before.ends_with(['"', '\'']))
            && after
                .strip_prefix(['"', '\''])
                .is_some_and(|rest| rest.trim_start().starts_with(':'))
    })
}

/// Says which deciding field is misspelled, or in a place where the protocol ignores it.
fn misplaced_field(event: &str, all: &Map<String, Value>) -> Option<String> {
    let find = |map: &Map<String, Value>, valid: &[&str]| {
        let is_set = |key: &&String| map.get(key.as_str()).is_some_and(|value| !value.is_null());
        map.keys().filter(is_set).find_map(|key| {
            let meant = DECIDING_FIELDS.iter().find(|field| is_meant(key, field))?;
            (!valid.contains(&key.as_str())).then(|| (key.clone(), *meant))
        })
    };
    if let Some((key, meant)) = find(all, &["hookSpecificOutput", "decision", "continue"]) {
        return Some(match meant {
            "hookSpecificOutput" | "decision" | "continue" => {
                format!("`{key}` is no field of an answer; write `{meant}`")
            }
            _ => format!("`{key}` counts only inside `hookSpecificOutput`; move it there"),
        });
    }
    let is_buried = |(key, value): &(&String, &Value)| {
        key.as_str() != "hookSpecificOutput" && holds_decision(value, 4)
    };
    if let Some((key, _)) = all.iter().find(is_buried) {
        return Some(format!("`{key}` holds a decision, which counts only at the top"));
    }
    let own = all.get("hookSpecificOutput")?.as_object()?;
    let valid: &[&str] = match event {
        "PreToolUse" => &["permissionDecision", "updatedInput"],
        "PermissionRequest" => &["decision"],
        "PostToolUse" => &["updatedToolOutput"],
        _ => &[],
    };
    let (key, _) = find(own, valid)?;
    Some(format!("`{key}` inside `hookSpecificOutput` means nothing for `{event}`"))
}

/// Whether a key is a field of the protocol, up to case, separators, hidden characters and slips: one
/// in a short name (`decison`, but not `revision`), two in a long one.
fn is_meant(key: &str, field: &str) -> bool {
    let folded = |name: &str| -> String {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
    };
    let (key, field) = (folded(key), folded(field));
    let max_slips = if field.len() <= 8 { 1 } else { 2 };
    key.len().abs_diff(field.len()) <= max_slips && strsim::osa_distance(&key, &field) <= max_slips
}

/// Whether a decision stands deeper in a value, where no reader of the protocol looks.
fn holds_decision(value: &Value, depth: usize) -> bool {
    let decides =
        |key: &str| is_meant(key, "hookSpecificOutput") || is_meant(key, "permissionDecision");
    match value {
        Value::Object(map) if depth > 0 => {
            map.iter().any(|(key, value)| decides(key) || holds_decision(value, depth - 1))
        }
        Value::Array(list) if depth > 0 => {
            list.iter().any(|value| holds_decision(value, depth - 1))
        }
        _ => false,
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
        Reply::Exit { code: Some(code), stdout, is_text: true, is_truncated: false, stderr }
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
            is_truncated: false,
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
    fn truncated_answer_refuses_even_where_the_hook_fails_open() {
        let exit = |code, stdout: &str| Reply::Exit {
            code: Some(code),
            stdout: stdout.to_owned(),
            is_text: true,
            is_truncated: true,
            stderr: "why".to_owned(),
        };
        let allows = r#"{"decision": "approve"}"#;
        for reply in [exit(0, "log"), exit(0, ""), exit(0, allows), exit(1, ""), Reply::Truncated] {
            let ruling = Ruling::read("PreToolUse", &reply);
            assert!(ruling.is_refused(false));
            let why = ruling.problem.clone().unwrap_or_default();
            assert!(why.contains("truncated"), "{reply:?}: {ruling:?}");
            assert_eq!(ruling.decision, None, "{reply:?}");
        }
        let blocks = Ruling::read("PreToolUse", &exit(2, ""));
        assert_eq!((blocks.block.as_deref(), blocks.problem), (Some("why"), None));
        assert!(!pre("{broken").is_refused(false), "a problem of the hook may fail open");
        assert!(pre("{broken").is_refused(true));
    }

    #[test]
    fn duplicate_keys_are_an_error_at_every_depth() {
        for said in [
            r#"{"decision": "block", "decision": "approve"}"#,
            r#"{"decision": "approve", "d\u0065cision": "block"}"#,
            r#"{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecision": "allow"}}"#,
            r#"{"hookSpecificOutput": {"updatedInput": {"x": [{"y": 1, "y": 2}]}}}"#,
        ] {
            let ruling = pre(said);
            assert!(ruling.problem.is_some() && ruling.decision.is_none(), "{said}: {ruling:?}");
            assert_eq!(ruling.rewrite, None, "{said}");
            let body = said.to_owned();
            let posted = Ruling::read("PreToolUse", &Reply::Status { status: 200, body });
            assert!(posted.problem.is_some() && posted.decision.is_none(), "{said}");
        }
    }

    #[test]
    fn answer_that_does_not_stand_alone_is_never_silence() {
        let deny = r#"{"decision": "block"}"#;
        for said in [
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
            assert!(pre(&said).problem.is_some(), "{said:?}");
        }
        for said in ["no decision: fine", "\"decision\" was easy", "behavior: ok {}", "[]"] {
            assert_eq!(pre(said), Ruling::default(), "{said:?}");
        }
    }

    #[test]
    fn misplaced_or_misspelled_decision_is_a_problem() {
        for said in [
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
            assert!(pre(said).problem.is_some(), "{said}");
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
            assert_eq!(pre(fine), Ruling::default(), "{fine}");
        }
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
