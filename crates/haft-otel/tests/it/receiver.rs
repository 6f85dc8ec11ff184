//! An in-process collector: receives OTLP over HTTP on loopback and decodes the protobuf.

use std::{
    collections::HashMap,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::{metrics::v1::ExportMetricsServiceRequest, trace::v1::ExportTraceServiceRequest},
    common::v1::{AnyValue, KeyValue, any_value::Value},
    metrics::v1::{Metric, metric::Data},
    trace::v1::Span,
};
use prost::Message as _;

/// The received data.
#[derive(Clone, Default)]
pub(crate) struct Received {
    traces: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    metrics: Arc<Mutex<Vec<ExportMetricsServiceRequest>>>,
    headers: Arc<Mutex<Vec<String>>>,
}

/// Starts a collector, and returns its address.
pub(crate) fn start() -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let received = Received::default();
    let taken = received.clone();
    std::thread::Builder::new()
        .spawn(move || {
            for stream in listener.incoming().flatten() {
                let taken = taken.clone();
                std::thread::Builder::new().spawn(move || taken.serve(stream)).unwrap();
            }
        })
        .unwrap();
    (address, received)
}

impl Received {
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut stream = stream;
        loop {
            let (mut path, mut length, mut line) = (String::new(), 0, String::new());
            loop {
                line.clear();
                match reader.read_line(&mut line) {
                    Ok(0) | Err(_) => return,
                    Ok(_) if line == "\r\n" => break,
                    Ok(_) => {}
                }
                if path.is_empty() {
                    path = line.split(' ').nth(1).unwrap().to_owned();
                }
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                self.headers.lock().unwrap().push(line.trim_end().to_owned());
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            match path.as_str() {
                "/v1/traces" => {
                    let request = ExportTraceServiceRequest::decode(&*body).unwrap();
                    self.traces.lock().unwrap().push(request);
                }
                "/v1/metrics" => {
                    let request = ExportMetricsServiceRequest::decode(&*body).unwrap();
                    self.metrics.lock().unwrap().push(request);
                }
                other => panic!("unexpected request for {other}"),
            }
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    }

    /// Returns the spans, in order of their start.
    pub(crate) fn spans(&self) -> Vec<Seen> {
        let traces = self.traces.lock().unwrap();
        let mut spans: Vec<Seen> = traces
            .iter()
            .flat_map(|request| &request.resource_spans)
            .flat_map(|resource| &resource.scope_spans)
            .flat_map(|scope| &scope.spans)
            .map(Seen::new)
            .collect();
        spans.sort_by_key(|span| span.span.start_time_unix_nano);
        spans
    }

    /// Returns the schema URLs of the spans.
    pub(crate) fn schema_urls(&self) -> Vec<String> {
        let traces = self.traces.lock().unwrap();
        let scopes = traces.iter().flat_map(|r| &r.resource_spans).flat_map(|r| &r.scope_spans);
        scopes.map(|scope| scope.schema_url.clone()).collect()
    }

    pub(crate) fn has_header(&self, line: &str) -> bool {
        self.headers.lock().unwrap().iter().any(|header| header.eq_ignore_ascii_case(line))
    }

    /// Returns the last state of a metric.
    pub(crate) fn metric(&self, name: &str) -> Metric {
        let metrics = self.metrics.lock().unwrap();
        let all = metrics.iter().flat_map(|r| &r.resource_metrics).flat_map(|r| &r.scope_metrics);
        all.flat_map(|scope| &scope.metrics).rfind(|metric| metric.name == name).unwrap().clone()
    }

    /// Returns the points of a histogram: attributes, count, sum, bounds.
    pub(crate) fn histogram(&self, name: &str) -> Vec<Point> {
        let Some(Data::Histogram(histogram)) = self.metric(name).data else {
            panic!("{name} is no histogram")
        };
        let point = |p: &opentelemetry_proto::tonic::metrics::v1::HistogramDataPoint| Point {
            attributes: attributes(&p.attributes),
            count: p.count,
            sum: p.sum.unwrap(),
            borders: p.explicit_bounds.clone(),
        };
        histogram.data_points.iter().map(point).collect()
    }
}

/// One point of a histogram.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) attributes: HashMap<String, String>,
    pub(crate) count: u64,
    pub(crate) sum: f64,
    pub(crate) borders: Vec<f64>,
}

/// A span with its attributes as text.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) span: Span,
    pub(crate) attributes: HashMap<String, String>,
}

impl Seen {
    fn new(span: &Span) -> Self {
        Self { span: span.clone(), attributes: attributes(&span.attributes) }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.attributes.get(name).map(String::as_str)
    }

    pub(crate) fn seconds(&self) -> f64 {
        let nanos = self.span.end_time_unix_nano - self.span.start_time_unix_nano;
        nanos as f64 / 1e9
    }
}

pub(crate) fn attributes(list: &[KeyValue]) -> HashMap<String, String> {
    let text = |value: &Option<AnyValue>| match value.as_ref().and_then(|v| v.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(n)) => n.to_string(),
        Some(Value::BoolValue(b)) => b.to_string(),
        other => format!("{other:?}"),
    };
    list.iter().map(|kv| (kv.key.clone(), text(&kv.value))).collect()
}
