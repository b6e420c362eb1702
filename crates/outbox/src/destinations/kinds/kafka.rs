//! Kafka: one record for each attempt, acknowledged by all replicas in sync.
//!
//! The client has no idempotent producer, and no producer's idempotence outlives its process: copies are possible,
//! and consumers know them by the record's key, which is the idempotency key. One key always goes to one
//! partition, so a consumer meets its copies in one place. Why this client: docs/adr/0016.

use super::{BROKER, DestinationKind, KeyRule};

/// A topic of a Kafka cluster.
pub(crate) const KAFKA: DestinationKind = DestinationKind {
    name: "kafka",
    schemes: &["kafka", "kafkas"],
    keys: &[("topic", KeyRule::Text(None, is_topic, "write 1 to 249 letters, digits, `.`, `_` and `-`"))],
    feature: Some("kafka"),
    silent: &["rskafka"],
    url_form: "write kafka://HOST:PORT or kafka://USER:PASSWORD@HOST:PORT,HOST:PORT",
    is_url: |url| hosts(url).is_some(),
    #[cfg(feature = "kafka")]
    connect: Some(crate::destinations::broker::connect::<client::KafkaProtocol>),
    ..BROKER
};

/// `HOST:PORT` for each broker, when all are right.
fn hosts(url: &str) -> Option<Vec<&str>> {
    let (_, rest) = url.split_once("://")?;
    let rest = rest.split(['/', '?']).next()?;
    let hosts = rest.rsplit_once('@').map_or(rest, |(_, hosts)| hosts);
    let is_right = |host: &str| {
        host.rsplit_once(':').is_some_and(|(name, port)| !name.is_empty() && port.parse::<u16>().is_ok())
    };
    hosts.split(',').map(|host| is_right(host).then_some(host)).collect()
}

/// The name of a topic.
fn is_topic(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&text.len()) && !matches!(text, "." | "..") && text.bytes().all(is_fit)
}

#[cfg(feature = "kafka")]
mod client {
    use std::cell::Cell;
    use std::collections::BTreeMap;
    use std::future::poll_fn;
    use std::pin::pin;
    use std::sync::{Arc, LazyLock};
    use std::task::Poll;
    use std::time::Duration;

    use percent_encoding::percent_decode_str;
    use rskafka::client::error::{Error, ProtocolError, RequestError};
    use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
    use rskafka::client::{Client, ClientBuilder, Credentials, SaslConfig};
    use rskafka::record::Record;
    use rskafka::{BackoffConfig, BackoffError, chrono};
    use sha2::{Digest, Sha256};
    use tokio::sync::OnceCell;
    use tokio::time::Instant;
    use tracing::instrument::WithSubscriber;
    use tracing::{Dispatch, Metadata, Subscriber, span};

    use crate::destinations::ClientSettings;
    use crate::destinations::broker::{BrokerProtocol, Published, error_line};
    use crate::destinations::envelope::metadata;
    use crate::policy::CallAnswer;
    use hooklatch_core::config::UnknownPolicy;
    use hooklatch_store::LeasedMessage;

    /// A topic, and where the cluster is.
    pub(crate) struct KafkaProtocol {
        brokers: Vec<String>,
        tls: Option<Arc<rustls::ClientConfig>>,
        sasl: Option<SaslConfig>,
        topic: String,
        /// True where a record whose outcome is unknown may be sent again without an operator's decision.
        is_repeated: bool,
    }

    /// A cluster and the partitions of the topic; the leader of each is looked up when it is first needed.
    pub(crate) struct Cluster {
        client: Client,
        partitions: BTreeMap<i32, OnceCell<PartitionClient>>,
    }

    fn sasl(user: &str, query: &str) -> Result<SaslConfig, String> {
        let (user, password) = user.split_once(':').unwrap_or((user, ""));
        let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let credentials = Credentials::new(decoded(user), decoded(password));
        match query {
            "" | "mechanism=plain" => Ok(SaslConfig::Plain(credentials)),
            "mechanism=scram-sha-256" => Ok(SaslConfig::ScramSha256(credentials)),
            "mechanism=scram-sha-512" => Ok(SaslConfig::ScramSha512(credentials)),
            _ => Err("after `?` only mechanism=plain, scram-sha-256 or scram-sha-512 is known".to_owned()),
        }
    }

    fn tls() -> Result<rustls::ClientConfig, String> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err("no certificate authorities were found on this machine".to_owned());
        }
        Ok(rustls::ClientConfig::builder().with_root_certificates(roots).with_no_client_auth())
    }

    /// The partition of every attempt of a key.
    pub(crate) fn partition_of(idempotency_key: &str, partitions_n: usize) -> usize {
        let digest = Sha256::digest(idempotency_key.as_bytes());
        let number = digest.iter().take(4).fold(0, |number, byte| number << 8 | usize::from(*byte));
        number % partitions_n.max(1)
    }

    impl BrokerProtocol for KafkaProtocol {
        type Connection = Cluster;

        /// `kafka://USER:PASSWORD@HOST:PORT,HOST:PORT?mechanism=plain`, or `kafkas://` for TLS.
        fn new(settings: &ClientSettings<'_>) -> Result<Self, String> {
            let target = &settings.config.target;
            let (scheme, rest) = target.url().reveal().split_once("://").ok_or("it is not a Kafka url")?;
            let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
            let rest = rest.trim_end_matches('/');
            let (user, hosts) =
                rest.rsplit_once('@').map_or((None, rest), |(user, hosts)| (Some(user), hosts));
            Ok(Self {
                brokers: hosts.split(',').map(str::to_owned).collect(),
                tls: if scheme == "kafkas" { Some(Arc::new(tls()?)) } else { None },
                sasl: user.map(|user| sasl(user, query)).transpose()?,
                topic: target.text("topic").to_owned(),
                is_repeated: settings.config.unknown == UnknownPolicy::Retry,
            })
        }

        async fn connect(&self) -> Result<Self::Connection, String> {
            // No second try in here, but for what a broker asks to wait for: the outbox counts and spaces attempts.
            let first_ms = Duration::from_millis(1);
            let once = BackoffConfig {
                init_backoff: first_ms,
                max_backoff: first_ms,
                base: 2.0,
                deadline: Some(Duration::ZERO),
            };
            let mut builder =
                ClientBuilder::new(self.brokers.clone()).client_id("hooklatch").backoff_config(once);
            if let Some(tls) = &self.tls {
                builder = builder.tls_config(Arc::clone(tls));
            }
            if let Some(sasl) = &self.sasl {
                builder = builder.sasl_config(sasl.clone());
            }
            let client = builder.build().await.map_err(|error| error_text(&error))?;
            let topics = client.list_topics().await.map_err(|error| error_text(&error))?;
            let topic = topics.into_iter().find(|topic| topic.name == self.topic);
            let partitions = topic.map(|topic| topic.partitions).filter(|partitions| !partitions.is_empty());
            let partitions = partitions.ok_or_else(|| format!("there is no topic `{}`", self.topic))?;
            let partitions = partitions.into_iter().map(|partition| (partition, OnceCell::new())).collect();
            Ok(Cluster { client, partitions })
        }

        async fn publish(&self, cluster: &Cluster, message: &LeasedMessage, _: Instant) -> Published {
            let n = partition_of(&message.idempotency_key, cluster.partitions.len());
            let (partition, cell) = cluster
                .partitions
                .iter()
                .nth(n)
                .ok_or_else(|| CallAnswer::NotSent("the topic has no partitions".to_owned()))?;
            let leader = cell.get_or_try_init(|| {
                cluster.client.partition_client(self.topic.as_str(), *partition, UnknownTopicHandling::Error)
            });
            let leader = leader.await.map_err(|error| CallAnswer::NotSent(error_text(&error)))?;
            let timestamp = chrono::DateTime::from_timestamp_millis(message.created_at_ms)
                .ok_or_else(|| CallAnswer::Forbidden("time of the message is out of range".to_owned()))?;
            let record = Record {
                key: Some(message.idempotency_key.clone().into_bytes()),
                value: Some(message.body.to_vec()),
                headers: metadata(message)
                    .into_iter()
                    .map(|(name, value)| (name, value.into_bytes()))
                    .collect(),
                timestamp,
            };
            let produce = leader.produce(vec![record], Compression::NoCompression);
            let (written, was_throttled) = watched(produce, self.is_repeated).await;
            let Some(written) = written else {
                let why = "a broker asked us to wait; the client does not say whether it wrote the record";
                return Err(CallAnswer::Unknown(why.to_owned()));
            };
            written.map(drop).map_err(|error| match failed(&error) {
                CallAnswer::NotSent(why) | CallAnswer::NotNow(why) | CallAnswer::Refused(why)
                    if was_throttled =>
                {
                    CallAnswer::Unknown(format!("an earlier round may have written it; then: {why}"))
                }
                answer => answer,
            })
        }
    }

    tokio::task_local! {
        static WAS_THROTTLED: Cell<bool>;
    }

    /// Notes that a broker asked the library to wait. The library discards that answer, whatever it says of the record,
    /// logs a line, waits, and sends the record again; it returns nothing of this.
    struct ThrottleListener;

    impl Subscriber for ThrottleListener {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target().starts_with("rskafka") && metadata.fields().field("throttle").is_some()
        }

        fn event(&self, _: &tracing::Event<'_>) {
            // An error means that no call is watched.
            WAS_THROTTLED.try_with(|was_throttled| was_throttled.set(true)).unwrap_or_default();
        }

        fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
        fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
        fn enter(&self, _: &span::Id) {}
        fn exit(&self, _: &span::Id) {}
    }

    /// Runs a call to its end, and says whether a broker asked to wait meanwhile. Unless the record may be repeated,
    /// the call ends there, without a result: the library waits at least a millisecond before it sends the record
    /// again.
    async fn watched<T>(call: impl Future<Output = T>, is_repeated: bool) -> (Option<T>, bool) {
        static LISTENER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(ThrottleListener));
        // A program that compiles such lines out leaves nothing to go by.
        let is_deaf = tracing::level_filters::STATIC_MAX_LEVEL < tracing::Level::INFO;
        let listened = async {
            let mut call = pin!(call.with_subscriber(LISTENER.clone()));
            let ended = poll_fn(|cx| match call.as_mut().poll(cx) {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                Poll::Pending if !is_repeated && WAS_THROTTLED.with(Cell::get) => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            });
            (ended.await, WAS_THROTTLED.with(Cell::get) || is_deaf)
        };
        WAS_THROTTLED.scope(Cell::new(false), listened).await
    }

    /// The error text of the one try, without the library's words about retries, which are never made.
    fn error_text(error: &Error) -> String {
        let text = error.to_string();
        error_line(&text.rsplit_once("Source: ").map_or(text.as_str(), |(_, source)| source))
    }

    /// The library wraps the error of the one try in words about retries: there are none.
    fn failed(error: &Error) -> CallAnswer {
        if let Error::RetryFailed(BackoffError::DeadlineExceded { source, .. }) = error
            && let Some(inner) = source.downcast_ref::<Error>()
        {
            return failed(inner);
        }
        let why = error_text(error);
        match error {
            // The leader was not reached.
            Error::Connection(_)
            | Error::Request(
                RequestError::NoVersionMatch { .. }
                | RequestError::WriteError(_)
                | RequestError::WriteMessageError(_),
            ) => CallAnswer::NotSent(why),
            Error::ServerError { protocol_error, .. } => refused(*protocol_error),
            _ => CallAnswer::Unknown(why),
        }
    }

    /// What the broker answered; only the name of its error is used, because the library's text repeats the request.
    pub(crate) fn refused(error: ProtocolError) -> CallAnswer {
        let why = error_line(&error);
        match error {
            ProtocolError::MessageTooLarge
            | ProtocolError::RecordListTooLarge
            | ProtocolError::InvalidRecord
            | ProtocolError::InvalidTimestamp
            | ProtocolError::PolicyViolation => CallAnswer::Refused(why),
            // Checked before anything is written.
            ProtocolError::NotEnoughReplicas
            | ProtocolError::TopicAuthorizationFailed
            | ProtocolError::ClusterAuthorizationFailed
            | ProtocolError::InvalidTopicException
            | ProtocolError::UnsupportedVersion => CallAnswer::NotNow(why),
            // Written by some, or timed out, or something of which we do not know what it leaves behind. That the
            // broker is not the leader, or has no such partition, is also reported of a record that it has written and
            // that waits for its followers when leadership moves (Kafka's `DelayedProduce`).
            _ => CallAnswer::Unknown(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::check_rule;
    #[cfg(feature = "kafka")]
    use {crate::policy::CallAnswer, rskafka::client::error::ProtocolError};

    #[test]
    fn each_key_takes_what_the_destination_takes() {
        check_rule("topic", is_topic, &["a", "a.b-c_1"], &["", ".", "..", "a b", "é", "a/b"]);
    }

    #[test]
    fn a_url_names_every_host_with_its_port() {
        assert_eq!(hosts("kafka://a:1,b:2").unwrap(), ["a:1", "b:2"]);
        assert_eq!(hosts("kafka://u:p%40@a:1?mechanism=plain").unwrap(), ["a:1"]);
        for wrong in ["kafka://", "kafka://a", "kafka://a:1,b", "kafka://a:x", "kafka://:1", "kafka://a:1,"] {
            assert_eq!(hosts(wrong), None, "{wrong}");
        }
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn a_key_always_goes_to_the_same_partition_and_keys_are_spread() {
        assert_eq!(client::partition_of("key-1", 6), client::partition_of("key-1", 6));
        let met: std::collections::BTreeSet<usize> =
            (0..100).map(|n| client::partition_of(&format!("key-{n}"), 6)).collect();
        assert_eq!(met.len(), 6);
        assert_eq!(client::partition_of("key-1", 0), 0);
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn an_error_is_unknown_unless_it_proves_that_nothing_was_written() {
        assert!(matches!(client::refused(ProtocolError::NotEnoughReplicas), CallAnswer::NotNow(_)));
        assert!(matches!(client::refused(ProtocolError::MessageTooLarge), CallAnswer::Refused(_)));
        for error in [
            ProtocolError::NotEnoughReplicasAfterAppend,
            ProtocolError::RequestTimedOut,
            ProtocolError::NotLeaderOrFollower,
            ProtocolError::UnknownTopicOrPartition,
            ProtocolError::FencedLeaderEpoch,
            ProtocolError::UnknownLeaderEpoch,
            ProtocolError::LeaderNotAvailable,
        ] {
            assert!(matches!(client::refused(error), CallAnswer::Unknown(_)), "{error}");
        }
    }
}
