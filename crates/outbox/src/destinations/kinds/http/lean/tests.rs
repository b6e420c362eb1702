//! Tests of the lean client against a destination that does with each connection what a script says, byte by byte; with
//! TLS and without.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use hyper_util::client::legacy::connect::dns::Name;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use reqwest::Url;
use rustls::ClientConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::service_fn;

use super::{Lean, LeanStop, Lookup, system_lookup};
use crate::destinations::kinds::http::address::Address;
use crate::destinations::kinds::http::client::{Call, CallFailure, CallerOptions, HttpAnswer, tls};
use crate::policy::tests::config;
use ScriptStep::{Close, Reset, Say, SayOften, Signal, Take, TakeHead, Wait};
use hooklatch_core::config::{DestinationConfig, HttpVersion, Secret, UnknownPolicy};
use hooklatch_core::net::Allowed;

/// Longest time that a test waits for what must happen.
const BOUND: Duration = Duration::from_secs(20);

/// One thing that a destination does with a connection. After the last one it is closed.
#[derive(Clone)]
pub(crate) enum ScriptStep {
    /// Takes one whole request.
    Take,
    /// Takes the head of a request only.
    TakeHead,
    Say(&'static str),
    SayOften(&'static str),
    Close,
    Reset,
    /// Waits until the caller has closed it.
    Wait,
    /// Says that everything before is done.
    Signal,
}

#[derive(Default)]
struct TestCounts {
    connections_n: AtomicUsize,
    requests_n: AtomicUsize,
    /// Connections that the destination is done with.
    ended: Notify,
}

/// Runs until dropped. The first connection goes by the first script and so on; the last one is for all others.
pub(crate) struct TestDestination {
    pub(crate) addr: SocketAddr,
    counts: Arc<TestCounts>,
    _running: JoinSet<()>,
}

impl TestDestination {
    pub(crate) async fn start(scripts: &[&[ScriptStep]]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (addr, counts) = (listener.local_addr().unwrap(), Arc::<TestCounts>::default());
        let mut running = JoinSet::new();
        let mut scripts: Vec<Vec<ScriptStep>> = scripts.iter().map(|script| script.to_vec()).collect();
        let counted = Arc::clone(&counts);
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                counted.connections_n.fetch_add(1, Ordering::SeqCst);
                let script = if scripts.len() > 1 { scripts.remove(0) } else { scripts[0].clone() };
                connections.spawn(act(stream, script, Arc::clone(&counted)));
            }
        });
        Self { addr, counts, _running: running }
    }

    /// Connections and requests so far.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let counts = &self.counts;
        (counts.connections_n.load(Ordering::SeqCst), counts.requests_n.load(Ordering::SeqCst))
    }

    /// Waits until it is done with a connection.
    pub(crate) async fn ended(&self) {
        timeout(BOUND, self.counts.ended.notified())
            .await
            .expect("the destination is done with a connection");
    }
}

async fn act(mut stream: TcpStream, script: Vec<ScriptStep>, counts: Arc<TestCounts>) {
    for act in script {
        match act {
            ScriptStep::Take => {
                if !take(&mut stream, true).await {
                    break;
                }
                counts.requests_n.fetch_add(1, Ordering::SeqCst);
            }
            ScriptStep::TakeHead => drop(take(&mut stream, false).await),
            ScriptStep::Say(text) => drop(stream.write_all(text.as_bytes()).await),
            ScriptStep::SayOften(text) => while stream.write_all(text.as_bytes()).await.is_ok() {},
            ScriptStep::Close => drop(stream.shutdown().await),
            ScriptStep::Reset => stream.set_zero_linger().unwrap(),
            ScriptStep::Wait => while matches!(stream.read(&mut [0; 1024]).await, Ok(1..)) {},
            ScriptStep::Signal => counts.ended.notify_one(),
        }
    }
    drop(stream);
    counts.ended.notify_one();
}

/// Reads the head of a request, and its body if wanted. False when the connection is over.
async fn take(stream: &mut TcpStream, is_whole: bool) -> bool {
    let mut read = Vec::new();
    let mut left_n = None;
    while left_n != Some(0) {
        let Ok(byte) = stream.read_u8().await else { return false };
        if let Some(left_n) = &mut left_n {
            *left_n -= 1;
            continue;
        }
        read.push(byte);
        if read.ends_with(b"\r\n\r\n") {
            let head = String::from_utf8(read.clone()).unwrap().to_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            left_n =
                Some(if is_whole { length.map_or(0, |length| length.parse().unwrap()) } else { 0_usize });
        }
    }
    true
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

fn lean() -> Lean {
    lean_keeping(4)
}

fn lean_keeping(idle_n_max: usize) -> Lean {
    Lean::new(system_lookup(None), &options(None, idle_n_max))
}

fn options(tls: Option<ClientConfig>, idle_n_max: usize) -> CallerOptions {
    let (connect_timeout, version) = (Duration::from_secs(2), HttpVersion::Auto);
    CallerOptions { tls, connect_timeout, idle_n_max, proxy: None, version, allowed: None }
}

/// One call: the status and the body, or what became of it.
async fn called_with(lean: &Lean, url: &str, method: Method, body: Bytes, timeout_ms: u64) -> String {
    let address = Address::new(Url::parse(url).unwrap()).unwrap();
    let timeout = Duration::from_millis(timeout_ms);
    let headers = HeaderMap::new();
    let mut call = Call { method, address: &address, headers, body, timeout, is_body_wanted: true };
    match lean.call(&mut call).await {
        Ok(HttpAnswer { code, body: Ok(body), .. }) => format!("{code} {}", String::from_utf8_lossy(&body)),
        Ok(HttpAnswer { code, body: Err(cut), .. }) => {
            format!("{code} {}", format!("{cut:?}").split('(').next().unwrap())
        }
        Err(LeanStop::Http2) => "http2".to_owned(),
        Err(LeanStop::Failed(CallFailure::Private(_))) => "private".to_owned(),
        Err(LeanStop::Failed(CallFailure::NotSent(_))) => "not sent".to_owned(),
        Err(LeanStop::Failed(CallFailure::Unknown(_))) => "unknown".to_owned(),
    }
}

async fn called(lean: &Lean, destination: &TestDestination) -> String {
    let url = format!("http://{}/calls", destination.addr);
    called_with(lean, &url, Method::POST, Bytes::from_static(b"{\"a\":1}"), 5_000).await
}

#[tokio::test]
async fn a_connection_is_used_again_only_after_a_whole_answer_and_nothing_more() {
    let cases: [(&str, &str, usize); 12] = [
        ("whole", OK, 1),
        ("chunked", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 1),
        (
            "1xx first",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}",
            1,
        ),
        (
            "keeps alive as 1.0 does",
            "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\n{}",
            1,
        ),
        ("1.0", "HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}", 2),
        ("close", "HTTP/1.1 200 OK\r\nConnection: Close\r\ncontent-length: 2\r\n\r\n{}", 2),
        ("soon closed", "HTTP/1.1 200 OK\r\nkeep-alive: timeout=1\r\ncontent-length: 2\r\n\r\n{}", 2),
        ("a byte more", "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}\0", 2),
        (
            "another answer",
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}HTTP/1.1 500 Smuggled\r\ncontent-length: 0\r\n\r\n",
            2,
        ),
        (
            "more after the last chunk",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\nHTTP/1.1 500 No\r\n\r\n",
            2,
        ),
        ("a body where none may be", "HTTP/1.1 204 No Content\r\n\r\n{}", 2),
        (
            "another protocol",
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
            2,
        ),
    ];
    for (what, answer, connections_n) in cases {
        let destination = TestDestination::start(&[&[Take, Say(answer), Take, Say(OK), Wait]]).await;
        let lean = lean();
        let first = called(&lean, &destination).await;
        assert!(first.starts_with(['1', '2']), "{what}: {first}");
        assert_eq!(called(&lean, &destination).await.get(..1), first.get(..1), "{what}");
        assert_eq!(destination.counts(), (connections_n, 2), "{what}");
    }
}

#[tokio::test]
async fn bytes_on_an_idle_connection_are_not_taken_as_an_answer() {
    let smuggled = "HTTP/1.1 500 Smuggled\r\ncontent-length: 0\r\n\r\n";
    let scripts: [&[ScriptStep]; 3] = [
        &[Take, Say(OK), Close, Signal, Wait],
        &[Take, Say(OK), Say(smuggled), Signal, Wait],
        &[Take, Say(OK), Reset],
    ];
    for script in scripts {
        let destination = TestDestination::start(&[script, &[Take, Say(OK), Wait]]).await;
        let lean = lean();
        assert_eq!(called(&lean, &destination).await, "200 {}");
        // Whatever the destination did has reached our system, if not yet to our runtime.
        destination.ended().await;
        assert_eq!(called(&lean, &destination).await, "200 {}");
        assert_eq!(destination.counts(), (2, 2), "the request went out once, on a new connection");
    }
}

/// The runtime gets no event between the two calls: only a look at the socket itself shows it.
#[tokio::test]
async fn a_connection_that_was_closed_a_moment_ago_is_not_written_to() {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (close, closing) = std::sync::mpsc::channel::<()>();
    let (closed, is_closed) = std::sync::mpsc::channel::<()>();
    let destination = std::thread::spawn(move || {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().unwrap();
            assert!(
                stream.read(&mut [0; 1024]).unwrap() > 0,
                "nothing was sent on the first but one request"
            );
            stream.write_all(OK.as_bytes()).unwrap();
            closing.recv().ok();
            drop(stream);
            closed.send(()).unwrap();
        }
    });
    let lean = lean();
    for _ in 0..2 {
        assert_eq!(called_with(&lean, &url, Method::POST, Bytes::new(), 5_000).await, "200 {}");
        close.send(()).unwrap();
        is_closed.recv().unwrap();
    }
    destination.join().unwrap();
}

#[tokio::test]
async fn a_request_that_went_out_on_a_dying_connection_is_unknown_and_not_repeated() {
    for end in [Close, Reset] {
        let destination =
            TestDestination::start(&[&[Take, Say(OK), Take, end], &[Take, Say(OK), Wait]]).await;
        let lean = lean();
        assert_eq!(called(&lean, &destination).await, "200 {}");
        assert_eq!(called(&lean, &destination).await, "unknown");
        assert_eq!(destination.counts(), (1, 2));
    }
}

#[tokio::test]
async fn a_good_answer_to_half_a_request_is_unknown() {
    let refused = "HTTP/1.1 400 No\r\ncontent-length: 2\r\n\r\n{}";
    // More than the two systems keep for a connection, where not all of it is taken.
    let (much, little) = (16 << 20, 64 << 10);
    for (script, body_bytes_n, want) in [
        ([TakeHead, Say(OK), Wait], much, "unknown"),
        ([TakeHead, Say(OK), Close], much, "unknown"),
        ([TakeHead, Say(refused), Wait], much, "400 {}"),
        ([Take, Say(OK), Wait], little, "200 {}"),
    ] {
        let destination = TestDestination::start(&[&script]).await;
        let (url, body) = (format!("http://{}/", destination.addr), Bytes::from(vec![b'a'; body_bytes_n]));
        assert_eq!(called_with(&lean(), &url, Method::POST, body, 5_000).await, want);
    }
}

#[tokio::test]
async fn half_an_answer_is_unknown_and_half_a_body_leaves_the_status() {
    let huge: &'static str = Box::leak(format!("x-a: {}\r\n", "a".repeat(2_000)).into_boxed_str());
    let cases: [(&str, Vec<ScriptStep>, &str); 12] = [
        ("nothing", vec![TakeHead], "unknown"),
        ("half a header", vec![Take, Say("HTTP/1.1 200 OK\r\ncontent-le")], "unknown"),
        ("reset in it", vec![Take, Say("HTTP/1.1 200 OK\r\ncontent-le"), Reset], "unknown"),
        ("no HTTP", vec![Take, Say("220 mail.test ESMTP\r\n")], "unknown"),
        ("0.9", vec![Take, Say("<html>")], "unknown"),
        (
            "two lengths",
            vec![Take, Say("HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}")],
            "unknown",
        ),
        ("huge header", vec![Take, Say("HTTP/1.1 200 OK\r\n"), SayOften(huge)], "unknown"),
        ("silence", vec![Take, Wait], "unknown"),
        ("half a body", vec![Take, Say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}")], "200 Broken"),
        (
            "no chunk",
            vec![Take, Say("HTTP/1.1 503 No\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n")],
            "503 Broken",
        ),
        ("until closed", vec![Take, Say("HTTP/1.1 200 OK\r\n\r\n{}")], "200 {}"),
        ("stalls", vec![Take, Say("HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}"), Wait], "200 TooSlow"),
    ];
    for (what, script, want) in cases {
        let destination = TestDestination::start(&[&script]).await;
        let (lean, url) = (lean(), format!("http://{}/", destination.addr));
        // Only those that wait for it are to reach the time-out.
        let timeout_ms = if ["silence", "stalls"].contains(&what) { 2_000 } else { 10_000 };
        let got = called_with(&lean, &url, Method::POST, Bytes::from_static(b"1"), timeout_ms).await;
        assert_eq!(got, want, "{what}");
        assert_eq!(
            (destination.counts().0, lean.pool.idle_n()),
            (1, 0),
            "{what}: neither repeated nor pooled"
        );
    }
}

#[tokio::test]
async fn an_endless_body_is_read_up_to_its_bound() {
    let destination =
        TestDestination::start(&[&[Take, Say("HTTP/1.1 200 OK\r\n\r\n"), SayOften("and more")]]).await;
    let lean = lean();
    assert_eq!(called(&lean, &destination).await, "200 TooLong");
    destination.ended().await;
}

#[tokio::test]
async fn an_answer_before_the_request_was_read_is_its_answer() {
    let full = "HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\n{}";
    for end in [Close, Wait] {
        // It is closed with most of the request unread, so the system resets it.
        let is_read = matches!(end, Wait);
        let destination =
            TestDestination::start(&[&[TakeHead, Say(full), end], &[Take, Say(OK), Wait]]).await;
        let (lean, url) = (lean(), format!("http://{}/", destination.addr));
        let body = Bytes::from(vec![b'x'; 16 * 1024 * 1024]);
        assert_eq!(called_with(&lean, &url, Method::POST, body, 5_000).await, "413 {}");
        assert!(is_read || lean.pool.idle_n() == 0, "the destination did not take all of it");
        assert_eq!(called(&lean, &destination).await, "200 {}");
        assert_eq!(destination.counts().0, 2);
    }
}

#[tokio::test]
async fn answers_without_a_body_leave_the_connection_usable() {
    for (method, answer, want) in [
        (Method::HEAD, "HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n", "200 "),
        (Method::DELETE, "HTTP/1.1 204 No Content\r\n\r\n", "204 "),
        (Method::GET, "HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", "304 "),
        (
            Method::PUT,
            "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:9/\r\ncontent-length: 0\r\n\r\n",
            "302 ",
        ),
    ] {
        let destination = TestDestination::start(&[&[Take, Say(answer), Take, Say(answer), Wait]]).await;
        let (lean, url) = (lean(), format!("http://{}/", destination.addr));
        for _ in 0..2 {
            assert_eq!(called_with(&lean, &url, method.clone(), Bytes::new(), 5_000).await, want, "{method}");
        }
        assert_eq!(destination.counts().0, 1, "{method}");
    }
}

#[tokio::test]
async fn what_cannot_be_connected_to_was_not_sent() {
    for url in ["http://127.0.0.1:9/", "http://nobody.invalid/", "https://127.0.0.1:9/"] {
        assert_eq!(called_with(&lean(), url, Method::POST, Bytes::new(), 5_000).await, "not sent", "{url}");
    }
}

#[tokio::test]
async fn a_name_that_turns_private_between_two_calls_is_not_called() {
    let close = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\n{}";
    let destination =
        TestDestination::start(&[&[Take, Say(close)], &[Take, Say(OK), Take, Say(OK), Wait]]).await;
    // The address stands for a public one. The lookup returns them from the last to the first.
    let (public, private) = (SocketAddr::from(([127, 0, 0, 1], 0)), SocketAddr::from(([127, 0, 0, 2], 0)));
    let addresses = Arc::new(Mutex::new(vec![private, public, private, public]));
    let allowed = Arc::new(Allowed::new(&["127.0.0.1".to_owned()]));
    let scripted = Arc::clone(&addresses);
    let lookup = Lookup::new(service_fn(move |name: Name| {
        let found = scripted.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let permitted = hooklatch_core::net::permitted(&allowed, name.as_str(), found.into_iter());
        std::future::ready(permitted.map(Vec::into_iter).map_err(Into::into))
    }));
    let lean = Lean::new(lookup, &options(None, 4));
    let url = format!("http://far.test:{}/", destination.addr.port());
    let call = || called_with(&lean, &url, Method::POST, Bytes::new(), 5_000);
    assert_eq!(call().await, "200 {}");
    assert_eq!(call().await, "private", "looked up anew for the new connection");
    assert_eq!(call().await, "200 {}");
    assert_eq!(call().await, "200 {}", "on the connection to the address that was checked");
    assert_eq!(addresses.lock().unwrap_or_else(PoisonError::into_inner).len(), 1);
    assert_eq!(destination.counts(), (2, 3));
}

#[tokio::test]
async fn no_more_connections_are_kept_than_configured_and_each_only_for_its_origin() {
    let script: &[ScriptStep] = &[Take, Say(OK), Take, Say(OK), Wait];
    let (one, other) = (TestDestination::start(&[script]).await, TestDestination::start(&[script]).await);
    for (idle_n_max, want) in [(0, 0), (1, 1), (2, 2), (4, 3)] {
        let lean = lean_keeping(idle_n_max);
        tokio::join!(called(&lean, &one), called(&lean, &one), called(&lean, &other));
        assert_eq!(lean.pool.idle_n(), want);
    }
    let lean = lean_keeping(2);
    let before_n = one.counts().0;
    for destination in [&one, &other, &one, &other] {
        assert_eq!(called(&lean, destination).await, "200 {}");
    }
    assert_eq!(one.counts().0 - before_n, 1);
}

#[tokio::test]
async fn a_connection_is_closed_when_it_has_been_idle_for_long_enough() {
    let soon = "HTTP/1.1 200 OK\r\nkeep-alive: timeout=2\r\ncontent-length: 2\r\n\r\n{}";
    let destination = TestDestination::start(&[&[Take, Say(soon), Wait]]).await;
    let lean = lean();
    assert_eq!(called(&lean, &destination).await, "200 {}");
    assert_eq!(lean.pool.idle_n(), 1);
    destination.ended().await;
    assert_eq!(lean.pool.idle_n(), 0);
    assert_eq!(called(&lean, &destination).await, "200 {}", "and pooled again");
    assert_eq!(lean.pool.idle_n(), 1);
}

#[tokio::test]
async fn a_connection_that_is_never_idle_is_replaced_when_it_is_old() {
    let destination = TestDestination::start(&[&[Take, Say(OK), Take, Say(OK), Wait]]).await;
    let mut lean = lean();
    assert_eq!(called(&lean, &destination).await, "200 {}");
    lean.age_max = Duration::ZERO;
    assert_eq!(called(&lean, &destination).await, "200 {}", "the pooled one is used once more");
    assert_eq!((destination.counts(), lean.pool.idle_n()), ((1, 2), 0));
    assert_eq!(called(&lean, &destination).await, "200 {}");
    assert_eq!((destination.counts(), lean.pool.idle_n()), ((2, 3), 0));
}

#[tokio::test]
async fn a_call_that_is_cut_off_closes_its_connection() {
    let destination = TestDestination::start(&[&[Take, Wait]]).await;
    let lean = lean();
    let cut = timeout(Duration::from_millis(200), called(&lean, &destination)).await;
    assert!(cut.is_err());
    destination.ended().await;
    assert_eq!((destination.counts(), lean.pool.idle_n()), ((1, 1), 0));
}

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
        let (behind, closing) = (destination.addr, Arc::clone(&closed));
        let (acceptor, mut running) = (TlsAcceptor::from(Arc::new(server)), JoinSet::new());
        running.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, closing) = (acceptor.clone(), Arc::clone(&closing));
                connections.spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let (mut from_caller, mut to_caller) = split(stream);
                    let (mut from_behind, mut to_behind) =
                        TcpStream::connect(behind).await.unwrap().into_split();
                    let back = async {
                        drop(copy(&mut from_behind, &mut to_caller).await);
                        drop(to_caller.shutdown().await);
                        closing.notify_one();
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
        Lean::new(system_lookup(None), &options(tls(&config).unwrap(), 4))
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
