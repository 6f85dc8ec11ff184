//! The question at a terminal: what would run, why it is asked, and what can be answered.
//!
//! In: a question of the runtime, and lines that somebody types. Out: an answer. Everything that
//! could change the person's mind is on the screen before the keys are: the whole arguments, the
//! rule with its place, what the run has read, letters that look like others.
//!
//! FAIL CLOSED: an empty line, the end of the input and too many wrong keys are a no.

use std::{
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex as Lock, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use haft::{Answer, Approver, BoxFuture, CallId, Decision, Failure, Lasting, Question};
use serde_json::Value;
use tokio::sync::Mutex;

use crate::{
    call, explain,
    problem::Problem,
    schema, sight,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, WARN},
};

/// So wide is a page; what is longer goes on in the next line.
const WIDTH: usize = 100;
/// Whoever hits so many wrong keys is not answering.
const WRONG: usize = 5;
/// So many values are traced to what the run has read.
const MOST_TRACED: usize = 64;

/// Where the answers are typed.
pub(crate) trait Keys: Send + 'static {
    /// Drops what was typed before the question was there to be read.
    fn forget(&mut self) -> BoxFuture<'_, ()>;

    /// Returns the next line; nothing at the end.
    fn line(&mut self) -> BoxFuture<'_, io::Result<Option<String>>>;
}

/// Asks at a terminal, one question at a time.
pub(crate) struct Prompt<K, W> {
    keys: Mutex<K>,
    out: Lock<W>,
    /// The folder that places are shown from.
    here: PathBuf,
    /// The call that the question on the screen is about.
    open: Lock<Option<CallId>>,
    /// A question was closed from elsewhere: half an answer to it may stand in the line.
    is_stale: AtomicBool,
}

impl<K: Keys, W: Write + Send + 'static> Prompt<K, W> {
    pub(crate) fn new(keys: K, out: W, here: impl Into<PathBuf>) -> Self {
        Self {
            keys: Mutex::new(keys),
            out: Lock::new(out),
            here: here.into(),
            open: Lock::default(),
            is_stale: AtomicBool::new(false),
        }
    }

    /// Writes at once. If nobody can read it, nobody will answer either.
    fn write(&self, text: &str) {
        let mut out = lock(&self.out);
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }

    /// Writes a small question, and reads the answer to it.
    async fn line(&self, keys: &mut K, small: &str) -> Result<Option<String>, Failure> {
        self.write(&style::paint(BOLD, small));
        let line = keys.line().await?;
        if line.is_none() {
            self.write("\n"); // the end of the input leaves the cursor where it was
        }
        Ok(line.map(|line| line.trim().to_owned()))
    }

    async fn hear(&self, keys: &mut K, question: &Question<'_>) -> Result<Answer, Failure> {
        if let Decision::NeedInput(name) = &question.verdict.decision {
            return self.input(keys, question, name).await;
        }
        let (choice, always) = choices(question, &self.here);
        let mut comment = None;
        let mut wrong = 0;
        while wrong < WRONG {
            let Some(line) = self.line(keys, &choice).await? else { break };
            let (key, rest) = match line.split_once(char::is_whitespace) {
                Some((key, rest)) => (key, Some(rest.trim().to_owned())),
                None => (line.as_str(), None),
            };
            let mut said = || rest.clone().or_else(|| comment.take());
            let lasting = match key.to_ascii_lowercase().as_str() {
                "y" | "yes" => Lasting::Once,
                "s" | "session" if question.session => Lasting::Session,
                "a" | "always" if always => Lasting::Always,
                "" | "n" | "no" => return Ok(Answer::Deny(said())),
                "e" | "edit" => match self.edit(keys, question).await? {
                    Some(arguments) => return Ok(Answer::Edit(arguments)),
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
                        None => self.line(keys, "  the model reads instead: ").await?,
                    };
                    match text.filter(|text| !text.is_empty()) {
                        Some(text) => return Ok(Answer::Instead(text)),
                        None => continue,
                    }
                }
                "?" | "why" => {
                    self.write(&indented(&explain::page(question.explanation, &self.here)));
                    continue;
                }
                _ => {
                    wrong += 1;
                    let key = style::cell(key);
                    self.write(&format!("  `{key}` is no answer to this; Enter alone is a no\n"));
                    continue;
                }
            };
            return Ok(Answer::Allow { lasting, comment: said() });
        }
        self.write("  taken as a no\n");
        Ok(Answer::Deny(comment))
    }

    /// Asks for the value of an argument.
    async fn input(
        &self,
        keys: &mut K,
        question: &Question<'_>,
        name: &str,
    ) -> Result<Answer, Failure> {
        let known = schema::parameters(question.call.tool().input_schema());
        let argument = known.iter().find(|p| p.name == name);
        if let Some(argument) = argument {
            let (kind, what) = (argument.kind(), argument.description());
            self.write(&format!("  {}\n", style::paint(DIM, style::visible(&format!("{kind}  {what}")))));
        }
        let small = format!("  {}: ", style::visible(name));
        loop {
            let Some(line) = self.line(keys, &small).await? else { return Ok(Answer::Deny(None)) };
            match line.as_str() {
                "" => return Ok(Answer::Deny(None)),
                "?" => self.write(&indented(&explain::page(question.explanation, &self.here))),
                text => {
                    let plain = || Value::String(text.to_owned());
                    return Ok(Answer::Input(argument.map_or_else(plain, |p| p.read(text))));
                }
            }
        }
    }

    /// Asks for other arguments, and shows what they change.
    async fn edit(
        &self,
        keys: &mut K,
        question: &Question<'_>,
    ) -> Result<Option<Value>, Failure> {
        let small = "  change (key=text key:=json, or one JSON object; Enter goes back): ";
        let Some(line) = self.line(keys, small).await?.filter(|line| !line.is_empty()) else {
            return Ok(None);
        };
        let old = question.call.arguments();
        let new = match changed(old, &line, question) {
            Ok(new) => new,
            Err(problem) => {
                self.write(&format!("  {}\n", style::paint(BAD, style::visible(&problem.to_string()))));
                return Ok(None);
            }
        };
        let changes = changes(old, &new, question);
        if changes.is_empty() {
            self.write("  this changes nothing\n");
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

    fn closed(&self, question: &Question<'_>, by: &str) {
        let mut open = lock(&self.open);
        if open.as_ref() == Some(question.call.context().call_id()) {
            *open = None;
            self.is_stale.store(true, Ordering::Relaxed);
            self.write(&format!("\n  answered by {}\n", style::visible(by)));
        }
    }

    fn ask<'a>(&'a self, question: &'a Question<'a>) -> BoxFuture<'a, Result<Answer, Failure>> {
        Box::pin(async {
            let mut keys = self.keys.lock().await;
            keys.forget().await;
            if self.is_stale.swap(false, Ordering::Relaxed) {
                // What was half typed for the last question must not answer this one.
                self.line(&mut keys, "  Enter for the next question ").await?;
            }
            *lock(&self.open) = Some(question.call.context().call_id().clone());
            self.write(&page(question, &self.here));
            let answer = self.hear(&mut keys, question).await;
            *lock(&self.open) = None;
            answer
        })
    }
}

fn lock<T>(lock: &Lock<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The whole question, up to the keys.
pub(crate) fn page(question: &Question<'_>, here: &Path) -> String {
    let (entry, arguments) = (question.call.tool(), question.call.arguments());
    let explanation = question.explanation;
    let known = schema::parameters(entry.input_schema());
    let is_secret = |key: &str| known.iter().any(|p| p.name == key && p.is_secret());
    let command = arguments.get("command").and_then(Value::as_str).filter(|_| !is_secret("command"));

    let mut risk: Vec<String> = explanation.risk.iter().map(|r| style::visible(r)).collect();
    let own = command.map(|command| format!("run `{}`", style::visible(command.trim())));
    risk.retain(|word| Some(word) != own.as_ref());
    let head = command.unwrap_or(entry.name().as_str());
    if command.is_some() {
        risk.insert(0, entry.name().to_string());
    }
    let mut out = String::from("\n");
    out += &headline(&style::visible(head), &risk.join(" · "), command.is_some());

    out += "  asked because  ";
    match &explanation.deciding {
        Some(rule) => {
            out += &format!(
                "{}  {} \"{}\"\n",
                style::paint(NAME, explain::at(&rule.place, here)),
                rule.decision,
                style::visible(&rule.pattern),
            );
            let reason = style::visible(&question.verdict.reason);
            out += &format!("                 {}\n", style::paint(WARN, reason));
        }
        None => {
            let reason = style::visible(&question.verdict.reason);
            let source = style::visible(&question.verdict.source);
            out += &style::paint(WARN, reason);
            out += &format!(" {}\n", style::paint(DIM, format_args!("({source})")));
        }
    }
    let path = &question.call.context().scope().agent_path;
    if !path.is_empty() {
        out += &format!("  asked by       agent {}\n", style::visible(&path.join(" > ")));
    }
    for taint in &explanation.tainted_by {
        let told = format!("the run has read untrusted text: {}", style::visible(taint));
        out += &format!("  {}\n", style::paint(WARN, told));
    }
    for origin in origins(question, &is_secret) {
        out += &format!("  {}\n", style::paint(WARN, style::visible(&origin)));
    }
    for (key, value) in arguments.as_object().into_iter().flatten() {
        if command.is_none() || key != "command" {
            out += &argument(key, value, is_secret(key));
        }
    }
    let shown = |(key, _): &(&String, &Value)| !is_secret(key);
    let texts = arguments.as_object().into_iter().flatten().filter(shown);
    let mut warnings: Vec<String> = texts.flat_map(|(_, v)| sight::lookalikes(&text(v))).collect();
    warnings.dedup();
    for warning in warnings {
        out += &format!("  {}\n", style::paint(BAD, format_args!("! {warning}")));
    }
    out
}

/// What would run, and beside it, or below it where it is long, what that touches.
fn headline(head: &str, risk: &str, is_command: bool) -> String {
    let shown = if is_command { BOLD } else { NAME.bold() };
    let lines = sight::wrap(head, WIDTH - 4);
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        // Further lines have a bar, so that none of them can pass for a line of ours.
        out += &format!("  {}{}", if at == 0 { "" } else { "│ " }, style::paint(shown, line));
        let fits = lines.len() == 1 && style::width(line) + style::width(risk) + 6 <= WIDTH;
        if risk.is_empty() || at + 1 < lines.len() {
            out.push('\n');
        } else if fits {
            out += &format!("    {}\n", style::paint(WARN, risk));
        } else {
            out.push('\n');
            for line in sight::wrap(risk, WIDTH - 2) {
                out += &format!("  {}\n", style::paint(WARN, line));
            }
        }
    }
    out
}

/// One argument, in full.
fn argument(key: &str, value: &Value, is_secret: bool) -> String {
    let key = style::visible(key).replace('\n', "\\u{a}");
    let shown = match value {
        _ if is_secret => "(hidden)".to_owned(),
        // Text of several lines is read best as it is, behind a bar.
        Value::String(text) if text.contains('\n') => {
            let mut out = format!("    {key}:\n");
            for line in sight::wrap(&style::visible(text), WIDTH - 8) {
                out += &format!("      │ {line}\n");
            }
            return out;
        }
        other => style::visible(&other.to_string()),
    };
    let mut out = String::new();
    for (at, line) in sight::wrap(&format!("{key}: {shown}"), WIDTH - 6).iter().enumerate() {
        out += &format!("    {}{line}\n", if at == 0 { "" } else { "│ " });
    }
    out
}

/// A value as text to look for tricks in; JSON would have escaped some of them.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text).collect::<Vec<_>>().join(" "),
        Value::Object(map) => map.values().map(text).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

/// Which values come from what the run has read.
fn origins(question: &Question<'_>, is_secret: &dyn Fn(&str) -> bool) -> Vec<String> {
    let seen = question.call.seen();
    let mut found: Vec<String> = Vec::new();
    let arguments = question.call.arguments().as_object().into_iter().flatten();
    let mut open: Vec<&Value> =
        arguments.filter(|(key, _)| !is_secret(key)).map(|(_, value)| value).collect();
    let mut looked_at = 0;
    while let Some(value) = open.pop() {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Array(list) => {
                open.extend(list);
                continue;
            }
            Value::Object(map) => {
                open.extend(map.values());
                continue;
            }
            Value::Null | Value::Bool(_) => continue,
        };
        looked_at += 1;
        if looked_at > MOST_TRACED {
            found.push("there are more values than could be traced".to_owned());
            break;
        }
        if let Some(taint) = seen.origin_of(&value) {
            let origin = taint.origin.map_or_else(String::new, |origin| format!(", {origin}"));
            let value = style::cell(&value);
            found.push(format!("`{value}` comes from call {} of `{}`{origin}", taint.call, taint.tool));
        }
    }
    found.dedup();
    found
}

/// The keys that can be hit, and whether "always" is among them.
fn choices(question: &Question<'_>, here: &Path) -> (String, bool) {
    let mut keys = vec!["[y] once".to_owned()];
    if question.session {
        keys.push("[s] this session".to_owned());
    }
    // The label is the literal rule and its file. What cannot be shown whole is not offered.
    let always = question.offer.and_then(|offer| {
        let file = explain::short(&offer.file, here);
        let label = format!("[a] always: {} → {file}", offer.rules.join(", "));
        let whole = style::visible(&label) == label && !label.contains('\n');
        (whole && style::width(&label) <= WIDTH - 2 && sight::lookalikes(&label).is_empty())
            .then_some(label)
    });
    let has_always = always.is_some();
    keys.extend(always);
    let rest = ["[e] edit", "[c] comment", "[i] answer instead", "[n] no", "[?] why"];
    keys.extend(rest.map(str::to_owned));
    let mut lines = vec![String::new()];
    for key in keys {
        let long = |line: &String| style::width(line) + style::width(&key) + 3 > WIDTH;
        if lines.last().is_some_and(long) {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            *line += if line.is_empty() { "  " } else { "   " };
            *line += &key;
        }
    }
    (lines.join("\n") + "  > ", has_always)
}

/// The arguments as a person changes them.
fn changed(old: &Value, line: &str, question: &Question<'_>) -> Result<Value, Problem> {
    if line.starts_with('{') {
        return crate::input::json(line, "what you typed");
    }
    let mut all = old.as_object().cloned().unwrap_or_default();
    for pair in words(line)? {
        let (key, value) = call::read_pair(&pair, Some(question.call.tool()))?;
        all.insert(key, value);
    }
    Ok(Value::Object(all))
}

/// What would be another, line by line.
fn changes(old: &Value, new: &Value, question: &Question<'_>) -> String {
    let known = schema::parameters(question.call.tool().input_schema());
    let is_secret = |key: &str| known.iter().any(|p| p.name == key && p.is_secret());
    let none = serde_json::Map::new();
    let (old, new) = (old.as_object().unwrap_or(&none), new.as_object().unwrap_or(&none));
    let mut out = String::new();
    let mut side = |sign: &str, colour, key: &String, value: &Value| {
        for line in argument(key, value, is_secret(key)).lines() {
            let line = line.strip_prefix("    ").unwrap_or(line);
            out += &format!("  {}\n", style::paint(colour, format_args!("{sign} {line}")));
        }
    };
    for (key, value) in old.iter().filter(|(key, value)| new.get(*key) != Some(value)) {
        side("-", BAD, key, value);
        new.get(key).into_iter().for_each(|value| side("+", GOOD, key, value));
    }
    new.iter().filter(|(key, _)| !old.contains_key(*key)).for_each(|(k, v)| side("+", GOOD, k, v));
    out
}

/// Splits a line into words; quotes keep blanks together.
fn words(line: &str) -> Result<Vec<String>, Problem> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut quote = None;
    let mut is_word = false;
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '"' | '\'') => (quote, is_word) = (Some(c), true),
            (None, c) if c.is_whitespace() => {
                if std::mem::take(&mut is_word) {
                    words.push(std::mem::take(&mut word));
                }
            }
            (_, c) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if quote.is_some() {
        return Err(Problem::new("a quote is open").hint("close it"));
    }
    words.extend(is_word.then_some(word));
    Ok(words)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect()
}
