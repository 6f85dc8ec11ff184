//! The agent loop: a model, tools and a conversation, until the model has answered.
//!
//! An [`Agent`] is what runs: a model, instructions, tools and limits. A [`Runner`] runs it on a
//! runtime, so that every call is validated, authorized and recorded. A [`Model`] is one method;
//! the [`ScriptedModel`] plays a file. A run that waits for an approval is a [`SavedRun`], and
//! another process can continue it.
//!
//! Inside: `run_loop` makes the turns, `reply` takes the model's message and starts its calls,
//! `conversation` keeps the history, `spending` reserves tokens and money, `pending` and
//! `approvals` handle calls that wait, `control` lets the host interrupt, `model_policy` asks the
//! policy, `context` makes space, `saved` is the state as data, `script` the scripted model.

mod definition;
mod model;
mod event;
mod result;
mod saved;
mod reply;
mod conversation;
mod control;
mod approvals;
mod model_policy;
mod context;
mod run_loop;
mod spending;
mod pending;
mod ending;
mod run_stream;
mod runner;
mod output;
mod sub_agent;
mod agent_file;
mod script;

pub use self::{
    agent_file::AgentFile,
    approvals::DeferredApprovals,
    control::RunHandle,
    definition::{Agent, OnContextLimit, OnToolFailure, ToolSelector},
    event::AgentEvent,
    model::{Model, ModelInfo, ModelRequest, Price, Usage},
    output::TypedResult,
    reply::{ModelPiece, Reply},
    result::{
        ApprovalQuestion, CallSummary, EndReason, PendingCall, RunResult, RunStatus, RunUsage,
    },
    run_stream::RunStream,
    runner::{Chat, Runner},
    saved::{FileRunStore, OpenTurn, RunStore, SavedRun},
    script::{Recorder, ScriptedModel},
};
