//! The part that all kinds but HTTP share: one connection, made when it is first needed, kept while it works and made
//! anew after it did not; and one time limit for everything. A kind brings its [`BrokerProtocol`].
//!
//! What fails before anything was handed to the connection was surely not sent. Later, silence is unknown.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use crate::destinations::CONNECTION_AGE_MAX;
use crate::destinations::ClientSettings;
use crate::destinations::DestinationError;
use crate::policy::CallAnswer;
use hooklatch_core::config::UnknownPolicy;
use hooklatch_store::LeasedMessage;

/// Longest idle time of a connection. Destinations and what is between drop them after a while, some without a word, and
/// then the next message's outcome would be unknown.
const IDLE: Duration = Duration::from_secs(4);
/// Longest words kept of an error, in characters.
const WHY_CHARS_MAX: usize = 300;

/// Sends one message, once.
pub(crate) trait Broker: Send + Sync {
    /// Never takes longer than the destination's timeout.
    fn send<'a>(
        &'a self,
        message: &'a LeasedMessage,
    ) -> Pin<Box<dyn Future<Output = CallAnswer> + Send + 'a>>;
}

/// One protocol: it connects and publishes, and tries neither twice.
pub(crate) trait BrokerProtocol: Send + Sync {
    /// A connection; clones share what is behind it.
    type Connection: Clone + Send + Sync;

    /// True when [`BrokerProtocol::is_alive`] notices that the destination closed an idle connection. Where it does
    /// not, only a write finds that out, and then it is unknown what became of the message.
    const KNOWS_ITS_END: bool;

    /// Makes a connection that is ready to publish, or says why there is none.
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, String>> + Send;

    /// True for a connection that is worth trying.
    fn is_alive(connection: &Self::Connection) -> bool;

    /// Publishes and waits for the destination's word. The caller stops waiting at the deadline and takes that for
    /// unknown.
    fn publish(
        &self,
        connection: &Self::Connection,
        message: &LeasedMessage,
        deadline: Instant,
    ) -> impl Future<Output = CallAnswer> + Send;
}

/// One destination and the connection to it.
struct BrokerConnection<P: BrokerProtocol> {
    protocol: P,
    timeout: Duration,
    /// A connection that was not used for longer is opened again.
    idle_max: Duration,
    current: Mutex<Option<NumberedConnection<P::Connection>>>,
    /// The number of the next connection: none is given twice, also not after one was discarded.
    next_n: AtomicU64,
    /// Held by the one who connects, so that there is one.
    connecting: tokio::sync::Mutex<()>,
}

/// A connection with its number, so that a caller does not discard a newer one.
#[derive(Clone)]
struct NumberedConnection<C> {
    n: u64,
    connection: C,
    made_at: Instant,
    used_at: Instant,
}

impl<P: BrokerProtocol> BrokerConnection<P> {
    fn current(&self) -> MutexGuard<'_, Option<NumberedConnection<P::Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn living(&self) -> Option<NumberedConnection<P::Connection>> {
        let mut current = self.current();
        let current = current.as_mut().filter(|current| {
            P::is_alive(&current.connection)
                && current.used_at.elapsed() <= self.idle_max
                && current.made_at.elapsed() < CONNECTION_AGE_MAX
        })?;
        current.used_at = Instant::now();
        Some(current.clone())
    }

    async fn connection(&self) -> Result<NumberedConnection<P::Connection>, String> {
        if let Some(living) = self.living() {
            return Ok(living);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(living) = self.living() {
            return Ok(living);
        }
        let connection = self.protocol.connect().await?;
        let n = self.next_n.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        let new = NumberedConnection { n, connection, made_at: now, used_at: now };
        *self.current() = Some(new.clone());
        Ok(new)
    }

    fn discard(&self, n: u64) {
        let mut current = self.current();
        if current.as_ref().is_some_and(|current| current.n == n) {
            *current = None;
        }
    }

    async fn send_once(&self, message: &LeasedMessage) -> CallAnswer {
        let (start, ms) = (Instant::now(), self.timeout.as_millis());
        let current = match timeout_at(start + self.timeout / 2, self.connection()).await {
            Ok(Ok(current)) => current,
            Ok(Err(why)) => return CallAnswer::NotSent { why },
            Err(_) => return CallAnswer::NotSent { why: format!("no connection within {} ms", ms / 2) },
        };
        let deadline = start + self.timeout;
        let publishing = self.protocol.publish(&current.connection, message, deadline);
        let answer = timeout_at(deadline, publishing)
            .await
            .unwrap_or_else(|_| CallAnswer::Unknown { why: format!("no answer within {ms} ms") });
        // After a fail-over the old server may stay up, and say of everything that it cannot now.
        if matches!(
            answer,
            CallAnswer::Unknown { .. } | CallAnswer::NotSent { .. } | CallAnswer::NotNow { .. }
        ) {
            self.discard(current.n);
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

/// A destination that is reached by `protocol`; its error says what is wrong with the url.
pub(crate) fn broker<P: BrokerProtocol + 'static>(
    settings: &ClientSettings<'_>,
    protocol: Result<P, String>,
) -> Result<Box<dyn Broker>, DestinationError> {
    let protocol = protocol.map_err(|why| DestinationError::Url { name: settings.name.clone(), why })?;
    // It is the same as with HTTP: where a person would have to decide, no message goes over a connection that was
    // idle and may have been closed unnoticed.
    let is_watched = P::KNOWS_ITS_END || settings.config.unknown != UnknownPolicy::Hold;
    let idle_max = if is_watched { IDLE } else { Duration::ZERO };
    let (current, connecting) = (Mutex::default(), tokio::sync::Mutex::default());
    let (timeout, next_n) = (settings.timeout, AtomicU64::new(0));
    Ok(Box::new(BrokerConnection { protocol, timeout, idle_max, current, next_n, connecting }))
}

/// The words of a library's error, in one line that is not too long.
pub(crate) fn words(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WHY_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
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

        fn is_alive(_: &u64) -> bool {
            true
        }

        async fn publish(&self, connection: &u64, _: &LeasedMessage, _: Instant) -> CallAnswer {
            CallAnswer::Refused { why: connection.to_string() }
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
            next_n: AtomicU64::new(0),
            connecting: tokio::sync::Mutex::default(),
        };
        let mut met = Vec::new();
        for _ in 0..=CONNECTION_AGE_MAX.as_secs() {
            let CallAnswer::Refused { why } = broker.send_once(&message()).await else { unreachable!() };
            met.push(why);
            tokio::time::advance(second).await;
        }
        let last = met.pop();
        assert!(met.iter().all(|n| n == "0"), "{met:?}");
        assert_eq!(last.as_deref(), Some("1"));
    }
}
