//! The approval prompt at the terminal.
//!
//! In: an `ApprovalRequest` and typed keys. Out: an `ApprovalResponse`. Everything that matters for
//! the decision is printed before the keys: the complete arguments or the diff of an edit, the rule
//! with its location, untrusted text that the run has read (prompt injection), homoglyphs in
//! addresses.
//!
//! FAIL CLOSED: an empty line, end of input and too many wrong keys are denials.

mod choices;
mod edit;
mod message;
mod page;

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::{
        Mutex as Lock, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use haft::{
    BoxFuture, Failure,
    approval::{ApprovalRequest, ApprovalResponse, ApprovalScope, Approver},
    policy::Decision,
    tool::CallId,
};
use serde_json::Value;
use tokio::sync::Mutex;

use self::{
    choices::Choices,
    edit::{changed, changes},
    page::page,
};
use crate::{
    escape, explanation, schema,
    screen::OpenQuestion,
    style::{self, BAD, BOLD, DIM},
    tty_mode::LineModeOnDrop,
};

/// The maximum width of a page; longer lines are folded.
const MAX_WIDTH: usize = 100;
/// The width of a terminal that does not report one.
const DEFAULT_WIDTH: usize = 80;
/// The minimum width; a narrower terminal is treated as this wide.
const MIN_WIDTH: usize = 8;
/// The limit on wrong keys; then the call is denied.
const MAX_WRONG_KEYS: usize = 5;

/// The source of typed keys and lines.
pub(crate) trait Keys: Send + 'static {
    /// Discards input that was typed before the question was on the screen.
    fn discard_typed(&mut self) -> BoxFuture<'_, ()>;

    /// Returns the next line; `None` at the end of input.
    fn line(&mut self) -> BoxFuture<'_, io::Result<Option<String>>>;

    /// Returns the next key without waiting for Enter, or a line where there are no single keys.
    fn key(&mut self) -> BoxFuture<'_, io::Result<Option<String>>> {
        self.line()
    }

    /// Waits until a key can be an answer to the question that was just shown: what a person was
    /// typing when it appeared is discarded.
    fn wait_for_reader(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// The approver at the terminal; one question at a time.
pub(crate) struct Prompt<K, W> {
    keys: Mutex<K>,
    out: Lock<W>,
    /// The directory that paths are relative to.
    here: PathBuf,
    /// The call of the open question.
    open: Lock<Option<CallId>>,
    /// Another approver answered the last question, so half an answer may be in the input line.
    is_stale: AtomicBool,
    /// Returns the current width of the terminal.
    columns: fn() -> Option<usize>,
}

impl<K: Keys, W: Write + Send + 'static> Prompt<K, W> {
    pub(crate) fn new(keys: K, out: W, here: impl Into<PathBuf>) -> Self {
        Self {
            keys: Mutex::new(keys),
            out: Lock::new(out),
            here: here.into(),
            open: Lock::default(),
            is_stale: AtomicBool::new(false),
            columns: || None,
        }
    }

    /// Sets the source of the terminal width, which is read for each question.
    pub(crate) fn with_columns(mut self, columns: fn() -> Option<usize>) -> Self {
        self.columns = columns;
        self
    }

    /// How many columns a line may use. The last one stays free: some terminals wrap as soon as it
    /// is used.
    fn width(&self) -> usize {
        (self.columns)().unwrap_or(DEFAULT_WIDTH).clamp(MIN_WIDTH, MAX_WIDTH + 1) - 1
    }

    /// Writes and flushes, folded to the terminal. Errors are ignored: an unread question gets no
    /// answer.
    fn write(&self, text: &str) {
        let text = escape::fold(text, self.width());
        let mut out = lock(&self.out);
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Writes a short prompt and reads one line.
    async fn line(&self, keys: &mut K, small: &str) -> Result<Option<String>, Failure> {
        self.write(&style::paint(BOLD, small));
        let line = keys.line().await?;
        if line.is_none() {
            self.write("\n"); // end of input leaves the cursor in the line
        }
        Ok(line.map(|line| line.trim().to_owned()))
    }

    async fn read_answer(
        &self,
        keys: &mut K,
        question: &ApprovalRequest<'_>,
    ) -> Result<ApprovalResponse, Failure> {
        if let Decision::NeedInput(name) = &question.verdict.decision {
            return self.input(keys, question, name).await;
        }
        let choices = Choices::of(question, &self.here, self.width());
        let mut comment = None;
        let mut wrong = 0;
        while wrong < MAX_WRONG_KEYS {
            self.write(&format!("{}{}", choices.note, style::paint(BOLD, &choices.text)));
            let Some(line) = keys.key().await? else {
                self.write("\n");
                break;
            };
            let line = line.trim();
            let (key, rest) = match line.split_once(char::is_whitespace) {
                Some((key, rest)) => (key, Some(rest.trim().to_owned())),
                None => (line, None),
            };
            let mut comment_given = || rest.clone().or_else(|| comment.take());
            let lasting = match key.to_ascii_lowercase().as_str() {
                "y" | "yes" => ApprovalScope::Once,
                "s" | "session" if choices.has_session => ApprovalScope::Session,
                "a" | "always" if choices.has_always => ApprovalScope::Always,
                "d" if choices.has_directory => ApprovalScope::AlwaysInDirectory,
                "" | "n" | "no" => return Ok(ApprovalResponse::Deny(comment_given())),
                "e" | "edit" => match self.edit(keys, question).await? {
                    Some(arguments) => return Ok(ApprovalResponse::Edit(arguments)),
                    None => continue,
                },
                "c" | "comment" => {
                    comment = match rest {
                        Some(rest) => Some(rest),
                        None => self.line(keys, "  comment: ").await?.filter(|c| !c.is_empty()),
                    };
                    continue;
                }
                "i" | "instead" => {
                    let text = match rest {
                        Some(rest) => Some(rest),
                        None => self.line(keys, "  result for the model: ").await?,
                    };
                    match text.filter(|text| !text.is_empty()) {
                        Some(text) => return Ok(ApprovalResponse::ReplaceResult(text)),
                        None => continue,
                    }
                }
                "?" | "why" => {
                    self.write(&indented(&explanation::page(question.explanation, &self.here)));
                    continue;
                }
                _ => {
                    wrong += 1;
                    let key = style::cell(key);
                    self.write(&format!(
                        "  `{key}` is not one of the keys; Enter alone means no\n"
                    ));
                    continue;
                }
            };
            return Ok(ApprovalResponse::Allow { scope: lasting, comment: comment_given() });
        }
        self.write("  no valid answer: denied\n");
        Ok(ApprovalResponse::Deny(comment))
    }

    /// Asks for the value of an argument.
    async fn input(
        &self,
        keys: &mut K,
        question: &ApprovalRequest<'_>,
        name: &str,
    ) -> Result<ApprovalResponse, Failure> {
        let known = schema::parameters(question.call.tool().input_schema());
        let argument = known.iter().find(|p| p.name == name);
        if let Some(argument) = argument {
            let (kind, what) = (argument.kind(), argument.description());
            self.write(&format!(
                "  {}\n",
                style::paint(DIM, style::visible(&format!("{kind}  {what}")))
            ));
        }
        let small = format!("  {}: ", style::visible(name));
        loop {
            let Some(line) = self.line(keys, &small).await? else {
                return Ok(ApprovalResponse::Deny(None));
            };
            match line.as_str() {
                "" => return Ok(ApprovalResponse::Deny(None)),
                "?" => self.write(&indented(&explanation::page(question.explanation, &self.here))),
                text => {
                    let plain = || Value::String(text.to_owned());
                    return Ok(ApprovalResponse::Input(
                        argument.map_or_else(plain, |p| p.read(text)),
                    ));
                }
            }
        }
    }

    /// Reads changed arguments and prints the difference.
    async fn edit(
        &self,
        keys: &mut K,
        question: &ApprovalRequest<'_>,
    ) -> Result<Option<Value>, Failure> {
        let small = "  change (key=text key:=json, or one JSON object; Enter cancels): ";
        let Some(line) = self.line(keys, small).await?.filter(|line| !line.is_empty()) else {
            return Ok(None);
        };
        let old = question.call.arguments();
        let new = match changed(old, &line, question) {
            Ok(new) => new,
            Err(problem) => {
                self.write(&format!(
                    "  {}\n",
                    style::paint(BAD, style::visible(&problem.to_string()))
                ));
                return Ok(None);
            }
        };
        let changes = changes(old, &new, question, self.width());
        if changes.is_empty() {
            self.write("  nothing changed\n");
            return Ok(None);
        }
        self.write(&changes);
        Ok(Some(new))
    }
}

impl<K: Keys, W: Write + Send + 'static> Approver for Prompt<K, W> {
    fn name(&self) -> &str {
        "the terminal"
    }

    fn closed(&self, question: &ApprovalRequest<'_>, by: &str) {
        let mut open = lock(&self.open);
        if open.as_ref() == Some(question.call.context().call_id()) {
            let _screen = OpenQuestion::new();
            *open = None;
            self.is_stale.store(true, Ordering::Relaxed);
            self.write(&format!("\n  answered by {}\n", style::visible(by)));
        }
    }

    fn ask<'a>(
        &'a self,
        question: &'a ApprovalRequest<'a>,
    ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
        Box::pin(async {
            let mut keys = self.keys.lock().await;
            let (_screen, _mode) = (OpenQuestion::new(), LineModeOnDrop);
            keys.discard_typed().await;
            if self.is_stale.swap(false, Ordering::Relaxed) {
                // A half typed answer to the last question must not answer this one.
                self.line(&mut keys, "  press Enter for the next question ").await?;
            }
            *lock(&self.open) = Some(question.call.context().call_id().clone());
            let preview = question.call.preview().await;
            self.write(&page(question, preview.as_ref(), &self.here, self.width()));
            keys.wait_for_reader().await;
            let answer = self.read_answer(&mut keys, question).await;
            *lock(&self.open) = None;
            answer
        })
    }
}

fn lock<T>(lock: &Lock<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

fn indented(text: &str) -> String {
    text.lines()
        .map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::VecDeque, sync::Arc};

    use haft::{
        FailureCode, Runtime, ToolCall, ToolRegistry, ToolResult,
        approval::SuggestedRules,
        policy::{Explanation, Policy, PolicyRequest, RuleRef, RuleStore, SourceLocation, Verdict},
        tool::{Capabilities, DynTool, ToolSpec},
    };
    use insta::assert_snapshot;
    use serde_json::json;

    use super::{edit::split_words, *};

    /// Prepared input lines, echoed to a screen.
    struct Script(VecDeque<&'static str>, Screen);

    impl Keys for Script {
        fn discard_typed(&mut self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }

        fn line(&mut self) -> BoxFuture<'_, io::Result<Option<String>>> {
            let line = self.0.pop_front().map(|line| format!("{line}\n"));
            if let Some(line) = &line {
                self.1.write_all(line.as_bytes()).unwrap(); // as a terminal does
            }
            Box::pin(async { Ok(line) })
        }
    }

    /// A screen whose text can be read.
    #[derive(Clone, Default)]
    struct Screen(Arc<Lock<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            lock(&self.0).extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Screen {
        /// The text without colours.
        fn text(&self) -> String {
            let bytes = lock(&self.0).clone();
            anstream::adapter::strip_str(&String::from_utf8(bytes).unwrap()).to_string()
        }
    }

    /// A policy that asks about every call.
    #[derive(Default)]
    struct Asks {
        offer: Option<SuggestedRules>,
        risk: &'static [&'static str],
        tainted_by: &'static [&'static str],
        needs: Option<&'static str>,
    }

    impl Policy for Asks {
        fn decide(&self, request: &PolicyRequest<'_>) -> Verdict {
            let reason = "shared branches";
            let verdict = match self.needs {
                Some(name) if request.arguments.get(name).is_none() => {
                    Verdict::need_input(name, reason)
                }
                Some(_) => Verdict::allow("given"),
                None => Verdict::ask(reason),
            };
            verdict.by("haft.toml:14 ask \"Bash(git push *)\"")
        }

        fn explain(&self, request: &PolicyRequest<'_>) -> Explanation {
            let mut explanation = Explanation::of(self.decide(request));
            explanation.deciding = Some(RuleRef {
                id: None,
                decision: "ask".to_owned(),
                pattern: "Bash(git push *)".to_owned(),
                location: SourceLocation {
                    file: Some(Arc::new("/notes/haft.toml".into())),
                    line: 14,
                    column: 1,
                },
            });
            explanation.touches = self.risk.iter().map(|&word| word.to_owned()).collect();
            explanation.tainted_by = self.tainted_by.iter().map(|&word| word.to_owned()).collect();
            explanation.smallest_change = Some("add an `except`".to_owned());
            explanation
        }

        fn rule_store(&self) -> Option<&dyn RuleStore> {
            Some(self)
        }
    }

    impl RuleStore for Asks {
        fn suggest_for(&self, _: &PolicyRequest<'_>) -> Option<SuggestedRules> {
            self.offer.clone()
        }

        fn save(&self, _: &SuggestedRules) -> Result<(), haft::Error> {
            Ok(())
        }
    }

    /// A tool that returns its arguments.
    fn tool() -> DynTool {
        let text = || json!({"type": "string"});
        DynTool::new(
            ToolSpec::new("shell", "Runs a command.").capabilities(Capabilities::NONE),
            json!({
                "type": "object",
                "properties": {
                    "command": text(),
                    "to": text(),
                    "count": {"type": "integer", "description": "How often."},
                    "key": {"type": "string", "x-secret": true},
                },
            }),
            |args, _| async move { args.to_string() },
        )
    }

    /// Runs one call with these typed lines. Returns the screen and the result.
    fn ask(policy: Asks, arguments: Value, typed: &[&'static str]) -> (String, ToolResult) {
        let screen = Screen::default();
        let script = Script(typed.iter().copied().collect(), screen.clone());
        let prompt = Prompt::new(script, screen.clone(), "/notes");
        let runtime = Runtime::builder()
            .registry(ToolRegistry::builder().add(tool()).build().unwrap())
            .policy(policy)
            .approver(prompt)
            .build()
            .unwrap();
        let work = async move {
            let run = runtime.run_builder().one_shot().start();
            let turn = run.turn().await.unwrap();
            turn.run([ToolCall::new("c1", "shell", arguments)]).await.pop().unwrap()
        };
        let answer = crate::session::block_on(work).unwrap();
        (screen.text(), answer)
    }

    fn push() -> Value {
        json!({"command": "git push origin main"})
    }

    fn model_reads(answer: &ToolResult) -> String {
        answer.failure().map_or_else(
            || answer.output().unwrap().to_text(),
            |failure| format!("{}: {}", failure.code(), failure.message()),
        )
    }

    #[test]
    fn question_shows_the_command_the_reason_and_the_keys() {
        let policy = Asks { risk: &["run `git push origin main`", "network"], ..Asks::default() };
        let (screen, answer) = ask(policy, push(), &["y"]);
        assert_snapshot!(screen, @r#"

          git push origin main    shell · network
          asked because  haft.toml:14  ask "Bash(git push *)"
                         shared branches
          [y] once   [e] edit   [c] comment   [i] answer instead   [n] no   [?] why  > y
        "#);
        assert!(model_reads(&answer).contains("git push origin main"), "{}", model_reads(&answer));
    }

    #[test]
    fn every_answer_except_yes_denies() {
        for typed in [&[""][..], &["n"], &[], &["x", "yy", "yep", "1", "always"], &["s", "n"]] {
            let (screen, answer) = ask(Asks::default(), push(), typed);
            assert!(
                model_reads(&answer).starts_with("declined"),
                "{typed:?}: {}",
                model_reads(&answer)
            );
            assert!(!screen.contains("[s]") && !screen.contains("[a]"), "nothing to offer");
        }
        let (screen, _) = ask(Asks::default(), push(), &["x"; 9]);
        assert_eq!(screen.matches("`x` is not one of the keys").count(), MAX_WRONG_KEYS);
        assert!(screen.ends_with("no valid answer: denied\n"));
    }

    #[test]
    fn comment_is_sent_with_approval_and_denial() {
        let (_, answer) = ask(Asks::default(), push(), &["n not on a friday"]);
        assert!(model_reads(&answer).contains("not on a friday"));
        let (_, answer) = ask(Asks::default(), push(), &["c", "the branch is wrong", "n"]);
        assert!(model_reads(&answer).contains("the branch is wrong"));
        let (_, answer) = ask(Asks::default(), push(), &["c", "fine this once", "y"]);
        assert!(!answer.is_error());
    }

    #[test]
    fn always_is_offered_only_if_the_whole_rule_is_visible() {
        let offer = |rule: &str| {
            Some(SuggestedRules {
                rules: vec![rule.to_owned()],
                file: "/notes/haft.local.toml".into(),
            })
        };
        let policy = Asks { offer: offer("Bash(git push origin main)"), ..Asks::default() };
        let (screen, answer) = ask(policy, push(), &["a"]);
        let label = "[a] always: Bash(git push origin main) → haft.local.toml";
        assert!(screen.contains(label), "{screen}");
        assert!(!answer.is_error());
        for odd in ["Bash(x\u{200b}y)", "Bash(a\nb)", &format!("Bash({})", "x".repeat(120))] {
            let (screen, answer) =
                ask(Asks { offer: offer(odd), ..Asks::default() }, push(), &["a"]);
            assert!(!screen.contains("[a]"), "{screen}");
            let why = "no \"always\": the rule cannot be shown completely\n";
            assert!(screen.contains(why), "{screen}");
            assert!(answer.is_error());
        }
    }

    #[test]
    fn question_names_untrusted_text_that_the_run_has_read() {
        let policy =
            Asks { tainted_by: &["call 3 of `fetch_page`, example.org"], ..Asks::default() };
        let (screen, _) = ask(policy, push(), &["n"]);
        let shown = "the run has read untrusted text: call 3 of `fetch_page`, example.org";
        assert!(screen.contains(shown), "{screen}");
    }

    #[test]
    fn why_key_prints_the_explanation() {
        let (screen, _) = ask(Asks::default(), push(), &["?", "n"]);
        assert!(screen.contains("ask: shared branches"), "{screen}");
        assert!(screen.contains("to flip it  add an `except`"), "{screen}");
        assert_eq!(screen.matches("[y] once").count(), 2, "asked again");
    }

    #[test]
    fn edit_shows_the_difference_and_asks_again() {
        let typed = &["e", "to=bob count=3 command='git push origin wip'", "y"];
        let (screen, answer) = ask(Asks::default(), push(), typed);
        assert_snapshot!(screen.lines().filter(|l| l.starts_with("  - ") || l.starts_with("  + ")).collect::<Vec<_>>().join("\n"), @r#"
          - command: "git push origin main"
          + command: "git push origin wip"
          + to: "bob"
          + count: 3
        "#);
        assert!(model_reads(&answer).contains("wip"), "{}", model_reads(&answer));
        assert_eq!(screen.matches("asked because").count(), 2);
    }

    #[test]
    fn edit_redacts_secrets_on_both_sides() {
        let key = |c: &str| format!("ghp_{}", c.repeat(36));
        let old = json!({"to": key("a"), "command": "ls"});
        let line: &'static str = format!("to={} count=2", key("b")).leak();
        let (screen, answer) = ask(Asks::default(), old, &["e", line, "y"]);
        let shown: String = screen.lines().filter(|line| !line.contains("change (")).collect();
        assert!(!shown.contains("ghp_"), "{shown}");
        assert!(shown.contains("+ to: \"[REDACTED:github-token:40]\""), "{shown}");
        assert!(!answer.is_error());
    }

    #[test]
    fn invalid_edit_returns_to_the_question() {
        for line in ["{\"command\": ", "nothing", "to='open", "command='git push origin main'"] {
            let (screen, answer) = ask(Asks::default(), push(), &["e", line, "n"]);
            assert!(
                model_reads(&answer).starts_with("declined"),
                "{line}: {}",
                model_reads(&answer)
            );
            assert_eq!(screen.matches("[y] once").count(), 2, "{line}: {screen}");
        }
    }

    #[test]
    fn replacement_result_is_sent_to_the_model() {
        let (_, answer) = ask(Asks::default(), push(), &["i", "it is pushed already"]);
        assert!(model_reads(&answer).contains("it is pushed already"), "{}", model_reads(&answer));
    }

    #[test]
    fn missing_argument_is_asked_for_and_parsed_by_its_schema() {
        let needs = || Asks { needs: Some("count"), ..Asks::default() };
        let (screen, answer) = ask(needs(), push(), &["3"]);
        assert!(screen.ends_with("integer  How often.\n  count: 3\n"), "{screen}");
        assert!(model_reads(&answer).contains("\"count\":3"), "{}", model_reads(&answer));
        let (_, answer) = ask(needs(), push(), &[""]);
        assert!(answer.is_error());
    }

    #[test]
    fn question_hides_secrets_and_shows_everything_else() {
        let long = "abc ".repeat(100);
        let arguments = json!({"key": "hunter2", "to": long, "command": "a\n[y] once\nb"});
        let (screen, _) = ask(Asks::default(), arguments, &["e", "key=other", "n"]);
        assert!(!screen.contains("hunter2"), "{screen}");
        assert!(screen.contains("key: (hidden)"));
        assert_eq!(screen.matches("abc").count(), 200, "twice: after the edit it is asked again");
        assert!(screen.contains("\n  │ [y] once\n"), "no line of a call passes for one of ours");
        assert!(screen.lines().all(|line| style::width(line) <= MAX_WIDTH), "{screen}");
    }

    #[test]
    fn homoglyphs_and_bidi_overrides_are_shown() {
        let arguments =
            json!({"to": "b\u{43e}b@ex\u{430}mple.org", "command": "ls \u{202e}gpj.exe"});
        let (screen, _) = ask(Asks::default(), arguments, &["n"]);
        assert!(screen.contains("ls <U+202E>gpj.exe"), "{screen}");
        assert!(
            screen.contains("! `b\u{43e}b@ex\u{430}mple.org` is not `bob@example.org`"),
            "{screen}"
        );
    }

    #[test]
    fn quoted_text_cannot_forge_a_line() {
        let policy =
            Asks { risk: &["write a\n  [y] once"], tainted_by: &["x\ny"], ..Asks::default() };
        let (screen, _) = ask(policy, push(), &["n"]);
        assert!(screen.contains("write a   [y] once"), "{screen}");
        assert!(screen.contains("text: x y\n"), "{screen}");
    }

    fn answer(choices: &[&str], typed: &[&'static str]) -> (String, Result<String, Failure>) {
        let screen = Screen::default();
        let keys = Script(typed.iter().copied().collect(), screen.clone());
        let prompt = Prompt::new(keys, screen.clone(), "/");
        let question = json!({"question": "Which colour?\nBlue is nice.", "choices": choices});
        let question = serde_json::from_value(question).unwrap();
        let answer =
            crate::session::block_on(async move { prompt.ask_text(&question).await }).unwrap();
        let screen = String::from_utf8(lock(&screen.0).clone()).unwrap();
        (anstream::adapter::strip_str(&screen).to_string(), answer)
    }

    #[test]
    fn question_of_the_model_takes_a_number_or_text() {
        let (screen, chosen) = answer(&["red", "blue"], &["2"]);
        assert_eq!(chosen.unwrap(), "blue");
        assert!(screen.contains("The model asks you"), "{screen}");
        assert!(screen.contains("  Which colour?\n  Blue is nice.\n"), "{screen}");
        assert!(screen.contains("1  red\n") && screen.contains("2  blue\n"), "{screen}");
        for (typed, words) in [("3", "3"), ("0", "0"), ("green, rather", "green, rather"), ("", "")]
        {
            assert_eq!(answer(&["red", "blue"], &[typed]).1.unwrap(), words);
        }
        assert_eq!(answer(&[], &["1"]).1.unwrap(), "1", "there is nothing to choose");
        let gone = answer(&["red"], &[]).1.unwrap_err();
        assert_eq!(gone.code(), FailureCode::NeedsInteraction, "{gone}");
    }

    /// A keyboard without input.
    struct Untouched;

    impl Keys for Untouched {
        fn discard_typed(&mut self) -> BoxFuture<'_, ()> {
            Box::pin(async {})
        }

        fn line(&mut self) -> BoxFuture<'_, io::Result<Option<String>>> {
            Box::pin(std::future::pending())
        }
    }

    /// Another approver, who answers a little later.
    struct Console;

    impl Approver for Console {
        fn name(&self) -> &str {
            "the console"
        }

        fn ask<'a>(
            &'a self,
            _: &'a ApprovalRequest<'a>,
        ) -> BoxFuture<'a, Result<ApprovalResponse, Failure>> {
            Box::pin(async {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                Ok(ApprovalResponse::allow())
            })
        }
    }

    #[test]
    fn question_answered_by_another_approver_is_closed_and_typed_input_discarded() {
        let screen = Screen::default();
        let runtime = Runtime::builder()
            .registry(ToolRegistry::builder().add(tool()).build().unwrap())
            .policy(Asks::default())
            .approver(Prompt::new(Untouched, screen.clone(), "/notes"))
            .approver(Console)
            .build()
            .unwrap();
        let work = async move {
            let run = runtime.run_builder().one_shot().start();
            let turn = run.turn().await.unwrap();
            let call = |id: &str| ToolCall::new(id, "shell", json!({"command": id}));
            turn.run([call("first"), call("second")]).await
        };
        let answers = crate::session::block_on(work).unwrap();
        assert!(answers.iter().all(|answer| !answer.is_error()), "{answers:?}");
        let screen = screen.text();
        assert!(screen.contains("  first    shell"), "{screen}");
        assert!(screen.contains("answered by the console"), "{screen}");
        assert!(screen.ends_with("Enter for the next question "), "{screen}");
    }

    #[test]
    fn words_are_split_like_in_a_shell() {
        assert_eq!(split_words("a=1  b='x y' c=\"\"").unwrap(), ["a=1", "b=x y", "c="]);
        assert!(split_words("a='x").is_err());
        assert_eq!(split_words("  ").unwrap(), Vec::<String>::new());
    }
}
