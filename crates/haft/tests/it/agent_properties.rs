//! Random scripts, faults and interrupts: whatever happens, each call has exactly one result in the
//! history, every dialect accepts the history, and limits hold.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use haft::{
    Failure, Runtime,
    agent::{
        Agent, DeferredApprovals, OnToolFailure, RunHandle, RunResult, RunStatus, Runner,
        ScriptedModel,
    },
    approval::ApprovalResponse,
    budget::Budget,
    history::Message,
    tool::{DynTool, Execution, Interrupt},
};
use proptest::{collection::vec, prelude::*};
use serde_json::{Value, json};

use crate::{agent_loop::check_history, kit};

/// Counts the bodies that are at work.
struct AtWork(Arc<AtomicUsize>);

impl AtWork {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn runtime(at_work: &Arc<AtomicUsize>, approvals: &DeferredApprovals) -> Runtime {
    let slow = |name: &str, interrupt| {
        let count = Arc::clone(at_work);
        DynTool::new(kit::read(name).interrupt(interrupt), kit::open_schema(), move |_, _| {
            let busy = AtWork::begin(&count);
            async move {
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
                drop(busy);
                "slow"
            }
        })
    };
    let panics = DynTool::new(kit::read("panics"), kit::open_schema(), |args, _| async move {
        assert!(args["x"].is_boolean(), "the tool panics on purpose");
        "never"
    });
    let fails = DynTool::new(kit::read("fails"), kit::open_schema(), |_, _| async {
        Err::<(), _>(Failure::failed("no luck"))
    });
    let tools = vec![
        kit::quick(kit::read("read")),
        kit::quick(kit::write("write")),
        slow("slow", Interrupt::Cancel),
        slow("blocks", Interrupt::Block),
        panics,
        fails,
    ];
    let registry = haft::ToolRegistry::builder().add(tools).build().unwrap();
    Runtime::builder().registry(registry).approver(approvals.clone()).build().unwrap()
}

fn call() -> impl Strategy<Value = Value> {
    let id = prop_oneof![
        Just(json!("0")),
        Just(json!("1")),
        Just(json!("")),
        Just(json!("haft-2")),
        (0..40u8).prop_map(|n| json!(format!("id{n}"))),
        Just(Value::Null),
    ];
    let name = prop_oneof![
        4 => Just("read"), 2 => Just("write"), 2 => Just("slow"), 2 => Just("blocks"),
        1 => Just("panics"), 1 => Just("fails"), 1 => Just("nothing"), 1 => Just("\u{202e}"),
    ];
    let arguments = prop_oneof![
        4 => Just(json!({"x": "text"})),
        1 => Just(json!({"x": 7})),
        1 => Just(json!("{\"x\": ")),
        1 => Just(json!("")),
        1 => Just(json!([1, 2])),
    ];
    (id, name, arguments, prop_oneof![8 => Just(1), 1 => Just(30)]).prop_map(
        |(id, name, arguments, repeat)| {
            let mut call = json!({"name": name, "arguments": arguments, "repeat": repeat});
            if !id.is_null() {
                call["id"] = id;
            }
            call
        },
    )
}

fn turn() -> impl Strategy<Value = Value> {
    let stop = prop_oneof![
        8 => Just("done"), 1 => Just("truncated"), 1 => Just("refused"), 1 => Just("unknown"),
    ];
    let fault = prop_oneof![
        12 => Just(None), 1 => Just(Some("cut")), 1 => Just(Some("garbage")),
        1 => Just(Some("invalid_utf8")), 1 => Just(Some("changed_id")),
    ];
    let open = prop_oneof![8 => Just(false), 1 => Just(true)];
    (vec(call(), 0..5), stop, fault, "[a-z ]{0,8}", open).prop_map(
        |(calls, stop, fault, text, open)| {
            let mut turn = json!({"text": text, "calls": calls, "stop": stop});
            if let Some(fault) = fault {
                turn["fault"] = json!(fault);
            }
            if open {
                let start = json!({"call_start": {"id": "open", "name": "read"}});
                let piece = json!({"arguments": {"id": "open", "text": "{}"}});
                turn["pieces"] = json!([start, piece]);
            }
            turn
        },
    )
}

/// What the host does, and after how many events.
#[derive(Debug, Clone, Copy)]
enum HostAction {
    Send,
    Steer,
    Interrupt,
    Cancel,
    Drop,
}

fn host() -> impl Strategy<Value = Option<(usize, HostAction)>> {
    let action = prop_oneof![
        Just(HostAction::Send),
        Just(HostAction::Steer),
        Just(HostAction::Interrupt),
        Just(HostAction::Cancel),
        Just(HostAction::Drop),
    ];
    prop_oneof![1 => Just(None), 2 => (0..60usize, action).prop_map(Some)]
}

fn act(handle: &RunHandle, action: HostAction) {
    match action {
        HostAction::Send => handle.send("New plan."),
        HostAction::Steer => handle.steer("By the way."),
        HostAction::Interrupt => handle.interrupt(),
        HostAction::Cancel => handle.cancel(),
        HostAction::Drop => {}
    }
}

/// Runs it and returns the result; `None` if the host dropped the run.
async fn play(
    runner: &Runner,
    agent: &Agent,
    host: Option<(usize, HostAction)>,
) -> Option<RunResult> {
    let mut stream = runner.run_stream(agent, "Go.").unwrap();
    let handle = stream.handle();
    let mut seen = 0;
    while stream.next().await.is_some() {
        seen += 1;
        if let Some((at, action)) = host
            && at == seen
        {
            if matches!(action, HostAction::Drop) {
                return None;
            }
            act(&handle, action);
        }
    }
    Some(stream.finish().await.unwrap())
}

fn check(result: &RunResult, limits: &Budget) {
    check_history(&result.history);
    let calls = result.history.calls().count();
    let results: usize = result
        .history
        .messages
        .iter()
        .map(|message| match message {
            Message::Results(results) => results.len(),
            _ => 0,
        })
        .sum();
    assert_eq!(calls, results);
    let ran = result.executions.iter().filter(|call| call.execution != Execution::NotStarted);
    assert!(ran.count() as u64 <= limits.calls.unwrap());
    assert!(result.usage.turns <= limits.cycles.unwrap());
    assert_eq!(result.state == RunStatus::Waiting, result.saved.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_call_has_one_result_whatever_happens(
        turns in vec(turn(), 1..6),
        host in host(),
        policy in prop_oneof![
            2 => Just(OnToolFailure::Continue), 1 => Just(OnToolFailure::Degrade), 1 => Just(OnToolFailure::Fail),
        ],
        answer in prop_oneof![Just(true), Just(false)],
        cycles in 1..8u32,
        calls in prop_oneof![Just(3u64), Just(1_000)],
    ) {
        let script: String = turns.iter().map(|turn| format!("{turn}\n")).collect();
        let model = ScriptedModel::parse(&script).unwrap();
        let limits = Budget { cycles: Some(cycles), calls: Some(calls), ..Budget::default() };
        let agent = Agent::new("tester", model).limits(limits.clone()).on_tool_failure(policy);
        let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        executor.block_on(async {
            let at_work = Arc::new(AtomicUsize::new(0));
            let approvals = DeferredApprovals::new();
            let runner = Runner::new(runtime(&at_work, &approvals)).deferred_approvals(approvals);
            let work = async {
                let Some(mut result) = play(&runner, &agent, host).await else { return };
                check(&result, &limits);
                // Whatever waits is answered, here or in another process.
                for _ in 0..8 {
                    let Some(saved) = result.saved.take() else { break };
                    let json = saved.to_json();
                    let answers: Vec<_> = result.pending.iter().map(|call| {
                        let answer = if answer { ApprovalResponse::allow() } else { ApprovalResponse::Deny(None) };
                        (call.call.clone(), answer)
                    }).collect();
                    let saved = haft::agent::SavedRun::from_json(&json).unwrap();
                    result = runner.resume(&agent, saved, answers).await.unwrap();
                    check(&result, &limits);
                }
            };
            tokio::time::timeout(Duration::from_secs(60), work).await.expect("it does not hang");
            // Nothing is left running, also after a drop.
            for _ in 0..1_000 {
                if at_work.load(Ordering::SeqCst) == 0 {
                    break;
                }
                tokio::task::yield_now().await;
            }
            assert_eq!(at_work.load(Ordering::SeqCst), 0);
        });
    }
}

#[tokio::test]
async fn a_thousand_runs_at_once_share_one_model_and_end() {
    let runtime = kit::permissive(vec![kit::slow(kit::read("slow"), 1)]).build().unwrap();
    let runner = Runner::new(runtime);
    let agent = Agent::new(
        "tester",
        ScriptedModel::parse(
            "{\"calls\": [{\"id\": \"a\", \"name\": \"slow\"}, {\"id\": \"b\", \"name\": \"slow\"}]}\n{\"text\": \"{{result:b}}\"}",
        )
        .unwrap(),
    );
    let runs = (0..1_000).map(|_| runner.run(&agent, "Go."));
    let results = futures_util::future::join_all(runs).await;
    assert!(results.into_iter().all(|result| result.unwrap().text == "slept"));
}
