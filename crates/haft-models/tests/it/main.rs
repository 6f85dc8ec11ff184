//! Tests of the model clients against a local HTTP server.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "the helpers belong to the tests")]

mod bodies;
mod contract;
mod examples;
mod faults;
mod keys;
mod kit;
mod providers;
mod retries;
mod server;
mod tls;
mod wire;
