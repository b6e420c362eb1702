//! The outbox of the real binary under kills and pauses, against a destination that answers badly.

use std::collections::HashMap;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::routing::{get, post};
use hooklatch_core::types::{AttemptResult, EventState, IncomingEvent, MessageState};
use hooklatch_store::{Store, Writes};
use http::{HeaderMap, StatusCode};

use crate::database::{Database, On, on_both};
use crate::needs;
use crate::process::{Server, until};
use crate::store::{call_key, candidates, event, message, numbered};
use crate::stub::{Mode, Stub};

/// Number of messages for each time that the server is killed while it sends them.
const MESSAGES_A_KILL_N: usize = 500;

/// Number of messages that wait when the first server starts.
fn messages_n() -> usize {
    needs::kills_n() as usize * MESSAGES_A_KILL_N
}

on_both!(
    each_of_many_messages_takes_effect_once_under_its_key,
    a_destination_that_ignores_keys_but_can_be_asked_is_never_called_twice,
);

/// A destination that loses 5 % of its answers, refuses 5 % and is slow in 2 %. Effects by key.
#[derive(Clone, Default)]
struct Bank {
    effects: Arc<Mutex<HashMap<String, u32>>>,
    ignores_keys: bool,
}

impl Bank {
    async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/book", listener.local_addr().unwrap());
        let router =
            Router::new().route("/book", post(book)).route("/book/{key}", get(ask)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }
}

async fn book(State(bank): State<Bank>, headers: HeaderMap) -> StatusCode {
    let key = headers["idempotency-key"].to_str().unwrap().to_owned();
    let mood = fastrand::u32(0..100);
    if mood < 5 {
        return StatusCode::INTERNAL_SERVER_ERROR;
    }
    {
        let mut effects = bank.effects.lock().unwrap();
        let effects_n = effects.entry(key).or_insert(0);
        if bank.ignores_keys || *effects_n == 0 {
            *effects_n += 1;
        }
    }
    match mood {
        // Longer than the caller waits.
        5..10 => tokio::time::sleep(Duration::from_secs(5)).await,
        // A slow answer.
        10..12 => tokio::time::sleep(Duration::from_millis(150)).await,
        _ => {}
    }
    StatusCode::OK
}

async fn ask(State(bank): State<Bank>, Path(key): Path<String>) -> (StatusCode, &'static str) {
    let has_happened = bank.effects.lock().unwrap().contains_key(&key);
    (if has_happened { StatusCode::OK } else { StatusCode::NOT_FOUND }, "{}")
}

/// Writes the messages as admission would have.
async fn fill(store: &Store) {
    let all: Vec<usize> = (0..messages_n()).collect();
    for ns in all.chunks(500) {
        let events: Vec<IncomingEvent> = ns.iter().map(|n| event(&format!("evt_{n}"), "{}")).collect();
        let candidates = candidates(store, &events.iter().collect::<Vec<_>>(), EventState::Handled).await;
        let messages = candidates.iter().flat_map(|one| numbered(one, &[message("bank")])).collect();
        let mut tx = store.admission_begin().await.unwrap();
        tx.events_insert(&candidates).await.unwrap();
        tx.write(&Writes { messages, updates: Vec::new() }).await.unwrap();
        tx.commit().await.unwrap();
    }
}

async fn done_n(database: &Database) -> usize {
    let done_n = database.count("SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'").await;
    usize::try_from(done_n).unwrap()
}

/// Sends all of them with kills in between; the destination's effects by key.
async fn send_with_kills(database: &Database, bank: &Bank, unknown: &str) -> HashMap<String, u32> {
    let store = database.store().await;
    fill(&store).await;
    store.close().await;
    drop(store);
    let url = bank.serve().await;
    let unknown = unknown.replace("BANK", &url);
    let more = format!(
        "[outbox]\nlease_ms = 2000\npoll_ms = 50\n[destinations.bank]\nurl = \"{url}\"\n{unknown}\n\
         timeout_ms = 500\nconcurrency_n = 128\n\
         retry = {{ first_ms = 20, max_ms = 200, attempts_n = 1000, age_max_ms = 3600000 }}\n"
    );
    let mut server = Server::start(&database.url, &more).await;
    let kills_n = needs::kills_n() as usize;
    for kill in 1..=kills_n {
        until(
            "some more are done",
            Duration::from_mins(2),
            || server.log(),
            async || done_n(database).await >= (messages_n() * kill).div_ceil(kills_n + 2),
        )
        .await;
        server.kill();
        server.spawn().await;
    }
    until(
        "all are done",
        Duration::from_mins(2),
        || server.log(),
        async || done_n(database).await == messages_n(),
    )
    .await;
    assert!(server.terminate());
    bank.effects.lock().unwrap().clone()
}

async fn each_of_many_messages_takes_effect_once_under_its_key(database: &Database) {
    let bank = Bank::default();
    let effects = send_with_kills(database, &bank, "unknown = \"retry\"").await;
    assert_eq!(effects.len(), messages_n());
    assert_eq!(effects.values().sum::<u32>() as usize, messages_n());
}

async fn a_destination_that_ignores_keys_but_can_be_asked_is_never_called_twice(database: &Database) {
    let bank = Bank { ignores_keys: true, ..Bank::default() };
    let query = "unknown = \"query\"\nquery = { url = \"BANK/{{ idempotency_key }}\", pointer = \"\" }";
    let effects = send_with_kills(database, &bank, query).await;
    assert_eq!(effects.len(), messages_n());
    let repeated: Vec<_> = effects.iter().filter(|(_, effects_n)| **effects_n > 1).collect();
    assert!(repeated.is_empty(), "{repeated:?}");
}

/// A call lasts longer than it may take to kill or stop the node that makes it.
const TO_STUB: &str = "[outbox]\nlease_ms = 8000\npoll_ms = 50\n[destinations.bank]\nurl = \"URL\"\n\
                       timeout_ms = 5000\n";

pub(crate) fn signal(server: &Server, name: &str) {
    let id = server.process_id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

#[tokio::test]
async fn a_crashed_nodes_calls_are_on_their_way_again_within_the_lease_and_a_second() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (store, stub) = (database.store().await, Stub::start().await);
    stub.next(&[Mode::ActThenHang]);
    // Both are there before the message is: the start of a node is no part of the time.
    let mut nodes = Vec::new();
    for n in 0..2 {
        let more = TO_STUB.replace("URL", &format!("{}/{n}", stub.url()));
        nodes.push(Server::start(&database.url, &more).await);
    }
    crate::store::admit(&store, &event("evt_1", "{}"), &[message("bank")]).await;
    let key = call_key(&store, "evt_1", "bank").await;
    until(
        "the call is under way",
        Duration::from_secs(20),
        || nodes[0].log(),
        async || stub.counts(&key).0 == 1,
    )
    .await;
    let holder = usize::from(stub.call(&key).path.ends_with("/1"));
    nodes[holder].kill();
    until(
        "it is done",
        Duration::from_secs(40),
        || nodes[1 - holder].log(),
        async || done_n(&database).await == 1,
    )
    .await;
    let row = store.message_list_of_event(&crate::store::key("evt_1")).await.unwrap().remove(0);
    let attempts = store.attempt_list(row.message_id).await.unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!(
        attempts[1].result.map(AttemptResult::as_str),
        Some("unknown"),
        "the outcome of the first is unknown"
    );
    let gap_ms = attempts[0].started_at_ms - attempts[1].started_at_ms;
    assert!((8_000..=9_000).contains(&gap_ms), "{gap_ms} ms");
    assert_eq!(stub.counts(&key), (2, 1));
}

#[tokio::test]
async fn a_node_that_was_stopped_and_comes_back_changes_nothing() {
    stopped_for(Duration::ZERO, "").await;
}

/// A node is stopped while its call is under way; another one takes over; `pause` later the first goes on.
pub(crate) async fn stopped_for(pause: Duration, policy: &str) {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (store, stub) = (database.store().await, Stub::start().await);
    crate::store::admit(&store, &event("evt_1", "{}"), &[message("bank")]).await;
    let key = call_key(&store, "evt_1", "bank").await;
    stub.next(&[Mode::WhenReleased, Mode::Status(400)]);
    let more = TO_STUB.replace("URL", &stub.url()) + policy;
    let first = Server::start(&database.url, &more).await;
    until(
        "the call is under way",
        Duration::from_secs(20),
        || first.log(),
        async || stub.counts(&key).0 == 1,
    )
    .await;
    signal(&first, "-STOP");
    let second = Server::start(&database.url, &more).await;
    let state = async || {
        let row = store.message_list_of_event(&crate::store::key("evt_1")).await.unwrap().remove(0);
        (row.state, row.attempts_n)
    };
    until(
        "the other node has settled it",
        Duration::from_secs(40),
        || second.log(),
        async || state().await.0 == MessageState::Dead,
    )
    .await;
    // The time for which the node is stopped.
    tokio::time::sleep(pause).await;
    stub.release();
    signal(&first, "-CONT");
    until(
        "the late settlement is fenced and counted",
        Duration::from_secs(40),
        || first.log(),
        async || {
            first.admin_text("/metrics").await.contains("hooklatch_fenced_total{destination=\"bank\"} 1")
        },
    )
    .await;
    assert_eq!(state().await, (MessageState::Dead, 2), "what the newer holder wrote stands");
}
