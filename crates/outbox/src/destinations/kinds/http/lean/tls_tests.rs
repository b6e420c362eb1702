//! The lean client over TLS: which servers it believes, and that what is below HTTP does not hide what the destination
//! does.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reqwest::Url;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::caller::{Lean, LeanOptions, LeanStop};
use super::destination_for_tests::ScriptStep::{Close, Say, Take, Wait};
use super::destination_for_tests::{ScriptStep, TestDestination};
use crate::destinations::kinds::http::address::Address;
use crate::destinations::kinds::http::call::{Call, CallFailure};
use crate::destinations::kinds::http::tls::tls;
use crate::policy::tests::config;
use hooklatch_core::config::{DestinationConfig, Secret, UnknownPolicy};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

/// A destination with TLS in front of it. Runs until dropped.
struct TlsFront {
    url: String,
    ca_pem: String,
    destination: TestDestination,
    /// A connection of the destination was closed, and the caller got the close.
    closed: Arc<Notify>,
    _running: JoinSet<()>,
}

impl TlsFront {
    async fn start(protocols: &[&str], scripts: &[&[ScriptStep]]) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &ca).unwrap().der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut server = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        server.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let (destination, closed) = (TestDestination::start(scripts).await, Arc::<Notify>::default());
        let (behind, tell) = (destination.addr, Arc::clone(&closed));
        let (acceptor, mut running) = (TlsAcceptor::from(Arc::new(server)), JoinSet::new());
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, tell) = (acceptor.clone(), Arc::clone(&tell));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let (mut from_caller, mut to_caller) = split(stream);
                    let (mut from_behind, mut to_behind) =
                        TcpStream::connect(behind).await.unwrap().into_split();
                    let back = async {
                        drop(copy(&mut from_behind, &mut to_caller).await);
                        drop(to_caller.shutdown().await);
                        tell.notify_one();
                    };
                    drop(tokio::join!(copy(&mut from_caller, &mut to_behind), back));
                });
            }
        });
        Self { url, ca_pem: ca.pem(), destination, closed, _running: running }
    }

    fn lean(&self, ca_pem: &str) -> Lean {
        let mut config = DestinationConfig { url: self.url.clone(), ..config(UnknownPolicy::Retry) };
        config.http.tls.ca = Some(Secret::new(ca_pem));
        let connect_timeout = Duration::from_secs(2);
        Lean::new(LeanOptions { allowed: None, tls: tls(&config).unwrap(), connect_timeout, idle_n_max: 4 })
    }

    async fn called(&self, lean: &Lean) -> Result<u16, &'static str> {
        let address = Address::new(Url::parse(&self.url).unwrap()).unwrap();
        let headers = HeaderMap::from_iter([(http::header::DATE, http::HeaderValue::from_static("today"))]);
        let (method, body, timeout) = (Method::POST, Bytes::from_static(b"{}"), Duration::from_secs(5));
        let mut call = Call { method, address: &address, headers, body, timeout, is_body_wanted: true };
        match lean.call(&mut call).await {
            Ok(answered) => Ok(answered.code),
            Err(LeanStop::Http2) => {
                assert_eq!(call.headers.keys().collect::<Vec<_>>(), [http::header::DATE], "as it was");
                Err("http2")
            }
            Err(LeanStop::Failed(CallFailure::NotSent(_))) => Err("not sent"),
            Err(LeanStop::Failed(_)) => Err("failed otherwise"),
        }
    }
}

#[tokio::test]
async fn a_kept_connection_is_used_again_and_one_that_was_closed_is_not() {
    let scripts: [&[ScriptStep]; 2] = [&[Take, Say(OK), Take, Say(OK), Close, Wait], &[Take, Say(OK), Wait]];
    let front = TlsFront::start(&["http/1.1"], &scripts).await;
    let lean = front.lean(&front.ca_pem);
    for _ in 0..2 {
        assert_eq!(front.called(&lean).await, Ok(200));
    }
    assert_eq!(front.destination.counts(), (1, 2), "whatever TLS itself had to say meanwhile");
    front.closed.notified().await;
    assert_eq!(front.called(&lean).await, Ok(200));
    assert_eq!(front.destination.counts(), (2, 3));
}

#[tokio::test]
async fn a_destination_that_prefers_http_2_gets_no_request() {
    let front = TlsFront::start(&["h2", "http/1.1"], &[&[Wait]]).await;
    assert_eq!(front.called(&front.lean(&front.ca_pem)).await, Err("http2"));
    assert_eq!(front.destination.counts().1, 0);
}

#[tokio::test]
async fn a_certificate_that_is_not_believed_or_of_another_name_leaves_the_call_unsent() {
    let (front, other) =
        (TlsFront::start(&["http/1.1"], &[&[Wait]]).await, TlsFront::start(&["http/1.1"], &[&[Wait]]).await);
    assert_eq!(front.called(&front.lean(&other.ca_pem)).await, Err("not sent"));
    let by_address = TlsFront { url: front.url.replace("localhost", "127.0.0.1"), ..front };
    assert_eq!(by_address.called(&by_address.lean(&by_address.ca_pem)).await, Err("not sent"));
    assert_eq!(by_address.destination.counts(), (0, 0));
}
