//! The app inside the test process: with the test's handlers, and a clock that the test advances.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use hooklatch::App;
use hooklatch::Running;
use hooklatch::testing::AppExt;
use hooklatch_core::types::Clock;
use hooklatch_operator::load::{Kinds, Settings};
use hooklatch_receive::provider::Provider;
use http::{HeaderMap, StatusCode};

use crate::database::Database;
use crate::process::{SECRET, client, stripe_header, until};

/// A running app with a `stripe` provider and a destination called `billing`.
pub struct TestApp {
    pub running: Running,
    pub clock: Clock,
    pub destination: TestDestination,
    client: reqwest::Client,
}

/// The calls that `billing` received: key and body, in order.
#[derive(Clone, Default)]
pub struct TestDestination(Arc<Mutex<Vec<(String, String)>>>);

impl TestDestination {
    pub fn calls(&self) -> Vec<(String, String)> {
        self.0.lock().unwrap().clone()
    }

    async fn serve(&self) -> String {
        async fn call(State(calls): State<TestDestination>, headers: HeaderMap, body: String) -> StatusCode {
            let key = headers["idempotency-key"].to_str().unwrap().to_owned();
            calls.0.lock().unwrap().push((key, body));
            StatusCode::OK
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(call).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }
}

/// The built-in kind, for handlers of the test's own.
pub fn stripe_kind() -> Provider {
    hooklatch::kind("stripe")
}

impl TestApp {
    /// Starts `kind` on `database`; `more` TOML goes into `[providers.stripe]`, and what follows a line
    /// `[destinations.billing]` in it there.
    pub async fn start(database: &Database, kind: Provider, more: &str) -> Self {
        Self::start_with(database, kind, "", more).await
    }

    /// The same with these keys in `[server]`.
    pub async fn start_with(database: &Database, kind: Provider, keys: &str, more: &str) -> Self {
        let (more, billing) = more.split_once("[destinations.billing]\n").unwrap_or((more, ""));
        let destination = TestDestination::default();
        let url = destination.serve().await;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("hooklatch.toml");
        let toml = format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{keys}\n[admin]\nlisten = \"127.0.0.1:0\"\n\
             [database]\nurl = \"{}\"\n[outbox]\npoll_ms = 50\n[destinations.billing]\nurl = \"{url}\"\n{billing}\n\
             [providers.stripe]\nsecrets = [\"{SECRET}\"]\n{more}\n",
            database.url
        );
        std::fs::write(&file, toml).unwrap();
        let settings = Settings { file: Some(file), ..Settings::default() };
        let config = hooklatch_operator::load::load_for_tools(&settings, &Kinds::of(vec![stripe_kind()]));
        let config = config.unwrap_or_else(|why| panic!("{why:?}"));
        let clock = Clock::manual(Clock::system().now_ms());
        let running = App::new(config).provider(kind).clock(clock.clone()).start().await.unwrap();
        Self { running, clock, destination, client: client() }
    }

    /// Sends a signed body; status, outcome and text of the answer.
    pub async fn post(&self, body: &str) -> (u16, String, String) {
        self.post_with(body, &[]).await
    }

    /// The same with these headers, which are not signed.
    pub async fn post_with(&self, body: &str, headers: &[(&str, &str)]) -> (u16, String, String) {
        let header = stripe_header(body, self.clock.now_ms() / 1_000);
        let url = format!("http://{}/webhooks/stripe", self.running.receiver_addr);
        let mut request = self.client.post(url).header("stripe-signature", header);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.body(body.to_owned()).send().await.unwrap();
        let outcome = response
            .headers()
            .get("hooklatch-outcome")
            .map_or("", |value| value.to_str().unwrap())
            .to_owned();
        (response.status().as_u16(), outcome, response.text().await.unwrap())
    }

    /// Sends an event of `id` and `event_type`, with `amount` in its payload; the outcome.
    pub async fn event(&self, id: &str, event_type: &str, amount: i64) -> String {
        self.post(&event_body(id, event_type, amount)).await.1
    }
}

/// Checks that a handler of `broken` which never ends by itself is given up, and that other events go on.
pub async fn is_given_up(database: &Database, kind: Provider) {
    let app = TestApp::start(database, kind, "").await;
    // Whether the answer is 200 or 503 depends on the time; that it is stored and given up does not.
    let first = app.event("stalled", "broken", 1).await;
    assert!(["accepted", ""].contains(&first.as_str()), "{first}");
    until("it is kept", Duration::from_secs(20), String::new, async || {
        database.count("SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'retry'").await == 1
    })
    .await;
    assert_eq!(app.event("other", "other", 1).await, "accepted");
    app.running.stop().await;
}

/// The body of a Stripe event.
pub fn event_body(id: &str, event_type: &str, amount: i64) -> String {
    format!(
        r#"{{"id":"{id}","type":"{event_type}","data":{{"object":{{"id":"in_{id}","amount_paid":{amount}}}}}}}"#
    )
}
