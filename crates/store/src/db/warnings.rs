//! Detects the warnings with which PostgreSQL answers a COMMIT.
//!
//! A commit whose wait for the synchronous standby is cancelled is answered with success and a warning
//! (postgresql.org/docs/current/warm-standby.html, "Synchronous Replication"): a failover would lose it. A COMMIT where
//! no transaction is open is answered likewise. The driver only logs warnings, so a log subscriber collects them during
//! one commit (`docs/adr/0034-a-connection-belongs-to-one-operation.md`), and passes everything else on.
//!
//! A successful commit may have a warning for other reasons: a rule of the users', or the number of transactions left
//! until the tables must be vacuumed, which every writing transaction then reports for days. The driver logs a
//! warning's text and not its code. So where the servers use English the two above are matched by their words; where
//! one uses another language, every warning without a number counts, because the two above never have one.

use std::cell::RefCell;
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Dispatch, Event, Level, Metadata, Subscriber, dispatcher};

use super::error::{DbError, DbResult};

/// Target under which the driver logs notices of the server.
const NOTICES: &str = "sqlx::postgres::notice";

thread_local! {
    static LAST_WARNING: RefCell<Option<String>> = const { RefCell::new(None) };
    /// The subscriber that the collector stands before on this thread.
    static OUTER: RefCell<Option<Dispatch>> = const { RefCell::new(None) };
}

/// One for the process: a second one would check every log line twice.
static COLLECTOR: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(WarningCollector));

/// Registers the collector before it is needed: the registration visits every call site of the log.
pub(crate) fn listen() {
    LazyLock::force(&COLLECTOR);
}

/// True once a server was met whose messages are not in English.
static IS_FOREIGN: AtomicBool = AtomicBool::new(false);

/// Records the language of a server's messages: its `lc_messages`.
pub(crate) fn language(lc_messages: &str) {
    let is_english = ["C", "POSIX", "English"]
        .contains(&lc_messages.split(['.', '_']).next().unwrap_or_default())
        || lc_messages.starts_with("en_");
    if !is_english {
        IS_FOREIGN.store(true, Ordering::Relaxed);
    }
}

/// True for a warning that says that the commit is none, or not one that every server has that must have it.
fn counts(text: &str, is_foreign: bool) -> bool {
    if is_foreign {
        return !text.bytes().any(|byte| byte.is_ascii_digit());
    }
    ["synchronous replication", "no transaction in progress"].iter().any(|words| text.contains(words))
}

/// Awaits `work`; an error when it succeeded with a warning.
pub(crate) async fn refused_with_warning<T>(work: impl Future<Output = DbResult<T>>) -> DbResult<T> {
    let mut work = pin!(work);
    let mut warned: Option<String> = None;
    let answer = poll_fn(|cx| {
        LAST_WARNING.take();
        let polled = {
            let _outer = OuterGuard::begin();
            dispatcher::with_default(&COLLECTOR, || work.as_mut().poll(cx))
        };
        if let Some(warning) = LAST_WARNING.take() {
            warned = Some(warning);
        }
        polled
    })
    .await?;
    match warned {
        Some(warning) => Err(DbError::lost(format!("the database confirmed with a warning: {warning}"))),
        None => Ok(answer),
    }
}

/// Keeps the thread's subscriber in [`OUTER`] while the collector is in its place.
struct OuterGuard {
    is_outermost: bool,
}

impl OuterGuard {
    fn begin() -> Self {
        let is_outermost = OUTER.with_borrow(Option::is_none);
        if is_outermost {
            OUTER.set(Some(dispatcher::get_default(Dispatch::clone)));
        }
        Self { is_outermost }
    }
}

impl Drop for OuterGuard {
    fn drop(&mut self) {
        if self.is_outermost {
            OUTER.set(None);
        }
    }
}

/// Collects warnings of the server, and passes everything else on to the subscriber before which it stands.
struct WarningCollector;

impl WarningCollector {
    fn is_wanted(metadata: &Metadata<'_>) -> bool {
        metadata.target() == NOTICES && *metadata.level() <= Level::WARN
    }

    /// Calls the subscriber before which it stands; the thread's own, where a span from then is used later.
    fn outer<T>(call: impl FnOnce(&Dispatch) -> T) -> T {
        match OUTER.with_borrow(Option::clone) {
            Some(outer) => call(&outer),
            None => call(&dispatcher::get_default(Dispatch::clone)),
        }
    }
}

impl Subscriber for WarningCollector {
    /// Nothing is wanted always: what the other subscribers want of a call site makes it `sometimes`.
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        if Self::is_wanted(metadata) { Interest::always() } else { Interest::never() }
    }
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        Self::is_wanted(metadata) || Self::outer(|outer| outer.enabled(metadata))
    }
    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(tracing::level_filters::LevelFilter::WARN)
    }
    fn event(&self, event: &Event<'_>) {
        if !Self::is_wanted(event.metadata()) {
            return Self::outer(|outer| outer.event(event));
        }
        let mut text = MessageText::default();
        event.record(&mut text);
        if counts(&text.0, IS_FOREIGN.load(Ordering::Relaxed)) {
            LAST_WARNING.set(Some(text.0));
        }
    }
    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        Self::outer(|outer| outer.new_span(attributes))
    }
    fn record(&self, span: &Id, values: &Record<'_>) {
        Self::outer(|outer| outer.record(span, values));
    }
    fn record_follows_from(&self, span: &Id, follows: &Id) {
        Self::outer(|outer| outer.record_follows_from(span, follows));
    }
    fn enter(&self, span: &Id) {
        Self::outer(|outer| outer.enter(span));
    }
    fn exit(&self, span: &Id) {
        Self::outer(|outer| outer.exit(span));
    }
    fn clone_span(&self, id: &Id) -> Id {
        Self::outer(|outer| outer.clone_span(id))
    }
    fn try_close(&self, id: Id) -> bool {
        Self::outer(|outer| outer.try_close(id))
    }
}

/// The text of a message.
#[derive(Default)]
struct MessageText(String);

impl Visit for MessageText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

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

    /// Keeps the texts of events, each with the number of spans around it.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Lines>>);
    type Lines = (Vec<(usize, String)>, usize);

    impl Subscriber for Log {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn event(&self, event: &Event<'_>) {
            let mut text = MessageText::default();
            event.record(&mut text);
            let mut log = self.0.lock().unwrap();
            let depth = log.1;
            log.0.push((depth, text.0));
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {
            self.0.lock().unwrap().1 += 1;
        }
        fn exit(&self, _: &Id) {
            self.0.lock().unwrap().1 -= 1;
        }
    }

    #[tokio::test]
    async fn lines_and_spans_of_an_operation_reach_the_log() {
        let log = Log::default();
        let _default = tracing::subscriber::set_default(log.clone());
        let work = async {
            tracing::error!("row is damaged");
            let span = tracing::info_span!("inside");
            span.in_scope(|| tracing::debug!("in a span"));
            tracing::warn!(target: "sqlx::postgres::notice", "relation exists, skipping");
            tokio::task::yield_now().await;
            let nested = refused_with_warning(async {
                tracing::info!("nested");
                Ok(())
            });
            nested.await?;
            Ok(span)
        };
        // A span that outlives its operation still is one of the log.
        let span = refused_with_warning(work).await.unwrap();
        span.in_scope(|| tracing::info!("later"));
        drop(span);
        tracing::info!("after it");
        let (lines, depth) = std::mem::take(&mut *log.0.lock().unwrap());
        let lines: Vec<(usize, &str)> = lines.iter().map(|(depth, text)| (*depth, text.as_str())).collect();
        let wanted = [(0, "row is damaged"), (1, "in a span"), (0, "nested"), (1, "later"), (0, "after it")];
        assert_eq!((lines.as_slice(), depth), (&wanted[..], 0));
    }

    #[tokio::test]
    async fn a_warning_about_the_tables_is_no_word_about_the_commit() {
        let warned = async {
            tracing::warn!(target: "sqlx::postgres::notice", "database \"hooks\" must be vacuumed within 39999999 transactions");
            Ok(7)
        };
        assert_eq!(refused_with_warning(warned).await.unwrap(), 7);
    }

    #[test]
    fn a_warning_of_a_user_s_rule_is_no_word_about_the_commit() {
        let of_standby = "canceling the wait for synchronous replication and terminating connection due to administrator command";
        for (said, foreign, english) in [
            (of_standby, true, true),
            ("there is no transaction in progress", true, true),
            ("storniere Warten auf synchrone Replikation wegen Benutzeraufforderung", true, false),
            ("stock is low", true, false),
            ("stock of 17 is low", false, false),
        ] {
            assert_eq!((counts(said, true), counts(said, false)), (foreign, english), "{said}");
        }
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
