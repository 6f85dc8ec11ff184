//! The cost of a turn of an agent loop: by hand, with haft, and with rig's agent.
//!
//! The model answers from a table, so all that is measured is the loop. Each turn but the last
//! calls `add` once; the last one is text. The loop by hand keeps a list of messages and does
//! nothing else: no validation, no policy, no limits, no record. rig's model is its own scripted
//! wire with a transport that answers from the same table.
//!
//! `loop-10`, `loop-100` and `loop-1000` have runs of that many turns: a cost per turn that does
//! not grow is a loop that is linear. In `loop-overlap` the model goes on for 5 ms after the call,
//! and the tool takes 5 ms; look at the wall-clock time.

use std::{collections::HashMap, pin::Pin, sync::Arc, time::Duration};

use futures_util::stream;
use haft::{
    BoxFuture, Error,
    agent::{Agent, Model, ModelRequest, Reply, RunStatus, Runner},
    budget::Budget,
    tool::{Capabilities, DynTool, ToolSpec},
    turn::StopReason,
};
use rig_core::{
    completion::{AssistantContent, CompletionRequest, CompletionResponse, Usage},
    driver::{Exchange, Opened, Opening, Transport},
    message::{Origin, ToolCall, ToolFunction, ToolName},
    test_utils::{MOCK_API, MOCK_PROVIDER, MockFrame, MockScript},
};
use serde_json::{Value, json};

use crate::{
    add::{Add, DESCRIPTION, NAME, Question, add as add_numbers, questions, schema},
    harness::{Bench, Unit},
    rig::AddTool,
};

/// How long the model and the tool take in `loop-overlap`.
const WAIT: Duration = Duration::from_millis(5);
const TASK: &str = "Add the numbers.";
const ANSWER: &str = "Done.";

pub(crate) fn add(bench: &mut Bench) {
    for (group, turns) in [("loop-10", 10), ("loop-100", 100), ("loop-1000", 1_000)] {
        let units = bench.group(group, Unit::Turn).next_multiple_of(turns);
        let table = Table::new(turns);
        let hand = ByHand::new(table.clone());
        bench.case("by hand".to_owned(), units, move |rt, units| {
            rt.block_on(async {
                for _ in 0..units / turns {
                    hand.run().await;
                }
            });
        });
        let ours = Ours::new(table.clone());
        bench.case("haft".to_owned(), units, move |rt, units| {
            rt.block_on(async {
                for _ in 0..units / turns {
                    ours.run(turns).await;
                }
            });
        });
        let ours = Ours::new(table.clone());
        bench.case("haft, events read".to_owned(), units, move |rt, units| {
            rt.block_on(async {
                for _ in 0..units / turns {
                    ours.stream().await;
                }
            });
        });
        let rig = bench.wait(async { Rig::new(table, turns) });
        bench.case("rig-agent".to_owned(), units, move |rt, units| {
            rt.block_on(async {
                for _ in 0..units / turns {
                    rig.run().await;
                }
            });
        });
    }
    bench.grows(["loop-10", "loop-100", "loop-1000"]);
    bench.group("loop-overlap", Unit::Turn);
    for (name, is_read_only) in [("after the message", false), ("while it streams", true)] {
        let ours = Ours::waiting(is_read_only);
        bench.case(format!("tool runs {name}"), 20, move |rt, units| {
            rt.block_on(async {
                for _ in 0..units / 2 {
                    ours.run(2).await;
                }
            });
        });
    }
}

/// What the model says, turn by turn; `None` is the last message.
#[derive(Clone)]
struct Table {
    turns: Arc<[Option<&'static Question>]>,
    wait: Duration,
}

impl Table {
    fn new(turns: u32) -> Self {
        let calls = questions(turns.saturating_sub(1)).map(Some);
        Self { turns: calls.chain([None]).collect(), wait: Duration::ZERO }
    }

    fn get(&self, turn: usize) -> Option<&'static Question> {
        self.turns.get(turn).copied().flatten()
    }
}

type Handler = Box<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Option<String>> + Send>>>;

/// A loop without a library.
struct ByHand {
    table: Table,
    tools: HashMap<String, Handler>,
}

enum Message {
    User(#[expect(dead_code, reason = "a history is kept, as every loop does")] String),
    Call(#[expect(dead_code, reason = "as above")] String, Value),
    Result(#[expect(dead_code, reason = "as above")] String, String),
    Answer(String),
}

impl ByHand {
    fn new(table: Table) -> Self {
        let add: Handler = Box::new(|value| {
            Box::pin(async {
                let arguments: Add = serde_json::from_value(value).ok()?;
                Some(add_numbers(arguments).await)
            })
        });
        Self { table, tools: HashMap::from([(NAME.to_owned(), add)]) }
    }

    async fn run(&self) {
        let mut history = vec![Message::User(TASK.to_owned())];
        for turn in 0.. {
            let Some(question) = self.table.get(turn) else {
                history.push(Message::Answer(ANSWER.to_owned()));
                break;
            };
            let id = format!("call-{turn}");
            let arguments: Value = serde_json::from_str(&question.arguments).unwrap_or_default();
            history.push(Message::Call(id.clone(), arguments.clone()));
            let result = match self.tools.get(NAME) {
                Some(tool) => tool(arguments).await.unwrap_or_default(),
                None => String::new(),
            };
            question.check(&result);
            history.push(Message::Result(id, result));
        }
        let used = history.iter().map(|message| match message {
            Message::Call(_, json) => usize::from(json.is_object()),
            Message::Result(_, text) | Message::Answer(text) => text.len(),
            Message::User(_) => 0,
        });
        assert!(used.sum::<usize>() >= ANSWER.len());
    }
}

impl Model for Table {
    fn respond<'a>(
        &'a self,
        request: ModelRequest<'a>,
        reply: &'a mut Reply,
    ) -> BoxFuture<'a, Result<StopReason, Error>> {
        Box::pin(async move {
            match self.get(request.turn as usize) {
                Some(question) => {
                    let id = format!("call-{}", request.turn);
                    reply.call(id, NAME, question.arguments.as_str());
                    if !self.wait.is_zero() {
                        tokio::time::sleep(self.wait).await;
                    }
                }
                None => reply.text(ANSWER),
            }
            Ok(StopReason::Done)
        })
    }
}

/// haft's loop, with its default policy, limits and journal.
struct Ours {
    runner: Runner,
    agent: Agent,
}

impl Ours {
    fn new(table: Table) -> Self {
        Self::with(table, true, Duration::ZERO)
    }

    fn waiting(is_read_only: bool) -> Self {
        Self::with(Table { wait: WAIT, ..Table::new(2) }, is_read_only, WAIT)
    }

    fn with(table: Table, is_read_only: bool, wait: Duration) -> Self {
        let spec = ToolSpec::new(NAME, DESCRIPTION).capabilities(Capabilities::NONE);
        let spec = if is_read_only { spec.read_only() } else { spec };
        let tool = DynTool::new(spec, schema(), move |arguments, _| async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            Ok::<_, haft::ToolError>(
                add_numbers(serde_json::from_value(Value::clone(&arguments))?).await,
            )
        });
        let registry = haft::ToolRegistry::builder().add(tool).build();
        let registry = registry.unwrap_or_else(|error| panic!("haft: {error}"));
        let runtime = haft::Runtime::builder().registry(registry);
        let runtime = runtime.policy(haft::policy::AllowAll).build();
        let runner = Runner::new(runtime.unwrap_or_else(|error| panic!("haft: {error}")));
        let turns = u32::try_from(table.turns.len()).unwrap_or(u32::MAX);
        let limits = Budget { cycles: Some(turns), calls: Some(turns.into()), ..Budget::default() };
        Self { runner, agent: Agent::new("adder", table).limits(limits) }
    }

    async fn run(&self, turns: u32) {
        let result = self.runner.run(&self.agent, TASK).await;
        let result = result.unwrap_or_else(|error| panic!("haft: {error}"));
        assert_eq!((result.state, result.usage.turns), (RunStatus::Completed, turns));
    }

    async fn stream(&self) {
        let stream = self.runner.run_stream(&self.agent, TASK);
        let mut stream = stream.unwrap_or_else(|error| panic!("haft: {error}"));
        let mut events = 0;
        while stream.next().await.is_some() {
            events += 1;
        }
        assert!(events > self.agent.limits.cycles.unwrap_or(0));
    }
}

/// rig's agent over a model that answers from the table.
struct Rig {
    agent: rig_agent::Agent,
    turns: usize,
}

impl Rig {
    fn new(table: Table, turns: u32) -> Self {
        let model = rig_core::driver::Model::new(MockScript::default(), table);
        let agent = rig_agent::AgentBuilder::new(model).tool(AddTool).build();
        Self { agent, turns: turns as usize }
    }

    async fn run(&self) {
        match self.agent.prompt(TASK).max_turns(self.turns).await {
            Ok(response) => assert_eq!(response.output(), ANSWER),
            Err(error) => panic!("rig: {error}"),
        }
    }
}

impl Transport<MockScript> for Table {
    fn send(&self, request: CompletionRequest, _: Exchange) -> Opening<MockFrame> {
        // A task, and then a message and a result for each turn.
        let turn = request.chat_history.len() / 2;
        let content = match (self.get(turn), ToolName::new(NAME)) {
            (Some(question), Ok(name)) => {
                let arguments = serde_json::from_str(&question.arguments).unwrap_or_default();
                let function = ToolFunction::new(name, arguments);
                AssistantContent::ToolCall(ToolCall::from_wire(format!("call-{turn}"), function))
            }
            _ => AssistantContent::text(ANSWER.to_owned()),
        };
        let origin = Origin::new(MOCK_API, MOCK_PROVIDER, "");
        let response =
            CompletionResponse::new(vec![content], Usage::default(), origin, json!(null));
        let frames = stream::iter([Ok(MockFrame::Response(Box::new(response)))]);
        Opening::ready(Opened::new(frames).with_document(json!(null)))
    }
}
