//! Kafka's protocol, spoken by librdkafka's own cluster of one: copies arrive, with the same key.

use hooklatch_core::config::UnknownPolicy;
use rskafka::client::ClientBuilder;
use rskafka::client::partition::{OffsetAt, UnknownTopicHandling};

use super::proxy::Mode;
use super::{Bench, Received, TestDestination, server, shows_no_password, unique};

struct Kafka {
    client: rskafka::client::Client,
    topic: String,
}

async fn kafka() -> Option<(Kafka, u16)> {
    let url = server("HOOKLATCH_TEST_KAFKA_URL")?;
    let port = url.port().unwrap_or(9_092);
    let client = ClientBuilder::new(vec![format!("127.0.0.1:{port}")]).build().await.unwrap();
    Some((Kafka { client, topic: unique("hooklatch") }, port))
}

impl Kafka {
    /// The stand-in makes a topic of four partitions when it is asked for.
    async fn create(&self) {
        self.client.partition_client(self.topic.as_str(), 0, UnknownTopicHandling::Retry).await.unwrap();
    }
}

impl TestDestination for Kafka {
    const DROPS_COPIES: bool = false;
    const NOTICES: bool = false;

    fn keys(&self, port: u16) -> String {
        format!("url = \"kafka://127.0.0.1:{port}\"\ntopic = \"{}\"", self.topic)
    }

    async fn received(&self) -> Vec<Received> {
        let topics = self.client.list_topics().await.unwrap();
        let topic = topics.into_iter().find(|topic| topic.name == self.topic).unwrap();
        let mut all = Vec::new();
        for partition in topic.partitions {
            let client = self
                .client
                .partition_client(self.topic.as_str(), partition, UnknownTopicHandling::Error)
                .await
                .unwrap();
            let end = client.get_offset(OffsetAt::Latest).await.unwrap();
            let mut at = 0;
            while at < end {
                let (records, _) = client.fetch_records(at, 1..1_000_000, 1_000).await.unwrap();
                for one in records {
                    at = one.offset + 1;
                    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                    let metadata = one.record.headers.into_iter().map(|(name, value)| (name, text(value)));
                    all.push(Received {
                        key: text(one.record.key.unwrap()),
                        body: one.record.value.unwrap(),
                        metadata: metadata.collect(),
                    });
                }
            }
        }
        // Partitions have no order among them.
        all.sort_by(|left, right| left.key.cmp(&right.key));
        all
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_twice_has_one_key_and_a_lost_answer_is_unknown() {
    let Some((kafka, port)) = kafka().await else { return };
    kafka.create().await;
    Bench::new(&kafka, port, true).await.shows().await;
}

#[cfg(feature = "otel")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_says_of_which_span_it_is() {
    let Some((kafka, port)) = kafka().await else { return };
    kafka.create().await;
    super::shows_its_span(&kafka, port).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_that_is_not_there_is_tried_again_until_it_is() {
    let Some((kafka, port)) = kafka().await else { return };
    let bench = Bench::new(&kafka, port, true).await;
    bench.fixture.message("evt_1", &["billing"]).await;
    let outbox = bench.outbox(UnknownPolicy::Hold);
    outbox.run_due().await.unwrap();
    assert_eq!(bench.fixture.state("evt_1").await, "ready");
    assert_eq!(bench.error("evt_1").await, format!("not sent: there is no topic `{}`", kafka.topic));
    kafka.create().await;
    bench.fixture.step_to_the_end(&outbox).await;
    assert_eq!(bench.fixture.state("evt_1").await, "done");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_when_we_were_asked_to_wait_is_never_called_not_sent() {
    let Some((kafka, port)) = kafka().await else { return };
    kafka.create().await;
    let bench = Bench::new(&kafka, port, true).await;
    bench.fixture.message("evt_1", &["billing"]).await;
    bench.proxy.is(Mode::Throttled);
    bench.outbox(UnknownPolicy::Hold).run_due().await.unwrap();
    assert_eq!(bench.fixture.state("evt_1").await, "held", "{}", bench.error("evt_1").await);
    assert_eq!(bench.keys().await.len(), 1, "nothing is sent again before an operator decides");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_broker_refuses_after_it_asked_us_to_wait_is_unknown_where_copies_are_allowed() {
    let Some((kafka, port)) = kafka().await else { return };
    kafka.create().await;
    let bench = Bench::new(&kafka, port, true).await;
    bench.fixture.message("evt_1", &["billing"]).await;
    bench.proxy.is(Mode::Throttled);
    bench.outbox(UnknownPolicy::Retry).run_due().await.unwrap();
    assert_eq!(bench.fixture.state("evt_1").await, "ready");
    let error = bench.error("evt_1").await;
    assert!(error.contains("an earlier round may have written it; then:"), "{error}");
    assert_eq!(bench.keys().await.len(), 2, "the client sent it again, of its own accord");
}

#[tokio::test]
async fn a_password_in_a_url_is_never_shown() {
    shows_no_password("url = \"kafka://user:canary@127.0.0.1:1\"\ntopic = \"a\"").await;
}
