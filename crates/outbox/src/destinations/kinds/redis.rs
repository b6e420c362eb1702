//! Redis Streams: one script that adds an entry once per idempotency key and remembers the key for as long as it
//! may be used.
//!
//! Redis runs a script alone and writes its effects together, so there is no moment with an entry and no marker.

use crate::destinations::kinds::{DestinationKind, KindKey};

/// A stream of a Redis server.
pub(crate) struct Redis;

impl DestinationKind for Redis {
    fn name(&self) -> &'static str {
        "redis"
    }

    fn schemes(&self) -> &'static [&'static str] {
        &["redis", "rediss"]
    }

    fn keys(&self) -> &'static [KindKey] {
        const {
            &[
                KindKey::needed("stream", is_stream, "give it a name"),
                // About how many entries are kept; all when it is absent.
                KindKey::number("stream_len_max", 1..=1_000_000_000_000),
            ]
        }
    }

    fn feature(&self) -> Option<&'static str> {
        Some("redis")
    }

    fn silent(&self) -> &'static [&'static str] {
        &["redis"]
    }

    #[cfg(feature = "redis")]
    fn connect(&self) -> Option<super::Connect> {
        Some(client::connect)
    }
}

/// A key of Redis.
fn is_stream(text: &str) -> bool {
    !text.is_empty()
}

#[cfg(feature = "redis")]
mod client {
    use redis::aio::MultiplexedConnection;
    use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, Script};
    use tokio::time::Instant;

    use crate::destinations::ClientSettings;
    use crate::destinations::DestinationClient;
    use crate::destinations::DestinationError;
    use crate::destinations::broker::{BrokerProtocol, broker, words};
    use crate::destinations::envelope::metadata;
    use crate::policy::CallAnswer;
    use hooklatch_core::config::Secret;
    use hooklatch_store::LeasedMessage;

    /// The marker comes first: whatever refuses it (no permission, no memory) refuses the entry, too. A failing script
    /// is not rolled back, so when the entry cannot be added its marker is overwritten with one that is gone at once:
    /// that takes no more permission than the first. Were even that refused, the marker would pass for a copy later.
    const ADD_ONCE: &str = r"
local add = {'XADD', KEYS[1]}
if ARGV[2] ~= '' then
  for _, word in ipairs({'MAXLEN', '~', ARGV[2]}) do add[#add + 1] = word end
end
add[#add + 1] = '*'
for n = 3, #ARGV do add[#add + 1] = ARGV[n] end
if #add > 4000 then return redis.error_reply('ERR too many fields') end
if not redis.call('SET', KEYS[2], '1', 'NX', 'PX', ARGV[1]) then return 0 end
local added = redis.pcall(unpack(add))
if type(added) ~= 'table' or not added.err then return 1 end
local undone = redis.pcall('SET', KEYS[2], '0', 'PX', 1)
if undone.err then return redis.error_reply('MARKERSTAYS ' .. undone.err) end
return added";
    /// The code of a failure that leaves a marker without an entry.
    const MARKER_STAYS: &str = "MARKERSTAYS";

    /// A client for one destination of this kind.
    pub(crate) fn connect(settings: &ClientSettings<'_>) -> Result<DestinationClient, DestinationError> {
        let config = settings.config;
        let target = &config.target;
        let stream_len_max = target.text("stream_len_max").parse().ok();
        let (stream, key_valid_for_ms) = (target.text("stream"), config.key_valid_for_ms);
        let protocol = RedisProtocol::new(target.url(), stream, stream_len_max, key_valid_for_ms);
        broker(settings, protocol).map(DestinationClient::Broker)
    }

    /// A stream, and where the server is.
    struct RedisProtocol {
        client: Client,
        script: Script,
        stream: String,
        stream_len_max: Option<u64>,
        key_valid_for_ms: u64,
    }

    impl RedisProtocol {
        fn new(
            url: &Secret,
            stream: &str,
            stream_len_max: Option<u64>,
            key_valid_for_ms: u64,
        ) -> Result<Self, String> {
            let client = Client::open(url.reveal())
                .map_err(|_| "it is not a Redis url: redis://USER:PASSWORD@HOST:PORT/DATABASE".to_owned())?;
            let (script, stream) = (Script::new(ADD_ONCE), stream.to_owned());
            Ok(Self { client, script, stream, stream_len_max, key_valid_for_ms })
        }

        /// Name of the marker, in the slot of its stream, so that a cluster lets one script touch both.
        fn marker(&self, idempotency_key: &str) -> String {
            if self.stream.contains('{') {
                return format!("{}:hooklatch:{idempotency_key}", self.stream);
            }
            format!("{{{}}}:hooklatch:{idempotency_key}", self.stream)
        }
    }

    impl BrokerProtocol for RedisProtocol {
        type Connection = MultiplexedConnection;
        const KNOWS_ITS_END: bool = false;

        async fn connect(&self) -> Result<Self::Connection, String> {
            // The caller limits the time.
            let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
            connecting.await.map_err(|error| words(&error))
        }

        fn is_alive(_: &Self::Connection) -> bool {
            // It does not know; a dead one is found by using it.
            true
        }

        async fn publish(
            &self,
            connection: &Self::Connection,
            message: &LeasedMessage,
            _deadline: Instant,
        ) -> CallAnswer {
            let mut call = self.script.key(&self.stream);
            call.key(self.marker(&message.idempotency_key))
                .arg(self.key_valid_for_ms)
                .arg(self.stream_len_max.map_or_else(String::new, |n| n.to_string()));
            for (name, value) in metadata(message) {
                call.arg(name).arg(value);
            }
            call.arg("body").arg(message.body.as_ref());
            match call.invoke_async::<u8>(&mut connection.clone()).await {
                Ok(_) => CallAnswer::Done,
                Err(error) => failed(&error),
            }
        }
    }

    fn failed(error: &RedisError) -> CallAnswer {
        let why = words(error);
        if error.code() == Some(MARKER_STAYS) {
            // Another attempt would find the marker and take the message for done.
            return CallAnswer::Refused { why: format!("{why}; delete its marker before it is sent again") };
        }
        match error.kind() {
            // Its own word, and by the script's order of steps no entry was added: no memory, read-only, loading, no
            // permission, not a stream.
            ErrorKind::Server(_) | ErrorKind::Extension => CallAnswer::NotNow { why },
            _ => CallAnswer::Unknown { why },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::check_rule;

    #[test]
    fn each_key_takes_what_the_destination_takes() {
        check_rule("stream", is_stream, &["a", "a b", "{a}"], &[""]);
    }
}
