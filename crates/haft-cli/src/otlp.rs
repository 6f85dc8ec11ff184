//! Sends what can be seen of a call to a collector, where somebody names one.
//!
//! A collector that cannot be reached is told on stderr and stops nothing: the call comes first.

use std::time::Duration;

use haft::RuntimeBuilder;
use haft_otel::Telemetry;

use crate::{
    error::Problem,
    setup::Setup,
    style::{self, WARN},
};

/// The variable that names a collector, for every program.
const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// How long the command waits at its end for a collector to take what is left.
const PATIENCE: Duration = Duration::from_secs(3);

/// Starts to send, if somebody says where.
pub(crate) fn start(
    url: Option<&str>,
    setup: &Setup,
    runtime: RuntimeBuilder,
) -> Result<(RuntimeBuilder, Option<Telemetry>), Problem> {
    let Some(url) = url.or_else(|| setup.variable(VARIABLE)) else { return Ok((runtime, None)) };
    let wrong = |e: haft_otel::Error| Problem::new(e.to_string());
    let telemetry = Telemetry::otlp(url).build().map_err(wrong)?;
    telemetry.subscribe().map_err(wrong)?;
    Ok((runtime.observer(telemetry.observer()), Some(telemetry)))
}

/// Sends what is left.
pub(crate) fn finish(sending: Option<Telemetry>) {
    if let Some(Err(error)) = sending.map(|telemetry| telemetry.shutdown(PATIENCE)) {
        let note = style::paint(WARN, "warning:");
        style::talk(format_args!("{note} telemetry: {}", style::visible(&error.to_string())));
    }
}
