//! What a call costs: `reqwest` against the client of destinations, to one destination in a process of its own, in rounds
//! that take turns. Calls a second, and CPU of the callers alone (Linux).
//!
//!   cargo bench --bench call
#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a bench")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use bytes::Bytes;
use hooklatch_core::config::{DestinationConfig, Format, HttpConfig, RetryConfig, Target, UnknownPolicy};
use hooklatch_outbox::BareCalls;
use http::{HeaderValue, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;

const CALLS_N: usize = 20_000;
const ROUNDS_N: usize = 5;
/// Says that this process is the destination.
const DESTINATION: &str = "HOOKLATCH_BENCH_DESTINATION";

#[tokio::main]
async fn main() {
    if std::env::var(DESTINATION).is_ok() {
        // Until its parent process is gone.
        std::thread::spawn(|| {
            drop(std::io::stdin().read_to_end(&mut Vec::new()));
            std::process::exit(0);
        });
        return destination().await;
    }
    let mut destination = Command::new(std::env::current_exe().unwrap())
        .env(DESTINATION, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(destination.stdout.take().unwrap()).read_line(&mut url).unwrap();
    let url: &'static str = url.trim().to_owned().leak();
    for callers_n in [1, 8, 64] {
        compare(url, callers_n).await;
    }
    destination.kill().unwrap();
    destination.wait().unwrap();
}

async fn compare(url: &'static str, callers_n: u32) {
    let body = Bytes::from(vec![b'x'; 2_048]);
    let general = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let lean = Arc::new(BareCalls::new(&config(url, callers_n)).unwrap());
    let key = HeaderValue::from_static("key-1");
    let (mut faster, mut cheaper) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS_N {
        let (client, sent, with) = (general.clone(), body.clone(), key.clone());
        let by_general = measured(callers_n, move || {
            let request = client.post(url).header("idempotency-key", with.clone()).body(sent.clone());
            async move { drop(request.send().await.unwrap().bytes().await.unwrap()) }
        })
        .await;
        let (client, sent, with) = (Arc::clone(&lean), body.clone(), key.clone());
        let by_lean = measured(callers_n, move || {
            let (client, with, sent) = (Arc::clone(&client), with.clone(), sent.clone());
            async move { assert_eq!(client.post(with, sent).await, Ok(200)) }
        })
        .await;
        println!(
            "{callers_n} at once: reqwest {:.0}/s {:.1} us, lean {:.0}/s {:.1} us",
            by_general.0, by_general.1, by_lean.0, by_lean.1
        );
        faster.push(by_lean.0 / by_general.0);
        cheaper.push(by_general.1 / by_lean.1);
    }
    println!("{callers_n} at once: calls a second, lean / reqwest {}", spread(faster));
    println!("{callers_n} at once: CPU a call, reqwest / lean {}", spread(cheaper));
}

/// Calls a second, and microseconds of CPU a call.
#[expect(clippy::cast_precision_loss, reason = "figures")]
async fn measured<F: Future<Output = ()> + Send + 'static>(
    callers_n: u32,
    call: impl Fn() -> F + Clone + Send + 'static,
) -> (f64, f64) {
    let left_n = Arc::new(AtomicUsize::new(CALLS_N));
    let (started, cpu_s) = (Instant::now(), cpu_s());
    let mut callers = Vec::new();
    for _ in 0..callers_n {
        let (call, left_n) = (call.clone(), Arc::clone(&left_n));
        callers.push(tokio::spawn(async move {
            while left_n.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                call().await;
            }
        }));
    }
    for caller in callers {
        caller.await.unwrap();
    }
    let cpu_us = (self::cpu_s() - cpu_s) * 1e6 / CALLS_N as f64;
    (CALLS_N as f64 / started.elapsed().as_secs_f64(), cpu_us)
}

/// CPU of this process so far, in seconds; Linux counts it in hundredths.
fn cpu_s() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let ticks = after_name.split(' ').skip(11).take(2).filter_map(|ticks| ticks.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}

/// Median and range.
fn spread(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    let at = |n: usize| ratios.get(n).copied().unwrap_or(f64::NAN);
    format!("{:.2} [{:.2}..{:.2}]", at(ROUNDS_N / 2), at(0), at(ROUNDS_N - 1))
}

async fn destination() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("http://{}/calls", listener.local_addr().unwrap());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let answer = service_fn(|request: Request<Incoming>| async move {
            drop(request.into_body().collect().await);
            Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"{}"))))
        });
        tokio::spawn(
            hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer),
        );
    }
}

fn config(url: &str, concurrency_n: u32) -> DestinationConfig {
    DestinationConfig {
        url: url.to_owned(),
        headers: BTreeMap::new(),
        unknown: UnknownPolicy::Retry,
        timeout_ms: 10_000,
        concurrency_n,
        adaptive: false,
        retry: RetryConfig { first_ms: 1_000, max_ms: 60_000, attempts_n: 3, age_max_ms: 80_000_000 },
        retry_after_max_ms: 600_000,
        key_valid_for_ms: 86_400_000,
        rate_per_s: 0,
        breaker_failures_n: 0,
        breaker_open_ms: 1_000,
        target: Target::http(),
        format: Format::Raw,
        statuses: BTreeMap::new(),
        sign_secrets: Vec::new(),
        heartbeat: false,
        http: HttpConfig::default(),
    }
}
