//! TLS with certificates of the test, and proxies.

use std::sync::Arc;

use haft::{ErrorKind, agent::RunStatus};
use haft_models::Provider;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{ServerConfig, crypto::ring, pki_types::PrivatePkcs8KeyDer},
};

use crate::{
    kit::{KEY, failure, model, run},
    server::{self, Server},
    wire,
};

/// A certificate authority, and a server with a certificate of it.
fn authority(names: &[&str]) -> (String, TlsAcceptor) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let root = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(names).unwrap().signed_by(&key, &root).unwrap();
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![own.der().clone()], key.into())
        .unwrap();
    (root.pem(), TlsAcceptor::from(Arc::new(config)))
}

async fn server(tls: TlsAcceptor) -> Server {
    let answer = wire::answer(Provider::Anthropic, true, Some("Good."));
    Server::with_tls(vec![answer], Some(tls)).await
}

#[tokio::test]
async fn unknown_authority_is_refused_and_accepted_as_own_root() {
    let (pem, tls) = authority(&["localhost"]);
    let server = server(tls).await;
    let url = format!("https://localhost:{}/v1", server.address.port());
    let model = || model(Provider::Anthropic, &server).base_url(url.as_str());
    let (message, hints, kind) = failure(&run(model()).await);
    assert!(message.contains("certificate of localhost:"), "{message}");
    assert!(message.contains("is not accepted") && !message.contains("attempts"), "{message}");
    assert!(hints[0].contains("ca_root"), "{hints:?}");
    assert_eq!((kind, server.requests().len()), (ErrorKind::Unreachable, 0));
    let result = run(model().ca_root(pem)).await;
    assert_eq!((result.state, &*result.text), (RunStatus::Completed, "Good."));
    let (other, _) = authority(&["localhost"]);
    let (message, ..) = failure(&run(model().ca_root(other)).await);
    assert!(message.contains("is not accepted"), "{message}");
}

#[tokio::test]
async fn certificate_for_another_name_is_refused() {
    let (pem, tls) = authority(&["other.example"]);
    let server = server(tls).await;
    let url = format!("https://localhost:{}/v1", server.address.port());
    let model = model(Provider::Anthropic, &server).base_url(url).ca_root(pem);
    let (message, ..) = failure(&run(model).await);
    assert!(message.contains("is not accepted"), "{message}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn server_without_tls_is_an_error_for_https() {
    let server = Server::start(vec![wire::answer(Provider::OpenAi, true, Some("x"))]).await;
    let url = format!("https://{}/v1", server.address);
    let (message, _, kind) = failure(&run(model(Provider::OpenAi, &server).base_url(url)).await);
    assert!(message.starts_with("cannot connect to 127.0.0.1:"), "{message}");
    assert_eq!(kind, ErrorKind::Unreachable);
}

#[test]
fn file_without_a_certificate_is_a_mistake() {
    for wrong in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        let model = haft_models::ProviderModel::openai("m", KEY).ca_root(wrong);
        let error = model.build().unwrap_err();
        assert!(error.hints()[0].contains("it must be PEM"), "{error}");
    }
}

#[tokio::test]
async fn proxy_gets_the_request_and_its_password_is_not_shown() {
    let answer = wire::answer(Provider::OpenAiChat, true, Some("Good."));
    let proxy = Server::start(vec![answer]).await;
    let address = format!("http://user:pass-word-1@{}", proxy.address);
    let server = Server::start(vec![Vec::new()]).await;
    let target = "http://model.invalid/v1";
    let model = || model(Provider::OpenAiChat, &server).base_url(target).proxy(address.as_str());
    let result = run(model()).await;
    assert_eq!((result.state, &*result.text), (RunStatus::Completed, "Good."));
    let request = &proxy.requests()[0];
    assert_eq!(request.target, "http://model.invalid/v1/chat/completions");
    assert!(request.header("proxy-authorization").unwrap().starts_with("Basic "));
    drop(proxy);
    let result = run(model()).await;
    let (message, hints, _) = failure(&result);
    assert!(message.contains("model.invalid through the proxy http://127.0.0.1:"), "{message}");
    assert!(!format!("{message} {hints:?} {result:?}").contains("pass-word-1"), "{message}");
}

#[tokio::test]
async fn https_goes_through_a_tunnel_of_the_proxy() {
    let refused = server::json("403 Forbidden", &[], &serde_json::Value::Null);
    let proxy = Server::start(vec![refused]).await;
    let server = Server::start(vec![Vec::new()]).await;
    let model = model(Provider::OpenAi, &server)
        .base_url("https://model.invalid/v1")
        .proxy(format!("http://{}", proxy.address));
    let (message, _, kind) = failure(&run(model).await);
    assert_eq!(kind, ErrorKind::Unreachable, "{message}");
    let request = &proxy.requests()[0];
    assert_eq!((&*request.method, &*request.target), ("CONNECT", "model.invalid:443"));
    assert_eq!(request.header("authorization"), None, "the key is inside of the tunnel only");
}
