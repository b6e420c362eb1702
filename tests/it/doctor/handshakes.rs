//! The doctor and the TLS of destinations: servers that are well, ended, of a stranger, silent, plain or picky.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{OPERATOR, examine, no_host};
use crate::database::{Database, On};
use crate::process::Server;

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Issuer {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server for `name` whose certificate ends in so many days. What it is sent after the handshake is counted.
async fn far(
    issuer: &Issuer,
    name: &str,
    days: i64,
    clients: Option<&Issuer>,
    bytes_n: &Arc<AtomicUsize>,
) -> u16 {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    // From midnight to midnight: so many days and a part of one are left.
    let today = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date();
    let day = |days: i64| {
        let day = today.checked_add(jiff::ToSpan::days(days)).unwrap();
        rcgen::date_time_ymd(day.year().into(), day.month().unsigned_abs(), day.day().unsigned_abs())
    };
    (params.not_before, params.not_after) = (day(-400), day(days + 1));
    let certificate = params.signed_by(&key, issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(clients) => {
            let mut roots = RootCertStore::empty();
            roots.add(clients.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = builder.with_single_cert(vec![certificate.der().clone()], key).unwrap();
    let (acceptor, bytes_n) = (TlsAcceptor::from(Arc::new(config)), Arc::clone(bytes_n));
    serve(move |tcp| {
        let (acceptor, bytes_n) = (acceptor.clone(), Arc::clone(&bytes_n));
        async move {
            let Ok(mut tls) = acceptor.accept(tcp).await else { return };
            let mut sent = Vec::new();
            drop(tls.read_to_end(&mut sent).await);
            bytes_n.fetch_add(sent.len(), Ordering::SeqCst);
        }
    })
    .await
}

async fn serve<F: Future<Output = ()> + Send + 'static>(
    mut each: impl FnMut(tokio::net::TcpStream) -> F + Send + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            tokio::spawn(each(tcp));
        }
    });
    port
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_destinations_tls_is_judged_without_a_request() {
    let (ours, other, clients) = (authority(), authority(), authority());
    let bytes_n = Arc::new(AtomicUsize::new(0));
    let well = far(&ours, "localhost", 100, None, &bytes_n).await;
    let soon = far(&ours, "localhost", 5, None, &bytes_n).await;
    let ended = far(&ours, "localhost", -2, None, &bytes_n).await;
    let stranger = far(&other, "localhost", 100, None, &bytes_n).await;
    let misnamed = far(&ours, "far.example", 100, None, &bytes_n).await;
    let picky = far(&ours, "localhost", 100, Some(&clients), &bytes_n).await;
    // It takes connections, and says nothing for as long as anybody waits.
    let silent = serve(|tcp| async move {
        let mut tcp = tcp;
        drop(tcp.read_to_end(&mut Vec::new()).await);
    })
    .await;
    let plain = serve(|mut tcp| async move {
        drop(tcp.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await);
        drop(tcp.read_to_end(&mut Vec::new()).await);
    })
    .await;
    // No process listens there: port 1 is below the ports that the system assigns.
    let gone: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, ours.pem()).unwrap();
    let destination = |name: &str, port: u16, more: &str| {
        format!(
            "[destinations.{name}]\nurl = \"https://localhost:{port}/pay\"\ntls = {{ ca = {{ file = \"{}\" }} }}\n{more}",
            ca.display()
        )
    };
    let mut more = OPERATOR.to_owned();
    for (name, port) in [
        ("well", well),
        ("also_well", well),
        ("soon", soon),
        ("ended", ended),
        ("stranger", stranger),
        ("misnamed", misnamed),
        ("picky", picky),
        ("silent", silent),
        ("plain", plain),
        ("gone", gone.port()),
    ] {
        more += &destination(name, port, "");
    }
    more += &destination("proxied", well, "proxy = \"http://127.0.0.1:1\"\n");
    more += &["[destinations.nowhere]\nurl = \"https://", &no_host(), "/\"\n"].concat();
    more += "[destinations.open]\nurl = \"http://127.0.0.1:1/\"\n";
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, &more).await;
    let began = Instant::now();
    let found = examine(&server, &["--no-probe"]).await;
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    for (name, verdict, words, remedy) in [
        ("soon", "warning", "5 days left", "renew"),
        ("ended", "failure", "it has ended", "its operator"),
        (
            "stranger",
            "failure",
            "no authority that is believed here has signed it",
            "destinations.stranger.tls.ca",
        ),
        ("misnamed", "failure", "it is for another name", "its operator"),
        (
            "picky",
            "failure",
            "does not take our connection: it says CertificateRequired",
            "destinations.picky.tls.certificate",
        ),
        ("silent", "warning", "no TLS within 3000 ms", "says nothing"),
        ("plain", "failure", "speaks no TLS", "destinations.plain.url"),
        ("gone", "warning", "is not reached", "destinations.gone.url"),
        ("nowhere", "warning", "is not reached", "getent hosts"),
    ] {
        let finding = found.find("destinations.tls", Some(name));
        assert_eq!(finding["verdict"], verdict, "{finding}");
        assert!(finding["found"].as_str().unwrap().contains(words), "{finding}");
        assert!(finding["remedy"].as_str().unwrap().contains(remedy), "{finding}");
    }
    let all_n = found.findings.iter().filter(|one| one["check"] == "destinations.tls").count();
    assert_eq!(all_n, 9, "{}", found.text);
    found.ends_with(1);
    assert_eq!(bytes_n.load(Ordering::SeqCst), 0, "no request was sent");
}

#[tokio::test]
async fn good_tls_is_reported_as_one_handshake_for_each_address() {
    let (ours, bytes_n) = (authority(), Arc::new(AtomicUsize::new(0)));
    let port = far(&ours, "localhost", 100, None, &bytes_n).await;
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, ours.pem()).unwrap();
    let destination = |name: &str| {
        let (place, ca) = (format!("https://localhost:{port}/{name}"), ca.display());
        format!("[destinations.{name}]\nurl = \"{place}\"\ntls = {{ ca = {{ file = \"{ca}\" }} }}\n")
    };
    let mut more = [OPERATOR.to_owned(), destination("billing"), destination("ledger")].concat();
    more += "[destinations.proxied]\nurl = \"https://localhost/\"\nproxy = \"http://127.0.0.1:1\"\n";
    let database = Database::create(On::Sqlite).await.unwrap();
    let server = Server::start(&database.url, &more).await;
    let found = examine(&server, &["--no-probe"]).await;
    let finding = found.find("destinations.tls", None);
    assert_eq!(finding["verdict"], "well", "{finding}");
    let words = finding["found"].as_str().unwrap();
    assert!(words.starts_with("1 handshake; 1 not looked at"), "{words}");
}
