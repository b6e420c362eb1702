//! NATS `JetStream`: the stream itself drops copies.

use async_nats::jetstream::{self, stream};
use hooklatch_core::config::{Format, UnknownPolicy};

use super::{Bench, Received, TestDestination, config, server, shows_no_password, unique};

struct Nats {
    context: jetstream::Context,
    subject: String,
    stream: stream::Stream,
}

async fn context() -> Option<(jetstream::Context, u16)> {
    let url = server("HOOKLATCH_TEST_NATS_URL")?;
    let client = async_nats::connect(url.as_str()).await.unwrap();
    Some((jetstream::new(client), url.port().unwrap_or(4_222)))
}

async fn nats() -> Option<(Nats, u16)> {
    let (context, port) = context().await?;
    let name = unique("hooklatch");
    let subject = format!("{name}.paid");
    let config = stream::Config {
        name: name.clone(),
        subjects: vec![format!("{name}.>")],
        ..stream::Config::default()
    };
    let stream = context.create_stream(config).await.unwrap();
    Some((Nats { context, subject, stream }, port))
}

fn keys(port: u16, subject: &str) -> String {
    format!("url = \"nats://127.0.0.1:{port}\"\nsubject = \"{subject}\"")
}

impl TestDestination for Nats {
    const DROPS_COPIES: bool = true;
    const NOTICES: bool = true;

    fn keys(&self, port: u16) -> String {
        keys(port, &self.subject)
    }

    async fn received(&self) -> Vec<Received> {
        let state = self.stream.get_info().await.unwrap().state;
        let mut all = Vec::new();
        // Numbers begin at 1; a stream that is empty says 0.
        for sequence in state.first_sequence.max(1)..=state.last_sequence {
            let message = self.stream.get_raw_message(sequence).await.unwrap();
            let metadata = message.headers.iter().map(|(name, values)| {
                (name.to_string(), values.first().map(ToString::to_string).unwrap_or_default())
            });
            let key = message.headers.get("Nats-Msg-Id").unwrap().to_string();
            all.push(Received { key, body: message.payload.to_vec(), metadata: metadata.collect() });
        }
        all
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_twice_is_there_once_and_a_lost_answer_is_unknown() {
    let Some((nats, port)) = nats().await else { return };
    Bench::new(&nats, port, false).await.shows().await;
}

#[cfg(feature = "otel")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_says_of_which_span_it_is() {
    let Some((nats, port)) = nats().await else { return };
    super::shows_its_span(&nats, port).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subject_that_no_stream_takes_is_tried_again_until_one_does() {
    let Some((context, port)) = context().await else { return };
    let name = unique("hooklatch");
    let database = crate::database::Database::create(crate::database::On::Sqlite).await.unwrap();
    let fixture = crate::outbox::Fixture::new(&database).await;
    fixture.message("evt_1", &["billing"]).await;
    let mut config = config(&fixture, &keys(port, &name), UnknownPolicy::Hold);
    config.format = Format::CloudEvents;
    let outbox = fixture.outbox(config);
    outbox.run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    assert_eq!(row.state, hooklatch_core::types::MessageState::Ready);
    assert_eq!(row.last_error.unwrap(), format!("no stream takes the subject `{name}`"));
    let wanted =
        stream::Config { name: name.clone(), subjects: vec![name.clone()], ..stream::Config::default() };
    let stream = context.create_stream(wanted).await.unwrap();
    fixture.step_to_the_end(&outbox).await;
    assert_eq!(fixture.state("evt_1").await, "done");
    let nats = Nats { context, subject: name, stream };
    let received = nats.received().await.pop().unwrap();
    let event: serde_json::Value = serde_json::from_slice(&received.body).unwrap();
    let key = crate::store::call_key(&fixture.store, "evt_1", "billing").await;
    assert_eq!((&event["id"], &event["data"]["a"]), (&key.into(), &1.into()));
    assert_eq!(received.metadata["content-type"], "application/cloudevents+json; charset=UTF-8");
    drop(nats.context);
}

#[tokio::test]
async fn a_password_in_a_url_is_never_shown() {
    shows_no_password("url = \"nats://user:canary@127.0.0.1:1\"\nsubject = \"a\"").await;
}
