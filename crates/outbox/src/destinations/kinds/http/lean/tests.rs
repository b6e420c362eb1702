//! The lean client against destinations that misbehave byte by byte.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method};
use reqwest::Url;
use tokio::time::timeout;

use super::caller::{Lean, LeanOptions, LeanStop};
use super::connect::Lookup;
use super::destination_for_tests::ScriptStep::{
    self, Close, Reset, Say, SayOften, Take, TakeHead, Tell, Wait,
};
use super::destination_for_tests::TestDestination;
use crate::destinations::kinds::http::address::Address;
use crate::destinations::kinds::http::call::{Call, CallFailure, HttpAnswer};
use hooklatch_core::net::Allowed;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

fn lean() -> Lean {
    lean_keeping(4)
}

fn lean_keeping(idle_n_max: usize) -> Lean {
    let allowed = None;
    Lean::new(LeanOptions { allowed, tls: None, connect_timeout: Duration::from_secs(2), idle_n_max })
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
        &[Take, Say(OK), Close, Tell, Wait],
        &[Take, Say(OK), Say(smuggled), Tell, Wait],
        &[Take, Say(OK), Reset],
    ];
    for script in scripts {
        let destination = TestDestination::start(&[script, &[Take, Say(OK), Wait]]).await;
        let lean = lean();
        assert_eq!(called(&lean, &destination).await, "200 {}");
        // Whatever the destination did is known to our system, if not yet to our runtime.
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
        assert_eq!((destination.counts().0, lean.pool.idle_n()), (1, 0), "{what}: neither repeated nor kept");
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
    let lookup = Lookup::Scripted(allowed, Arc::clone(&addresses));
    let lean = Lean::looking_up(lookup, None, Duration::from_secs(2), 4);
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
    assert_eq!(called(&lean, &destination).await, "200 {}", "and kept again");
    assert_eq!(lean.pool.idle_n(), 1);
}

#[tokio::test]
async fn a_connection_that_is_never_idle_is_replaced_when_it_is_old() {
    let destination = TestDestination::start(&[&[Take, Say(OK), Take, Say(OK), Wait]]).await;
    let mut lean = lean();
    assert_eq!(called(&lean, &destination).await, "200 {}");
    lean.age_max = Duration::ZERO;
    assert_eq!(called(&lean, &destination).await, "200 {}", "the one that was kept is used once more");
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
