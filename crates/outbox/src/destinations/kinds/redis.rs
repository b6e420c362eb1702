//! Redis Streams: one script that adds an entry once per idempotency key and remembers the key for as long as it
//! may be used.
//!
//! Redis runs a script alone and writes its effects together, so there is no moment with an entry and no marker.

use super::{BROKER, DestinationKind, KeyRule};

/// A stream of a Redis server.
pub(crate) const REDIS: DestinationKind = DestinationKind {
    name: "redis",
    schemes: &["redis", "rediss"],
    keys: &[
        ("stream", KeyRule::Text(None, |text| !text.is_empty(), "give it a name")),
        // About how many entries the stream has at most; no limit when it is absent.
        ("stream_len_max", KeyRule::Number(1..=1_000_000_000_000)),
    ],
    feature: Some("redis"),
    silent: &["redis"],
    #[cfg(feature = "redis")]
    connect: Some(crate::destinations::broker::connect::<client::RedisProtocol>),
    ..BROKER
};

#[cfg(feature = "redis")]
mod client {
    use redis::aio::MultiplexedConnection;
    use redis::{AsyncConnectionConfig, Client, ErrorKind, RedisError, Script};
    use tokio::time::Instant;

    use crate::destinations::ClientSettings;
    use crate::destinations::broker::{BrokerProtocol, Published, error_line};
    use crate::destinations::envelope::metadata;
    use crate::policy::CallAnswer;
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

    /// A stream, and where the server is.
    pub(crate) struct RedisProtocol {
        client: Client,
        script: Script,
        stream: String,
        /// A number, or the empty text for no limit.
        stream_len_max: String,
        key_valid_for_ms: u64,
    }

    impl RedisProtocol {
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

        fn new(settings: &ClientSettings<'_>) -> Result<Self, String> {
            let target = &settings.config.target;
            Ok(Self {
                client: Client::open(target.url().reveal()).map_err(|_| {
                    "it is not a Redis url: redis://USER:PASSWORD@HOST:PORT/DATABASE".to_owned()
                })?,
                script: Script::new(ADD_ONCE),
                stream: target.text("stream").to_owned(),
                stream_len_max: target.text("stream_len_max").to_owned(),
                key_valid_for_ms: settings.config.key_valid_for_ms,
            })
        }

        async fn connect(&self) -> Result<Self::Connection, String> {
            // The caller limits the time.
            let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            let connecting = self.client.get_multiplexed_async_connection_with_config(&config);
            connecting.await.map_err(|error| error_line(&error))
        }

        async fn publish(
            &self,
            connection: &MultiplexedConnection,
            message: &LeasedMessage,
            _: Instant,
        ) -> Published {
            let mut call = self.script.key(&self.stream);
            call.key(self.marker(&message.idempotency_key))
                .arg(self.key_valid_for_ms)
                .arg(&self.stream_len_max);
            for (name, value) in metadata(message) {
                call.arg(name).arg(value);
            }
            call.arg("body").arg(message.body.as_ref());
            let added = call.invoke_async::<u8>(&mut connection.clone()).await;
            added.map(drop).map_err(|error| failed(&error))
        }
    }

    fn failed(error: &RedisError) -> CallAnswer {
        let why = error_line(error);
        if error.code() == Some(MARKER_STAYS) {
            // Another attempt would find the marker and take the message for done.
            return CallAnswer::Refused(format!("{why}; delete its marker before it is sent again"));
        }
        match error.kind() {
            // Its own word, and by the script's order of steps no entry was added: no memory, read-only, loading, no
            // permission, not a stream.
            ErrorKind::Server(_) | ErrorKind::Extension => CallAnswer::NotNow(why),
            _ => CallAnswer::Unknown(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::check_rule;

    #[test]
    fn each_key_takes_what_the_destination_takes() {
        let KeyRule::Text(_, is_stream, _) = &REDIS.keys[0].1 else { unreachable!() };
        check_rule("stream", *is_stream, &["a", "a b", "{a}"], &[""]);
    }
}
