//! `haft call … --otlp`: what a collector on the loopback receives from the command.
//!
//! Built with the feature `otlp` alone. Strings are not encoded in this protocol,
//! so the test searches for them without a decoder. haft-otel tests that the messages decode.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use crate::{Ran, command};

/// What was received: paths and bodies.
type Received = Arc<Mutex<Vec<(String, Vec<u8>)>>>;

/// Starts a collector, and returns its address.
fn collector() -> (String, Received) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let received = Received::default();
    let taken = Arc::clone(&received);
    let serve = move || {
        for stream in listener.incoming().flatten() {
            let taken = Arc::clone(&taken);
            std::thread::Builder::new().spawn(move || take(stream, &taken)).unwrap();
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    (address, received)
}

/// Takes requests from one connection until it ends.
fn take(mut stream: TcpStream, taken: &Received) {
    let mut reader = BufReader::new(stream.try_clone().unwrap());
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
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        taken.lock().unwrap().push((path, body));
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
    }
}

/// Returns whether a message to this path has this text in it.
fn has(received: &Received, path: &str, text: &str) -> bool {
    let received = received.lock().unwrap();
    let mut bodies = received.iter().filter(|(own, _)| own == path).map(|(_, body)| body);
    bodies.any(|body| body.windows(text.len()).any(|part| part == text.as_bytes()))
}

#[test]
fn collector_receives_spans_and_metrics_of_the_call() {
    let (address, received) = collector();
    let mut call = command();
    call.args(["call", "read_file", "file_path=notes/garden.txt", "--otlp", &address]);
    let ran = Ran::of(call.output().unwrap());
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{ran:?}");
    assert_eq!(ran.out, crate::GARDEN);
    for span in ["haft.call", "execute_tool read_file"] {
        assert!(has(&received, "/v1/traces", span), "no span {span}");
    }
    for metric in ["gen_ai.execute_tool.duration", "haft.calls"] {
        assert!(has(&received, "/v1/metrics", metric), "no metric {metric}");
    }
    assert!(!has(&received, "/v1/traces", "garden"), "what is said is not sent unasked");
}

#[test]
fn endpoint_variable_is_used_and_denied_calls_are_exported() {
    let (address, received) = collector();
    let mut call = command();
    call.args(["call", "delete_path", "path=notes/trip.txt"])
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", address);
    let ran = Ran::of(call.output().unwrap());
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(has(&received, "/v1/traces", "haft.call") && has(&received, "/v1/traces", "denied"));
    assert!(!has(&received, "/v1/traces", "execute_tool"), "nothing was executed");
}

#[test]
fn unreachable_collector_is_a_warning_and_keeps_the_result() {
    // Bound and released: no process listens there.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut call = command();
    call.args([
        "call",
        "read_file",
        "file_path=notes/garden.txt",
        "--otlp",
        &format!("http://{closed}"),
    ]);
    let ran = Ran::of(call.output().unwrap());
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), crate::GARDEN), "{ran:?}");
    assert!(ran.err.starts_with("warning: telemetry: "), "{ran:?}");
    let wrong =
        Ran::of(command().args(["call", "list_files", "--otlp", "nowhere"]).output().unwrap());
    assert_eq!(wrong.code, Some(1), "{wrong:?}");
}
