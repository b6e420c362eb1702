//! The part that all kinds but HTTP share: one connection, made when it is first needed, used while it works and made
//! anew after it did not; and one time limit for everything. A kind brings its [`BrokerProtocol`].
//!
//! What fails before anything was handed to the connection was surely not sent. Later, silence is unknown.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::{CONNECTION_AGE_MAX, ClientSettings, DestinationClient, DestinationError};
use crate::locked;
use crate::policy::CallAnswer;
use hooklatch_core::config::UnknownPolicy;
use hooklatch_store::LeasedMessage;

/// Longest idle time of a connection. Destinations and what is between drop them after a while, some without a word,
/// and then the next message's outcome would be unknown.
const IDLE: Duration = Duration::from_secs(4);
/// Longest text of an error, in characters.
const WHY_CHARS_MAX: usize = 300;

/// Sends one message, once.
pub(crate) trait Broker: Send + Sync {
    /// Never takes longer than the destination's timeout.
    fn send<'a>(
        &'a self,
        message: &'a LeasedMessage,
    ) -> Pin<Box<dyn Future<Output = CallAnswer> + Send + 'a>>;
}

/// Nothing when the destination has the message, else its answer.
pub(crate) type Published = Result<(), CallAnswer>;

/// One protocol: it connects and publishes, and tries neither twice.
pub(crate) trait BrokerProtocol: Send + Sync {
    /// A connection, which several messages may use at once.
    type Connection: Send + Sync;

    /// True when [`BrokerProtocol::is_alive`] notices that the destination closed an idle connection. Where it does
    /// not, only a write finds that out, and then it is unknown what became of the message.
    const KNOWS_ITS_END: bool = false;

    /// Reads the configuration once; the error says what is wrong with the url.
    fn new(settings: &ClientSettings<'_>) -> Result<Self, String>
    where
        Self: Sized;

    /// Makes a connection that is ready to publish, or says why there is none.
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, String>> + Send;

    /// True for a connection that is worth trying.
    fn is_alive(_connection: &Self::Connection) -> bool {
        true
    }

    /// Publishes and waits for the destination's answer. The caller stops waiting at the deadline and takes that for
    /// unknown.
    fn publish(
        &self,
        connection: &Self::Connection,
        message: &LeasedMessage,
        deadline: Instant,
    ) -> impl Future<Output = Published> + Send;
}

/// One destination and the connection to it.
struct BrokerConnection<P: BrokerProtocol> {
    protocol: P,
    timeout: Duration,
    /// A connection that was not used for longer is opened again.
    idle_max: Duration,
    current: Mutex<Option<Current<P::Connection>>>,
    /// Held by the one who connects, so that there is one.
    connecting: tokio::sync::Mutex<()>,
}

/// A connection, and when it was made and last used.
struct Current<C> {
    connection: Arc<C>,
    made_at: Instant,
    used_at: Instant,
}

impl<P: BrokerProtocol> BrokerConnection<P> {
    fn living(&self) -> Option<Arc<P::Connection>> {
        let mut current = locked(&self.current);
        let current = current.as_mut().filter(|current| {
            P::is_alive(&current.connection)
                && current.used_at.elapsed() <= self.idle_max
                && current.made_at.elapsed() < CONNECTION_AGE_MAX
        })?;
        current.used_at = Instant::now();
        Some(Arc::clone(&current.connection))
    }

    async fn connection(&self) -> Result<Arc<P::Connection>, String> {
        if let Some(living) = self.living() {
            return Ok(living);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(living) = self.living() {
            return Ok(living);
        }
        let (connection, now) = (Arc::new(self.protocol.connect().await?), Instant::now());
        *locked(&self.current) =
            Some(Current { connection: Arc::clone(&connection), made_at: now, used_at: now });
        Ok(connection)
    }

    /// Discards this connection, and no newer one.
    fn discard(&self, failed: &Arc<P::Connection>) {
        locked(&self.current).take_if(|current| Arc::ptr_eq(&current.connection, failed));
    }

    async fn send_once(&self, message: &LeasedMessage) -> CallAnswer {
        let (start, ms) = (Instant::now(), self.timeout.as_millis());
        let connection = match timeout_at(start + self.timeout / 2, self.connection()).await {
            Ok(Ok(connection)) => connection,
            Ok(Err(why)) => return CallAnswer::NotSent(why),
            Err(_) => return CallAnswer::NotSent(format!("no connection within {} ms", ms / 2)),
        };
        let deadline = start + self.timeout;
        let answer = match timeout_at(deadline, self.protocol.publish(&connection, message, deadline)).await {
            Ok(Ok(())) => CallAnswer::Done,
            Ok(Err(answer)) => answer,
            Err(_) => CallAnswer::Unknown(format!("no answer within {ms} ms")),
        };
        // After a fail-over the old server may stay up, and say of everything that it cannot now.
        if matches!(answer, CallAnswer::Unknown(_) | CallAnswer::NotSent(_) | CallAnswer::NotNow(_)) {
            self.discard(&connection);
        }
        answer
    }
}

impl<P: BrokerProtocol> Broker for BrokerConnection<P> {
    fn send<'a>(
        &'a self,
        message: &'a LeasedMessage,
    ) -> Pin<Box<dyn Future<Output = CallAnswer> + Send + 'a>> {
        Box::pin(self.send_once(message))
    }
}

/// The client of a destination that is reached by the protocol `P`.
pub(crate) fn connect<P: BrokerProtocol + 'static>(
    settings: &ClientSettings<'_>,
) -> Result<DestinationClient, DestinationError> {
    let name = settings.name;
    let protocol = P::new(settings).map_err(|why| DestinationError::Url(name.clone(), why))?;
    // As with HTTP: where an operator would have to decide, no message goes over a connection that was idle and may
    // have been closed unnoticed.
    let is_watched = P::KNOWS_ITS_END || settings.config.unknown != UnknownPolicy::Hold;
    let idle_max = if is_watched { IDLE } else { Duration::ZERO };
    let (current, connecting) = (Mutex::default(), tokio::sync::Mutex::default());
    let timeout = settings.timeout;
    Ok(DestinationClient::Broker(Box::new(BrokerConnection {
        protocol,
        timeout,
        idle_max,
        current,
        connecting,
    })))
}

/// The text of a library's error, in one line that is not too long.
pub(crate) fn error_line(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WHY_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use crate::destinations::tests::message;

    /// Its connections are numbers, given one after the other; an answer is that number.
    struct Counting(AtomicU64);

    impl BrokerProtocol for Counting {
        type Connection = u64;
        const KNOWS_ITS_END: bool = true;

        async fn connect(&self) -> Result<u64, String> {
            Ok(self.0.fetch_add(1, Ordering::Relaxed))
        }

        fn new(_: &ClientSettings<'_>) -> Result<Self, String> {
            Ok(Self(AtomicU64::new(0)))
        }

        async fn publish(&self, connection: &u64, _: &LeasedMessage, _: Instant) -> Result<(), CallAnswer> {
            Err(CallAnswer::Refused(connection.to_string()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_never_idle_is_replaced_when_it_is_old() {
        let second = Duration::from_secs(1);
        let broker = BrokerConnection {
            protocol: Counting(AtomicU64::new(0)),
            timeout: second,
            idle_max: IDLE,
            current: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        };
        let mut met = Vec::new();
        for _ in 0..=CONNECTION_AGE_MAX.as_secs() {
            let CallAnswer::Refused(why) = broker.send_once(&message()).await else { unreachable!() };
            met.push(why);
            tokio::time::advance(second).await;
        }
        let last = met.pop();
        assert!(met.iter().all(|n| n == "0"), "{met:?}");
        assert_eq!(last.as_deref(), Some("1"));
    }
}
