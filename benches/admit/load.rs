//! The sender: keep-alive connections with one request under way on each, every body distinct and signed.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The secret of every contestant.
pub(crate) const SECRET: &str = "whsec_bench_0123456789abcdef0123456789";

/// What one contestant did in one window.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    pub(crate) per_second: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    /// Server and database together.
    pub(crate) cpu_us: f64,
}

/// What is sent: a Stripe event, or a Slack challenge, which is answered after verification alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Body {
    Event,
    Challenge,
}

/// Makes requests; cheap, so that the sender leaves the machine to the server.
struct Maker {
    body: Body,
    mac: Hmac<Sha256>,
    padding: String,
    seed: u64,
    text: Vec<u8>,
    request: Vec<u8>,
}

impl Maker {
    fn new(body: Body, seed: u64) -> Self {
        let mac = Hmac::new_from_slice(SECRET.as_bytes()).unwrap();
        let padding = "Lorem ipsum dolor sit amet, 1999 eur. ".repeat(47);
        Self { body, mac, padding, seed, text: Vec::new(), request: Vec::new() }
    }

    /// One request of about 2 KiB of body, with an id nobody had, written over the last one.
    fn request(&mut self, now_s: i64) -> &[u8] {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (id, padding) = (self.seed, &self.padding);
        self.text.clear();
        let (path, signed_before) = match self.body {
            Body::Event => {
                write!(
                    self.text,
                    r#"{{"id":"evt_1P{id:020}","object":"event","api_version":"2025-09-30.clover","created":{now_s},"type":"invoice.paid","livemode":true,"pending_webhooks":1,"data":{{"object":{{"id":"in_{id:020}","object":"invoice","amount_paid":1999,"currency":"eur","description":"{padding}"}}}},"request":{{"id":null,"idempotency_key":null}}}}"#
                )
                .unwrap();
                ("stripe", format!("{now_s}."))
            }
            Body::Challenge => {
                write!(
                    self.text,
                    r#"{{"type":"url_verification","challenge":"c{id:020}","token":"{padding}","object":"event","api_version":"2025-09-30.clover","created":{now_s},"livemode":true,"pending":{{"id":"in_{id:020}","object":"invoice","amount_paid":1999,"currency":"eur"}},"request":{{"id":null,"idempotency_key":null}}}}"#
                )
                .unwrap();
                ("slack", format!("v0:{now_s}:"))
            }
        };
        let mut mac = self.mac.clone();
        mac.update(signed_before.as_bytes());
        mac.update(&self.text);
        let signature = hex::encode(mac.finalize().into_bytes());
        self.request.clear();
        write!(
            self.request,
            "POST /webhooks/{path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
            self.text.len()
        )
        .unwrap();
        match self.body {
            Body::Event => write!(self.request, "stripe-signature: t={now_s},v1={signature}\r\n\r\n"),
            Body::Challenge => write!(
                self.request,
                "x-slack-request-timestamp: {now_s}\r\nx-slack-signature: v0={signature}\r\n\r\n"
            ),
        }
        .unwrap();
        self.request.extend_from_slice(&self.text);
        &self.request
    }
}

/// Loads `addr` over `connections_n` connections: a warm-up, then the window that counts. `cpu_us` reads
/// the CPU time that server and database have used so far.
pub(crate) async fn run(
    addr: SocketAddr,
    body: Body,
    connections_n: usize,
    (warm_up, window): (Duration, Duration),
    cpu_us: impl Fn() -> u64,
) -> Measured {
    let is_counting = Arc::new(AtomicBool::new(false));
    let is_over = Arc::new(AtomicBool::new(false));
    let done_n = Arc::new(AtomicU64::new(0));
    let seed = fastrand::u64(..);
    let mut connections = tokio::task::JoinSet::new();
    for n in 0..connections_n as u64 {
        let (is_counting, is_over, done_n) =
            (Arc::clone(&is_counting), Arc::clone(&is_over), Arc::clone(&done_n));
        let maker = Maker::new(body, seed.wrapping_add(n << 32));
        connections.spawn(async move { connection(addr, maker, &is_counting, &is_over, &done_n).await });
    }
    tokio::time::sleep(warm_up).await;
    is_counting.store(true, Ordering::Relaxed);
    let (started, cpu_before) = (Instant::now(), cpu_us());
    tokio::time::sleep(window).await;
    is_counting.store(false, Ordering::Relaxed);
    let (took, cpu_after) = (started.elapsed(), cpu_us());
    is_over.store(true, Ordering::Relaxed);
    let mut all = Histogram::<u64>::new(3).unwrap();
    while let Some(one) = connections.join_next().await {
        all.add(one.unwrap()).unwrap();
    }
    #[expect(clippy::cast_precision_loss, reason = "figures")]
    let (events_n, cpu, us) =
        (done_n.load(Ordering::Relaxed) as f64, (cpu_after - cpu_before) as f64, |q: f64| {
            all.value_at_quantile(q) as f64
        });
    assert!(events_n > 0.0, "no request was answered with 200");
    Measured {
        per_second: events_n / took.as_secs_f64(),
        p50_ms: us(0.5) / 1_000.0,
        p99_ms: us(0.99) / 1_000.0,
        cpu_us: cpu / events_n,
    }
}

async fn connection(
    addr: SocketAddr,
    mut maker: Maker,
    is_counting: &AtomicBool,
    is_over: &AtomicBool,
    done_n: &AtomicU64,
) -> Histogram<u64> {
    let mut latency = Histogram::<u64>::new(3).unwrap();
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut answer = vec![0; 4_096];
    while !is_over.load(Ordering::Relaxed) {
        let request = maker.request(hooklatch::types::Clock::system().now_ms() / 1_000);
        let sent = Instant::now();
        stream.write_all(request).await.unwrap();
        let status = read_answer(&mut stream, &mut answer).await;
        assert!(status == 200 || status == 503, "answered {status}");
        if status == 200 && is_counting.load(Ordering::Relaxed) {
            done_n.fetch_add(1, Ordering::Relaxed);
            latency.record(u64::try_from(sent.elapsed().as_micros()).unwrap()).unwrap();
        }
    }
    latency
}

/// Reads one whole answer; its status.
async fn read_answer(stream: &mut TcpStream, buffer: &mut [u8]) -> u16 {
    let mut read_n = 0;
    loop {
        let n = stream.read(&mut buffer[read_n..]).await.unwrap();
        assert!(n > 0, "the server closed the connection");
        read_n += n;
        let head = &buffer[..read_n];
        let Some(end) = head.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
        let text = std::str::from_utf8(&head[..end]).unwrap();
        let length = text.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().unwrap())
        });
        if read_n >= end + 4 + length.unwrap_or(0) {
            return text.split(' ').nth(1).unwrap().parse().unwrap();
        }
    }
}
