//! The options of the commands that run agents: `run`, `chat`, `runs` and `demo`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueHint};
use haft::agent::OnToolFailure;

use super::{Artifacts, Output, Rules, WorkspaceArgs, choices};

/// The end of the help of `haft run`.
pub(crate) const RUN_HELP: &str = "Examples:
  haft run --model script:agent.jsonl
  haft run 'Fix the failing test.' --model script:agent.jsonl --max-turns 20
  haft run 'Fix the failing test.' --model script:agent.jsonl --json | jq .type
  haft run - --model script:agent.jsonl < task.md
  haft run --model script:agent.jsonl --record recorded.jsonl

The agent works in the workspace, with its rules and its sandbox. At a terminal a call that needs
approval asks in place. Without a terminal the run stops there, is stored, and exits with 6;
`--resume RUN` continues it. Ctrl-C interrupts the run, a second Ctrl-C cancels everything.

The model's answer goes to stdout, progress goes to the terminal. With `--json` each event is one
line of JSON, and the last one is `run_finished`. Runs are stored in `.haft/runs` of the workspace.

The keys of providers are in ANTHROPIC_API_KEY, OPENAI_API_KEY and GEMINI_API_KEY, or where `key` in
`[model]` of haft.toml says.

Exit codes: 0 completed, 2 denied, 3 the provider refuses the key, 4 the provider cannot be reached,
5 failed or degraded, 6 waiting for approval, 7 the provider timed out, 130 cancelled.";

/// The end of the help of `haft chat`.
pub(crate) const CHAT_HELP: &str = "Examples:
  haft chat --model script:agent.jsonl
  printf 'one\\ntwo\\n' | haft chat --model script:agent.jsonl

Each line is a message. At a terminal, Ctrl-C interrupts the agent's work and the chat goes on;
Ctrl-D ends the chat. Without a terminal the lines of stdin are sent one after another, and each
answer is printed to stdout. The whole chat is one run, with one budget: `haft runs show RUN` prints
it, and `haft chat --resume RUN` continues it.";

/// The end of the help of `haft runs`.
pub(crate) const RUNS_HELP: &str = "Examples:
  haft runs list
  haft runs list --json | jq -r '.[].run'
  haft runs show RUN

Runs are stored in `.haft/runs` of the workspace, one JSON file for each.";

/// The end of the help of `haft demo`.
pub(crate) const DEMO_HELP: &str = "Examples:
  haft demo
  haft demo --json | jq .type            the events of the run, one per line

The model is a script; everything else is real: a git repository in a temporary directory, the
tools, the rules, the sandbox, the approvals. It needs no key and no network, and takes a few seconds.";

/// A task for an agent.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// What the agent is to do; `-` reads it from stdin; default: the task that the script names
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// A conversation with an agent.
#[derive(Debug, Args)]
pub(crate) struct Chat {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
}

/// The agent, its limits, and where it works.
#[derive(Debug, Clone, Args)]
pub(crate) struct AgentArgs {
    /// The model: `anthropic:NAME`, `openai:NAME`, `openai-chat:NAME`, `gemini:NAME`,
    /// `http://HOST/v1#NAME` for a server that is compatible with OpenAI, or `script:FILE`;
    /// default: `name` in `[model]` of haft.toml
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// The system prompt, as text or from a file (`@file`)
    #[arg(long, value_name = "TEXT|@FILE")]
    pub(crate) instructions: Option<String>,
    /// Continue a stored run
    #[arg(long, value_name = "RUN")]
    pub(crate) resume: Option<String>,
    /// Approve this call of the stored run; may be repeated
    #[arg(long, value_name = "CALL", requires = "resume")]
    pub(crate) approve: Vec<String>,
    /// Deny this call of the stored run; may be repeated
    #[arg(long, value_name = "CALL", requires = "resume")]
    pub(crate) deny: Vec<String>,
    /// Write the run to a file that `--model script:FILE` plays again, secrets redacted
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub(crate) record: Option<PathBuf>,
    /// The most messages of the model; default 50
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,
    /// The most tool calls; default 200
    #[arg(long, value_name = "N")]
    pub(crate) max_calls: Option<u64>,
    /// The longest time, as in 90s, 10m or 1h; default 30m
    #[arg(long, value_name = "TIME", value_parser = time)]
    pub(crate) max_time: Option<Duration>,
    /// The most tokens, of requests and responses together
    #[arg(long, value_name = "N")]
    pub(crate) max_tokens: Option<u64>,
    /// The most money, in the currency of the model's price, as in 0.50
    #[arg(long, value_name = "AMOUNT", value_parser = money)]
    pub(crate) max_cost: Option<u64>,
    /// What happens after a tool has failed: the model goes on, it answers with what it has, or the
    /// run fails
    #[arg(long, default_value = "continue", value_parser = choices(&[
        ("continue", OnToolFailure::Continue), ("degrade", OnToolFailure::Degrade),
        ("fail", OnToolFailure::Fail),
    ]))]
    pub(crate) on_tool_failure: OnToolFailure,
    /// Approve calls without asking; never overrides a deny
    #[arg(long)]
    pub(crate) yes: bool,
    /// Append each approval decision to this file, one per line
    #[arg(long, value_name = "FILE.jsonl", value_hint = ValueHint::FilePath)]
    pub(crate) decisions: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) artifacts: Artifacts,
    #[command(flatten)]
    pub(crate) location: WorkspaceArgs,
    #[command(flatten)]
    pub(crate) rules: Rules,
    /// Print each event, and errors, as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Commands about stored runs.
#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List the runs of the workspace, the newest first
    #[command(after_help = "Examples:
  haft runs list
  haft runs list --json | jq -r '.[].run'")]
    List {
        #[command(flatten)]
        location: WorkspaceArgs,
        #[command(flatten)]
        output: Output,
    },
    /// Print the conversation of a run, and the calls that wait
    #[command(after_help = "Examples:
  haft runs show RUN
  haft runs show RUN --json | jq .usage")]
    Show {
        /// Id of the run
        run: String,
        #[command(flatten)]
        location: WorkspaceArgs,
        #[command(flatten)]
        output: Output,
    },
}

impl Runs {
    pub(crate) fn location(&self) -> &WorkspaceArgs {
        match self {
            Self::List { location, .. } | Self::Show { location, .. } => location,
        }
    }
}

/// Parses a duration: a number and `s`, `m` or `h`; a number alone is seconds.
fn time(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time; write it as in 90s, 10m or 1h");
    let (number, seconds) = match text.char_indices().next_back() {
        Some((at, 's')) => (text.get(..at), 1),
        Some((at, 'm')) => (text.get(..at), 60),
        Some((at, 'h')) => (text.get(..at), 3_600),
        _ => (Some(text), 1),
    };
    let number: u64 = number.unwrap_or_default().parse().map_err(|_| wrong())?;
    number.checked_mul(seconds).map(Duration::from_secs).ok_or_else(wrong)
}

/// Parses an amount of money into millionths.
fn money(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is not an amount; write it as in 0.50, with up to 6 decimals");
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(part) || part.len() > 6 {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().map_err(|_| wrong())?;
    let part: u64 = format!("{part:0<6}").parse().map_err(|_| wrong())?;
    whole.checked_mul(1_000_000).and_then(|whole| whole.checked_add(part)).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(time("90"), Ok(Duration::from_secs(90)));
        assert_eq!(time("90s"), time("90"));
        assert_eq!(time("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(time("1h"), Ok(Duration::from_secs(3_600)));
        for wrong in ["", "s", "1d", "-1s", "1.5h", "99999999999999999999h", "é"] {
            assert!(time(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn money_has_six_decimals() {
        assert_eq!(money("0.50"), Ok(500_000));
        assert_eq!(money("12"), Ok(12_000_000));
        assert_eq!(money("0.000001"), Ok(1));
        for wrong in ["", ".5", "-1", "1,50", "0.0000001", "1e3", "+1", "99999999999999"] {
            assert!(money(wrong).is_err(), "{wrong}");
        }
    }
}
