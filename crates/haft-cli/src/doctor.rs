//! `haft doctor`: shows which sandbox this machine supports, and tests it.
//!
//! Every forbidden action is attempted inside the sandbox. Out: a table of the results, and an exit
//! code. If the system forbids namespaces, it prints the cause and how the operator can fix it.

use std::{
    hash::{BuildHasher as _, RandomState},
    path::{Path, PathBuf},
    process::ExitCode,
};

use haft_sandbox::{
    DoctorFinding, DoctorReport, ExpectedResult, Helper, Level, ObservedResult, Obstacle, Sandbox,
    Tier,
};
use serde_json::{Value, json};

use crate::{
    args, builtin,
    error::Problem,
    host_env::HostEnv,
    session,
    style::{self, BAD, BOLD, DIM, GOOD, NAME, Table, WARN},
    toolchains,
};

/// There is no sandbox, so processes are refused.
const NO_SANDBOX: u8 = 2;
/// A test failed.
const BAD_FINDING: u8 = 5;

pub(crate) fn run(output: args::Output, host: &HostEnv) -> Result<ExitCode, Problem> {
    let scene = TestDirectory::make(host)?;
    let directory = scene.0.clone();
    let tried = session::block_on(async move {
        let sandbox = Sandbox::detect(Helper::ThisProgram).await?;
        let findings = sandbox.self_test(&directory).await?;
        Ok::<_, haft_sandbox::SandboxError>(findings)
    })?;
    drop(scene);
    match tried {
        Ok(findings) => {
            let is_good = findings.bad().next().is_none();
            if output.json {
                style::print(format_args!("{}\n", as_json(&findings)))?
            } else {
                let toolchains = toolchains::suggestion(host).unwrap_or_default();
                style::print_page(tier_page(&findings))?;
                // Not wrapped: the lines are for copying.
                style::print(remedies(&findings.obstacles))?;
                style::print_page(findings_page(&findings) + &toolchains)?;
            }
            Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(BAD_FINDING) })
        }
        Err(error) => {
            let obstacles = Obstacle::find(&Helper::ThisProgram);
            if output.json {
                let tier = Tier::none(error.to_string());
                let whole =
                    json!({"ok": false, "tier": tier, "obstacles": obstacles, "findings": []});
                style::print(format_args!("{whole}\n"))?;
            } else {
                style::print(remedies(&obstacles))?;
                builtin::problem(error).warn();
            }
            Ok(ExitCode::from(NO_SANDBOX))
        }
    }
}

fn as_json(findings: &DoctorReport) -> Value {
    let line = |finding: &DoctorFinding| {
        let mut line = json!(finding);
        line["ok"] = finding.is_good().into();
        line
    };
    json!({
        "ok": findings.bad().next().is_none(),
        "tier": findings.tier,
        "network_by_host": findings.tier.level == Level::Namespaces,
        "obstacles": findings.obstacles,
        "findings": findings.findings.iter().map(line).collect::<Vec<_>>(),
    })
}

/// What the sandbox enforces.
fn tier_page(findings: &DoctorReport) -> String {
    let tier = &findings.tier;
    let mut out = format!("{} {}\n", style::paint(BOLD, "sandbox"), style::paint(NAME, tier.level));
    let mut table = Table::new(2);
    for (name, strength) in tier.promises() {
        let colour = if strength.is_enforced() { GOOD } else { WARN };
        table.row([(DIM, name.to_owned()), (colour, style::visible(&strength.to_string()))]);
    }
    table.row([(DIM, "network".to_owned()), network_by_host(tier.level)]);
    out += &table.to_string();
    for note in &tier.notes {
        out += &format!("  {} {}\n", style::paint(DIM, "note:"), style::visible(note));
    }
    out
}

/// What `network = ["packages.example"]` does at this level.
fn network_by_host(level: Level) -> (anstyle::Style, String) {
    match level {
        Level::Namespaces => (GOOD, "by host, through a proxy".to_owned()),
        Level::Landlock | Level::None => {
            (WARN, "none or all: hosts can be filtered in the tier `namespaces` only".to_owned())
        }
    }
}

/// The tests and their results.
fn findings_page(findings: &DoctorReport) -> String {
    let mut group = "";
    let mut table = Table::new(2);
    for finding in &findings.findings {
        if finding.group != group {
            group = &finding.group;
            table.row([
                (BOLD, style::visible(group)),
                (DIM, String::new()),
                (DIM, String::new()),
                (DIM, String::new()),
            ]);
        }
        let (colour, mark) = match (&finding.observed, finding.is_good()) {
            (ObservedResult::Skipped(_), _) => (DIM, "·"),
            (_, true) => (GOOD, "✓"),
            (_, false) => (BAD, "✗"),
        };
        table.row([
            (colour, format!("  {mark}")),
            (NAME, style::visible(&finding.name)),
            (DIM, style::visible(&finding.tried)),
            (colour, observed(finding)),
        ]);
    }
    let out = format!("\n{}\n{table}", style::paint(BOLD, "tests inside the sandbox"));
    let (all, bad) = (findings.findings.len(), findings.bad().count());
    let skipped = findings.skipped().count();
    let colour = if bad == 0 { GOOD } else { BAD };
    let good = all - bad - skipped;
    let summary = format!("{all} tests: {good} passed, {bad} failed, {skipped} skipped");
    out + &format!("\n{}\n", style::paint(colour, summary))
}

/// What forbids namespaces, and how to fix it. Empty if nothing does.
fn remedies(obstacles: &[Obstacle]) -> String {
    let mut out = String::new();
    for obstacle in obstacles {
        out += &format!(
            "\n{} {}\n",
            style::paint(WARN, format!("{}:", obstacle.cause)),
            style::visible(&obstacle.explanation)
        );
        // Not indented: the lines are for copying, and a here-document ends at the left edge.
        for line in obstacle.remedy.lines() {
            out += &style::visible(line);
            out.push('\n');
        }
    }
    out
}

fn observed(finding: &DoctorFinding) -> String {
    let should = match finding.expected {
        ExpectedResult::Refused => "must be refused",
        ExpectedResult::Allowed => "must work",
    };
    let did = match &finding.observed {
        ObservedResult::Allowed => "allowed".to_owned(),
        ObservedResult::Refused(errno) => format!("refused ({errno})"),
        ObservedResult::Killed(signal) => format!("killed by signal {signal}"),
        ObservedResult::Skipped(why) => format!("skipped: {}", style::visible(why)),
    };
    if finding.is_good() { did } else { format!("{did}, {should}") }
}

/// A temporary directory for the tests, removed at the end.
struct TestDirectory(PathBuf);

impl TestDirectory {
    fn make(host: &HostEnv) -> Result<Self, Problem> {
        let named = host.variables.get("TMPDIR").filter(|directory| directory.starts_with('/'));
        let base = named.map_or_else(|| Path::new("/tmp"), Path::new);
        // An unpredictable name: another user could otherwise prepare the directory.
        let directory = base.join(format!("haft-doctor-{:016x}", RandomState::new().hash_one(0)));
        let cannot = |e: std::io::Error| {
            Problem::new(format!("cannot create `{}`: {e}", directory.display()))
                .hint("name another directory for temporary files with `TMPDIR`")
        };
        std::fs::create_dir(&directory).map_err(cannot)?;
        Ok(Self(directory))
    }
}

impl Drop for TestDirectory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}
