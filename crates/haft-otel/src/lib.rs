//! Spans and metrics of haft over OTLP, with the OpenTelemetry names for generative AI.
//!
//! ```no_run
//! use std::time::Duration;
//!
//! use haft::Runtime;
//! use haft_otel::Telemetry;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let telemetry = Telemetry::otlp("http://127.0.0.1:4318").service("my-agent").build()?;
//! telemetry.subscribe()?; // or add `telemetry.layer()` to a subscriber of your own
//! let runtime = Runtime::builder().observer(telemetry.observer()).build()?;
//! // … run calls …
//! telemetry.shutdown(Duration::from_secs(5))?;
//! # Ok(())
//! # }
//! ```
//!
//! Spans come from `tracing`, metrics from the runtime's events; either works without the other.
//! Names are those of [`haft::telemetry`]. Arguments and results are exported only if
//! `Config::trace_content` is set.

mod client;
mod error;
mod metrics;

use std::{collections::HashMap, fmt, sync::mpsc, time::Duration};

use haft::telemetry::{SCHEMA_URL, TARGET};
use opentelemetry::{
    InstrumentationScope, KeyValue, metrics::MeterProvider as _, trace::TracerProvider as _,
};
use opentelemetry_otlp::{
    MetricExporter, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::{
    Resource,
    metrics::{PeriodicReader, SdkMeterProvider},
    trace::{SdkTracer, SdkTracerProvider},
};
use tracing::{Subscriber, level_filters::LevelFilter};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::{layer::SubscriberExt as _, registry::LookupSpan};

use self::client::Client;
pub use self::{error::OtlpError, metrics::Metrics};

/// Sends spans and metrics to a collector. Dropping it flushes the rest, within its timeout.
#[must_use = "the rest is sent when this is shut down or dropped"]
pub struct Telemetry {
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
    timeout: Duration,
    is_stopped: bool,
}

/// Builds a [`Telemetry`].
#[derive(Debug, Clone)]
#[must_use]
pub struct TelemetryBuilder {
    endpoint: String,
    service: String,
    headers: HashMap<String, String>,
    timeout: Duration,
    interval: Duration,
}

impl Telemetry {
    /// Starts to configure the export to a collector: OTLP over HTTP, as protobuf. The endpoint is
    /// the address of the collector, such as `http://127.0.0.1:4318`, without the paths of the
    /// signals.
    pub fn otlp(endpoint: impl Into<String>) -> TelemetryBuilder {
        TelemetryBuilder {
            endpoint: endpoint.into(),
            service: "haft".to_owned(),
            headers: HashMap::new(),
            // A collector is usually local; a longer wait means that it is down.
            timeout: Duration::from_secs(5),
            // The default of the OpenTelemetry specification.
            interval: Duration::from_secs(60),
        }
    }

    /// Returns the layer that converts `tracing` spans into OpenTelemetry spans.
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        // Source locations and threads are noise. Errors are exported by code only, because their
        // messages may contain secrets.
        OpenTelemetryLayer::new(self.tracers.tracer_with_scope(scope()))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_error_fields_to_exceptions(false)
            .with_error_records_to_exceptions(false)
            .with_error_events_to_exceptions(false)
    }

    /// Installs this as the global subscriber of the process.
    ///
    /// # Errors
    /// Fails if the process already has one; add [`layer`](Self::layer) to that one then.
    pub fn subscribe(&self) -> Result<(), OtlpError> {
        let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(self.layer());
        tracing::subscriber::set_global_default(subscriber)
            .map_err(|e| OtlpError::new("the process already has a subscriber", e))
    }

    /// Returns the observer that records metrics.
    #[must_use]
    pub fn observer(&self) -> Metrics {
        Metrics::new(&self.meters.meter_with_scope(scope()))
    }

    /// Sends all pending data, and waits at most this long.
    ///
    /// # Errors
    /// Fails if the collector rejects it, or on a timeout; a request in progress continues then.
    pub fn flush(&self, within: Duration) -> Result<(), OtlpError> {
        let (tracers, meters) = (self.tracers.clone(), self.meters.clone());
        bounded(within, move || {
            let spans = tracers.force_flush();
            meters
                .force_flush()
                .and(spans)
                .map_err(|e| OtlpError::new("not everything was sent", e))
        })
    }

    /// Sends all pending data and stops, within this time.
    ///
    /// # Errors
    /// Fails if the collector rejects it, or on a timeout.
    pub fn shutdown(mut self, within: Duration) -> Result<(), OtlpError> {
        self.stop(within)
    }

    fn stop(&mut self, within: Duration) -> Result<(), OtlpError> {
        if std::mem::replace(&mut self.is_stopped, true) {
            return Ok(());
        }
        let (tracers, meters) = (self.tracers.clone(), self.meters.clone());
        bounded(within, move || {
            let spans = tracers.shutdown_with_timeout(within);
            let metrics = meters.shutdown_with_timeout(within);
            metrics.and(spans).map_err(|e| OtlpError::new("not everything was sent", e))
        })
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        let _ = self.stop(self.timeout);
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl TelemetryBuilder {
    /// Sets the name of the service. Default: `haft`.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = name.into();
        self
    }

    /// Adds a header to every request, e.g. for authentication.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets the timeout of one request. Default: 5 seconds.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often metrics are sent. Default: once a minute.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Validates the configuration and starts the exporter threads. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails if the endpoint is not an HTTP address.
    pub fn build(self) -> Result<Telemetry, OtlpError> {
        let base = client::base(&self.endpoint)?;
        let resource = Resource::builder_empty()
            .with_service_name(self.service)
            .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
            .build();
        let client = Client::new(self.timeout);
        let spans = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{base}/v1/traces"))
            .with_timeout(self.timeout)
            .with_headers(self.headers.clone())
            .build()
            .map_err(|e| OtlpError::new("the span exporter cannot be created", e))?;
        let metrics = MetricExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{base}/v1/metrics"))
            .with_timeout(self.timeout)
            .with_headers(self.headers)
            .build()
            .map_err(|e| OtlpError::new("the metrics exporter cannot be created", e))?;
        let reader = PeriodicReader::builder(metrics).with_interval(self.interval).build();
        Ok(Telemetry {
            tracers: SdkTracerProvider::builder()
                .with_resource(resource.clone())
                .with_batch_exporter(spans)
                .build(),
            meters: SdkMeterProvider::builder().with_resource(resource).with_reader(reader).build(),
            timeout: self.timeout,
            is_stopped: false,
        })
    }
}

/// The instrumentation scope of the spans and metrics.
fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(TARGET)
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(SCHEMA_URL)
        .build()
}

/// Runs work on a separate thread, and waits at most this long. The timeouts of the exporter add up
/// per signal; this is one bound for all.
fn bounded(
    within: Duration,
    work: impl FnOnce() -> Result<(), OtlpError> + Send + 'static,
) -> Result<(), OtlpError> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("haft-otel".to_owned());
    thread
        .spawn(move || {
            let _ = sender.send(work());
        })
        .map_err(|e| OtlpError::new("no thread could be started", e))?;
    match receiver.recv_timeout(within) {
        Ok(done) => done,
        Err(e) => Err(OtlpError::new("the collector did not answer in time", e)),
    }
}
