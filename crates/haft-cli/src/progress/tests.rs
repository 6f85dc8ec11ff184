use haft::{
    agent::{EndReason, Usage},
    tool::Execution,
};

use super::*;

fn progress(width: usize) -> Progress {
    let limits = Budget {
        cycles: Some(5),
        wall: Some(Duration::from_secs(600)),
        micros: Some(1_000_000),
        ..Budget::default()
    };
    let here = PathBuf::from("/work/project");
    let about = RunAbout { limits, has_price: true, here, used: RunUsage::default() };
    Progress::new(about, Some(width), Instant::now())
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

fn text(text: &str) -> AgentEvent {
    AgentEvent::Text { text: text.to_owned() }
}

fn model_finished(used: RunUsage) -> AgentEvent {
    AgentEvent::ModelFinished { turn: 1, usage: Usage::default(), total: used }
}

fn call_finished(tool: &str, failed: Option<haft::FailureCode>, text: &str) -> AgentEvent {
    let summary = CallSummary {
        turn: 1,
        call: "a".into(),
        tool: tool.into(),
        failed,
        execution: Execution::Completed,
        elapsed: Duration::from_millis(7),
    };
    AgentEvent::CallFinished { summary, text: text.to_owned() }
}

#[test]
fn text_of_the_model_begins_with_a_bar_on_every_line() {
    let mut shown = progress(30);
    shown.take(&text("One.\nerror: not ours\n\x1b[2Jgone and a line that "));
    shown.take(&text("is longer than the terminal"));
    assert!(plain(&shown.status()).starts_with("      │ "), "{}", shown.status());
    shown.take(&model_finished(RunUsage::default()));
    let page = plain(shown.text());
    assert!(page.starts_with("model │ One.\n"), "{page}");
    for line in page.lines() {
        assert!(line.starts_with("model │ ") || line.starts_with("      │ "), "{line}");
        assert!(line.chars().count() <= 30, "{line}");
        assert!(!line.contains('\x1b'), "{line:?}");
    }
}

#[test]
fn turn_shows_what_is_used_and_what_is_left() {
    let mut shown = progress(80);
    let tokens = Usage { input_tokens: 900, output_tokens: 100, ..Usage::default() };
    shown.take(&model_finished(RunUsage {
        turns: 2,
        tokens,
        micros: 12_345,
        elapsed: Duration::from_secs(90),
        ..RunUsage::default()
    }));
    shown.take(&AgentEvent::ModelCalled { turn: 3, tools: 1, input_tokens: 1, max_tokens: 1 });
    let page = plain(shown.text());
    assert_eq!(page, "turn 3  1000 tokens, cost 0.0123  left: 3 turns, 8 min, cost 0.9876\n");
}

#[test]
fn result_is_shortened_and_cannot_imitate_a_message() {
    let mut shown = progress(40);
    let result = (0..20).map(|n| format!("error: line {n}\n")).collect::<String>();
    shown.take(&call_finished("read_file", None, &result));
    let page = plain(shown.text());
    let mut lines = page.lines();
    assert_eq!(lines.next(), Some("  ✓ read_file()  7 ms"));
    assert_eq!(lines.clone().count(), MAX_RESULT_LINES + 1);
    assert!(lines.all(|line| line.starts_with("    │ ")), "{page}");
    assert!(page.ends_with("    │ … 14 more lines\n"), "{page}");
}

#[test]
fn call_that_runs_for_long_is_announced_once() {
    let mut shown = progress(80);
    let begin = shown.now;
    let state = shown.state(&"a".into());
    state.tool = "shell".to_owned();
    state.since = Some(begin);
    shown.advance(begin + Duration::from_millis(100));
    assert_eq!(shown.text(), "");
    for n in 1..4 {
        shown.advance(begin + Duration::from_secs(n));
    }
    assert_eq!(plain(shown.text()), "  → shell()\n");
    assert_eq!(plain(&shown.status()), "shell runs, 3 s; Ctrl-C interrupts");
    shown.take(&call_finished("shell", Some(haft::FailureCode::TimedOut), "timed_out: too slow"));
    assert!(plain(shown.text()).contains("  ✗ shell()  7 ms\n    │ timed_out: too slow\n"));
}

#[test]
fn last_line_has_the_state() {
    let mut shown = progress(100);
    shown.take(&AgentEvent::RunFinished {
        run: "r1".into(),
        state: RunStatus::Cancelled,
        reason: EndReason::Interrupted,
        text: String::new(),
        usage: RunUsage { turns: 1, ..RunUsage::default() },
        pending: Vec::new(),
    });
    let page = plain(shown.text());
    assert_eq!(page, "cancelled  1 turn, 0 calls, 0 tokens, cost 0.0000, under 1 ms; run r1\n");
}
