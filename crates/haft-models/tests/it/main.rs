//! Tests of the model clients against a local HTTP server.

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
