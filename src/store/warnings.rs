//! Hears the warnings with which PostgreSQL answers a COMMIT.
//!
//! A commit whose wait for the synchronous standby is cancelled is answered with success and a warning
//! (postgresql.org/docs/current/warm-standby.html, "Synchronous Replication"): a failover would lose it. A COMMIT where
//! no transaction is open is answered likewise. The driver gives warnings to the log alone, so that is where they are
//! listened for, for the length of one commit (`docs/adr/0034-a-connection-belongs-to-one-operation.md`).

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::LazyLock;

use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};

/// What the driver calls its messages about notices.
const NOTICES: &str = "sqlx::postgres::notice";

thread_local! {
    static IS_HEARD: Cell<bool> = const { Cell::new(false) };
}

/// One for the process: a second one would make every log line ask twice.
static EAR: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Ear));

/// Makes the ear known before it is needed: that takes a look at every log line of the program.
pub(super) fn listen() {
    LazyLock::force(&EAR);
}

/// Awaits `work`; an error when a warning came with its success.
pub(super) async fn refused_with_warning<T>(work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    let mut work = pin!(work);
    let mut is_warned = false;
    let answer = poll_fn(|cx| {
        IS_HEARD.set(false);
        let polled = dispatcher::with_default(&EAR, || work.as_mut().poll(cx));
        is_warned |= IS_HEARD.get();
        polled
    })
    .await?;
    if is_warned {
        return Err(sqlx::Error::Protocol("the database confirmed with a warning".to_owned()));
    }
    Ok(answer)
}

struct Ear;

impl Ear {
    fn is_wanted(metadata: &Metadata<'_>) -> bool {
        metadata.target() == NOTICES && *metadata.level() <= Level::WARN
    }
}

impl Subscriber for Ear {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::is_wanted(metadata) { Interest::always() } else { Interest::never() }
    }
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Self::is_wanted(metadata)
    }
    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::WARN)
    }
    fn event(&self, event: &Event<'_>) {
        if Self::is_wanted(event.metadata()) {
            IS_HEARD.set(true);
        }
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_success_with_a_warning_is_none() {
        let warned = async {
            tracing::warn!(target: "sqlx::postgres::notice", "canceling wait for synchronous replication");
            tokio::task::yield_now().await;
            Ok(7)
        };
        assert!(refused_with_warning(warned).await.is_err());
    }

    #[tokio::test]
    async fn other_log_lines_and_notices_change_nothing() {
        let plain = async {
            tracing::warn!("something else");
            tracing::info!(target: "sqlx::postgres::notice", "relation exists, skipping");
            Ok(7)
        };
        assert_eq!(refused_with_warning(plain).await.unwrap(), 7);
    }
}
