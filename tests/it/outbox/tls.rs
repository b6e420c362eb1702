//! TLS with destinations: which certificates are trusted, and the client certificate.

use std::sync::Arc;

use hooklatch_core::config::{DestinationConfig, HttpConfig, HttpVersion, Secret, TlsConfig, UnknownPolicy};
use hooklatch_core::types::AttemptResult;
use http::Version;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::Fixture;
use crate::database::{Database, on_both};
use crate::stub::Stub;

on_both!(
    only_a_destination_with_a_trusted_certificate_is_called,
    a_destination_that_wants_to_know_us_is_shown_our_certificate,
    an_end_without_a_goodbye_changes_nothing_about_what_was_answered
);

/// An authority and what it vouches for.
pub(crate) struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(crate) fn pem(&self) -> Secret {
        Secret::new(self.0.pem())
    }

    /// A certificate for `name` and its key, both in PEM and in DER form.
    fn certify(&self, name: &str) -> (String, String, CertificateDer<'static>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let der = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        (certificate.pem(), key.serialize_pem(), certificate.der().clone(), der)
    }

    /// A destination at `localhost`; with `clients`, only for those that it vouches for.
    pub(crate) async fn destination(&self, clients: Option<&Self>) -> Stub {
        let mut config = self.server_config(clients);
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Stub::start_with(Some(Arc::new(config))).await
    }

    fn server_config(&self, clients: Option<&Self>) -> rustls::ServerConfig {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match clients {
            None => builder.with_no_client_auth(),
            Some(clients) => {
                let mut roots = rustls::RootCertStore::empty();
                roots.add(clients.0.der().clone()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let (_, _, certificate, key) = self.certify("localhost");
        builder.with_single_cert(vec![certificate], key).unwrap()
    }
}

async fn called(fixture: &Fixture, stub: &Stub, http: HttpConfig) -> hooklatch_store::MessageRow {
    called_at(fixture, stub.addr.port(), http).await
}

async fn called_at(fixture: &Fixture, port: u16, http: HttpConfig) -> hooklatch_store::MessageRow {
    let id = format!("evt_{}", fastrand::u64(..));
    fixture.message(&id, &["billing"]).await;
    let url = format!("https://localhost:{port}/calls");
    let config = DestinationConfig { url, http, ..fixture.config(UnknownPolicy::Hold) };
    fixture.outbox(config).run_due().await.unwrap();
    fixture.row(&id).await
}

async fn only_a_destination_with_a_trusted_certificate_is_called(database: &Database) {
    let fixture = Fixture::new(database).await;
    let (ours, other) = (Authority::new(), Authority::new());
    let stub = ours.destination(None).await;
    let believing = |authority: &Authority, version| {
        let tls = TlsConfig { ca: Some(authority.pem()), ..TlsConfig::default() };
        HttpConfig { tls, version, ..HttpConfig::default() }
    };
    let row = called(&fixture, &stub, believing(&other, HttpVersion::Auto)).await;
    assert_eq!(
        (row.state.as_str(), row.last_result.map(AttemptResult::as_str)),
        ("ready", Some("retry")),
        "{row:?}"
    );
    assert_eq!(stub.counts(&row.idempotency_key), (0, 0));
    for version in [HttpVersion::Auto, HttpVersion::Only11] {
        let row = called(&fixture, &stub, believing(&ours, version)).await;
        assert_eq!(row.state.as_str(), "done", "{:?}", row.last_error);
    }
    assert_eq!(stub.versions(), [Version::HTTP_2, Version::HTTP_11], "what both sides can is spoken");
}

async fn a_destination_that_wants_to_know_us_is_shown_our_certificate(database: &Database) {
    let fixture = Fixture::new(database).await;
    let (servers, clients, strangers) = (Authority::new(), Authority::new(), Authority::new());
    let stub = servers.destination(Some(&clients)).await;
    let showing = |authority: &Authority| {
        let (certificate, key, ..) = authority.certify("hooklatch");
        let tls = TlsConfig {
            ca: Some(servers.pem()),
            certificate: Some(Secret::new(certificate)),
            key: Some(Secret::new(key)),
        };
        HttpConfig { tls, ..HttpConfig::default() }
    };
    let row = called(&fixture, &stub, showing(&clients)).await;
    assert_eq!(row.state.as_str(), "done", "{:?}", row.last_error);
    let row = called(&fixture, &stub, showing(&strangers)).await;
    assert_ne!(row.state.as_str(), "done");
    assert_eq!(stub.counts(&row.idempotency_key), (0, 0));
}

/// A destination that answers each request with these bytes and then closes the connection below TLS, with no
/// `close_notify`.
async fn abrupt(config: rustls::ServerConfig, answer: &'static str) -> (u16, JoinSet<()>) {
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = acceptor.accept(stream).await.unwrap();
            let mut request = vec![0; 65_536];
            let mut n = 0;
            // The body of the fixture's messages ends with its only closing brace.
            while !request[..n].ends_with(b"}") {
                n += stream.read(&mut request[n..]).await.unwrap();
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            drop(stream.into_inner().0);
        }
    });
    (port, serving)
}

async fn an_end_without_a_goodbye_changes_nothing_about_what_was_answered(database: &Database) {
    let (fixture, authority) = (Fixture::new(database).await, Authority::new());
    for (answer, want) in [
        ("HTTP/1.1 204 No Content\r\n\r\n", "done"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", "done"),
        ("HTTP/1.1 200 OK\r\ncontent-length: 200\r\n\r\nok", "done"),
        ("HTTP/1.1 200 OK\r\n\r\nto the end", "done"),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab", "done"),
        ("HTTP/1.1 20", "held"),
        ("", "held"),
    ] {
        let (port, _serving) = abrupt(authority.server_config(None), answer).await;
        let tls = TlsConfig { ca: Some(authority.pem()), ..TlsConfig::default() };
        let http = HttpConfig { tls, version: HttpVersion::Only11, ..HttpConfig::default() };
        let row = called_at(&fixture, port, http).await;
        assert_eq!(row.state.as_str(), want, "{answer:?} {:?}", row.last_error);
    }
}
