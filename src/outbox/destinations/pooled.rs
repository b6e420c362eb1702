//! What every destination that is not HTTP has in common: one connection, made when it is first needed, kept while
//! it works and made anew after it did not; and one time limit for everything.
//!
//! What fails before anything was handed to the connection was surely not sent. Later, silence is unknown.

use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use super::broker::Broker;
use crate::config::{DestinationConfig, UnknownPolicy};
use crate::outbox::policy::CallAnswer;
use crate::store::LeasedMessage;

/// How long a connection may idle that does not tell when it was closed. Destinations and what is between drop them
/// after a while, and then the next message's outcome would be unknown.
const IDLE: Duration = Duration::from_secs(4);
/// Longest words kept of an error, in characters.
const WHY_CHARS_MAX: usize = 300;

/// How one protocol connects and publishes. Neither tries anything twice.
pub(super) trait PooledClient: Send + Sync {
    /// Clones share what is behind it.
    type Connection: Clone + Send + Sync;

    /// Whether [`PooledClient::is_alive`] tells that the destination closed an idle connection. Where it does not, that is
    /// found out by writing to it, and then nobody knows what became of the message.
    const KNOWS_ITS_END: bool;

    /// A connection that is ready to publish, or why there is none.
    fn connect(&self) -> impl Future<Output = Result<Self::Connection, String>> + Send;

    /// Whether it is worth trying.
    fn is_alive(connection: &Self::Connection) -> bool;

    /// Publishes and waits for the destination's word. Whoever calls stops waiting at the deadline and takes that for
    /// unknown.
    fn publish(
        &self,
        connection: &Self::Connection,
        message: &LeasedMessage,
        deadline: Instant,
    ) -> impl Future<Output = CallAnswer> + Send;
}

/// One destination and the connection to it.
struct PooledConnection<F: PooledClient> {
    destination: F,
    timeout: Duration,
    /// A connection that nobody used for longer is made anew.
    idle_max: Duration,
    current: Mutex<Option<Numbered<F::Connection>>>,
    /// Held by the one who connects, so that there is one.
    connecting: tokio::sync::Mutex<()>,
}

/// Which connection it is, so that nobody discards another one's.
#[derive(Clone)]
struct Numbered<C> {
    n: u64,
    connection: C,
    used_at: Instant,
}

impl<F: PooledClient> PooledConnection<F> {
    fn current(&self) -> MutexGuard<'_, Option<Numbered<F::Connection>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn living(&self) -> Option<Numbered<F::Connection>> {
        let mut current = self.current();
        let current = current.as_mut().filter(|current| {
            F::is_alive(&current.connection)
                && (F::KNOWS_ITS_END || current.used_at.elapsed() <= self.idle_max)
        })?;
        current.used_at = Instant::now();
        Some(current.clone())
    }

    async fn connection(&self) -> Result<Numbered<F::Connection>, String> {
        if let Some(living) = self.living() {
            return Ok(living);
        }
        let _one_at_a_time = self.connecting.lock().await;
        if let Some(living) = self.living() {
            return Ok(living);
        }
        let connection = self.destination.connect().await?;
        let mut current = self.current();
        let n = current.as_ref().map_or(0, |old| old.n.wrapping_add(1));
        let new = Numbered { n, connection, used_at: Instant::now() };
        *current = Some(new.clone());
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
        let publishing = self.destination.publish(&current.connection, message, deadline);
        let answer = timeout_at(deadline, publishing)
            .await
            .unwrap_or_else(|_| CallAnswer::Unknown { why: format!("no answer within {ms} ms") });
        if matches!(answer, CallAnswer::Unknown { .. } | CallAnswer::NotSent { .. }) {
            self.discard(current.n);
        }
        answer
    }
}

impl<F: PooledClient> Broker for PooledConnection<F> {
    fn send<'a>(
        &'a self,
        message: &'a LeasedMessage,
    ) -> Pin<Box<dyn Future<Output = CallAnswer> + Send + 'a>> {
        Box::pin(self.send_once(message))
    }
}

/// A broker out of a destination that is right.
pub(super) fn line<F: PooledClient + 'static>(
    destination: Result<F, String>,
    timeout: Duration,
    config: &DestinationConfig,
) -> Result<Box<dyn Broker>, String> {
    // As with HTTP: where a person would have to decide, no message is trusted to a connection that idled.
    let idle_max = if config.unknown == UnknownPolicy::Hold { Duration::ZERO } else { IDLE };
    let (current, connecting) = (Mutex::default(), tokio::sync::Mutex::default());
    Ok(Box::new(PooledConnection { destination: destination?, timeout, idle_max, current, connecting }))
}

/// What a library says, in one line that is not too long.
pub(super) fn words(error: &dyn std::fmt::Display) -> String {
    let text = error.to_string();
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(WHY_CHARS_MAX).collect()
}
