//! Destinations that are not HTTP, against real servers, with a proxy between that can be set to lose answers.

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(feature = "nats")]
mod nats;
mod postgres_table;
pub(crate) mod proxy;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;

use std::collections::BTreeMap;

use hooklatch_core::config::{DestinationConfig, Format, Secret, UnknownPolicy};
use hooklatch_core::types::MessageState;
use hooklatch_operator::load::{Kinds, Settings, load_for_tools};
use hooklatch_outbox::Outbox;
use serde_json::json;

use crate::database::{Database, On};
use crate::outbox::Fixture;
use crate::store::{call_key, name};
use proxy::{Mode, Proxy};

/// In the body of every message, and in nothing else that is sent.
const NEEDLE: &[u8] = b"{\"a\":1}";

/// What a destination holds of one message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Received {
    key: String,
    body: Vec<u8>,
    metadata: BTreeMap<String, String>,
}

/// A destination that can list what it received.
trait TestDestination {
    /// True when it drops copies under a known key; otherwise its consumers must.
    const DROPS_COPIES: bool;

    /// True when its client notices by itself that an idle connection was cut; a little later than this test.
    const NOTICES: bool;

    /// In the bytes after which an answer is lost: the one that says that it is there.
    const NEEDLE: &'static [u8] = NEEDLE;

    /// The keys of `[destinations.NAME]` that lead to it at this port.
    fn keys(&self, port: u16) -> String;

    /// Everything it holds, in order.
    async fn received(&self) -> Vec<Received>;
}

#[cfg(feature = "brokers")]
/// Where a server is; `None` where there is none, and the test is skipped then.
fn server(variable: &str) -> Option<reqwest::Url> {
    Some(crate::needs::place(variable)?.parse().unwrap())
}

#[cfg(feature = "brokers")]
/// A name that no other test uses.
fn unique(what: &str) -> String {
    format!("{what}_{:016x}", fastrand::u64(..))
}

/// A store, a destination, and the proxy in front of it; from these a test builds outboxes.
struct Bench<'a, F> {
    fixture: Fixture,
    destination: &'a F,
    proxy: Proxy,
    _database: Database,
}

impl<'a, F: TestDestination> Bench<'a, F> {
    async fn new(destination: &'a F, server_port: u16, rewrites_port: bool) -> Self {
        let database = Database::create(On::Sqlite).await.unwrap();
        let fixture = Fixture::new(&database).await;
        let proxy = Proxy::before(server_port, F::NEEDLE, rewrites_port).await;
        Self { fixture, destination, proxy, _database: database }
    }

    fn config(&self, unknown: UnknownPolicy) -> DestinationConfig {
        config(&self.fixture, &self.destination.keys(self.proxy.port), unknown)
    }

    fn outbox(&self, unknown: UnknownPolicy) -> Outbox {
        self.fixture.outbox(self.config(unknown))
    }

    /// An outbox with a short timeout.
    fn impatient_outbox(&self, unknown: UnknownPolicy) -> Outbox {
        self.fixture.outbox(DestinationConfig { timeout_ms: 5_000, ..self.config(unknown) })
    }

    async fn error(&self, event_id: &str) -> String {
        self.fixture.row(event_id).await.last_error.unwrap_or_default()
    }

    /// The key that the calls for this event carry.
    async fn key(&self, event_id: &str) -> String {
        call_key(&self.fixture.store, event_id, "billing").await
    }

    async fn keys(&self) -> Vec<String> {
        self.destination.received().await.into_iter().map(|received| received.key).collect()
    }

    /// What every destination has to show.
    async fn shows(&self) {
        self.what_arrives_has_its_key_and_says_what_it_is().await;
        self.a_lost_answer_is_unknown_and_the_next_attempt_has_the_same_key().await;
        self.a_lost_answer_is_held_where_a_person_decides().await;
        self.a_worker_that_dies_between_sending_and_settling_sends_again_under_the_same_key().await;
        self.what_is_sent_at_once_arrives_once_each().await;
        self.a_destination_that_is_away_gets_it_when_it_is_back().await;
    }

    async fn what_arrives_has_its_key_and_says_what_it_is(&self) {
        self.fixture.message("evt_1", &["billing"]).await;
        assert_eq!(self.outbox(UnknownPolicy::Retry).run_due().await.unwrap(), 1);
        assert_eq!(self.fixture.state("evt_1").await, "done", "{}", self.error("evt_1").await);
        let received = self.destination.received().await;
        let [received] = received.as_slice() else { panic!("{received:?}") };
        let key = self.key("evt_1").await;
        assert_eq!((received.key.as_str(), received.body.as_slice()), (key.as_str(), NEEDLE));
        let wanted = [
            ("idempotency-key", key.as_str()),
            ("hooklatch-provider", "stripe"),
            ("hooklatch-event-id", "evt_1"),
            ("hooklatch-event-type", "invoice.paid"),
            ("hooklatch-effect", "billing"),
            ("content-type", "application/json"),
        ];
        for (name, value) in wanted {
            assert_eq!(received.metadata.get(name).map(String::as_str), Some(value), "{name}: {received:?}");
        }
    }

    async fn a_lost_answer_is_unknown_and_the_next_attempt_has_the_same_key(&self) {
        self.fixture.message("evt_2", &["billing"]).await;
        let outbox = self.impatient_outbox(UnknownPolicy::Retry);
        self.proxy.is(Mode::LoseAnswer);
        outbox.run_due().await.unwrap();
        let error = self.error("evt_2").await;
        assert_eq!(self.fixture.state("evt_2").await, "ready", "{error}");
        assert!(!error.starts_with("not sent"), "{error}");
        self.proxy.is(Mode::Pass);
        self.fixture.step_to_the_end(&outbox).await;
        let row = self.fixture.row("evt_2").await;
        assert_eq!((row.state, row.attempts_n), (MessageState::Done, 2), "{row:?}");
        self.copies("evt_2").await;
    }

    async fn a_lost_answer_is_held_where_a_person_decides(&self) {
        self.fixture.message("evt_3", &["billing"]).await;
        self.proxy.is(Mode::LoseAnswer);
        self.impatient_outbox(UnknownPolicy::Hold).run_due().await.unwrap();
        self.proxy.is(Mode::Pass);
        assert_eq!(self.fixture.state("evt_3").await, "held", "{}", self.error("evt_3").await);
        assert!(self.keys().await.contains(&self.key("evt_3").await), "it was there all the same");
    }

    async fn a_worker_that_dies_between_sending_and_settling_sends_again_under_the_same_key(&self) {
        self.fixture.message("evt_4", &["billing"]).await;
        self.proxy.is(Mode::KeepAnswer);
        let dying = self.outbox(UnknownPolicy::Retry);
        tokio::select! {
            _ = dying.run_due() => panic!("no broker answered it"),
            () = self.proxy.answered.notified() => {}
        }
        drop(dying);
        self.proxy.is(Mode::Pass);
        assert_eq!(self.fixture.state("evt_4").await, "leased");
        self.fixture.clock.advance(30_000);
        self.fixture.step_to_the_end(&self.outbox(UnknownPolicy::Retry)).await;
        let row = self.fixture.row("evt_4").await;
        assert_eq!((row.state, row.attempts_n), (MessageState::Done, 2), "{row:?}");
        self.copies("evt_4").await;
    }

    async fn what_is_sent_at_once_arrives_once_each(&self) {
        let ids: Vec<String> = (0..60).map(|n| format!("evt_many_{n}")).collect();
        for id in &ids {
            self.fixture.message(id, &["billing"]).await;
        }
        let config = DestinationConfig { concurrency_n: 20, ..self.config(UnknownPolicy::Retry) };
        assert_eq!(self.fixture.outbox(config).run_due().await.unwrap(), ids.len());
        let keys = self.keys().await;
        for id in &ids {
            assert_eq!(self.fixture.state(id).await, "done", "{}", self.error(id).await);
            let own = self.key(id).await;
            let copies_n = keys.iter().filter(|key| **key == own).count();
            assert_eq!(copies_n, 1, "{id}");
        }
    }

    async fn a_destination_that_is_away_gets_it_when_it_is_back(&self) {
        let outbox = self.outbox(UnknownPolicy::Hold);
        // The connection stands when it goes away.
        self.fixture.message("evt_5", &["billing"]).await;
        outbox.run_due().await.unwrap();
        assert_eq!(self.fixture.state("evt_5").await, "done", "{}", self.error("evt_5").await);
        self.proxy.goes_away().await;
        if !F::NOTICES {
            self.proxy.is(Mode::Pass);
            self.fixture.message("evt_idle", &["billing"]).await;
            outbox.run_due().await.unwrap();
            assert_eq!(self.fixture.state("evt_idle").await, "done", "an idle connection is not trusted");
            self.proxy.goes_away().await;
        }
        let fresh = self.impatient_outbox(UnknownPolicy::Hold);
        self.fixture.message("evt_6", &["billing"]).await;
        fresh.run_due().await.unwrap();
        let error = self.error("evt_6").await;
        assert_eq!(self.fixture.state("evt_6").await, "ready", "surely not sent, so `hold` does not hold it");
        assert!(error.starts_with("not sent"), "{error}");
        self.proxy.is(Mode::Pass);
        self.fixture.clock.advance(70_000);
        // With a policy that repeats: the one that had a connection may find out only by using it.
        let again = self.outbox(UnknownPolicy::Retry);
        self.fixture.step_to_the_end(&again).await;
        assert_eq!(self.fixture.state("evt_6").await, "done", "{}", self.error("evt_6").await);
        self.proxy.goes_away().await;
        self.proxy.is(Mode::Pass);
        self.fixture.message("evt_7", &["billing"]).await;
        self.fixture.step_to_the_end(&again).await;
        assert_eq!(self.fixture.state("evt_7").await, "done", "a lost connection is made anew");
    }

    /// What the destination holds of a message that was sent twice.
    async fn copies(&self, event_id: &str) {
        let key = self.key(event_id).await;
        let copies_n = self.keys().await.iter().filter(|received| **received == key).count();
        assert_eq!(copies_n, if F::DROPS_COPIES { 1 } else { 2 }, "{event_id}");
    }
}

/// What the program makes of these keys of a destination, with the times of the fixture.
fn config(fixture: &Fixture, keys: &str, unknown: UnknownPolicy) -> DestinationConfig {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hooklatch.toml");
    std::fs::write(&file, format!("[destinations.billing]\n{keys}\n")).unwrap();
    let settings = Settings { file: Some(file), ..Settings::default() };
    let loaded = load_for_tools(&settings, &Kinds::of(Vec::new())).unwrap();
    let DestinationConfig { url, target, .. } = loaded.destinations[&name("billing")].clone();
    DestinationConfig { url, target, headers: BTreeMap::new(), timeout_ms: 15_000, ..fixture.config(unknown) }
}

/// Has a server that traces send an event there, and checks the span that the destination receives.
#[cfg(all(feature = "brokers", feature = "otel"))]
async fn shows_its_span<F: TestDestination>(destination: &F, port: u16) {
    use crate::process::{Server, client, post_stripe, until};
    let database = Database::create(On::Sqlite).await.unwrap();
    // No collector listens there: the span is sent without one.
    let config = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         [tracing]\nendpoint = \"http://127.0.0.1:9\"\n[destinations.billing]\n{}\n",
        destination.keys(port)
    );
    let server = Server::start(&database.url, &config).await;
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    let log = || server.log();
    let is_there = async || !destination.received().await.is_empty();
    until("it is there", std::time::Duration::from_secs(20), log, is_there).await;
    let received = destination.received().await.remove(0);
    let traceparent = received.metadata.get("traceparent").unwrap_or_else(|| panic!("{received:?}"));
    let parts: Vec<&str> = traceparent.split('-').collect();
    let is_hex = |part: &&str| part.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c));
    assert!(
        parts.iter().all(is_hex) && parts.iter().map(|part| part.len()).eq([2, 32, 16, 2]),
        "{traceparent}"
    );
    assert_eq!((parts[0], parts[3]), ("00", "01"), "{traceparent}");
}

/// Has a destination fail whose url, among `keys`, has the password `canary` in it; nothing of that is shown.
async fn shows_no_password(keys: &str) {
    let database = Database::create(On::Sqlite).await.unwrap();
    let fixture = Fixture::new(&database).await;
    let config = config(&fixture, keys, UnknownPolicy::Hold);
    assert!(!format!("{config:?}").contains("canary"), "{config:?}");
    fixture.message("evt_1", &["billing"]).await;
    fixture.outbox(config).run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    let error = row.last_error.unwrap();
    assert_eq!(row.state, MessageState::Ready, "{error}");
    assert!(error.starts_with("not sent") && !error.contains("canary"), "{error}");
}

#[tokio::test]
async fn an_http_call_can_carry_a_cloud_event() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let fixture = Fixture::new(&database).await;
    fixture.message("evt_1", &["billing"]).await;
    let secret = vec![Secret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")];
    let config = DestinationConfig {
        format: Format::CloudEvents,
        sign_secrets: secret,
        ..fixture.config(UnknownPolicy::Retry)
    };
    fixture.outbox(config).run_due().await.unwrap();
    let key = call_key(&fixture.store, "evt_1", "billing").await;
    let call = fixture.stub.call(&key);
    assert_eq!(call.headers["content-type"], "application/cloudevents+json; charset=UTF-8");
    let event: serde_json::Value = serde_json::from_slice(&call.bodies[0]).unwrap();
    assert_eq!(event["id"], key);
    assert_eq!((&event["specversion"], &event["source"]), (&json!("1.0"), &json!("/webhooks/stripe")));
    assert_eq!((&event["eventid"], &event["data"]), (&json!("evt_1"), &json!({ "a": 1 })));
}
