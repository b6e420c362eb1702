//! One look at the database for everything that a node waits for, so that a node without work costs one statement each
//! second or so: whether the database takes writes and is the one that it was, and when messages, events, operations
//! and ends of pauses are due. One task of the node looks ([`Store::look`]) and publishes what it found; its other parts
//! wait for that ([`Looks`]), and ask the database themselves once they have work.
//!
//! Nothing depends on the looks: where nobody looks, or a look failed, each part asks at its own pace, and in any case
//! after [`UNASKED_MAX`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::db::{Backend, DbError, DbResult, Executor, IS_WRITABLE, Row, StoreError};
use super::handle::Store;
use super::restore::{IDENTITY, restore_identity, state_of};
use hooklatch_core::stop::ignore_result;
use hooklatch_core::types::{Clock, UnixMs};

/// Longest time that a part goes without a question of its own, whatever the looks say.
pub const UNASKED_MAX: Duration = Duration::from_mins(2);
/// Longest time that an event waits for the look of a node that slept.
const WAKE_LIMIT: Duration = Duration::from_secs(1);
/// A due time that is further ahead is as good as this: looks are made much more often.
const AHEAD_MAX: Duration = Duration::from_hours(1);

/// The names that a look is for: messages and events of others wait for their configuration.
#[derive(Debug, Clone, Default)]
pub struct LookedFor {
    /// Names of destinations.
    pub destinations: Vec<String>,
    /// Names of providers.
    pub providers: Vec<String>,
}

/// What one look found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// When it began: what it says was so then, or later.
    pub at: Instant,
    /// When the next message is due; `None` while none is open, or all are of paused destinations or on hold.
    pub message_due: Option<Instant>,
    /// When the next event is due to be dispatched again; `None` while none waits, or all are of paused providers.
    pub event_due: Option<Instant>,
    /// When the next operation has something to do; `None` while none does, or waits for an operator.
    pub operation_due: Option<Instant>,
    /// When the next pause ends.
    pub pause_ends: Option<Instant>,
    /// A number that changes with the pauses.
    pub pauses: i64,
    /// A number that changes with the tokens that were made and revoked.
    pub tokens: i64,
    /// The database's clock minus ours; 0 where they are the same clock. Milliseconds.
    pub clock_offset_ms: i64,
    /// Time from the question to its answer. Milliseconds.
    pub took_ms: i64,
}

impl Look {
    /// True when there is work, or something has changed since the look `before`: a node with work asks often.
    pub fn is_busy_after(&self, before: Option<&Self>) -> bool {
        let is_open = self.message_due.is_some() || self.event_due.is_some();
        let is_now = |due: Option<Instant>| due.is_some_and(|due| due <= Instant::now());
        let changed = |before: &Self| (before.pauses, before.tokens) != (self.pauses, self.tokens);
        is_open || is_now(self.operation_due) || is_now(self.pause_ends) || before.is_some_and(changed)
    }
}

/// What the parts of a node share: its newest look, and whether it has work.
#[derive(Default)]
pub struct NodeLooks {
    found: watch::Sender<Option<Look>>,
    /// True when the server does not say which one it is.
    is_identity_hidden: AtomicBool,
    /// True while the node looks seldom, because it has no work.
    is_asleep: AtomicBool,
    touches_n: AtomicU64,
    touched: Notify,
}

impl NodeLooks {
    /// Gives the parts of this node what a look found; `None` when it failed, and each asks by itself.
    pub fn publish(&self, look: Option<Look>) {
        self.found.send_replace(look);
    }

    /// The looks of this node, for one of its parts.
    pub fn subscribe(&self) -> Looks {
        Looks(self.found.subscribe())
    }

    /// Notes that this node has work: an operator asked, or something is open. Never waits.
    pub fn touch(&self) {
        self.touches_n.fetch_add(1, Ordering::Relaxed);
        self.touched.notify_one();
    }

    /// Notes that this node has received an event. One that sleeps has looked before this returns, or a second has
    /// passed: what it would have noticed long ago otherwise, such as a restored database, it notices before the event
    /// is admitted.
    pub async fn wake(&self) {
        let looks = self.is_asleep.load(Ordering::Relaxed).then(|| self.subscribe());
        self.touch();
        if let Some(mut looks) = looks {
            ignore_result(timeout(WAKE_LIMIT, looks.changed())).await;
        }
    }

    /// Notes whether this node looks seldom, because it has no work.
    pub fn set_asleep(&self, is_asleep: bool) {
        self.is_asleep.store(is_asleep, Ordering::Relaxed);
    }

    /// How often this node had work.
    pub fn touches_n(&self) -> u64 {
        self.touches_n.load(Ordering::Relaxed)
    }

    /// Waits until this node has had work more often than `seen_n` times. For a single caller.
    pub async fn touched(&self, seen_n: u64) {
        while self.touches_n() == seen_n {
            self.touched.notified().await;
        }
    }
}

/// The looks of a node, for a part that waits for what they find.
#[derive(Debug, Clone)]
pub struct Looks(watch::Receiver<Option<Look>>);

impl Looks {
    /// The newest look; `None` where nobody looks, or the newest one failed.
    pub fn latest(&self) -> Option<Look> {
        *self.0.borrow()
    }

    /// Waits for the next look; without end once the store is gone.
    pub async fn changed(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for `every`, and from then on until the time that `due` finds in the newest look: for nothing more where
    /// nobody looks, and never for long.
    pub async fn until(&mut self, every: Duration, due: impl Fn(&Look) -> Option<Instant>) {
        let unasked = Instant::now() + UNASKED_MAX.max(every);
        sleep(every).await;
        loop {
            let at = match self.0.borrow_and_update().as_ref() {
                None => return,
                Some(look) => due(look).map_or(unasked, |at| at.min(unasked)),
            };
            tokio::select! {
                () = sleep_until(at) => return,
                () = self.changed() => {}
            }
        }
    }
}

/// The first of all names, then the next one each time: as many looks as there are names with something open, however
/// many rows. Then the first of each by the same index.
const LOOK: &str = "/* look */ WITH RECURSIVE d AS (
        SELECT (SELECT q.destination FROM outbox_queue q WHERE q.state IN ('ready', 'leased')
                ORDER BY q.destination, q.visible_at_ms, q.message_id LIMIT 1) AS name
        UNION ALL
        SELECT (SELECT q.destination FROM outbox_queue q
                WHERE q.state IN ('ready', 'leased') AND q.destination > d.name
                ORDER BY q.destination, q.visible_at_ms, q.message_id LIMIT 1) FROM d WHERE d.name IS NOT NULL
    ), p AS (
        SELECT (SELECT e.provider FROM processed_webhook_events e WHERE e.state = 'retry'
                ORDER BY e.provider, e.due_at_ms LIMIT 1) AS name
        UNION ALL
        SELECT (SELECT e.provider FROM processed_webhook_events e WHERE e.state = 'retry' AND e.provider > p.name
                ORDER BY e.provider, e.due_at_ms LIMIT 1) FROM p WHERE p.name IS NOT NULL
    )
    SELECT (SELECT MIN(m.at_ms) FROM (
                SELECT (SELECT q.visible_at_ms FROM outbox_queue q
                        WHERE q.destination = d.name AND q.state IN ('ready', 'leased')
                        ORDER BY q.destination, q.visible_at_ms, q.message_id LIMIT 1) AS at_ms
                FROM d WHERE d.name = ANY($1)
                  AND NOT EXISTS (SELECT 1 FROM destination_pauses x WHERE x.destination = d.name)) m) AS message_ms,
        (SELECT MIN(v.at_ms) FROM (
                SELECT COALESCE((SELECT e.due_at_ms FROM processed_webhook_events e
                                 WHERE e.provider = p.name AND e.state = 'retry'
                                 ORDER BY e.provider, e.due_at_ms LIMIT 1), 0) AS at_ms
                FROM p WHERE p.name = ANY($2) AND NOT EXISTS (
                    SELECT 1 FROM provider_pauses x WHERE x.provider = p.name AND x.ended_at_ms IS NULL)) v) AS event_ms,
        (SELECT MIN(o.at_ms) FROM (
                SELECT CASE WHEN state = 'running' THEN 0 WHEN state = 'waiting' THEN expires_at_ms END AS at_ms
                FROM operations WHERE finished_at_ms IS NULL) o) AS operation_ms,
        (SELECT MIN(u.until_ms) FROM (
                SELECT until_ms FROM destination_pauses
                UNION ALL SELECT until_ms FROM provider_pauses WHERE ended_at_ms IS NULL) u) AS pause_ms,
        CAST((SELECT COUNT(*) + COALESCE(SUM(paused_at_ms + 3 * COALESCE(until_ms, 0)), 0) FROM destination_pauses)
            + (SELECT COUNT(*) + COALESCE(SUM(paused_at_ms + 3 * COALESCE(until_ms, 0) + 5 * COALESCE(ended_at_ms, 0)), 0)
               FROM provider_pauses) AS BIGINT) AS pauses,
        CAST((SELECT COUNT(*) + COALESCE(SUM(expires_at_ms + 3 * COALESCE(revoked_at_ms, 0)), 0) FROM operator_tokens)
            AS BIGINT) AS tokens,
        {clock_ms} AS now_ms, i.backup_at_ms, i.database_id AS noted_id, i.timeline AS noted_timeline
    FROM installation i";

/// The statement with what PostgreSQL alone has: whether it takes writes, and who it is.
fn look_sql(has_identity: bool) -> String {
    let (columns, from) = LOOK.rsplit_once("FROM").unwrap_or((LOOK, ""));
    let identity = if has_identity { format!(", {IDENTITY}") } else { String::new() };
    format!("{columns}, {IS_WRITABLE}{identity} FROM{from}")
}

/// The statements by name, for tests that look at their plans.
#[cfg(any(test, feature = "testing"))]
pub(super) const STATEMENTS: &[(&str, &str)] = &[("look", LOOK)];

async fn look(db: &mut Executor<'_>, of: &LookedFor, has_identity: bool) -> DbResult<Row> {
    let values = [of.destinations.clone().into(), of.providers.clone().into()];
    if !db.is_postgres() {
        return db.fetch_one(LOOK, &values).await;
    }
    let row = db.fetch_one(look_sql(has_identity), &values).await?;
    if row.is_true("is_writable")? {
        Ok(row)
    } else {
        Err(DbError::lost("this server takes no writes, or waits for no standby"))
    }
}

impl Store {
    /// Looks. Succeeds when admission would work: where admission opens its own, a transaction that may write can be
    /// opened, and it is the database that this process started on. After anything went wrong a row is written, and its
    /// commit awaited, before the answer is yes again. Answers within 2 s; twice that where the server does not say who
    /// it is.
    pub async fn look(&self, clock: &Clock, of: &LookedFor) -> Result<Look, StoreError> {
        let (at, asked) = (Instant::now(), (clock.now_ms(), clock.ticks_ms()));
        let is_hidden = &self.parts.look.is_identity_hidden;
        let row = match self.looked(of, !is_hidden.load(Ordering::Relaxed)).await {
            Err(error @ StoreError::Query { .. }) if !is_hidden.load(Ordering::Relaxed) => {
                let row = self.looked(of, false).await?;
                tracing::debug!(%error, "the server does not say which one it is");
                is_hidden.store(error.is_unasked(), Ordering::Relaxed);
                row
            }
            row => row?,
        };
        let read = |error| StoreError::from_db("look", error);
        let identity = if row.has("timeline") { Some(restore_identity(&row).map_err(read)?) } else { None };
        self.restore_found(state_of(&row, identity.as_ref()).map_err(read)?, identity.as_ref())?;
        self.read(&row, clock, (at, asked)).map_err(read)
    }

    /// What a look says that was `asked` for at these times of our clock and of its ticks.
    fn read(
        &self,
        row: &Row,
        clock: &Clock,
        (at, (before_ms, ticks_ms)): (Instant, (UnixMs, i64)),
    ) -> DbResult<Look> {
        let (seen, took_ms) = (Instant::now(), clock.ticks_ms().saturating_sub(ticks_ms));
        let there_ms = row.int("now_ms")?;
        // What goes by the database's clock, and what by ours.
        let is_theirs = matches!(self.parts.backend, Backend::Postgres(_));
        let pause_now_ms = if is_theirs { there_ms } else { clock.now_ms() };
        let message_now_ms = if self.is_own_clock() { there_ms } else { clock.steady_ms() };
        let due = |column: &str, now_ms: UnixMs| {
            Ok::<_, DbError>(row.int_or_null(column)?.map(|at_ms| instant(seen, at_ms, now_ms)))
        };
        Ok(Look {
            at,
            message_due: due("message_ms", message_now_ms)?,
            event_due: due("event_ms", clock.steady_ms())?,
            operation_due: due("operation_ms", clock.now_ms())?,
            pause_ends: due("pause_ms", pause_now_ms)?,
            pauses: row.int("pauses")?,
            tokens: row.int("tokens")?,
            clock_offset_ms: if is_theirs { there_ms.saturating_sub(before_ms) - took_ms / 2 } else { 0 },
            took_ms,
        })
    }

    async fn looked(&self, of: &LookedFor, has_identity: bool) -> Result<Row, StoreError> {
        let of = of.clone();
        self.parts
            .backend
            .probe(move |mut executor| {
                let of = of.clone();
                Box::pin(async move { look(&mut executor, &of, has_identity).await })
            })
            .await
    }

    /// The looks of this node, and whether it has work.
    pub fn node(&self) -> &NodeLooks {
        &self.parts.look
    }
}

/// When it is `at_ms` by a clock that shows `now_ms` now.
fn instant(now: Instant, at_ms: UnixMs, now_ms: UnixMs) -> Instant {
    let in_ms = u64::try_from(at_ms.saturating_sub(now_ms)).unwrap_or_default();
    now + Duration::from_millis(in_ms).min(AHEAD_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(message_due: Option<Instant>) -> Look {
        Look {
            at: Instant::now(),
            message_due,
            event_due: None,
            operation_due: None,
            pause_ends: None,
            pauses: 0,
            tokens: 0,
            clock_offset_ms: 0,
            took_ms: 0,
        }
    }

    /// How long a part with this pace waits.
    async fn waits(looks: &Looks, every_s: u64) -> Duration {
        let (mut looks, since) = (looks.clone(), Instant::now());
        looks.until(Duration::from_secs(every_s), |look| look.message_due).await;
        since.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_waits_for_its_due_time_and_asks_by_itself_where_nobody_looks() {
        let (found, receiver) = watch::channel(None);
        let looks = Looks(receiver);
        let s = Duration::from_secs;
        let near = |took: Duration, wanted: Duration| took >= wanted && took < wanted + s(1);
        assert!(near(waits(&looks, 3).await, s(3)), "nobody looks");
        found.send_replace(Some(look(None)));
        assert!(near(waits(&looks, 3).await, UNASKED_MAX), "nothing is due");
        found.send_replace(Some(look(Some(Instant::now() + s(20)))));
        assert!(near(waits(&looks, 3).await, s(20)), "it is due then");
        found.send_replace(Some(look(Some(Instant::now()))));
        assert!(near(waits(&looks, 3).await, s(3)), "it is due, and the pace holds");
        found.send_replace(Some(look(None)));
        let later = async {
            sleep(s(10)).await;
            found.send_replace(Some(look(Some(Instant::now()))));
        };
        assert!(near(tokio::join!(waits(&looks, 3), later).0, s(10)), "a later look found it");
        found.send_replace(None);
        assert!(near(waits(&looks, 3).await, s(3)), "the look failed");
    }

    #[tokio::test(start_paused = true)]
    async fn an_event_at_a_node_that_sleeps_waits_for_its_look_and_not_for_long() {
        let (node, s) = (NodeLooks::default(), Duration::from_secs);
        let waits = async || {
            let since = Instant::now();
            node.wake().await;
            since.elapsed()
        };
        assert!(waits().await < s(1), "it is awake");
        node.set_asleep(true);
        assert!(waits().await >= s(1), "nobody looks");
        let looks = async {
            node.touched(2).await;
            node.publish(Some(look(None)));
        };
        assert!(tokio::join!(waits(), looks).0 < s(1), "it has looked");
        assert_eq!(node.touches_n(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_busy_while_something_is_open_due_or_changed() {
        let quiet = look(None);
        assert!(!quiet.is_busy_after(None) && !quiet.is_busy_after(Some(&quiet)));
        let later = Instant::now() + Duration::from_mins(9);
        assert!(look(Some(later)).is_busy_after(Some(&quiet)), "a message is open");
        assert!(Look { event_due: Some(later), ..quiet }.is_busy_after(Some(&quiet)));
        assert!(
            !Look { operation_due: Some(later), pause_ends: Some(later), ..quiet }
                .is_busy_after(Some(&quiet))
        );
        assert!(Look { operation_due: Some(quiet.at), ..quiet }.is_busy_after(Some(&quiet)));
        assert!(Look { pause_ends: Some(quiet.at), ..quiet }.is_busy_after(Some(&quiet)));
        assert!(Look { pauses: 1, ..quiet }.is_busy_after(Some(&quiet)));
        assert!(Look { tokens: 1, ..quiet }.is_busy_after(Some(&quiet)));
    }
}
