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
//! Names are those of [`haft::telemetry`]. Arguments and results stay here unless
//! `Config::trace_content` says otherwise.

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
pub use self::{error::Error, metrics::Metrics};

/// Sends spans and metrics to a collector. Dropping it sends what is left, within its time.
#[must_use = "what was not sent is sent when this is shut down or dropped"]
pub struct Telemetry {
    tracers: SdkTracerProvider,
    meters: SdkMeterProvider,
    timeout: Duration,
    is_shut: bool,
}

/// Sets up a [`Telemetry`].
#[derive(Debug, Clone)]
#[must_use]
pub struct Builder {
    endpoint: String,
    service: String,
    headers: HashMap<String, String>,
    timeout: Duration,
    interval: Duration,
}

impl Telemetry {
    /// Starts setting up the export to a collector: OTLP over HTTP, as protobuf. The address is that
    /// of the collector, such as `http://127.0.0.1:4318`; the paths of the signals are added to it.
    pub fn otlp(endpoint: impl Into<String>) -> Builder {
        Builder {
            endpoint: endpoint.into(),
            service: "haft".to_owned(),
            headers: HashMap::new(),
            // A collector stands nearby; one that needs longer is not there.
            timeout: Duration::from_secs(5),
            // What the specification settled on.
            interval: Duration::from_secs(60),
        }
    }

    /// Returns the layer that makes spans of `tracing` into spans of OpenTelemetry.
    pub fn layer<S>(&self) -> OpenTelemetryLayer<S, SdkTracer>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        // Where in our code a span was made, and on which thread, is nobody's concern; a failure has
        // its code, and its words may hold anything.
        OpenTelemetryLayer::new(self.tracers.tracer_with_scope(scope()))
            .with_location(false)
            .with_threads(false)
            .with_target(false)
            .with_tracked_inactivity(false)
            .with_error_fields_to_exceptions(false)
            .with_error_records_to_exceptions(false)
            .with_error_events_to_exceptions(false)
    }

    /// Makes this the subscriber of the whole process.
    ///
    /// # Errors
    /// Fails when the process has one already; add [`layer`](Self::layer) to that one then.
    pub fn subscribe(&self) -> Result<(), Error> {
        let subscriber = tracing_subscriber::registry().with(LevelFilter::INFO).with(self.layer());
        tracing::subscriber::set_global_default(subscriber)
            .map_err(|e| Error::new("the process already has a subscriber", e))
    }

    /// Returns the observer that counts and measures.
    #[must_use]
    pub fn observer(&self) -> Metrics {
        Metrics::new(&self.meters.meter_with_scope(scope()))
    }

    /// Sends what there is, and waits for that no longer than so long.
    ///
    /// # Errors
    /// Fails when the collector did not take it, or time ran out; what is still being sent then goes
    /// on being sent.
    pub fn flush(&self, within: Duration) -> Result<(), Error> {
        let (tracers, meters) = (self.tracers.clone(), self.meters.clone());
        bounded(within, move || {
            let spans = tracers.force_flush();
            meters.force_flush().and(spans).map_err(|e| Error::new("not everything was sent", e))
        })
    }

    /// Sends what there is and stops, no later than in so long.
    ///
    /// # Errors
    /// Fails when the collector did not take it, or time ran out.
    pub fn shutdown(mut self, within: Duration) -> Result<(), Error> {
        self.shut(within)
    }

    fn shut(&mut self, within: Duration) -> Result<(), Error> {
        if std::mem::replace(&mut self.is_shut, true) {
            return Ok(());
        }
        let (tracers, meters) = (self.tracers.clone(), self.meters.clone());
        bounded(within, move || {
            let spans = tracers.shutdown_with_timeout(within);
            let metrics = meters.shutdown_with_timeout(within);
            metrics.and(spans).map_err(|e| Error::new("not everything was sent", e))
        })
    }
}

impl Drop for Telemetry {
    fn drop(&mut self) {
        let _ = self.shut(self.timeout);
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("timeout", &self.timeout).finish_non_exhaustive()
    }
}

impl Builder {
    /// Sets the name of the service; `haft` when left out.
    pub fn service(mut self, name: impl Into<String>) -> Self {
        self.service = name.into();
        self
    }

    /// Adds a header to every request, such as one that proves who sends.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.insert(name.into(), value.into());
        self
    }

    /// Sets how long one request may take; 5 seconds when left out.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how often metrics are sent; once a minute when left out.
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Checks everything and starts the threads that send. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails when the address is none of HTTP.
    pub fn build(self) -> Result<Telemetry, Error> {
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
            .map_err(|e| Error::new("the span exporter cannot be created", e))?;
        let metrics = MetricExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(format!("{base}/v1/metrics"))
            .with_timeout(self.timeout)
            .with_headers(self.headers)
            .build()
            .map_err(|e| Error::new("the metrics exporter cannot be created", e))?;
        let reader = PeriodicReader::builder(metrics).with_interval(self.interval).build();
        Ok(Telemetry {
            tracers: SdkTracerProvider::builder()
                .with_resource(resource.clone())
                .with_batch_exporter(spans)
                .build(),
            meters: SdkMeterProvider::builder().with_resource(resource).with_reader(reader).build(),
            timeout: self.timeout,
            is_shut: false,
        })
    }
}

/// Who makes the spans and the metrics, and by which names.
fn scope() -> InstrumentationScope {
    InstrumentationScope::builder(TARGET)
        .with_version(env!("CARGO_PKG_VERSION"))
        .with_schema_url(SCHEMA_URL)
        .build()
}

/// Does something on a thread of its own, and waits for it no longer than so long. The exporter's
/// own waits add up signal by signal; a program that wants to end wants one bound.
fn bounded(
    within: Duration,
    work: impl FnOnce() -> Result<(), Error> + Send + 'static,
) -> Result<(), Error> {
    let (tell, told) = mpsc::sync_channel(1);
    let thread = std::thread::Builder::new().name("haft-otel".to_owned());
    thread
        .spawn(move || {
            let _ = tell.send(work());
        })
        .map_err(|e| Error::new("no thread could be started", e))?;
    match told.recv_timeout(within) {
        Ok(done) => done,
        Err(e) => Err(Error::new("the collector did not answer in time", e)),
    }
}
