//! The outbox against a far side that misbehaves, on both databases, stepped by hand on a clock that stands.

use std::collections::BTreeMap;
use std::time::Duration;

use hooklatch::config::{DestinationConfig, OutboxConfig, QueryConfig, RetryConfig, Secret, UnknownPolicy};
use hooklatch::outbox::Outbox;
use hooklatch::store::{LeaseWant, MessageRow, SettleTo, Settlement, Store};
use hooklatch::types::{AttemptResult, Clock};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::database::{Database, on_both};
use crate::store::{admit, event, key, message, name};
use crate::stub::{Mode, Stub};

on_both!(
    a_call_carries_its_key_and_the_events_own_bytes,
    a_failure_is_tried_again_under_the_same_key_with_the_same_bytes,
    what_is_refused_or_redirected_is_dead_and_not_followed,
    a_far_side_that_is_down_is_tried_again_and_then_given_up,
    an_unknown_outcome_is_treated_as_configured,
    a_connection_that_hangs_before_it_stands_was_not_sent,
    a_far_side_that_cannot_say_is_asked_again_and_never_called,
    retry_after_is_honoured_and_capped,
    a_body_that_never_ends_costs_no_more_than_the_timeout,
    a_worker_that_died_leaves_an_unknown_outcome,
    a_stale_settlement_is_fenced,
    a_message_whose_lease_runs_out_before_the_call_is_handed_back,
    nothing_is_sent_when_the_far_side_may_have_forgotten_the_key,
    the_loop_sends_what_it_is_woken_for,
    a_dead_destination_delays_no_other,
    more_than_the_slots_is_sent_in_turn,
    a_stop_hands_back_what_was_not_sent,
    a_stop_settles_what_it_cuts_off,
);

const START_MS: i64 = 1_000;
const HOUR_MS: i64 = 3_600_000;

/// One store, one clock, one far side called `billing`.
struct Fixture {
    store: Store,
    clock: Clock,
    stub: Stub,
}

impl Fixture {
    async fn new(database: &Database) -> Self {
        Self { store: database.store().await, clock: Clock::manual(START_MS), stub: Stub::start().await }
    }

    /// Admits an event with one message to each destination.
    async fn message(&self, event_id: &str, destinations: &[&str]) {
        let messages: Vec<_> = destinations.iter().map(|to| message(event_id, to)).collect();
        admit(&self.store, &event(event_id, "{\"a\":1}"), &messages).await;
    }

    fn config(&self, unknown: UnknownPolicy) -> DestinationConfig {
        DestinationConfig {
            url: self.stub.url(),
            headers: BTreeMap::from([("authorization".to_owned(), Secret::new("Bearer canary"))]),
            unknown,
            timeout_ms: 5_000,
            concurrency_n: 4,
            retry: RetryConfig { first_ms: 1_000, max_ms: 60_000, attempts_n: 3, age_max_ms: 80_000_000 },
            retry_after_max_ms: 600_000,
            key_valid_for_ms: 24 * 3_600_000,
        }
    }

    fn query(&self) -> UnknownPolicy {
        UnknownPolicy::Query(QueryConfig { url: self.stub.query_url(), pointer: String::new(), equals: None })
    }

    fn outbox(&self, config: DestinationConfig) -> Outbox {
        self.outbox_to([("billing", config)])
    }

    fn outbox_to<const N: usize>(&self, destinations: [(&str, DestinationConfig); N]) -> Outbox {
        let config = OutboxConfig { lease_ms: 30_000, poll_ms: 50, stop_timeout_ms: 300 };
        let destinations = destinations.into_iter().map(|(to, config)| (name(to), config)).collect();
        Outbox::new(self.store.clone(), self.clock.clone(), config, destinations, "node-1".to_owned())
            .unwrap()
    }

    async fn row(&self, event_id: &str) -> MessageRow {
        self.store.message_list_of_event(&key(event_id)).await.unwrap().remove(0)
    }

    async fn state(&self, event_id: &str) -> String {
        self.row(event_id).await.state
    }

    /// Waits until the message stands there; the test's own time limit ends it otherwise.
    async fn until(&self, event_id: &str, state: &str) {
        let reached = async {
            while self.state(event_id).await != state {
                tokio::time::timeout(Duration::from_millis(10), std::future::pending::<()>()).await.ok();
            }
        };
        let in_time = tokio::time::timeout(Duration::from_secs(20), reached).await;
        assert!(in_time.is_ok(), "{event_id} never was {state}: {:?}", self.row(event_id).await);
    }

    /// Steps the outbox and the clock until nothing has moved for a day of the clock.
    async fn step_to_the_end(&self, outbox: &Outbox) {
        let mut idle_n = 0;
        while idle_n < 24 {
            idle_n = if outbox.run_due().await.unwrap() > 0 { 0 } else { idle_n + 1 };
            self.clock.advance(if idle_n == 0 { 70_000 } else { HOUR_MS });
        }
    }
}

/// Takes what is due as a worker that then dies.
async fn die_holding(fixture: &Fixture) {
    let want = LeaseWant { destination: name("billing"), free_n: 9, key_valid_for_ms: 24 * HOUR_MS };
    let leased =
        fixture.store.message_lease(&[want], fixture.clock.now_ms(), 30_000, "node-0").await.unwrap();
    assert_eq!(leased.len(), 1);
    fixture.clock.advance(30_000);
}

async fn a_call_carries_its_key_and_the_events_own_bytes(database: &Database) {
    let fixture = Fixture::new(database).await;
    let mut sent = message("evt_é", "billing");
    sent.idempotency_key = "key-1".to_owned();
    sent.path = "/sub?x=1".to_owned();
    admit(&fixture.store, &event("evt_é", "{\"a\":1}"), &[sent]).await;
    let mut config = fixture.config(UnknownPolicy::Retry);
    config.headers.insert("idempotency-key".to_owned(), Secret::new("not this one"));
    assert_eq!(fixture.outbox(config).run_due().await.unwrap(), 1);
    let row = fixture.row("evt_é").await;
    assert_eq!((row.state.as_str(), row.attempts_n, row.last_error.as_deref()), ("done", 1, None));
    let call = fixture.stub.call("key-1");
    assert_eq!((call.requests_n, call.effects_n, call.path.as_str()), (1, 1, "/calls/sub?x=1"));
    assert_eq!(call.bodies, ["{\"a\":1}"]);
    let wanted = [
        ("idempotency-key", "key-1"),
        ("authorization", "Bearer canary"),
        ("content-type", "application/json"),
        ("hooklatch-message-id", row.message_id.as_str()),
        ("hooklatch-attempt", "1"),
        ("hooklatch-event-id", "evt_%C3%A9"),
        ("hooklatch-event-type", "invoice.paid"),
        ("x-a", "b"),
    ];
    for (header, value) in wanted {
        assert_eq!(call.headers[header], value, "{header}");
    }
}

async fn a_failure_is_tried_again_under_the_same_key_with_the_same_bytes(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::Status(500), Mode::Status(408)]);
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Hold));
    assert_eq!(outbox.run_due().await.unwrap(), 1);
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.last_error.as_deref()), ("ready", Some("answered 500")));
    assert!((1..=1_000).contains(&(row.visible_at_ms - START_MS)), "{row:?}");
    fixture.step_to_the_end(&outbox).await;
    assert_eq!(fixture.state("evt_1").await, "done");
    let call = fixture.stub.call("key-evt_1-billing");
    assert_eq!((call.requests_n, call.effects_n), (3, 1));
    assert!(call.bodies.iter().all(|body| body.as_ref() == b"{\"a\":1}"));
    assert_eq!(call.headers["hooklatch-attempt"], "3");
}

async fn what_is_refused_or_redirected_is_dead_and_not_followed(database: &Database) {
    let fixture = Fixture::new(database).await;
    let elsewhere = Stub::start().await;
    let location: &'static str = Box::leak(elsewhere.url().into_boxed_str());
    let headers: &'static [(&str, &str)] = Box::leak(Box::new([("location", location)]));
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    for (n, mode) in
        [Mode::Status(400), Mode::With(301, headers), Mode::With(307, headers)].into_iter().enumerate()
    {
        let id = format!("evt_{n}");
        fixture.message(&id, &["billing"]).await;
        fixture.stub.next(&[mode]);
        fixture.step_to_the_end(&outbox).await;
        assert_eq!(fixture.state(&id).await, "dead");
        assert_eq!(fixture.stub.counts(&format!("key-{id}-billing")), (1, 0));
        assert_eq!(elsewhere.counts(&format!("key-{id}-billing")), (0, 0));
    }
    assert_eq!(elsewhere.questions_n(), 0, "a redirected POST may become a GET");
}

async fn a_far_side_that_is_down_is_tried_again_and_then_given_up(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let mut config = fixture.config(UnknownPolicy::Hold);
    config.url = format!("http://127.0.0.1:{port}/secret-path");
    let outbox = fixture.outbox(config);
    outbox.run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    let error = row.last_error.unwrap();
    assert_eq!(row.state, "ready", "surely not sent, so `hold` does not hold it");
    assert!(error.contains("refused") && !error.contains("secret-path"), "{error}");
    fixture.step_to_the_end(&outbox).await;
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.attempts_n), ("dead", 3));
}

async fn an_unknown_outcome_is_treated_as_configured(database: &Database) {
    let fixture = Fixture::new(database).await;
    let cases = [
        ("retry", UnknownPolicy::Retry, "done", (2, 1), 0),
        ("query", fixture.query(), "done", (1, 1), 1),
        ("hold", UnknownPolicy::Hold, "held", (1, 1), 0),
    ];
    for (how, mode) in [("drop", Mode::ActThenDrop), ("hang", Mode::ActThenHang)] {
        for (policy, unknown, state, counts, questions_n) in &cases {
            let id = format!("evt_{how}_{policy}");
            let asked_before_n = fixture.stub.questions_n();
            fixture.message(&id, &["billing"]).await;
            fixture.stub.next(std::slice::from_ref(&mode));
            let config = DestinationConfig { timeout_ms: 500, ..fixture.config(unknown.clone()) };
            fixture.step_to_the_end(&fixture.outbox(config)).await;
            assert_eq!(fixture.state(&id).await, *state, "{id}");
            assert_eq!(fixture.stub.counts(&format!("key-{id}-billing")), *counts, "{id}");
            assert_eq!(fixture.stub.questions_n() - asked_before_n, *questions_n, "{id}");
        }
    }
    // Without an effect the question is answered with no, and only then the message is sent again.
    fixture.message("evt_no", &["billing"]).await;
    fixture.stub.next(&[Mode::Drop]);
    fixture.step_to_the_end(&fixture.outbox(fixture.config(fixture.query()))).await;
    assert_eq!(fixture.state("evt_no").await, "done");
    assert_eq!(fixture.stub.counts("key-evt_no-billing"), (2, 1));
}

async fn a_connection_that_hangs_before_it_stands_was_not_sent(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    // The kernel accepts for it; nobody ever speaks TLS.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = DestinationConfig { timeout_ms: 600, ..fixture.config(UnknownPolicy::Hold) };
    config.url = format!("https://{}/", silent.local_addr().unwrap());
    fixture.outbox(config).run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    assert_eq!(row.state, "ready", "{row:?}");
    assert!(row.last_error.unwrap().starts_with("not sent"));
}

async fn a_far_side_that_cannot_say_is_asked_again_and_never_called(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::ActThenDrop]);
    let outbox = fixture.outbox(fixture.config(fixture.query()));
    fixture.stub.next_question(&[Mode::Status(500), Mode::Drop]);
    fixture.step_to_the_end(&outbox).await;
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.attempts_n), ("held", 3), "a person decides what nobody can say");
    assert_eq!((fixture.stub.questions_n(), fixture.stub.counts("key-evt_1-billing")), (2, (1, 1)));
}

async fn retry_after_is_honoured_and_capped(database: &Database) {
    let fixture = Fixture::new(database).await;
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    let cases: [(&'static [(&str, &str)], i64); 4] = [
        (&[("retry-after", "120")], 120_000),
        (&[("retry-after", "0")], 1_000),
        (&[("retry-after", "99999999999999999999")], 600_000),
        (&[("retry-after", "Thu, 01 Jan 1970 00:02:01 GMT")], 120_000),
    ];
    for (n, (headers, wait_ms)) in cases.into_iter().enumerate() {
        let id = format!("evt_{n}");
        fixture.message(&id, &["billing"]).await;
        fixture.stub.next(&[Mode::With(429, headers)]);
        outbox.run_due().await.unwrap();
        let row = fixture.row(&id).await;
        assert_eq!((row.state.as_str(), row.visible_at_ms), ("ready", START_MS + wait_ms), "{headers:?}");
    }
}

async fn a_body_that_never_ends_costs_no_more_than_the_timeout(database: &Database) {
    let fixture = Fixture::new(database).await;
    let outbox = fixture.outbox(DestinationConfig { timeout_ms: 700, ..fixture.config(UnknownPolicy::Hold) });
    for (id, mode) in [("evt_endless", Mode::Endless), ("evt_stall", Mode::Stall)] {
        fixture.message(id, &["billing"]).await;
        fixture.stub.next(&[mode]);
        let in_time = tokio::time::timeout(Duration::from_secs(5), outbox.run_due()).await;
        assert_eq!(in_time.unwrap().unwrap(), 1);
        assert_eq!(fixture.state(id).await, "done", "the status decides");
    }
}

async fn a_worker_that_died_leaves_an_unknown_outcome(database: &Database) {
    let fixture = Fixture::new(database).await;
    let cases = [
        ("retry", UnknownPolicy::Retry, "done", (1, 1), 0),
        ("query", fixture.query(), "done", (1, 1), 1),
        ("hold", UnknownPolicy::Hold, "held", (0, 0), 0),
    ];
    for (policy, unknown, state, counts, questions_n) in cases {
        let id = format!("evt_{policy}");
        let asked_before_n = fixture.stub.questions_n();
        fixture.message(&id, &["billing"]).await;
        die_holding(&fixture).await;
        assert_eq!(fixture.outbox(fixture.config(unknown)).run_due().await.unwrap(), 1);
        let row = fixture.row(&id).await;
        assert_eq!((row.state.as_str(), row.attempts_n), (state, 2), "{id}");
        assert_eq!(fixture.stub.counts(&format!("key-{id}-billing")), counts, "{id}");
        assert_eq!(fixture.stub.questions_n() - asked_before_n, questions_n, "{id}");
    }
}

async fn a_stale_settlement_is_fenced(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    let want = LeaseWant { destination: name("billing"), free_n: 9, key_valid_for_ms: HOUR_MS };
    let old = fixture.store.message_lease(&[want], START_MS, 30_000, "node-0").await.unwrap().remove(0);
    fixture.clock.advance(30_000);
    fixture.outbox(fixture.config(UnknownPolicy::Retry)).run_due().await.unwrap();
    let late = Settlement {
        message_id: old.message_id.clone(),
        attempt_n: old.attempt_n,
        to: SettleTo::Dead,
        result: AttemptResult::Refused,
        http_status: None,
        error: None,
        settled_at_ms: fixture.clock.now_ms(),
    };
    assert_eq!(fixture.store.message_settle(&[late]).await.unwrap(), [false]);
    assert_eq!(fixture.state("evt_1").await, "done");
}

async fn a_message_whose_lease_runs_out_before_the_call_is_handed_back(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    die_holding(&fixture).await;
    let clock = fixture.clock.clone();
    fixture.stub.on_question(move || clock.advance(29_000));
    let outbox = fixture.outbox(fixture.config(fixture.query()));
    outbox.run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.visible_at_ms), ("ready", fixture.clock.now_ms()));
    assert!(row.last_error.unwrap().starts_with("handed back"));
    assert_eq!(fixture.stub.counts("key-evt_1-billing"), (0, 0));
    fixture.stub.on_question(|| {});
    outbox.run_due().await.unwrap();
    assert_eq!(fixture.state("evt_1").await, "done");
    assert_eq!(fixture.stub.questions_n(), 2, "what was unknown before is asked again");
}

async fn nothing_is_sent_when_the_far_side_may_have_forgotten_the_key(database: &Database) {
    let fixture = Fixture::new(database).await;
    for unknown in [UnknownPolicy::Retry, UnknownPolicy::Hold, fixture.query()] {
        let id = format!("evt_{}", fastrand::u32(..));
        fixture.message(&id, &["billing"]).await;
        fixture.stub.next(&[Mode::Status(503)]);
        let outbox = fixture.outbox(fixture.config(unknown));
        outbox.run_due().await.unwrap();
        assert_eq!(fixture.state(&id).await, "ready");
        fixture.clock.advance(23 * HOUR_MS);
        assert_eq!(outbox.run_due().await.unwrap(), 1);
        assert_eq!(fixture.state(&id).await, "held");
        assert_eq!(fixture.stub.counts(&format!("key-{id}-billing")), (1, 0));
    }
}

/// An outbox that runs, and what stops it.
fn run(outbox: Outbox) -> (JoinSet<()>, watch::Sender<bool>) {
    let (stop, stopping) = watch::channel(false);
    let mut running = JoinSet::new();
    running.spawn(outbox.run(stopping));
    (running, stop)
}

async fn ended(mut running: JoinSet<()>) {
    let in_time = tokio::time::timeout(Duration::from_secs(10), running.join_next()).await;
    in_time.expect("it stops in time").unwrap().unwrap();
}

async fn the_loop_sends_what_it_is_woken_for(database: &Database) {
    let fixture = Fixture::new(database).await;
    let outbox = fixture.outbox(fixture.config(UnknownPolicy::Retry));
    let waker = outbox.waker();
    let (running, stop) = run(outbox);
    for n in 0..3 {
        let id = format!("evt_{n}");
        fixture.message(&id, &["billing"]).await;
        waker.wake();
        fixture.until(&id, "done").await;
    }
    stop.send_replace(true);
    ended(running).await;
}

async fn a_dead_destination_delays_no_other(database: &Database) {
    let fixture = Fixture::new(database).await;
    let dead = Stub::start().await;
    dead.next(&vec![Mode::ActThenHang; 40]);
    let slow =
        DestinationConfig { url: dead.url(), concurrency_n: 2, ..fixture.config(UnknownPolicy::Retry) };
    for n in 0..20 {
        fixture.message(&format!("evt_{n}"), &["dead"]).await;
    }
    let outbox = fixture.outbox_to([("dead", slow), ("billing", fixture.config(UnknownPolicy::Retry))]);
    let waker = outbox.waker();
    let (running, stop) = run(outbox);
    for n in 20..40 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
        waker.wake();
    }
    for n in 20..40 {
        fixture.until(&format!("evt_{n}"), "done").await;
    }
    let counts = fixture.store.message_counts().await.unwrap();
    let leased = counts.iter().find(|count| count.state.as_str() == "leased").map(|count| count.messages_n);
    assert_eq!(leased, Some(2), "no more than its slots are held: {counts:?}");
    stop.send_replace(true);
    ended(running).await;
}

async fn more_than_the_slots_is_sent_in_turn(database: &Database) {
    let fixture = Fixture::new(database).await;
    for n in 0..30 {
        fixture.message(&format!("evt_{n}"), &["billing"]).await;
    }
    let (running, stop) = run(fixture.outbox(fixture.config(UnknownPolicy::Hold)));
    for n in 0..30 {
        fixture.until(&format!("evt_{n}"), "done").await;
        assert_eq!(fixture.stub.counts(&format!("key-evt_{n}-billing")), (1, 1));
    }
    stop.send_replace(true);
    ended(running).await;
}

async fn a_stop_hands_back_what_was_not_sent(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    die_holding(&fixture).await;
    let (stop, stopping) = watch::channel(false);
    // The stop comes between the question and the call that it allows.
    let raise = stop.clone();
    fixture.stub.on_question(move || drop(raise.send_replace(true)));
    let mut running = JoinSet::new();
    running.spawn(fixture.outbox(fixture.config(fixture.query())).run(stopping));
    ended(running).await;
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.visible_at_ms), ("ready", fixture.clock.now_ms()));
    assert_eq!(fixture.stub.counts("key-evt_1-billing"), (0, 0));
}

async fn a_stop_settles_what_it_cuts_off(database: &Database) {
    let fixture = Fixture::new(database).await;
    for (policy, state) in [(UnknownPolicy::Retry, "ready"), (UnknownPolicy::Hold, "held")] {
        let id = format!("evt_{state}");
        fixture.message(&id, &["billing"]).await;
        fixture.stub.next(&[Mode::ActThenHang]);
        let config = DestinationConfig { timeout_ms: 25_000, ..fixture.config(policy) };
        let (running, stop) = run(fixture.outbox(config));
        let key = format!("key-{id}-billing");
        let called = async {
            while fixture.stub.counts(&key).0 == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), called).await.unwrap();
        stop.send_replace(true);
        ended(running).await;
        assert_eq!(fixture.state(&id).await, state);
        fixture.clock.advance(120_000);
    }
}
