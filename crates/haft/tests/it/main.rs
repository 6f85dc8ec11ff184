//! Walk tests: a scripted response through the real runtime, and what came of it.

mod kit;
mod turns;
mod judging;
mod stopping;
mod streams;
mod nesting;
mod sources;
mod dialects;
mod chaos;
mod define;
mod examples;
