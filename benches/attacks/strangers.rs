//! The attacks: connections that are held, and requests without end.

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

use crate::Server;
use crate::requests::{ask, post, signed};

/// What one of an attack's connections does.
enum Does {
    /// Sends this, then a byte of that every second, if any; never reads.
    Holds(Vec<u8>, Option<u8>),
    /// Sends what this makes, reads the answer, and again.
    Asks(fn(u64, &Server) -> Vec<u8>),
}

/// One row of the table.
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    connections_n: usize,
    is_at_operators: bool,
    does: Does,
}

impl Attack {
    /// Starts it; it ends when what comes back is dropped.
    pub(crate) fn begin(&self, server: &Arc<Server>, is_over: &Arc<AtomicBool>) -> JoinSet<()> {
        let mut all = JoinSet::new();
        let n = Arc::new(AtomicU64::new(0));
        let to = if self.is_at_operators { server.admin } else { server.receiver };
        for _ in 0..self.connections_n {
            let is_over = Arc::clone(is_over);
            match &self.does {
                Does::Holds(first, drip) => all.spawn(hold(to, first.clone(), *drip, is_over)),
                Does::Asks(make) => {
                    all.spawn(ask_on(to, Arc::clone(server), *make, (Arc::clone(&n), is_over)))
                }
            };
        }
        all
    }
}

/// From an address of their own, so that they take no ports that a server is about to have.
async fn connect(to: SocketAddr, receive_bytes: Option<u32>) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    if let Some(bytes) = receive_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    socket.bind(SocketAddr::from(([127, 0, 0, 66], 0)))?;
    socket.connect(to).await
}

/// Holds a connection, and opens it again when it was closed.
async fn hold(to: SocketAddr, first: Vec<u8>, drip: Option<u8>, is_over: Arc<AtomicBool>) {
    while !is_over.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let Ok(mut stream) = connect(to, Some(4_096)).await else { continue };
        // A peer that does not read may block its own writing.
        let sent = tokio::time::timeout(Duration::from_secs(2), stream.write_all(&first)).await;
        if matches!(sent, Ok(Err(_))) {
            continue;
        }
        while !is_over.load(Ordering::Relaxed) {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let is_open = if let Some(byte) = drip {
                stream.write_all(&[byte]).await.is_ok()
            } else {
                let interest = tokio::io::Interest::WRITABLE | tokio::io::Interest::READABLE;
                stream.ready(interest).await.is_ok_and(|it| !it.is_write_closed() && !it.is_read_closed())
            };
            if !is_open {
                break;
            }
        }
    }
}

/// Asks without end.
async fn ask_on(
    to: SocketAddr,
    server: Arc<Server>,
    make: fn(u64, &Server) -> Vec<u8>,
    (n, is_over): (Arc<AtomicU64>, Arc<AtomicBool>),
) {
    while !is_over.load(Ordering::Relaxed) {
        let Ok(mut stream) = connect(to, None).await else { continue };
        while !is_over.load(Ordering::Relaxed) {
            let request = make(n.fetch_add(1, Ordering::Relaxed), &server);
            if ask(&mut stream, &request).await.is_none() {
                break;
            }
        }
        // A stranger that is refused a connection has to wait a little too.
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn head(more: &str) -> Vec<u8> {
    format!("POST /webhooks/stripe HTTP/1.1\r\nhost: localhost\r\n{more}").into_bytes()
}

fn forged(_: u64, _: &Server) -> Vec<u8> {
    post("/webhooks/stripe", &[("stripe-signature", "t=1,v1=00")], &[b'x'; 2_000])
}

fn braintree(_: u64, _: &Server) -> Vec<u8> {
    let body =
        format!("bt_payload=YQ==&bt_signature={}", "hooklatch-dev|00&".replace('&', "%26").repeat(25_000));
    post("/webhooks/braintree", &[("content-type", FORM)], body.as_bytes())
}

const FORM: &str = "application/x-www-form-urlencoded";

fn twilio(_: u64, _: &Server) -> Vec<u8> {
    let body = "a&".repeat(500_000);
    post("/webhooks/twilio", &[("x-twilio-signature", "AA=="), ("content-type", FORM)], body.as_bytes())
}

fn billplz(_: u64, _: &Server) -> Vec<u8> {
    let body = format!("x_signature=00&{}", "a=1&".repeat(250_000));
    post("/webhooks/billplz", &[("content-type", FORM)], body.as_bytes())
}

fn rfc9421(_: u64, _: &Server) -> Vec<u8> {
    let mut input = "sig1=()".to_owned();
    for n in 0..9_000 {
        write!(input, ";p{n}").unwrap();
    }
    input.truncate(60_000);
    post("/webhooks/rfc9421", &[("signature-input", &input), ("signature", "sig1=:AA==:")], b"{}")
}

fn deep(_: u64, _: &Server) -> Vec<u8> {
    let body = format!("{}{}", "{\"a\":[".repeat(60), "1,".repeat(400_000));
    post("/webhooks/nowpayments", &[("x-nowpayments-sig", "00")], body.as_bytes())
}

fn events(n: u64, server: &Server) -> Vec<u8> {
    use std::sync::OnceLock;
    static ONE: OnceLock<Vec<u8>> = OnceLock::new();
    if n == 0 {
        let url = format!("http://{}/webhooks/hubspot", server.receiver);
        let body = format!("[{}]", vec!["{\"a\":1}"; 20_000].join(","));
        return ONE.get_or_init(|| signed("hubspot", &url, body.as_bytes())).clone();
    }
    ONE.get().cloned().unwrap_or_else(|| head("\r\n"))
}

fn unknown_keys(n: u64, _: &Server) -> Vec<u8> {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let header = part(&format!(r#"{{"alg":"RS256","kid":"{n}{}"}}"#, "k".repeat(500)));
    let token =
        format!("Bearer {header}.{}.{}", part(r#"{"iss":"https://accounts.google.com"}"#), part("signature"));
    post("/webhooks/pubsub", &[("authorization", &token)], b"{}")
}

fn wrong_tokens(n: u64, _: &Server) -> Vec<u8> {
    format!("GET /v1/events HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer wrong-token-{n:020}\r\n\r\n")
        .into_bytes()
}

fn refused_gets(_: u64, _: &Server) -> Vec<u8> {
    b"GET /webhooks/stripe HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec()
}

/// All of them.
pub(crate) fn attacks() -> Vec<Attack> {
    let holds = |name, first: Vec<u8>, drip| Attack {
        name,
        connections_n: 1_000,
        is_at_operators: false,
        does: Does::Holds(first, drip),
    };
    let asks = |name, connections_n, make| Attack {
        name,
        connections_n,
        is_at_operators: false,
        does: Does::Asks(make),
    };
    vec![
        holds(
            "1,000 connections that never read",
            b"GET /webhooks/stripe HTTP/1.1\r\nhost: a\r\n\r\n".repeat(20_000),
            None,
        ),
        holds("1,000 chunked bodies of one byte", head("transfer-encoding: chunked\r\n\r\n1\r\nx\r\n"), None),
        holds("1,000 declared bodies of 1 MiB, one byte", head("content-length: 1048576\r\n\r\nx"), None),
        holds("1,000 idle connections", Vec::new(), None),
        holds("1,000 slow headers", head("x: "), Some(b'x')),
        holds("1,000 slow bodies", head("content-length: 1000000\r\n\r\n"), Some(b'x')),
        asks("refused GETs on 1,000 connections", 1_000, refused_gets),
        asks("forged requests on 64 connections", 64, forged),
        asks("forged: braintree, 25,000 signatures", 4, braintree),
        asks("forged: twilio, half a million fields", 4, twilio),
        asks("forged: billplz, a quarter million fields", 4, billplz),
        asks("forged: rfc9421, 60 KB of parameters", 4, rfc9421),
        asks("forged: deep JSON of 800 KB", 4, deep),
        asks("20,000 events in a signed request", 1, events),
        asks("ids of unknown keys", 16, unknown_keys),
        Attack { is_at_operators: true, ..asks("wrong operator tokens", 16, wrong_tokens) },
    ]
}
