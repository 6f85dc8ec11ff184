//! The audit file (`[audit] file`): one JSON line for every call, and `haft audit tail`.
//!
//! Each line is one append, so several processes can use one file. Arguments are not in it, only
//! their digest. FAIL CLOSED: a file that cannot be opened stops the command, and a call whose line
//! cannot be written is reported as unrecorded.

use std::{
    fs::{File, OpenOptions},
    io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _},
    path::Path,
    process::ExitCode,
    time::{Duration, UNIX_EPOCH},
};

use haft::{
    RuntimeBuilder,
    journal::{
        CallIntent, CallOutcome, ExecutionRecord, Journal, MemoryJournal, RecordQuery, WriteStatus,
    },
    policy::Decision,
    tool::Operation,
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
        Some(path) => Ok(runtime.journal(AuditJournal::open(path)?)),
        None => Ok(runtime),
    }
}

/// How many calls are kept in memory.
const MAX_RECORDS: usize = 1_000;

/// A journal in memory that also writes a line for every call.
struct AuditJournal {
    memory: MemoryJournal,
    file: File,
}

impl AuditJournal {
    fn open(path: &Path) -> Result<Self, Problem> {
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
        let file = options.open(path).map_err(cannot)?;
        Ok(Self { memory: MemoryJournal::new(MAX_RECORDS), file })
    }

    fn write(&self, outcome: &CallOutcome<'_>) -> std::io::Result<()> {
        let call = outcome.call;
        let query = RecordQuery::default().run(call.run_id().clone());
        let query = query.call(call.call_id().clone()).limit(1);
        let Some(record) = self.memory.find(&query).pop() else {
            return Err(std::io::Error::other("the call has no record"));
        };
        let mut line = line(&record, outcome).to_string();
        line.push('\n');
        // One write to a file that is opened for appending is not mixed with others.
        let written = (&self.file).write(line.as_bytes())?;
        if written == line.len() { Ok(()) } else { Err(std::io::ErrorKind::WriteZero.into()) }
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

/// The line of one call.
fn line(record: &ExecutionRecord, outcome: &CallOutcome<'_>) -> Value {
    let time = record.at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let scope = outcome.call.scope();
    let digest = record.intent.as_ref().map(|intent| {
        let bytes = Sha256::digest(intent.arguments.to_string().as_bytes());
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    });
    let verdict = record.verdict();
    let rule = record.explanation().and_then(|explanation| explanation.deciding.as_ref());
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
        "time_unix_ms": u64::try_from(time.as_millis()).unwrap_or(u64::MAX),
        "user": scope.user,
        "agent": record.agent_path.last(),
        "run": record.run.to_string(),
        "call": record.call.to_string(),
        "tool": record.tool_name.as_str(),
        "arguments_sha256": digest,
        "decision": verdict.map(|verdict| verdict.decision.as_str()),
        "reason": verdict.map(|verdict| &*verdict.reason),
        "decided_by": verdict.map(|verdict| &*verdict.source),
        "rule": rule.map(|rule| json!({
            "file": rule.location.file.as_ref().map(|file| file.display().to_string()),
            "line": rule.location.line,
            "pattern": rule.pattern,
        })),
        "approved_by": record.answered_by(),
        "outcome": failed.map_or_else(|| "ok".to_owned(), |code| code.to_string()),
        "duration_ms": end.map(|end| u64::try_from(end.elapsed.as_millis()).unwrap_or(u64::MAX)),
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
        let (decision, outcome) = (text("decision"), text("outcome"));
        let colour = |word: &str| match word {
            "ok" | "allow" => GOOD,
            word if word == Decision::Ask.as_str() => WARN,
            _ => BAD,
        };
        table.row([
            (NAME, text("tool")),
            (colour(&decision), decision.clone()),
            (colour(&outcome), outcome.clone()),
            (DIM, format!("{} ms", call["duration_ms"])),
            (DIM, text("decided_by")),
        ]);
    }
    style::print_page(table)?;
    Ok(ExitCode::SUCCESS)
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
