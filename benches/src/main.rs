//! The cost of tool calls, compared with a bare call and two peers, and of the parts around them:
//! exporting tools, validating arguments, decoding streams. Measured in one run.
//!
//! Every subject of a call has the same tool, `add(a, b) -> text`, and gets the arguments as JSON
//! text, the way a model writes them. Rounds are interleaved, so a busy machine disturbs all
//! subjects alike; read the ratios first and the nanoseconds second.
//!
//! `cargo run --release -p haft-benches [-- --json] [--peer-json] [--rounds 9] [--calls 20000]
//! [--only export]`

mod add;
mod harness;

mod baseline;
mod ours;
mod agentkit;
mod rig;

mod layers;
mod waits;
mod cold;
mod threads;
mod shape;
mod peers;

mod toolbox;
mod export;
mod search;
mod check;
mod judge;
mod stream;
mod agent_loop;
#[expect(
    clippy::unwrap_used,
    dead_code,
    reason = "the script of the tests, which is used here in part"
)]
#[path = "../../crates/haft-dialect/tests/it/script.rs"]
mod script;

use harness::{Bench, Options};

fn main() -> Result<(), String> {
    let mut bench = Bench::new(Options::parse(std::env::args().skip(1))?)?;
    if let Some((tokio, rounds, calls)) = bench.for_peers() {
        peers::print(tokio, rounds, calls);
        return Ok(());
    }

    // One line per subject. The first one of a group is the base of the ratios.
    bench.add("baseline", baseline::Baseline::new());
    bench.add("baseline-direct", baseline::Direct::new());
    bench.add("haft", ours::Turn::new());
    bench.add("haft-call", ours::Direct::new());
    bench.add("rig-core", rig::Core::new());
    bench.add("rig-agent", rig::Agent::new());
    bench.add("agentkit", agentkit::Agentkit::new());

    layers::add(&mut bench);
    waits::add(&mut bench);
    cold::add(&mut bench);
    threads::add(&mut bench);
    shape::add(&mut bench);
    export::add(&mut bench);
    search::add(&mut bench);
    check::add(&mut bench);
    judge::add(&mut bench);
    stream::add(&mut bench);
    agent_loop::add(&mut bench);

    bench.run();
    Ok(())
}
