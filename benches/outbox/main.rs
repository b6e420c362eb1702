//! Messages a second through lease, HTTP and settlement, against the same far side called directly with the
//! same concurrency: a ratio within one run, on SQLite and (with `HOOKLATCH_TEST_POSTGRES_URL`) PostgreSQL.
//!
//!   scripts/postgres -- cargo bench --bench outbox
//!   scripts/postgres -- cargo bench --bench outbox -- history     cost of a message after 10 k, 1 M, 5 M others
//!   scripts/peers; scripts/postgres -- cargo bench --bench outbox -- peers    against another engine
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a bench"
)]

mod history;
mod peers;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use axum::Router;
use axum::extract::State;
use bytes::Bytes;
use hooklatch::config::{
    DestinationConfig, Format, HttpConfig, OutboxConfig, RetryConfig, Target, UnknownPolicy,
};
use hooklatch::outbox::Outbox;
use hooklatch::store::{NewMessage, Store, StoreSettings};
use hooklatch::types::{Clock, EventKey, EventState, IncomingEvent, Name};
use sha2::{Digest, Sha256};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

const MESSAGES_N: usize = 20_000;
const CONCURRENCY_N: u32 = 64;
const ROUNDS_N: usize = 3;

fn main() {
    drop(rustls::crypto::ring::default_provider().install_default());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (url, calls_n) = far_side().await;
        for is_postgres in [false, true] {
            let Ok(server) = std::env::var("HOOKLATCH_TEST_POSTGRES_URL")
                .or_else(|no| if is_postgres { Err(no) } else { Ok(String::new()) })
            else {
                println!("PostgreSQL: HOOKLATCH_TEST_POSTGRES_URL is not set");
                continue;
            };
            let server = is_postgres.then_some(server.as_str());
            let args: Vec<String> = std::env::args().collect();
            if args.iter().any(|arg| arg == "history") {
                history::measure(&url, &calls_n, server).await;
            } else if args.iter().any(|arg| arg == "peers") {
                against_peers(&url, &calls_n, server).await;
            } else {
                against_direct_calls(&url, &calls_n, server).await;
            }
        }
    });
}

async fn against_direct_calls(url: &str, calls_n: &AtomicUsize, server: Option<&str>) {
    let name = if server.is_some() { "PostgreSQL" } else { "SQLite" };
    let (mut ratios, mut fair) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS_N {
        let direct = direct(url).await;
        let through = through(url, calls_n, server).await;
        println!("directly {direct:.0}/s, through the outbox {through:.0}/s");
        ratios.push(through / direct);
        let alone = among_others(url, calls_n, server, false).await;
        let beside = among_others(url, calls_n, server, true).await;
        println!("eight alone {alone:.0}/s, beside a dead and a slow one {beside:.0}/s");
        fair.push(beside / alone);
    }
    println!("{name}: outbox / direct {}", spread(ratios));
    println!("{name}: eight beside a dead and a slow one / alone {}", spread(fair));
}

async fn against_peers(url: &str, calls_n: &AtomicUsize, server: Option<&str>) {
    let Some(server) = server else { return };
    for (is_tuned, name) in [(false, "graphile-worker"), (true, "graphile-worker, tuned")] {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS_N {
            let Some(peer) = peers::graphile_worker(server, url, is_tuned).await else {
                println!("{name} is not installed, or failed: scripts/peers");
                return;
            };
            let through = through(url, calls_n, Some(server)).await;
            println!("{name} {peer:.0}/s, through the outbox {through:.0}/s");
            ratios.push(through / peer);
        }
        println!("PostgreSQL: outbox / {name} {}", spread(ratios));
    }
}

/// Median and range.
fn spread(mut ratios: Vec<f64>) -> String {
    ratios.sort_by(f64::total_cmp);
    format!("{:.2} [{:.2}..{:.2}]", ratios[ROUNDS_N / 2], ratios[0], ratios[ROUNDS_N - 1])
}

/// A stub that counts.
async fn far_side() -> (String, Arc<AtomicUsize>) {
    async fn call(State(calls_n): State<Arc<AtomicUsize>>, _body: Bytes) -> &'static str {
        calls_n.fetch_add(1, Ordering::Relaxed);
        "{}"
    }
    let calls_n = Arc::new(AtomicUsize::new(0));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/calls", listener.local_addr().unwrap());
    let slow = || async {
        tokio::time::sleep(std::time::Duration::from_secs(5)).await;
        "{}"
    };
    let router = Router::new()
        .route("/calls/slow", axum::routing::post(slow))
        .fallback(call)
        .with_state(Arc::clone(&calls_n));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, calls_n)
}

#[expect(clippy::cast_precision_loss, reason = "a figure")]
fn per_second(n: usize, started: Instant) -> f64 {
    n as f64 / started.elapsed().as_secs_f64()
}

async fn direct(url: &str) -> f64 {
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([]).build().unwrap();
    let left_n = Arc::new(AtomicUsize::new(MESSAGES_N));
    let started = Instant::now();
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CONCURRENCY_N {
        let (client, url, left_n) = (client.clone(), url.to_owned(), Arc::clone(&left_n));
        callers.spawn(async move {
            while left_n.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok() {
                let request = client.post(&url).header("idempotency-key", "k").body(BODY);
                request.send().await.unwrap().bytes().await.unwrap();
            }
        });
    }
    while callers.join_next().await.is_some() {}
    per_second(MESSAGES_N, started)
}

const BODY: &str =
    r#"{"id":"evt_1","type":"invoice.paid","data":{"object":{"id":"in_1","amount_paid":1999}}}"#;

/// A store of its own for one measurement.
struct Bench {
    store: Store,
    _folder: tempfile::TempDir,
    url: String,
    /// Server and name, to be dropped.
    database: Option<(String, String)>,
}

impl Bench {
    async fn new(server: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("hooklatch_bench_{:x}", fastrand::u32(..));
        let url = match server {
            None => format!("sqlite://{}", folder.path().join("bench.db").display()),
            Some(server) => {
                admin(server, format!("CREATE DATABASE {name}")).await;
                format!("{}/{name}", server.rsplit_once('/').unwrap().0)
            }
        };
        let store = Store::open(&StoreSettings { url: url.clone(), connections_n: 8 }).await.unwrap();
        store.migrate().await.unwrap();
        Self { store, url, _folder: folder, database: server.map(|server| (server.to_owned(), name)) }
    }

    /// Sends what waits until `calls_n` has risen by `wanted_n`; calls a second.
    async fn drain(
        &self,
        to: BTreeMap<Name, DestinationConfig>,
        calls_n: &AtomicUsize,
        wanted_n: usize,
    ) -> f64 {
        let config = OutboxConfig { lease_ms: 30_000, poll_ms: 1_000, stop_timeout_ms: 0 };
        let outbox =
            Outbox::new(self.store.clone(), Clock::system(), config, to, "bench".to_owned()).unwrap();
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let before_n = calls_n.load(Ordering::Relaxed);
        let started = Instant::now();
        let running = tokio::spawn(outbox.run(stopping));
        while calls_n.load(Ordering::Relaxed) < before_n + wanted_n {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        let rate = per_second(wanted_n, started);
        stop.send_replace(true);
        running.await.unwrap();
        rate
    }

    async fn close(self) {
        self.store.close().await;
        if let Some((server, name)) = self.database {
            admin(&server, format!("DROP DATABASE {name} WITH (FORCE)")).await;
        }
    }
}

fn config(url: &str, concurrency_n: u32) -> DestinationConfig {
    DestinationConfig {
        url: url.to_owned(),
        headers: BTreeMap::new(),
        unknown: UnknownPolicy::Retry,
        timeout_ms: 10_000,
        concurrency_n,
        adaptive: true,
        retry: RetryConfig { first_ms: 1_000, max_ms: 1_000, attempts_n: 5, age_max_ms: 3_600_000 },
        retry_after_max_ms: 1_000,
        key_valid_for_ms: 86_400_000,
        rate_per_s: 0,
        breaker_failures_n: 20,
        breaker_open_ms: 1_000,
        target: Target::Http,
        format: Format::Raw,
        statuses: BTreeMap::new(),
        sign_secret: None,
        heartbeat: false,
        http: HttpConfig::default(),
    }
}

async fn through(url: &str, calls_n: &AtomicUsize, server: Option<&str>) -> f64 {
    let bench = Bench::new(server).await;
    fill(&bench.store, &["far"], MESSAGES_N, 0).await;
    let to = BTreeMap::from([(Name::parse("far").unwrap(), config(url, CONCURRENCY_N))]);
    let rate = bench.drain(to, calls_n, MESSAGES_N).await;
    bench.close().await;
    rate
}

/// Eight good far sides, with a dead and a slow one beside them or alone; calls a second of the good ones.
async fn among_others(url: &str, calls_n: &AtomicUsize, server: Option<&str>, has_bad: bool) -> f64 {
    const GOOD: [&str; 8] = ["g1", "g2", "g3", "g4", "g5", "g6", "g7", "g8"];
    const EACH_N: usize = 2_500;
    let bench = Bench::new(server).await;
    fill(&bench.store, &GOOD, EACH_N, 0).await;
    let mut to: BTreeMap<Name, DestinationConfig> =
        GOOD.iter().map(|name| (Name::parse(name).unwrap(), config(url, 8))).collect();
    if has_bad {
        fill(&bench.store, &["dead", "slow"], EACH_N, 0).await;
        to.insert(Name::parse("dead").unwrap(), config("http://127.0.0.1:9/", 8));
        to.insert(Name::parse("slow").unwrap(), config(&format!("{url}/slow"), 8));
    }
    let rate = bench.drain(to, calls_n, GOOD.len() * EACH_N).await;
    bench.close().await;
    rate
}

async fn admin(server: &str, sql: String) {
    let mut db = PgConnection::connect(server).await.unwrap();
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
}

/// `n` waiting messages for each destination; `round` makes their ids others than those of another round.
async fn fill(store: &Store, destinations: &[&str], n: usize, round: usize) {
    for (destination, from) in
        destinations.iter().flat_map(|to| (0..n).step_by(500).map(move |from| (*to, from)))
    {
        let key = |n: usize| EventKey {
            provider: Name::parse("stripe").unwrap(),
            event_id: format!("evt_{destination}_{round}_{n}"),
        };
        let events: Vec<IncomingEvent> = (from..from + 500)
            .map(|n| IncomingEvent {
                key: key(n),
                event_type: "invoice.paid".to_owned(),
                digest: Sha256::digest(BODY).into(),
                identity: "sender/1".to_owned(),
                window_ms: None,
                is_window_renewed: false,
                on_conflict: hooklatch::types::OnConflict::Keep,
                replay_key: None,
                object: None,
                created_at_ms: None,
                received_at_ms: 1,
                body: Bytes::from_static(BODY.as_bytes()),
                payload: Bytes::from_static(BODY.as_bytes()),
                headers: r#"{"content-type":"application/json"}"#.into(),
                unreadable: None,
            })
            .collect();
        let messages: Vec<NewMessage> = (from..from + 500)
            .map(|n| NewMessage {
                message_id: uuid::Uuid::now_v7().to_string(),
                key: key(n),
                event_type: "invoice.paid".to_owned(),
                generation: 0,
                effect_name: destination.to_owned(),
                idempotency_key: format!("key-{destination}-{round}-{n}"),
                destination: destination.to_owned(),
                method: "POST".to_owned(),
                path: String::new(),
                headers: BTreeMap::new(),
                body: None,
                lane: None,
                created_at_ms: 1,
                lease: None,
            })
            .collect();
        let mut tx = store.admission_begin().await.unwrap();
        let borrowed: Vec<&IncomingEvent> = events.iter().collect();
        tx.events_insert(&borrowed, &vec![EventState::Done; events.len()]).await.unwrap();
        tx.messages_insert(&messages).await.unwrap();
        tx.commit().await.unwrap();
    }
}
