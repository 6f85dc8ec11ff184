//! A local HTTP/1.1 server that plays answers. It keeps every request, and reports a client that
//! closed the connection before the answer was complete.

use std::{
    io,
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
    sync::Notify,
    task::JoinHandle,
    time::sleep,
};
use tokio_rustls::TlsAcceptor;

/// A request as it arrived.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) method: String,
    /// The path with its query, or the whole address if the server is a proxy.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

/// A step of an answer.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Bytes as they are.
    Send(Vec<u8>),
    /// One chunk of a chunked body.
    Chunk(Vec<u8>),
    /// The end of a chunked body.
    End,
    Wait(Duration),
    /// Chunks until the client closes the connection, or this many were sent.
    Repeat(Vec<u8>, usize),
}

/// An answer: steps, and then the connection is closed.
pub(crate) type Answer = Vec<Step>;

/// What the server has seen.
#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Received>>,
    /// Bytes of bodies that were written.
    written: Mutex<usize>,
    closed_early: Notify,
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    /// Plays one answer per request; the last one is repeated.
    pub(crate) async fn start(answers: Vec<Answer>) -> Self {
        Self::with_tls(answers, None).await
    }

    #[expect(clippy::disallowed_methods, reason = "the server runs concurrently with the test")]
    pub(crate) async fn with_tls(answers: Vec<Answer>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen::default());
        let kept = Arc::clone(&seen);
        let answers = Arc::new(answers);
        let task = tokio::task::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answers, tls) = (Arc::clone(&kept), Arc::clone(&answers), tls.clone());
                tokio::task::spawn(async move {
                    let played = match tls {
                        None => play(stream, &answers, &seen).await,
                        Some(tls) => match tls.accept(stream).await {
                            Ok(stream) => play(stream, &answers, &seen).await,
                            Err(_) => return,
                        },
                    };
                    if played.is_err() {
                        seen.closed_early.notify_one();
                    }
                });
            }
        });
        Self { address, seen, task }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Bytes of bodies that were written.
    pub(crate) fn written(&self) -> usize {
        *self.seen.written.lock().unwrap()
    }

    /// Waits until a client has closed a connection before its answer was complete.
    pub(crate) async fn closed_early(&self) {
        self.seen.closed_early.notified().await;
    }
}

async fn play<S: AsyncRead + AsyncWrite + Unpin>(
    mut stream: S,
    answers: &[Answer],
    seen: &Seen,
) -> io::Result<()> {
    let Some(request) = read(&mut stream).await? else { return Ok(()) };
    let number = {
        let mut requests = seen.requests.lock().unwrap();
        requests.push(request);
        requests.len() - 1
    };
    let Some(answer) = answers.get(number).or(answers.last()) else { return Ok(()) };
    for step in answer {
        match step {
            Step::Send(bytes) => stream.write_all(bytes).await?,
            Step::Chunk(bytes) => chunk(&mut stream, bytes, seen).await?,
            Step::End => stream.write_all(b"0\r\n\r\n").await?,
            Step::Wait(time) => {
                // A closed connection is seen while waiting.
                let mut byte = [0];
                tokio::select! {
                    () = sleep(*time) => {}
                    read = stream.read(&mut byte) => {
                        read?;
                        return Err(io::ErrorKind::ConnectionReset.into());
                    }
                }
            }
            Step::Repeat(bytes, most) => {
                for _ in 0..*most {
                    chunk(&mut stream, bytes, seen).await?;
                }
            }
        }
        stream.flush().await?;
    }
    stream.shutdown().await
}

async fn chunk<S: AsyncWrite + Unpin>(stream: &mut S, bytes: &[u8], seen: &Seen) -> io::Result<()> {
    stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
    stream.write_all(bytes).await?;
    stream.write_all(b"\r\n").await?;
    *seen.written.lock().unwrap() += bytes.len();
    Ok(())
}

/// Reads a request with a `content-length`.
async fn read<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Option<Received>> {
    let mut bytes = Vec::new();
    let head_end = loop {
        if let Some(at) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break at;
        }
        // The first byte of a TLS handshake.
        if stream.read_buf(&mut bytes).await? == 0 || bytes.first() == Some(&0x16) {
            return Ok(None);
        }
    };
    let head = String::from_utf8(bytes[..head_end].to_vec()).unwrap();
    let mut lines = head.lines();
    let mut first = lines.next().unwrap().split(' ').map(str::to_owned);
    let (method, target) = (first.next().unwrap(), first.next().unwrap());
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(key, value)| (key.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.iter().find(|(key, _)| key == "content-length");
    let length: usize = length.map_or(0, |(_, value)| value.parse().unwrap());
    let mut body = bytes[head_end + 4..].to_vec();
    while body.len() < length {
        if stream.read_buf(&mut body).await? == 0 {
            return Ok(None);
        }
    }
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Some(Received { method, target, headers, body }))
}

/// The head of a response with a chunked body.
pub(crate) fn head(status: &str, headers: &[(&str, &str)]) -> Step {
    let mut text = format!("HTTP/1.1 {status}\r\ntransfer-encoding: chunked\r\n");
    text.push_str("connection: close\r\n");
    for (key, value) in headers {
        text.push_str(&format!("{key}: {value}\r\n"));
    }
    Step::Send(format!("{text}\r\n").into_bytes())
}

/// A whole JSON response.
pub(crate) fn json(status: &str, headers: &[(&str, &str)], body: &Value) -> Answer {
    let mut headers = headers.to_vec();
    headers.push(("content-type", "application/json"));
    vec![head(status, &headers), Step::Chunk(body.to_string().into_bytes()), Step::End]
}

/// The start of a stream.
pub(crate) fn stream_head() -> Step {
    head("200 OK", &[("content-type", "text/event-stream; charset=utf-8")])
}

/// A stream of events, in chunks of an odd size.
pub(crate) fn stream(events: &str) -> Answer {
    let mut answer = vec![stream_head()];
    answer.extend(events.as_bytes().chunks(37).map(|piece| Step::Chunk(piece.to_vec())));
    answer.push(Step::End);
    answer
}
