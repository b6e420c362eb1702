//! The real binary, killed again and again under load: nothing confirmed is lost, nothing takes effect
//! twice, and with `hold` nothing is sent twice without a person.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use http::{HeaderMap, StatusCode};

use crate::database::{Database, on_both};
use crate::needs;
use crate::process::{Server, client, post_stripe, until};

/// Number of events that are confirmed between two kills, at least.
const CONFIRMED_N: u64 = 20;
/// Number of senders that send at once.
const SENDERS_N: u64 = 12;

on_both!(
    killed_under_load_it_loses_nothing_and_does_nothing_twice,
    killed_under_load_it_repeats_no_call_that_is_a_persons_to_decide,
);

/// A destination that keeps a ledger by idempotency key, and fails at times.
#[derive(Clone, Default)]
struct Ledger {
    /// Key: event id and requests. The effect happens with the first request that is not refused.
    keys: Arc<Mutex<HashMap<String, (String, u32)>>>,
    /// True when it says 500 at times, before doing anything.
    refuses: bool,
}

impl Ledger {
    async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/ledger", listener.local_addr().unwrap());
        let router = Router::new().fallback(call).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }
}

async fn call(State(ledger): State<Ledger>, headers: HeaderMap) -> StatusCode {
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    let mood = fastrand::u32(0..100);
    if ledger.refuses && mood < 5 {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    ledger
        .keys
        .lock()
        .unwrap()
        .entry(text("idempotency-key"))
        .or_insert((text("hooklatch-event-id"), 0))
        .1 += 1;
    if mood < 10 {
        // Done, but the caller will have given up by the time it hears so; at times it never hears.
        tokio::time::sleep(Duration::from_millis(if mood < 8 { 700 } else { 60_000 })).await;
    }
    StatusCode::OK
}

/// Sends events until `stop` is set, repeating whatever got no 2xx, with every fifth sent once more. Returns
/// the ids that were confirmed.
async fn send(url: String, sender: u64, stop: Arc<AtomicBool>, sent_n: Arc<AtomicU64>) -> Vec<String> {
    let client = client();
    let mut confirmed = Vec::new();
    let mut n = 0;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        let id = format!("evt_{sender}_{n}");
        // A sender repeats for as long as it takes; the end of the test waits for it.
        while post_stripe(&client, &url, &id).await.is_err() {
            tokio::time::sleep(Duration::from_millis(15)).await;
        }
        if n % 5 == 0 {
            drop(post_stripe(&client, &url, &id).await);
        }
        confirmed.push(id);
        sent_n.fetch_add(1, Ordering::Relaxed);
    }
    confirmed
}

/// Runs the load with kills, waits until the outbox has nothing more to do, and gives back what was
/// confirmed.
async fn torment(database: &Database, ledger: &Ledger, unknown: &str) -> BTreeSet<String> {
    let url = ledger.serve().await;
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"ledger\"\n\
         [outbox]\nlease_ms = 1500\npoll_ms = 50\n\
         [destinations.ledger]\nurl = \"{url}\"\nunknown = \"{unknown}\"\ntimeout_ms = 400\nconcurrency_n = 16\n\
         retry = {{ first_ms = 20, max_ms = 200, attempts_n = 1000, age_max_ms = 3600000 }}\n"
    );
    let mut server = Server::start(&database.url, &more).await;
    let (stop, sent_n) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let senders: Vec<_> = (0..SENDERS_N)
        .map(|n| {
            tokio::spawn(send(server.url("/webhooks/stripe"), n, Arc::clone(&stop), Arc::clone(&sent_n)))
        })
        .collect();
    for _ in 0..needs::kills_n() {
        let before = sent_n.load(Ordering::Relaxed);
        until(
            "some events are confirmed",
            Duration::from_secs(20),
            || server.log(),
            async || sent_n.load(Ordering::Relaxed) > before + CONFIRMED_N,
        )
        .await;
        // A random moment to kill at.
        tokio::time::sleep(Duration::from_millis(fastrand::u64(0..200))).await;
        server.kill();
        server.spawn().await;
    }
    stop.store(true, Ordering::Relaxed);
    let mut confirmed = BTreeSet::new();
    for sender in senders {
        confirmed.extend(sender.await.unwrap());
    }
    until(
        "the outbox has nothing more to do",
        Duration::from_mins(1),
        || server.log(),
        async || {
            database.count("SELECT COUNT(*) FROM outbox_messages WHERE state IN ('ready', 'leased')").await
                == 0
        },
    )
    .await;
    assert!(server.terminate(), "it stops when asked: {}", server.log());
    confirmed
}

async fn check_rows(database: &Database, confirmed: &BTreeSet<String>) {
    let store = database.store().await;
    let rows = crate::store::all_events(&store).await;
    let ids: HashSet<&str> = rows.iter().map(|row| row.key.event_id.as_str()).collect();
    assert_eq!(ids.len(), rows.len(), "each event is in the table once");
    let lost: Vec<_> = confirmed.iter().filter(|id| !ids.contains(id.as_str())).collect();
    assert!(lost.is_empty(), "confirmed and not there: {lost:?}");
    for row in &rows {
        let messages = store.message_list_of_event(&row.key).await.unwrap();
        assert_eq!(messages.len(), 1, "one set of effects for {}", row.key.event_id);
    }
    store.close().await;
}

async fn killed_under_load_it_loses_nothing_and_does_nothing_twice(database: &Database) {
    let ledger = Ledger { refuses: true, ..Ledger::default() };
    let confirmed = torment(database, &ledger, "retry").await;
    check_rows(database, &confirmed).await;
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_messages WHERE state <> 'done'").await, 0);
    let keys = ledger.keys.lock().unwrap();
    let mut keys_of: HashMap<&str, u32> = HashMap::new();
    for (event_id, _) in keys.values() {
        *keys_of.entry(event_id).or_default() += 1;
    }
    for id in &confirmed {
        assert_eq!(keys_of.get(id.as_str()), Some(&1), "{id} took effect under exactly one key");
    }
}

async fn killed_under_load_it_repeats_no_call_that_is_a_persons_to_decide(database: &Database) {
    let ledger = Ledger::default();
    let confirmed = torment(database, &ledger, "hold").await;
    check_rows(database, &confirmed).await;
    assert_eq!(
        database.count("SELECT COUNT(*) FROM outbox_messages WHERE state NOT IN ('done', 'held')").await,
        0
    );
    let held_n = database.count("SELECT COUNT(*) FROM outbox_messages WHERE state = 'held'").await;
    assert!(held_n > 0, "the destination was silent at times");
    let keys = ledger.keys.lock().unwrap();
    let repeated: Vec<_> = keys.iter().filter(|(_, (_, requests_n))| *requests_n > 1).collect();
    assert!(repeated.is_empty(), "requested more than once: {repeated:?}");
}
