//! NATS `JetStream`: publishes under `Nats-Msg-Id` and waits for the stream's acknowledgement.
//!
//! A stream drops what is published again under an id within its duplicate window, and reports it: that is as good as
//! new.

use super::{BROKER, DestinationKind, KeyRule};

/// A subject that a stream of NATS `JetStream` takes.
pub(crate) const NATS: DestinationKind = DestinationKind {
    name: "nats",
    schemes: &["nats", "tls"],
    keys: &[(
        "subject",
        KeyRule::Text(
            None,
            is_subject,
            "write words with dots between them, without spaces or wildcards: webhooks.paid",
        ),
    )],
    feature: Some("nats"),
    silent: &["async_nats"],
    #[cfg(feature = "nats")]
    connect: Some(crate::destinations::broker::connect::<client::NatsProtocol>),
    ..BROKER
};

/// Words with dots between them.
fn is_subject(text: &str) -> bool {
    let is_token = |token: &str| {
        !token.is_empty()
            && !token.contains(['*', '>'])
            && token.chars().all(|c| !c.is_whitespace() && !c.is_control())
    };
    text.split('.').all(is_token)
}

#[cfg(feature = "nats")]
mod client {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use async_nats::connection::State;
    use async_nats::header::NATS_MESSAGE_ID;
    use async_nats::jetstream::context::{ContextBuilder, PublishError, PublishErrorKind};
    use async_nats::jetstream::{Context, Error};
    use async_nats::{Client, ConnectOptions, HeaderMap, HeaderName, HeaderValue, ServerAddr};
    use percent_encoding::percent_decode_str;
    use tokio::time::Instant;

    use crate::destinations::ClientSettings;
    use crate::destinations::broker::{BrokerProtocol, Published, error_line};
    use crate::destinations::envelope::metadata;
    use crate::policy::CallAnswer;
    use hooklatch_store::LeasedMessage;

    /// The stream's `max_msg_size` is exceeded: no later attempt can end better.
    const TOO_LARGE: u64 = 10_054;

    /// What a leader says of a message that its replicas have agreed on and that it cannot store itself: no room left,
    /// its own state is behind, or its store failed. The others may have stored it. Source: nats-server,
    /// `processJetStreamMsg` in server/stream.go, which runs behind the agreement.
    const NO_ROOM: u64 = 10_023;
    const OUT_OF_STEP: u64 = 10_063;
    const STORE_FAILED: u64 = 10_077;
    /// How the store's own limits begin, which are the same at each replica: "maximum messages exceeded".
    const LIMIT: &str = "maximum ";

    /// Longest look at the stream's settings, of which only a warning depends.
    const LOOK: Duration = Duration::from_millis(500);

    /// A subject, and where the servers are.
    pub(crate) struct NatsProtocol {
        address: ServerAddr,
        options: ConnectOptions,
        subject: String,
        timeout: Duration,
        key_valid_for: Duration,
        /// True once the stream's window was looked at.
        is_looked_at: AtomicBool,
    }

    impl NatsProtocol {
        /// Warns, once, of a stream that forgets ids sooner than they are used: it would take a late copy for new.
        /// A server that does not let us look is not asked again.
        async fn look_at_window(&self, context: &Context) {
            if self.is_looked_at.swap(true, Ordering::Relaxed) {
                return;
            }
            let look = async {
                let name = context.stream_by_subject(self.subject.as_str()).await.ok()?;
                let stream = context.get_stream(name).await.ok()?;
                Some(stream.cached_info().config.duplicate_window)
            };
            let window = tokio::time::timeout(LOOK.min(self.timeout / 4), look).await.ok().flatten();
            if let Some(window) = window.filter(|window| *window < self.key_valid_for) {
                tracing::warn!(
                    subject = %self.subject,
                    duplicate_window_s = window.as_secs(),
                    key_valid_for_s = self.key_valid_for.as_secs(),
                    "stream forgets message ids sooner than key_valid_for_ms; a message repeated later is there twice"
                );
            }
        }

        fn headers(message: &LeasedMessage) -> Result<HeaderMap, String> {
            let mut headers = HeaderMap::new();
            headers.insert(NATS_MESSAGE_ID, value("nats-msg-id", &message.idempotency_key)?);
            for (name, text) in metadata(message) {
                let parsed: HeaderName =
                    name.parse().map_err(|_| format!("`{name}` is not a header name"))?;
                headers.insert(parsed, value(&name, &text)?);
            }
            Ok(headers)
        }

        fn failed(&self, error: &PublishError) -> CallAnswer {
            let why = error_line(error);
            match error.kind() {
                PublishErrorKind::StreamNotFound => {
                    CallAnswer::NotNow(format!("no stream takes the subject `{}`", self.subject))
                }
                PublishErrorKind::MaxPayloadExceeded => CallAnswer::Refused(why),
                PublishErrorKind::MaxAckPending => CallAnswer::NotSent(why),
                PublishErrorKind::TimedOut | PublishErrorKind::BrokenPipe => CallAnswer::Unknown(why),
                _ => {
                    let refusal = std::error::Error::source(error).and_then(|source| source.downcast_ref());
                    refusal.map_or_else(|| CallAnswer::Unknown(why.clone()), |it| refused(it, why.clone()))
                }
            }
        }
    }

    /// The stream's own answer, which is an error.
    pub(crate) fn refused(refusal: &Error, why: String) -> CallAnswer {
        match refusal.error_code().0 {
            TOO_LARGE => CallAnswer::Refused(why),
            STORE_FAILED if refusal.to_string().starts_with(LIMIT) => CallAnswer::NotNow(why),
            NO_ROOM | OUT_OF_STEP | STORE_FAILED => CallAnswer::Unknown(why),
            _ => CallAnswer::NotNow(why),
        }
    }

    fn value(name: &str, text: &str) -> Result<HeaderValue, String> {
        text.parse().map_err(|_| format!("value of header `{name}` has characters a header cannot carry"))
    }

    impl BrokerProtocol for NatsProtocol {
        type Connection = (Client, Context);
        const KNOWS_ITS_END: bool = true;

        fn new(settings: &ClientSettings<'_>) -> Result<Self, String> {
            let target = &settings.config.target;
            let no_url = || "it is not a NATS url".to_owned();
            let mut url = reqwest::Url::parse(target.url().reveal()).map_err(|_| no_url())?;
            let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
            let user = Some(url.username()).filter(|user| !user.is_empty()).map(decoded);
            let password = url.password().map(decoded);
            // The library would take the address for harmless and might show it.
            let is_bare = url.set_username("").is_ok() && url.set_password(None).is_ok();
            let address = ServerAddr::from_url(url).ok().filter(|_| is_bare);
            // A client that reconnects after a long time would send what it still holds, long after the attempt was
            // settled. One try, and then a new client is made for the next attempt.
            let options = ConnectOptions::new()
                .name("hooklatch")
                .connection_timeout(settings.timeout)
                .max_reconnects(1);
            Ok(Self {
                address: address.ok_or_else(no_url)?,
                options: match (user, password) {
                    (Some(user), Some(password)) => options.user_and_password(user, password),
                    (Some(token), None) => options.token(token),
                    (None, _) => options,
                },
                subject: target.text("subject").to_owned(),
                timeout: settings.timeout,
                key_valid_for: Duration::from_millis(settings.config.key_valid_for_ms),
                is_looked_at: AtomicBool::new(false),
            })
        }

        async fn connect(&self) -> Result<Self::Connection, String> {
            let client = self
                .options
                .clone()
                .connect(self.address.clone())
                .await
                .map_err(|error| error_line(&error))?;
            let context =
                ContextBuilder::new().timeout(self.timeout).ack_timeout(self.timeout).build(client.clone());
            self.look_at_window(&context).await;
            Ok((client, context))
        }

        fn is_alive((client, _): &Self::Connection) -> bool {
            client.connection_state() == State::Connected
        }

        async fn publish(
            &self,
            (_, context): &Self::Connection,
            message: &LeasedMessage,
            _: Instant,
        ) -> Published {
            let headers = Self::headers(message).map_err(CallAnswer::Forbidden)?;
            let publish = context.publish_with_headers(self.subject.clone(), headers, message.body.clone());
            let acknowledged = publish.await.map_err(|error| match error.kind() {
                // The message is still here: the client that would have taken it is gone.
                PublishErrorKind::Other => CallAnswer::NotSent(error_line(&error)),
                _ => self.failed(&error),
            })?;
            acknowledged.await.map(drop).map_err(|error| self.failed(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::check_rule;
    #[cfg(feature = "nats")]
    use crate::policy::CallAnswer;

    #[cfg(feature = "nats")]
    #[test]
    fn what_a_leader_could_not_store_is_unknown_because_its_replicas_may_have_it() {
        #[track_caller]
        fn check(code: u64, description: &str, want: &str) {
            let refusal = serde_json::json!({ "code": 503, "err_code": code, "description": description });
            let refusal = serde_json::from_value(refusal).unwrap();
            let word = match client::refused(&refusal, String::new()) {
                CallAnswer::NotNow(_) => "retry",
                CallAnswer::Refused(_) => "dead",
                CallAnswer::Unknown(_) => "unknown",
                _ => "another",
            };
            assert_eq!(word, want, "{code} {description}");
        }
        check(10_077, "maximum messages exceeded", "retry");
        check(10_077, "maximum bytes exceeded", "retry");
        check(10_077, "maximum messages per subject exceeded", "retry");
        check(10_077, "write /data/1.blk: no space left on device", "unknown");
        check(10_077, "", "unknown");
        check(10_023, "insufficient resources", "unknown");
        check(10_063, "expected stream sequence does not match", "unknown");
        check(10_054, "message size exceeds maximum allowed", "dead");
        check(10_008, "JetStream system temporarily unavailable", "retry");
        check(10_109, "invalid operation on sealed stream", "retry");
    }

    #[test]
    fn each_key_takes_what_the_destination_takes() {
        check_rule(
            "subject",
            is_subject,
            &["a", "a.b-c.d_1"],
            &["", "a..b", ".a", "a.", "a.*", "a.>", "a b"],
        );
    }
}
