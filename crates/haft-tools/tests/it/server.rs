//! A web server that sends exactly the bytes of a test and counts connections.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

/// The authority that signed the server's certificate, which is for `secure.example`.
pub(crate) const AUTHORITY: &[u8] = include_bytes!("tls/authority.der");

/// The next action of a server on a connection.
pub(crate) enum Step {
    Send(Vec<u8>),
    Wait(Duration),
    /// Sends the same until the client disconnects.
    Repeat(Vec<u8>, Duration),
}

type Script = dyn Fn(&str) -> Vec<Step> + Send + Sync;

/// A server on loopback.
pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) requests: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Answers each path with steps.
    pub(crate) async fn start(script: impl Fn(&str) -> Vec<Step> + Send + Sync + 'static) -> Self {
        Self::open(Arc::new(script), None).await
    }

    /// Answers each path with complete bytes.
    pub(crate) async fn responding(
        script: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |path| vec![Step::Send(script(path))]).await
    }

    /// The same over TLS.
    pub(crate) async fn encrypted(
        script: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static,
    ) -> Self {
        let certificate = CertificateDer::from(include_bytes!("tls/server.der").to_vec());
        let key = PrivateKeyDer::try_from(include_bytes!("tls/server.key.der").to_vec()).unwrap();
        let settings = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(settings));
        let script: Arc<Script> = Arc::new(move |path: &str| vec![Step::Send(script(path))]);
        Self::open(script, Some(acceptor)).await
    }

    async fn open(script: Arc<Script>, acceptor: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            requests: Arc::default(),
            connections: Arc::default(),
        };
        let (requests, connections) =
            (Arc::clone(&server.requests), Arc::clone(&server.connections));
        let handle = tokio::runtime::Handle::current();
        handle.clone().spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                connections.fetch_add(1, Ordering::Relaxed);
                let (script, requests) = (Arc::clone(&script), Arc::clone(&requests));
                let acceptor = acceptor.clone();
                handle.spawn(async move {
                    match acceptor {
                        None => serve(stream, &*script, &requests).await,
                        Some(acceptor) => {
                            if let Ok(stream) = acceptor.accept(stream).await {
                                serve(stream, &*script, &requests).await;
                            }
                        }
                    }
                });
            }
        });
        server
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    script: &Script,
    requests: &Mutex<Vec<String>>,
) {
    let mut request = Vec::new();
    let mut piece = [0; 4096];
    while !request.ends_with(b"\r\n\r\n") {
        match stream.read(&mut piece).await {
            Ok(n) if n > 0 => request.extend_from_slice(&piece[..n]),
            _ => return,
        }
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or_default().to_owned();
    requests.lock().unwrap().push(request);
    for step in script(&path) {
        match step {
            Step::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            Step::Wait(time) => tokio::time::sleep(time).await,
            Step::Repeat(bytes, pause) => {
                while stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok() {
                    tokio::time::sleep(pause).await;
                }
            }
        }
    }
    let _ = stream.shutdown().await;
}

/// A complete response of a type.
pub(crate) fn ok(kind: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    with("200 OK", &format!("Content-Type: {kind}\r\n"), body)
}

/// A complete response with these header lines.
pub(crate) fn with(status: &str, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// A redirect.
pub(crate) fn redirect_to(location: &str) -> Vec<u8> {
    with("302 Found", &format!("Location: {location}\r\nSet-Cookie: id=hunter2\r\n"), "gone")
}
