//! The audit file (`[audit] file`): one JSON line for every call and for every read of a resource
//! or a prompt, and `haft audit tail`.
//!
//! Each line is one append, so several processes can use one file. Arguments are not in it, only
//! their digest. FAIL CLOSED: a file that cannot be opened stops the command, and a call whose line
//! cannot be written is reported as unrecorded.

use std::{
    collections::HashMap,
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::Path,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, UNIX_EPOCH},
};

use haft::{
    RuntimeBuilder,
    events::Event,
    journal::{
        CallIntent, CallOutcome, ExecutionRecord, Journal, MemoryJournal, RecordQuery, WriteStatus,
    },
    policy::{Decision, Verdict},
    tool::{CallId, Operation},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    args,
    error::Problem,
    host_env::HostEnv,
    setup::Setup,
    style::{self, BAD, DIM, GOOD, NAME, Table, WARN},
};

/// Adds the audit file to a runtime, if one is configured.
pub(crate) fn add(runtime: RuntimeBuilder, setup: &Setup) -> Result<RuntimeBuilder, Problem> {
    match &setup.loaded.audit_file {
        Some(path) => {
            let journal = AuditJournal::open(path, setup)?;
            let digests = Arc::clone(&journal.digests);
            let observer = move |event: &Event| note_digest(&digests, event);
            Ok(runtime.journal(journal).observer(observer))
        }
        None => Ok(runtime),
    }
}

/// How many calls are kept in memory.
const MAX_RECORDS: usize = 1_000;

/// Of how many calls that have not ended the digest is kept.
const MAX_OPEN_CALLS: usize = 10_000;

/// The digests of the arguments of calls that have not ended: a call that is denied has no intent.
/// `None` if two runs have calls with the same id.
type Digests = Mutex<HashMap<CallId, Option<String>>>;

/// A journal in memory that also writes a line for every call.
struct AuditJournal {
    memory: MemoryJournal,
    file: File,
    digests: Arc<Digests>,
    /// The session of this process: ids of runs are unique in it.
    session: String,
}

/// Keeps the digest of the arguments of a call that starts.
fn note_digest(digests: &Digests, event: &Event) {
    if let Event::Started { call, arguments: Some(arguments), .. } = event {
        let digest = digest(arguments);
        let mut open = digests.lock().unwrap_or_else(PoisonError::into_inner);
        let has_space = open.len() < MAX_OPEN_CALLS;
        if let Some(other) = open.get_mut(call) {
            *other = None;
        } else if has_space {
            open.insert(call.clone(), Some(digest));
        }
    }
}

fn digest(arguments: &Value) -> String {
    let bytes = Sha256::digest(arguments.to_string().as_bytes());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn open(path: &Path) -> Result<File, Problem> {
    let cannot = |e: std::io::Error| {
        Problem::new(format!("cannot write the audit file `{}`: {e}", path.display()))
            .hint("`[audit] file` of `haft.toml` names it")
    };
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(cannot)?;
    }
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(cannot)
}

/// Appends one line. One write to a file that is opened for appending is not mixed with others.
fn append(mut file: &File, line: &Value) -> std::io::Result<()> {
    let mut line = line.to_string();
    line.push('\n');
    let written = file.write(line.as_bytes())?;
    if written == line.len() { Ok(()) } else { Err(std::io::ErrorKind::WriteZero.into()) }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Adds reads of resources and prompts to the audit file, if one is configured.
#[cfg(feature = "mcp")]
pub(crate) fn add_reads(
    server: haft_mcp::server::McpServerBuilder,
    setup: &Setup,
) -> Result<haft_mcp::server::McpServerBuilder, Problem> {
    use haft_mcp::server::ContentKind;
    let Some(path) = &setup.loaded.audit_file else { return Ok(server) };
    let (file, session) = (open(path)?, setup.session().to_owned());
    Ok(server.content_log(move |read| {
        let time = read.at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        let (method, key) = match read.kind {
            ContentKind::Resource => ("resources/read", "uri"),
            ContentKind::Prompt => ("prompts/get", "prompt"),
        };
        let mut line = json!({
            "time_unix_ms": milliseconds(time),
            "user": read.user,
            "run": read.run,
            "method": method,
            "server": read.server,
            "decision": if read.is_denied { "deny" } else { "allow" },
            "outcome": read.outcome,
            "bytes": read.bytes,
            "duration_ms": milliseconds(read.elapsed),
            "session": session,
        });
        line[key] = json!(read.name);
        Ok(append(&file, &line)?)
    }))
}

impl AuditJournal {
    fn open(path: &Path, setup: &Setup) -> Result<Self, Problem> {
        Ok(Self {
            memory: MemoryJournal::new(MAX_RECORDS),
            file: open(path)?,
            digests: Arc::default(),
            session: setup.session().to_owned(),
        })
    }

    fn write(&self, outcome: &CallOutcome<'_>) -> std::io::Result<()> {
        let call = outcome.call;
        let query = RecordQuery::default().run(call.run_id().clone());
        let query = query.call(call.call_id().clone()).limit(1);
        let Some(record) = self.memory.find(&query).pop() else {
            return Err(std::io::Error::other("the call has no record"));
        };
        let mut open = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        let noted = open.remove(call.call_id()).flatten();
        drop(open);
        let mut line = line(&record, outcome);
        line["session"] = json!(self.session);
        if line["arguments_sha256"].is_null() {
            line["arguments_sha256"] = json!(noted);
        }
        append(&self.file, &line)
    }
}

impl Journal for AuditJournal {
    fn intend(&self, intended: &CallIntent<'_>) -> WriteStatus {
        self.memory.intend(intended)
    }

    fn settle(&self, settled: &CallOutcome<'_>) -> WriteStatus {
        match self.memory.settle(settled) {
            WriteStatus::Now(Ok(())) => {
                WriteStatus::Now(self.write(settled).map_err(|e| Box::new(e) as _))
            }
            other => other,
        }
    }

    fn find(&self, query: &RecordQuery) -> Option<Vec<ExecutionRecord>> {
        Some(self.memory.find(query))
    }
}

/// The rule that allows a call. No explanation is made for it, and its verdict names the rule as
/// `haft.toml:14 allow "Bash(ls *)"`.
fn allowing_rule(verdict: &Verdict) -> Option<Value> {
    let (location, rest) = verdict.source.split_once(" allow \"")?;
    // With several rules, ` and another rule` follows.
    let ((pattern, _), (file, line)) = (rest.rsplit_once('"')?, location.rsplit_once(':')?);
    Some(json!({"file": file, "line": line.parse::<u32>().ok()?, "pattern": pattern}))
}

/// The line of one call.
fn line(record: &ExecutionRecord, outcome: &CallOutcome<'_>) -> Value {
    let time = record.at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let scope = outcome.call.scope();
    let digest = record.intent.as_ref().map(|intent| digest(&intent.arguments));
    let verdict = record.verdict();
    let rule = record.explanation().and_then(|explanation| explanation.deciding.as_ref());
    let rule = rule.map(|rule| {
        json!({
            "file": rule.location.file.as_ref().map(|file| file.display().to_string()),
            "line": rule.location.line,
            "pattern": rule.pattern,
        })
    });
    let end = record.end.as_ref();
    let failed = end.and_then(|end| end.failed);
    let effects = outcome.call.profile().map(|profile| &profile.effects);
    let tier = end.and_then(|end| end.tier.as_ref());
    let mut hosts: Vec<Value> = match effects {
        Some(haft::tool::Effects::Declared(list)) => list
            .iter()
            .filter(|effect| effect.operation == Operation::External)
            .filter_map(|effect| effect.target.as_deref())
            .map(|host| json!({ "host": host }))
            .collect(),
        _ => Vec::new(),
    };
    // What a command contacted: host, port, verdict, bytes.
    let contacted = tier.and_then(|tier| tier.get("hosts")?.as_array());
    hosts.extend(contacted.into_iter().flatten().cloned());
    json!({
        "time_unix_ms": milliseconds(time),
        "user": scope.user,
        "agent": record.agent_path.last(),
        "run": record.run.to_string(),
        "call": record.call.to_string(),
        "tool": record.tool_name.as_str(),
        "arguments_sha256": digest,
        "decision": verdict.map(|verdict| verdict.decision.as_str()),
        "reason": verdict.map(|verdict| &*verdict.reason),
        "decided_by": verdict.map(|verdict| &*verdict.source),
        "rule": rule.or_else(|| verdict.and_then(allowing_rule)),
        "approved_by": record.answered_by(),
        "outcome": failed.map_or_else(|| "ok".to_owned(), |code| code.to_string()),
        "duration_ms": end.map(|end| milliseconds(end.elapsed)),
        "tier": tier.and_then(|tier| tier.get("level").cloned()),
        "hosts": hosts,
    })
}

/// Commands about the audit file.
pub(crate) fn run(args: &args::Audit, host: &HostEnv) -> Result<ExitCode, Problem> {
    let args::Audit::Tail { lines, file, rules, output } = args;
    let path = match file {
        Some(path) => Some(path.clone()),
        None => Setup::open(host, rules)?.loaded.audit_file,
    };
    let Some(path) = path else {
        return Err(Problem::new("no audit file is configured")
            .hint("write `[audit]` and `file = \".haft/audit.jsonl\"` to `haft.toml`"));
    };
    let last = last_lines(&path, *lines)?;
    if output.json {
        style::print(last.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut table = Table::new(0);
    for line in &last {
        let call: Value = serde_json::from_str(line).unwrap_or_default();
        let text = |key: &str| style::cell(call[key].as_str().unwrap_or("-"));
        // A read of a resource or a prompt has no tool.
        let name = ["tool", "uri", "prompt"].into_iter().find(|key| call[key].is_string());
        let (decision, outcome) = (text("decision"), text("outcome"));
        let colour = |word: &str| match word {
            "ok" | "allow" => GOOD,
            word if word == Decision::Ask.as_str() => WARN,
            _ => BAD,
        };
        table.row([
            (DIM, clock(&call["time_unix_ms"])),
            (DIM, text("user")),
            (NAME, text(name.unwrap_or("tool"))),
            (colour(&decision), decision.clone()),
            (colour(&outcome), outcome.clone()),
            (DIM, format!("{} ms", call["duration_ms"])),
            (DIM, text("decided_by")),
        ]);
    }
    style::print_page(table)?;
    Ok(ExitCode::SUCCESS)
}

/// The date and time of a line, in UTC: `2026-01-31 09:05:00Z`.
fn clock(time: &Value) -> String {
    let Some(seconds) = time.as_u64().map(|ms| ms / 1000) else { return "-".to_owned() };
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The civil date of a day, counted in years that begin in March.
    let day = days + 719_468;
    let (era, day) = (day / 146_097, day % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{date:02} {hour:02}:{minute:02}:{second:02}Z")
}

/// How much of the end of a file is read.
const MAX_TAIL_BYTES: u64 = 8 << 20;

/// Returns the last lines of a file.
fn last_lines(path: &Path, count: usize) -> Result<Vec<String>, Problem> {
    let cannot = |e: std::io::Error| {
        Problem::new(format!("cannot read the audit file `{}`: {e}", path.display()))
    };
    let mut file = File::open(path).map_err(cannot)?;
    let size = file.metadata().map_err(cannot)?.len();
    let skipped = size.saturating_sub(MAX_TAIL_BYTES);
    file.seek(SeekFrom::Start(skipped)).map_err(cannot)?;
    let lines: Result<Vec<String>, _> = BufReader::new(file).lines().collect();
    let mut lines = lines.map_err(cannot)?;
    // The first one may be cut.
    let cut = usize::from(skipped > 0).max(lines.len().saturating_sub(count));
    Ok(lines.split_off(cut.min(lines.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_dates_in_utc() {
        for (ms, text) in [
            (0_u64, "1970-01-01 00:00:00Z"),
            (951_782_399_000, "2000-02-28 23:59:59Z"),
            (951_782_400_000, "2000-02-29 00:00:00Z"),
            (1_709_251_199_999, "2024-02-29 23:59:59Z"),
            (1_795_008_938_730, "2026-11-18 13:35:38Z"),
            (4_102_444_800_000, "2100-01-01 00:00:00Z"),
        ] {
            assert_eq!(clock(&json!(ms)), text);
        }
        assert_eq!(clock(&Value::Null), "-");
    }

    #[test]
    fn allowing_rule_is_read_from_the_source_of_a_verdict() {
        let verdict =
            Verdict::allow("a rule allows it").by("/a b/haft.toml:14 allow \"Bash(x *)\"");
        let rule = json!({"file": "/a b/haft.toml", "line": 14, "pattern": "Bash(x *)"});
        assert_eq!(allowing_rule(&verdict).as_ref(), Some(&rule));
        let more = format!("{} and another rule", verdict.source);
        assert_eq!(allowing_rule(&verdict.by(more)), Some(rule));
        assert_eq!(allowing_rule(&Verdict::allow("x").by("the default")), None);
    }
}
