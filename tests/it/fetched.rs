//! A sender whose keys must be fetched: its answers while they cannot be fetched, while strangers request unknown keys,
//! and after a restart.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use hooklatch::App;
use hooklatch::Running;
use hooklatch::kind::prelude::*;
use hooklatch::testing::AppExt;
use hooklatch_core::types::Clock;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools};
use http::StatusCode;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::app::{TestApp, event_body};
use crate::database::{Database, On, on_both};
use crate::process::{client, until};
use crate::tls_listeners::Authority;

on_both!(
    a_sender_whose_keys_cannot_be_fetched_is_asked_to_retry,
    a_key_that_was_good_survives_a_restart_while_its_host_is_away,
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_who_invent_ids_do_not_lock_out_the_sender_of_a_cold_cache() {
    let database = Database::create(On::Sqlite).await.unwrap();
    strangers_who_invent_ids_do_not_lock_out_the_sender(&database).await;
}

const KIND: &str = r#"
kind = "stripe"
title = "A sender with keys of its own"
confidence = "unsure"
docs = "https://sender.example"
secret_hint = "none"
horizon_h = 72
answer_within_ms = 10000
[signature]
scheme = "code"
headers = ["x-key"]
secrets_needed = false
[[setting]]
name = "public_keys"
form = "named"
hint = "its keys"
[[fetch]]
setting = "public_keys"
url = "https://keys.invalid/{id}"
hosts = ["keys.invalid"]
form = "pem"
[[event]]
type = [{ json = "/type" }]
[[event.identity]]
is = "sender"
id = [{ json = "/id" }]
signed = true
"#;

fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let id = deciding_header(&request.headers, "stripe-signature")?;
    keys.key_text("public_keys", id).map(|_| Authenticated::plain(0))
}

async fn a_sender_whose_keys_cannot_be_fetched_is_asked_to_retry(database: &Database) {
    let kind = Provider::from_spec(KIND).verify_with(verify);
    let app = TestApp::start(database, kind, "").await;
    let (status, outcome, text) = app.post(&event_body("evt_1", "invoice.paid", 1)).await;
    assert_eq!(
        (status, outcome.as_str()),
        (503, ""),
        "not 401: its signature was not found to be wrong: {text}"
    );
    assert!(!text.contains("keys.invalid"), "what is out of reach is ours to know");
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 0);
    app.running.stop().await;
}

/// A sender's host: it has one key, counts requests, and closes every connection while it is away.
struct KeyHost {
    port: u16,
    ca: String,
    calls_n: Arc<AtomicUsize>,
    is_away: Arc<AtomicBool>,
    _server: JoinSet<()>,
}

const GOOD_ID: &str = "good";
const KEY: &str = "the-key";

impl KeyHost {
    async fn start() -> Self {
        let authority = Authority::new();
        let (certificate, key) = authority.certify("localhost");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap(),
            )
            .unwrap();
        let tls = TlsAcceptor::from(Arc::new(tls));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (calls_n, is_away) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (counted, away) = (Arc::clone(&calls_n), Arc::clone(&is_away));
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (tls, counted, away) = (tls.clone(), Arc::clone(&counted), Arc::clone(&away));
                connections.spawn(async move {
                    let Ok(stream) = tls.accept(stream).await else { return };
                    let service = service_fn(move |request: http::Request<hyper::body::Incoming>| {
                        counted.fetch_add(1, Ordering::SeqCst);
                        let is_away = away.load(Ordering::SeqCst);
                        let is_good = request.uri().path() == format!("/{GOOD_ID}");
                        async move {
                            if is_away {
                                return Err(std::io::Error::other("away"));
                            }
                            let mut response =
                                http::Response::new(Full::new(Bytes::from(format!("{{\"key\":\"{KEY}\"}}"))));
                            if !is_good {
                                *response.status_mut() = StatusCode::NOT_FOUND;
                            }
                            Ok(response)
                        }
                    });
                    drop(
                        auto::Builder::new(TokioExecutor::new())
                            .serve_connection(TokioIo::new(stream), service)
                            .await,
                    );
                });
            }
        });
        Self { port, ca: authority.pem(), calls_n, is_away, _server: server }
    }

    /// A kind whose keys are here.
    fn kind(&self) -> Provider {
        let (kind, event) = KIND.split_once("[[fetch]]").unwrap();
        let (_, event) = event.split_once("[[event]]").unwrap();
        let fetch = format!(
            "[[setting]]\nname = \"key_ids\"\nform = \"list\"\nhint = \"first\"\n\
             [[setting]]\nname = \"api_key\"\nhint = \"ours\"\n[[fetch]]\nsetting = \"public_keys\"\n\
             url = \"https://localhost:{}/{{id}}\"\nhosts = [\"localhost\"]\nform = \"json\"\npointer = \"/key\"\n\
             headers = {{ authorization = \"{{setting:api_key}}\" }}\ncache_h = 1\ngrace_h = 1\n[[event]]",
            self.port
        );
        Provider::from_spec(&format!("{kind}{fetch}{event}")).verify_with(verify_key)
    }

    /// Starts a server behind a proxy at loopback; `settings` TOML goes into the provider's, `more` at the end.
    async fn app(&self, database: &Database, settings: &str, more: &str, later_ms: i64) -> Running {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hooklatch.toml");
        std::fs::write(folder.path().join("ca.pem"), &self.ca).unwrap();
        let toml = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\nproxies = [\"127.0.0.1\"]\nforwarded = \"x-forwarded-for\"\n\
             [admin]\nlisten = \"127.0.0.1:0\"\n[database]\nurl = \"{}\"\n\
             [fetch]\nca = {{ file = \"{}\" }}\nprivate_hosts = [\"localhost\"]\n\
             [providers.stripe.settings]\n{settings}\n{more}\n",
            database.url,
            folder.path().join("ca.pem").display()
        );
        std::fs::write(&file, toml).unwrap();
        let settings = Settings { file: Some(file), ..Settings::default() };
        let config = load_for_tools(&settings, &Kinds::of(vec![self.kind()]));
        let config = config.unwrap_or_else(|why| panic!("{why:?}"));
        let clock = Clock::manual(Clock::system().now_ms() + later_ms);
        App::new(config).provider(self.kind()).clock(clock).start().await.unwrap()
    }
}

/// `stripe-signature` is the key's id and the key: who has it is genuine.
fn verify_key(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let shown = deciding_header(&request.headers, "stripe-signature")?;
    let (id, key) = shown.split_once(' ').unwrap_or((shown, ""));
    if *keys.key_text("public_keys", id)? == *key {
        Ok(Authenticated::plain(0))
    } else {
        Err(VerifyError::mismatch(keys))
    }
}

/// The status of the answer to a request from `address` that shows this.
async fn sent(client: &reqwest::Client, to: SocketAddr, address: &str, shown: &str) -> u16 {
    let body = event_body(&format!("evt_{}", fastrand::u64(..)), "invoice.paid", 1);
    let request = client.post(format!("http://{to}/webhooks/stripe")).header("stripe-signature", shown);
    request.header("x-forwarded-for", address).body(body).send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_another_node_has_kept_costs_no_call() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let host = KeyHost::start().await;
    let sealed = format!("[encryption]\nkeys = [{{ id = \"k\", key = \"{}\" }}]", "3c5a".repeat(16));
    // Both start before there is a key.
    let (first, second) =
        (host.app(&database, SETTINGS, &sealed, 0).await, host.app(&database, SETTINGS, &sealed, 0).await);
    let client = client();
    assert_eq!(sent(&client, first.receiver_addr, "203.0.113.9", GENUINE).await, 200);
    let is_kept = async || database.count("SELECT COUNT(*) FROM fetched_keys WHERE key_id = 'k'").await == 1;
    until("the key is kept", Duration::from_secs(20), String::new, is_kept).await;
    assert_eq!(host.calls_n.load(Ordering::SeqCst), 1);
    // Its host is out of reach of the second one.
    host.is_away.store(true, Ordering::SeqCst);
    assert_eq!(sent(&client, second.receiver_addr, "203.0.113.9", GENUINE).await, 200);
    assert_eq!(host.calls_n.load(Ordering::SeqCst), 1, "the second node took it from the database");
    assert_eq!(sent(&client, second.receiver_addr, "203.0.113.9", "good other").await, 401);
    first.stop().await;
    second.stop().await;
}

const SETTINGS: &str = "api_key = \"ours-0123456789\"";
const GENUINE: &str = "good the-key";

async fn strangers_who_invent_ids_do_not_lock_out_the_sender(database: &Database) {
    for (strangers_n, addresses_n, settings, within) in
        [(40, 1, "", 3), (120, 1, "", 3), (120, 120, "", 30), (120, 120, "key_ids = [\"good\"]", 3)]
    {
        // Another port, so another key: nothing is in memory or in the database.
        let host = KeyHost::start().await;
        let running = host.app(database, &format!("{SETTINGS}\n{settings}"), "", 0).await;
        let (to, client) = (running.receiver_addr, client());
        let mut strangers = JoinSet::new();
        for n in 0..strangers_n {
            let client = client.clone();
            strangers.spawn(async move {
                let address = format!("198.51.100.{}", n % addresses_n);
                loop {
                    let invented = format!("{:016x} key", fastrand::u64(..));
                    assert!([401, 503].contains(&sent(&client, to, &address, &invented).await));
                }
            });
        }
        let all_used = async || host.calls_n.load(Ordering::SeqCst) >= 30;
        until("the first calls are used up", Duration::from_secs(20), String::new, all_used).await;
        let (began, mut tries_n) = (Instant::now(), 1);
        while sent(&client, to, "203.0.113.9", GENUINE).await != 200 {
            tries_n += 1;
        }
        let (took, what) = (began.elapsed(), format!("{strangers_n} from {addresses_n}, {settings}"));
        assert!(took < Duration::from_secs(within), "{what}: {took:?}, {tries_n} tries");
        assert_eq!(sent(&client, to, "203.0.113.9", GENUINE).await, 200, "{what}: and at once from then on");
        strangers.shutdown().await;
        running.stop().await;
    }
}

async fn a_key_that_was_good_survives_a_restart_while_its_host_is_away(database: &Database) {
    const KEPT: &str = "SELECT COUNT(*) FROM fetched_keys";
    const CLEAR: &str = "SELECT COUNT(*) FROM fetched_keys WHERE key_id IS NULL";
    let host = KeyHost::start().await;
    let client = client();
    // One server after the other: its settings, how much later it runs, whether the host is away, what comes and what is
    // answered, and how many keys are kept afterwards.
    let sealed = format!("[encryption]\nkeys = [{{ id = \"k\", key = \"{}\" }}]", "3c5a".repeat(16));
    let clear = "[encryption]\nclear = \"accept\"";
    let hour_ms = 3_600_000;
    for (what, settings, more, later_ms, is_away, shown, status, kept_n) in [
        ("a forged request keeps nothing", SETTINGS, "", 0, false, "good other", 401, 0),
        ("the first genuine one", SETTINGS, "", 0, false, GENUINE, 200, 1),
        ("after a restart", SETTINGS, "", 0, true, GENUINE, 200, 1),
        ("a forged one, after a restart", SETTINGS, "", 0, true, "good other", 401, 1),
        ("within its grace", SETTINGS, "", hour_ms, true, GENUINE, 200, 1),
        ("past its grace", SETTINGS, "", 2 * hour_ms, true, GENUINE, 503, 1),
        ("fetched by another account", "api_key = \"other-0123456789\"", "", 0, true, GENUINE, 503, 1),
        ("a row in the clear, with encryption on", SETTINGS, &sealed, 0, true, GENUINE, 503, 1),
        ("fetched again, with encryption on", SETTINGS, &sealed, 0, false, GENUINE, 200, 1),
        ("sealed, after a restart", SETTINGS, &sealed, 0, true, GENUINE, 200, 1),
        ("sealed, without its key", SETTINGS, clear, 0, true, GENUINE, 503, 1),
        ("years later", SETTINGS, clear, 10_000 * hour_ms, true, GENUINE, 503, 0),
    ] {
        // A server refuses a PostgreSQL whose clock is elsewhere.
        if later_ms > 0 && database.on() == On::Postgres {
            continue;
        }
        host.is_away.store(is_away, Ordering::SeqCst);
        let running = host.app(database, settings, more, later_ms).await;
        assert_eq!(sent(&client, running.receiver_addr, "203.0.113.9", shown).await, status, "{what}");
        running.stop().await;
        assert_eq!(database.count(KEPT).await, kept_n, "{what}");
        let clear_n = if what.contains("sealed") || what.contains("fetched again") { 0 } else { kept_n };
        assert_eq!(database.count(CLEAR).await, clear_n, "{what}");
    }
}
