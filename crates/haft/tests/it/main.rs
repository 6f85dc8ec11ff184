//! Integration tests: a scripted response through the real runtime, and its results.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it is"
)]

mod built;
mod kit;
mod turns;
mod artifacts;
mod validation;
mod scalar_arguments;
mod explanations;
mod authorization;
mod confinement;
mod parked_calls;
mod patterns;
mod rules;
mod hooks;
mod agent;
mod agent_loop;
mod agent_properties;
mod sub_agents;
mod instructions;
mod approvals;
mod budgets;
mod taint;
mod guards;
mod functions;
mod golden;
mod layers;
mod redaction;
mod cache;
mod secrets;
mod cancellation;
mod streams;
mod streaming_output;
mod background;
mod middleware;
mod module_graph;
mod crate_graph;
mod faulty_host_code;
mod events;
mod export;
mod nested_calls;
mod growth;
mod sources;
mod tool_search;
mod dialects;
mod docs;
mod tidy;
mod tidy_names;
#[allow(dead_code, reason = "shared with the tests of the dialects, which use all of it")]
#[path = "../../../haft-dialect/tests/it/script.rs"]
mod script;
mod frame;
mod wire;
mod wire_ids;
mod malformed_streams;
mod bodies;
mod chaos;
mod regressions;
mod policy_bypass;
#[allow(
    dead_code,
    unused_imports,
    reason = "shared with the soak of the benches, which uses all of it"
)]
mod soak_support;
mod soak;
mod define;
mod examples;
