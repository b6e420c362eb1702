//! Attacks with connections on the real binary: honest senders are answered meanwhile, and the cost is bounded.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use tokio::net::TcpSocket;

use crate::database::{Database, On};
use crate::process::{Server, client, now_s, post_stripe, stripe, stripe_header, until};

/// Number of connections that a stranger opens: as many as there may be.
const SILENT_N: usize = 1_000;
/// The longest wait of an honest sender, also while the machine runs other tests. Without the bounds it was minutes, or
/// unlimited.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// What an attack may cost besides the bodies. Bytes.
const MEMORY_BYTES_MAX: u64 = 64 << 20;

/// The address of strangers, on which no other test looks for free ports.
const STRANGER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 66);

/// Lets this process open the files it needs.
fn open_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).unwrap();
}

/// A connection from `from` with a tiny receive buffer.
async fn connect(from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let stream = tokio::time::timeout(Duration::from_secs(5), socket.connect(to)).await??;
    stream.into_std()
}

/// Writes as much as fits, without waiting; returns whether the peer has closed the connection.
fn push(mut stream: &TcpStream, bytes: &[u8]) -> bool {
    loop {
        match stream.write(bytes) {
            Ok(n) if n < bytes.len() || bytes.len() < 10_000 => return false,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// True when the peer has closed the connection, as far as can be seen without waiting.
fn is_closed(mut stream: &TcpStream) -> bool {
    let mut chunk = [0; 4_096];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

/// Honest requests, one after the other, until `is_over`; how long the slowest one took. Each must be accepted.
async fn honest(server: &Server, name: &str, is_over: &std::sync::atomic::AtomicBool) -> Duration {
    let url = server.url("/webhooks/stripe");
    let mut slowest = Duration::ZERO;
    let mut n = 0;
    while !is_over.load(std::sync::atomic::Ordering::Relaxed) || n < 20 {
        n += 1;
        // A connection of its own for each, as most senders do.
        let client = client();
        let began = Instant::now();
        let outcome = post_stripe(&client, &url, &format!("evt_{name}_{n}")).await;
        assert_eq!(outcome.as_deref(), Ok("accepted"), "{name}: request {n}");
        slowest = slowest.max(began.elapsed());
        assert!(slowest < ANSWER_WITHIN, "{name}: request {n} took {slowest:?}");
        // The pace of a polite client.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    slowest
}

/// A thousand connections that send `bytes` and then nothing; honest senders must not be delayed.
async fn silent(name: &str, bytes: &[u8]) {
    open_files();
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    // Strangers may stay for longer than honest senders wait.
    server.server_keys("inflight_bytes_max = 2147483648\nheader_timeout_ms = 60000\nbody_timeout_ms = 60000");
    server.spawn().await;
    let (idle_bytes, _) = server.usage();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let attack = async {
        let mut streams = Vec::new();
        // More than there is room for, so that they fight for it.
        for _ in 0..SILENT_N + 200 {
            if let Ok(stream) = connect(STRANGER, server.receiver).await {
                push(&stream, bytes);
                streams.push(stream);
            }
        }
        for stream in &streams {
            push(stream, bytes);
        }
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        streams
    };
    let (slowest, streams) = tokio::join!(honest(&server, name, &is_over), attack);
    let (peak_bytes, files_n) = server.usage();
    eprintln!("{name}: slowest {slowest:?}, {} KiB more, {files_n} files", (peak_bytes - idle_bytes) >> 10);
    assert!(peak_bytes < idle_bytes + MEMORY_BYTES_MAX, "{name}: {idle_bytes} to {peak_bytes} bytes");
    assert!(files_n < SILENT_N + 100, "{name}: {files_n} open files");
    drop(streams);
}

macro_rules! silent {
    ($($name:ident: $bytes:expr;)*) => {$(
        #[tokio::test]
        async fn $name() {
            silent(stringify!($name), $bytes).await;
        }
    )*};
}

silent! {
    a_thousand_silent_connections_block_no_others: b"";
    a_thousand_connections_that_never_read_block_no_others:
        &b"GET /webhooks/stripe HTTP/1.1\r\nhost: a\r\n\r\n".repeat(100);
    a_thousand_headers_that_never_end_block_no_others: b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\nx: ";
    a_thousand_bodies_of_one_byte_block_no_others:
        b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{";
    a_thousand_chunked_bodies_of_one_byte_block_no_others:
        b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n";
}

/// A server with these lines in `[server]`.
async fn with_keys(keys: &str) -> (Database, Server) {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    server.server_keys(keys);
    server.spawn().await;
    (database, server)
}

#[tokio::test]
async fn a_peer_that_does_not_read_its_answers_is_let_go() {
    let (_database, server) = with_keys("write_timeout_ms = 300").await;
    let mut streams = Vec::new();
    for _ in 0..5 {
        streams.push(connect(STRANGER, server.receiver).await.unwrap());
    }
    // A client that repeats one valid request: others are closed at the second refusal.
    let (body, header) = stripe("evt_1", now_s());
    let one = format!(
        "POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\nstripe-signature: {header}\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let many = one.repeat(100).into_bytes();
    until(
        "they are closed, although they never stop asking",
        Duration::from_secs(10),
        || server.log(),
        async || streams.iter().map(|stream| push(stream, &many)).filter(|is_closed| *is_closed).count() == 5,
    )
    .await;
}

#[tokio::test]
async fn a_second_refusal_on_requests_that_wait_for_no_answer_is_the_last() {
    let (_database, server) = with_keys("").await;
    let mut stream = TcpStream::connect(server.receiver).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream.write_all(&b"GET /webhooks/stripe HTTP/1.1\r\nhost: a\r\n\r\n".repeat(1_000)).unwrap();
    let mut answers = Vec::new();
    // It may end in a reset: the server leaves requests unread.
    drop(stream.read_to_end(&mut answers));
    let answers = String::from_utf8(answers).unwrap();
    assert!((1..=2).contains(&answers.matches("HTTP/1.1 405").count()), "{answers}");
}

#[tokio::test]
async fn who_only_gets_refusals_gets_few_a_second_and_who_is_believed_waits_for_nothing() {
    let (_database, server) = with_keys("").await;
    let client = client();
    let url = server.url("/webhooks/stripe");
    let refused = async |n: usize| {
        let began = Instant::now();
        for _ in 0..n {
            let sent = client.post(&url).header("stripe-signature", "t=1,v1=00").body("{}");
            assert_eq!(sent.send().await.unwrap().status().as_u16(), 401);
        }
        began.elapsed()
    };
    let (mut authenticated, mut again) = (Duration::MAX, Duration::MAX);
    // The least of several rounds: a machine that stalls only adds.
    for round in 0..20 {
        // 20, 40, 60, … ms from the fifth on.
        assert!(refused(14).await >= Duration::from_millis(1_100));
        let began = Instant::now();
        assert_eq!(post_stripe(&client, &url, &format!("evt_{round}")).await.as_deref(), Ok("accepted"));
        authenticated = authenticated.min(began.elapsed());
        again = again.min(refused(4).await);
        if again < Duration::from_secs(1) && authenticated < Duration::from_millis(200) {
            return;
        }
    }
    panic!("{authenticated:?}, and {again:?} for four refusals after it");
}

#[tokio::test]
async fn a_body_that_trickles_is_given_up_long_before_its_time() {
    let (_database, server) = with_keys("body_timeout_ms = 300000\nbody_bytes_per_s_min = 1000").await;
    let mut stream = TcpStream::connect(server.receiver).unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    stream.write_all(b"POST /webhooks/stripe HTTP/1.1\r\nhost: a\r\ncontent-length: 10000\r\n\r\n").unwrap();
    let began = Instant::now();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        assert!(began.elapsed() < Duration::from_secs(8), "{}", String::from_utf8_lossy(&answer));
        // Ten bytes a second.
        drop(stream.write_all(b"x"));
        let mut chunk = [0; 1_024];
        let n = stream.read(&mut chunk).unwrap_or_default();
        answer.extend_from_slice(&chunk[..n]);
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("connection: close"), "{answer}");
    assert!(answer.contains("body_too_slow"), "{answer}");
}

#[tokio::test]
async fn one_peer_has_its_share_of_the_connections_and_takes_it_from_itself() {
    let (_database, server) =
        with_keys("proxies = []\nconnections_n_max = 40\npeer_share_percent = 25\nheader_timeout_ms = 60000")
            .await;
    let mine = connect(Ipv4Addr::new(127, 0, 0, 9), server.receiver).await.unwrap();
    let mut theirs = Vec::new();
    for _ in 0..30 {
        theirs.push(connect(Ipv4Addr::new(127, 0, 0, 8), server.receiver).await.unwrap());
        // One that has only just come in is given the time to ask.
        tokio::time::sleep(Duration::from_millis(120)).await;
    }
    until(
        "it has 10 of 40 left",
        Duration::from_secs(10),
        || server.log(),
        async || theirs.iter().filter(|stream| !is_closed(stream)).count() == 10,
    )
    .await;
    assert!(theirs[..20].iter().all(is_closed), "the oldest of its own went");
    assert!(!is_closed(&mine), "no other was closed");
    let metrics = server.admin_text("/metrics").await;
    let line = "hooklatch_connections_closed_total{listener=\"receiver\",reason=\"gave_way\"} 20";
    assert!(metrics.contains(line), "{metrics}");
}

/// One more answer on this connection: whether it says that it is the last.
fn is_last_answer(stream: &mut TcpStream) -> bool {
    stream.write_all(b"GET /webhooks/stripe HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"}") {
        let mut chunk = [0; 1_024];
        let n = stream.read(&mut chunk).unwrap();
        assert_ne!(n, 0, "closed without a word");
        answer.extend_from_slice(&chunk[..n]);
    }
    String::from_utf8(answer).unwrap().contains("connection: close")
}

#[tokio::test]
async fn a_connection_ends_behind_an_answer_after_its_requests_or_its_life() {
    let (_database, server) = with_keys("connection_requests_n_max = 3").await;
    let mut stream = TcpStream::connect(server.receiver).unwrap();
    assert_eq!([(); 3].map(|()| is_last_answer(&mut stream)), [false, false, true]);
    assert_eq!(stream.read(&mut [0; 16]).unwrap(), 0);

    let (_database, server) = with_keys("connection_life_ms = 1000").await;
    let mut stream = TcpStream::connect(server.receiver).unwrap();
    let began = Instant::now();
    until("its life is over", Duration::from_secs(10), || server.log(), async || is_last_answer(&mut stream))
        .await;
    assert!(began.elapsed() >= Duration::from_millis(900));
}

#[tokio::test]
async fn strangers_connections_leave_files_for_the_database_and_for_calls() {
    open_files();
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    server.start_after("ulimit -n 400");
    server.spawn().await;
    assert!(server.log().contains("too few files"), "{}", server.log());
    let mut streams = Vec::new();
    for _ in 0..500 {
        streams.extend(connect(STRANGER, server.receiver).await);
    }
    let is_over = std::sync::atomic::AtomicBool::new(true);
    honest(&server, "files", &is_over).await;
    assert!(server.usage().1 < 300, "{}", server.usage().1);
    assert!(!server.log().contains("could not accept"), "{}", server.log());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_bodies_but_for_their_last_bytes_takes_no_memory_from_others() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    server.server_keys("inflight_bytes_max = 4194304");
    server.spawn().await;
    let (url, padding) = (server.url("/webhooks/stripe"), "x".repeat(200_000));
    let mut streams = Vec::new();
    for n in 0..3 {
        // Large ones, and small ones for what they leave over.
        for length in [vec![1 << 20; 4], vec![64 << 10; 16]].concat() {
            let head = format!(
                "POST /webhooks/stripe HTTP/1.1\r\nhost: x\r\nstripe-signature: t=1,v1=00\r\ncontent-length: {length}\r\n\r\n"
            );
            let mut stream = TcpStream::connect(server.receiver).unwrap();
            stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
            // It may be closed, or answered, meanwhile.
            drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&vec![b'x'; length - 1])));
            streams.push(stream);
        }
        let body = format!(r#"{{"id":"evt_{n}","type":"x","padding":"{padding}"}}"#);
        // They would be kept for fifteen seconds.
        until(
            "an honest body has room",
            ANSWER_WITHIN,
            || server.log(),
            async || {
                let header = stripe_header(&body, now_s());
                let request = client().post(&url).header("stripe-signature", header).body(body.clone());
                request.send().await.is_ok_and(|answer| answer.status().as_u16() == 200)
            },
        )
        .await;
    }
}
