//! Exports spans and metrics of a call to an OTLP collector.
//!
//! An unreachable collector causes a warning on stderr and never fails the call.

use std::time::Duration;

use haft::RuntimeBuilder;
use haft_otel::Telemetry;

use crate::{
    error::Problem,
    setup::Setup,
    style::{self, WARN},
};

/// The standard variable that names a collector.
const VARIABLE: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// How long the command waits for the last export.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts the export if a collector is named.
pub(crate) fn start(
    url: Option<&str>,
    setup: &Setup,
    runtime: RuntimeBuilder,
) -> Result<(RuntimeBuilder, Option<Telemetry>), Problem> {
    let Some(url) = url.or_else(|| setup.variable(VARIABLE)) else { return Ok((runtime, None)) };
    let wrong = |e: haft_otel::OtlpError| Problem::new(e.to_string());
    let telemetry = Telemetry::otlp(url).build().map_err(wrong)?;
    telemetry.subscribe().map_err(wrong)?;
    Ok((runtime.observer(telemetry.observer()), Some(telemetry)))
}

/// Sends the rest.
pub(crate) fn finish(sending: Option<Telemetry>) {
    if let Some(Err(error)) = sending.map(|telemetry| telemetry.shutdown(SHUTDOWN_TIMEOUT)) {
        let note = style::paint(WARN, "warning:");
        style::message(format_args!("{note} telemetry: {}", style::visible(&error.to_string())));
    }
}
