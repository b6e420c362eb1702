//! The whole program for a while under everything at once: killed, stopped, cut off, restored in the middle, started with
//! a wrong key; encrypted, and on PostgreSQL with two nodes. Nothing that was acknowledged is lost, and destinations that
//! know no keys do nothing twice.
//!
//! One destination has `unknown = "hold"`: without an operator it gets each event once at most, across restores too. The other
//! one has `unknown = "query"`: it shows an effect only when its work is over, and says of work under way that there is none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::extract::{Path, State};
use axum::routing::{get, post};
use axum::{Router, body::Bytes};
use futures_util::{StreamExt, stream};
use http::{HeaderMap, StatusCode};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::database::{Database, On, on_both};
use crate::faults::signal;
use crate::needs;
use crate::process::{Server, client, now_s, stripe_header, until};
use crate::restore::world::Saved;

const SENDERS_N: usize = 8;
const LEASE_MS: u64 = 3_000;
/// Longest work of the destinations: some of it takes longer than a call may (800 ms). Milliseconds.
const WORK_MS: u64 = 1_000;
/// For so long a node is stopped: every lease of it ends meanwhile. Milliseconds.
const STOPPED_MS: u64 = LEASE_MS + 500;
const KEY: &str = "013c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c";
const WRONG_KEY: &str = "023c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c3c";

/// How long after its attempt ended a call may still be worked on. A node that is stopped after its last look at the lease
/// sends its call when it goes on: so it is the time of the work and, where nodes are stopped, of a stop, and a second more.
/// Milliseconds.
fn after_ms() -> u64 {
    WORK_MS + 1_000 + if needs::is_nightly() { STOPPED_MS } else { 0 }
}

on_both!(through_kills_stops_cuts_restores_and_wrong_keys_nothing_is_lost_or_done_twice);

/// What one destination got of one event.
#[derive(Debug, Clone, Default)]
struct Calls {
    keys: BTreeSet<String>,
    requests_n: u32,
    effects_n: u32,
}

/// Two destinations that ignore keys and act on every call.
#[derive(Clone, Default)]
struct Destinations {
    /// By destination and event.
    calls: Arc<Mutex<HashMap<(String, String), Calls>>>,
    /// Keys of what is done: for questions.
    done: Arc<Mutex<BTreeSet<String>>>,
}

impl Destinations {
    async fn serve(&self) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new()
            .route("/{destination}", post(call))
            .route("/{destination}/{key}", get(query))
            .with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        port
    }
}

async fn call(
    State(all): State<Destinations>,
    Path(destination): Path<String>,
    headers: HeaderMap,
    _body: Bytes,
) -> StatusCode {
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    let (key, place) = (text("idempotency-key"), (destination, text("hooklatch-event-id")));
    {
        let mut calls = all.calls.lock().unwrap();
        let calls = calls.entry(place.clone()).or_default();
        calls.requests_n += 1;
        calls.keys.insert(key.clone());
    }
    let work_ms = match fastrand::u32(0..100) {
        0..2 => fastrand::u64(900..WORK_MS),
        2..10 => fastrand::u64(50..400),
        _ => fastrand::u64(0..20),
    };
    // A task of its own: who hangs up does not end the work.
    let work = tokio::spawn(async move {
        // The time that the work takes.
        tokio::time::sleep(Duration::from_millis(work_ms)).await;
        all.calls.lock().unwrap().entry(place).or_default().effects_n += 1;
        all.done.lock().unwrap().insert(key);
    });
    work.await.unwrap();
    StatusCode::OK
}

async fn query(
    State(all): State<Destinations>,
    Path((_, key)): Path<(String, String)>,
) -> (StatusCode, &'static str) {
    let is_done = all.done.lock().unwrap().contains(&key);
    if is_done { (StatusCode::OK, r#"{"state":"done"}"#) } else { (StatusCode::NOT_FOUND, "{}") }
}

/// Connections to a local port, which can be cut.
struct Wire {
    port: u16,
    cut: Arc<watch::Sender<()>>,
    _accepts: JoinSet<()>,
}

impl Wire {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own_port = listener.local_addr().unwrap().port();
        let cut = Arc::new(watch::Sender::new(()));
        let (cuts, mut accepts) = (Arc::clone(&cut), JoinSet::new());
        accepts.spawn(async move {
            while let Ok((mut ours, _)) = listener.accept().await {
                let mut cut = cuts.subscribe();
                tokio::spawn(async move {
                    let Ok(mut theirs) = TcpStream::connect(("127.0.0.1", port)).await else { return };
                    ours.set_nodelay(true).and_then(|()| theirs.set_nodelay(true)).ok();
                    tokio::select! {
                        _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs) => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self { port: own_port, cut, _accepts: accepts }
    }
}

struct Sent {
    created_s: i64,
    /// When it was answered 200 last.
    confirmed_at: Option<Instant>,
}

/// Senders that repeat each event until it is answered 200, and resend on request.
struct Senders {
    urls: Vec<String>,
    client: reqwest::Client,
    /// Event `evt_N` is at N. It is here before it is sent first.
    sent: Mutex<Vec<Sent>>,
    confirmed_n: AtomicUsize,
    is_over: AtomicBool,
}

impl Senders {
    async fn deliver(&self, n: usize) {
        let created_s = self.sent.lock().unwrap()[n].created_s;
        let body = format!(
            r#"{{"id":"evt_{n}","type":"invoice.paid","created":{created_s},"data":{{"object":{{"id":"in_{n}"}}}}}}"#
        );
        for try_n in 0.. {
            let request = self.client.post(&self.urls[(n + try_n) % self.urls.len()]);
            let request = request.header("stripe-signature", stripe_header(&body, now_s()));
            let sent = request.timeout(Duration::from_secs(2)).body(body.clone()).send().await;
            if sent.is_ok_and(|response| response.status() == StatusCode::OK) {
                break;
            }
            // The pause of a sender between two tries; the end of the test waits for it.
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        self.sent.lock().unwrap()[n].confirmed_at = Some(Instant::now());
    }

    async fn run(self: Arc<Self>) {
        while !self.is_over.load(Ordering::Relaxed) {
            let n = {
                let mut sent = self.sent.lock().unwrap();
                sent.push(Sent { created_s: now_s(), confirmed_at: None });
                sent.len() - 1
            };
            self.deliver(n).await;
            self.confirmed_n.fetch_add(1, Ordering::Relaxed);
            if n.is_multiple_of(10) {
                self.deliver(n).await;
            }
        }
    }

    /// Sends again all that was not confirmed before `moment`.
    async fn send_again(&self, moment: Instant) -> usize {
        let is_lost = |sent: &Sent| sent.confirmed_at.is_none_or(|at| at >= moment);
        let lost: Vec<usize> = {
            let sent = self.sent.lock().unwrap();
            (0..sent.len()).filter(|n| is_lost(&sent[*n])).collect()
        };
        let deliveries = stream::iter(lost.iter().map(|n| self.deliver(*n)));
        deliveries.buffer_unordered(SENDERS_N).collect::<()>().await;
        lost.len()
    }

    fn confirmed_n(&self) -> usize {
        self.confirmed_n.load(Ordering::Relaxed)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    /// SIGTERM.
    Terminate,
    /// SIGSTOP for longer than a lease.
    Stop,
    /// All connections to the destinations, and to PostgreSQL.
    Cut,
    WrongKey,
    Backup,
    /// The newest backup is put back; once more, if there was none since.
    Restore,
}

/// What happens one after the other, and how many events are confirmed before each at least.
fn plan() -> (Vec<Fault>, usize) {
    use Fault::{Backup, Cut, Kill, Restore, Stop, Terminate, WrongKey};
    if !needs::is_nightly() {
        return (vec![Kill, Cut, Backup, Kill, Restore, WrongKey, Terminate], 30);
    }
    let mut all = Vec::new();
    for _ in 0..4 {
        // Events within ten seconds after a restore are held: the others follow long after it.
        all.extend([
            Backup, Kill, Restore, Cut, WrongKey, Stop, Kill, Cut, Terminate, Kill, Stop, WrongKey, Kill, Cut,
        ]);
    }
    // A second restore of the backup of before.
    all.extend([Backup, Cut, Restore, Kill, Restore, Stop]);
    (all, 300)
}

struct Soak<'a> {
    database: &'a Database,
    nodes: Vec<Server>,
    senders: Arc<Senders>,
    wires: Vec<Wire>,
    saved: Option<(Instant, Saved)>,
    sent_again_n: usize,
}

fn config(port: u16) -> String {
    let calls = "timeout_ms = 800\nconcurrency_n = 32\nadaptive = false\nbreaker_failures_n = 0\n\
                 retry = { first_ms = 20, max_ms = 200, attempts_n = 1000, age_max_ms = 3600000 }\n";
    let url = format!("http://127.0.0.1:{port}");
    format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"payouts\"\n\
         [[providers.stripe.routes]]\non = [\"*\"]\nto = \"ledger\"\n\
         [outbox]\nlease_ms = {LEASE_MS}\npoll_ms = 50\n\
         [encryption]\nclear = \"refuse\"\nkeys = [{{ id = \"k1\", key = \"{KEY}\" }}]\n\
         [destinations.payouts]\nurl = \"{url}/payouts\"\nunknown = \"hold\"\n{calls}\
         [destinations.ledger]\nurl = \"{url}/ledger\"\nunknown = \"query\"\n{calls}\
         [destinations.ledger.query]\nurl = \"{url}/ledger/{{{{ idempotency_key }}}}\"\npointer = \"/state\"\n\
         after_ms = {}\n",
        after_ms()
    )
}

impl<'a> Soak<'a> {
    async fn start(database: &'a Database, destinations: &Destinations) -> Self {
        let mut wires = vec![Wire::to(destinations.serve().await).await];
        let (mut url, mut nodes_n) = (database.url.clone(), 1);
        if database.on() == On::Postgres {
            let (before, after) = database.url.rsplit_once(':').unwrap();
            let (port, name) = after.split_once('/').unwrap();
            wires.push(Wire::to(port.parse().unwrap()).await);
            (url, nodes_n) = (format!("{before}:{}/{name}", wires[1].port), 2);
        }
        let mut nodes = Vec::new();
        for _ in 0..nodes_n {
            nodes.push(Server::start(&url, &config(wires[0].port)).await);
        }
        let senders = Senders {
            urls: nodes.iter().map(|node| node.url("/webhooks/stripe")).collect(),
            client: client(),
            sent: Mutex::default(),
            confirmed_n: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        };
        Self { database, nodes, senders: Arc::new(senders), wires, saved: None, sent_again_n: 0 }
    }

    fn log(&self) -> String {
        self.nodes.iter().map(Server::log).collect()
    }

    async fn confirmed(&self, events_n: usize) {
        let is_so = async || self.senders.confirmed_n() >= events_n;
        until("events are confirmed", Duration::from_mins(2), || self.log(), is_so).await;
    }

    async fn strike(&mut self, fault: Fault) {
        let node = fastrand::usize(..self.nodes.len());
        let node = &mut self.nodes[node];
        match fault {
            Fault::Kill => {
                node.kill();
                node.spawn().await;
            }
            Fault::Terminate => {
                assert!(node.terminate(), "it stops when asked: {}", node.log());
                node.spawn().await;
            }
            Fault::Stop => {
                signal(node, "-STOP");
                // The time for which it is stopped.
                tokio::time::sleep(Duration::from_millis(STOPPED_MS)).await;
                signal(node, "-CONT");
            }
            Fault::Cut => self.wires.iter().for_each(|wire| {
                wire.cut.send_replace(());
            }),
            Fault::WrongKey => {
                node.kill();
                let right = std::fs::read_to_string(node.config()).unwrap();
                std::fs::write(node.config(), right.replace(KEY, WRONG_KEY)).unwrap();
                let mut serve = Command::new("timeout");
                serve.args(["20", env!("CARGO_BIN_EXE_hooklatch"), "serve", "--config"]).arg(node.config());
                let ended = serve.output().unwrap();
                let said = String::from_utf8_lossy(&ended.stderr).into_owned();
                let reason = "the key under the id `k1` is not the key";
                assert!(ended.status.code() == Some(1) && said.contains(reason), "{}: {said}", ended.status);
                std::fs::write(node.config(), right).unwrap();
                node.spawn().await;
            }
            Fault::Backup => {
                let moment = Instant::now();
                self.saved = Some((moment, Saved::of(self.database, node)));
            }
            Fault::Restore => self.restore().await,
        }
    }

    async fn restore(&mut self) {
        self.nodes.iter_mut().for_each(Server::kill);
        let (moment, saved) = self.saved.as_ref().unwrap();
        saved.restore(self.database).await;
        let (code, said) = self.nodes[0].command("", &["restore-check", "--yes", "--reason", "disk lost"]);
        assert_eq!(code, 0, "{said}");
        for node in &mut self.nodes {
            node.spawn().await;
        }
        self.sent_again_n += self.senders.send_again(*moment).await;
    }
}

async fn through_kills_stops_cuts_restores_and_wrong_keys_nothing_is_lost_or_done_twice(database: &Database) {
    let (began, destinations) = (Instant::now(), Destinations::default());
    let mut soak = Soak::start(database, &destinations).await;
    let senders: Vec<_> = (0..SENDERS_N).map(|_| tokio::spawn(Arc::clone(&soak.senders).run())).collect();
    let (plan, events_between_n) = plan();
    for fault in &plan {
        soak.confirmed(soak.senders.confirmed_n() + events_between_n).await;
        // A random moment.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..200))).await;
        soak.strike(*fault).await;
    }
    soak.confirmed(events_between_n * (plan.len() + 1)).await;
    soak.senders.is_over.store(true, Ordering::Relaxed);
    for sender in senders {
        sender.await.unwrap();
    }
    let open = "SELECT COUNT(*) FROM outbox_queue WHERE state IN ('ready', 'leased', 'waiting')";
    let is_settled = async || database.count(open).await == 0;
    until("nothing is left to do", Duration::from_mins(3), || soak.log(), is_settled).await;
    for node in &mut soak.nodes {
        assert!(node.terminate(), "it stops when asked: {}", node.log());
    }

    let events_n = soak.senders.sent.lock().unwrap().len();
    let found = check(database, events_n, &destinations).await;
    let mut faults_n = BTreeMap::new();
    for fault in plan {
        *faults_n.entry(fault).or_insert(0) += 1;
    }
    let (on, again_n, took) = (database.on(), soak.sent_again_n, began.elapsed());
    eprintln!(
        "MEASURED: {on:?}: {events_n} events, {again_n} sent again; {faults_n:?} in {took:?}; {found:?}"
    );
    assert!(found.wrong.is_empty(), "{:#?}", found.wrong);
    assert!(found.held_n > 0 && found.effects_n[0] > 0, "the faults and the destinations did something");
    let clear = "SELECT COUNT(*) FROM webhook_payloads WHERE key_id IS NULL";
    assert_eq!(database.count(clear).await, 0, "everything is encrypted");
}

#[derive(Debug, Default)]
struct Found {
    /// Of the one that is held, and of the one that is queried.
    effects_n: [u32; 2],
    held_n: usize,
    lost_n: usize,
    doubled_n: usize,
    wrong: Vec<String>,
}

/// Compares what was confirmed with what is in the database and with what the destinations did.
async fn check(database: &Database, events_n: usize, destinations: &Destinations) -> Found {
    let events = database.texts("SELECT event_id FROM processed_webhook_events").await;
    let sql = "SELECT event_id || '|' || destination || '|' || state FROM outbox_messages";
    let mut states: HashMap<(String, String), Vec<String>> = HashMap::new();
    for row in database.texts(sql).await {
        let [event, destination, state] = row.split('|').collect::<Vec<_>>()[..] else { panic!("{row}") };
        states.entry((destination.to_owned(), event.to_owned())).or_default().push(state.to_owned());
    }
    let is_there: BTreeSet<&str> = events.iter().map(String::as_str).collect();
    assert_eq!(is_there.len(), events.len(), "each event is there once");
    let (calls, mut found) = (destinations.calls.lock().unwrap(), Found::default());
    for event in (0..events_n).map(|n| format!("evt_{n}")) {
        if !is_there.contains(event.as_str()) {
            found.lost_n += 1;
            found.wrong.push(format!("{event} was confirmed and is lost"));
        }
        for (at, destination) in ["payouts", "ledger"].into_iter().enumerate() {
            let place = (destination.to_owned(), event.clone());
            let state = states.get(&place).map(|states| states.join(", ")).unwrap_or_default();
            let calls = calls.get(&place).cloned().unwrap_or_default();
            found.effects_n[at] += calls.effects_n;
            found.held_n += usize::from(state == "held");
            let is_lost = match state.as_str() {
                "done" => calls.effects_n == 0,
                // A destination with queries leaves no call in doubt.
                "held" => destination == "ledger",
                _ => true,
            };
            let is_doubled = calls.effects_n > 1
                || calls.keys.len() > 1
                || (destination == "payouts" && calls.requests_n > 1);
            found.lost_n += usize::from(is_lost);
            found.doubled_n += usize::from(is_doubled);
            if is_lost || is_doubled {
                found.wrong.push(format!("{event} at {destination} is `{state}`: {calls:?}"));
            }
        }
    }
    found
}
