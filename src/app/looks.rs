//! The looks of this node at the database: one statement each second or so for readiness and for all parts that wait for
//! work ([`Store::look`](hooklatch_store::Store::look)), so that a node without work costs little.
//!
//! With `database.idle = "sleep"` a node that has had no work for a minute looks twice a minute only, until it is
//! touched: by an event, an operator, or a look that finds something. And once little is done, the memory that
//! connections keep for pages of an SQLite file is given back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::running::ReadinessSources;
use hooklatch_core::config::{Config, IdleConfig};
use hooklatch_core::current::Current;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::Clock;
use hooklatch_operator::http::operator::Readiness;
use hooklatch_outbox::NodeCalls;
use hooklatch_store::{LookedFor, SchemaState};

/// Longest pause between two looks; the shortest is half of it, so that nodes do not march in step.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same for a node that sleeps: what tokens and pauses promise there is within it.
const LOOK_EVERY_ASLEEP: Duration = Duration::from_secs(30);
/// Time without work after which a node may sleep.
const QUIET_AFTER: Duration = Duration::from_mins(1);
/// Longest time for which pages of an SQLite file are kept in memory once little is done.
const PAGES_KEPT: Duration = Duration::from_mins(1);
/// Little is done while the node is touched less often than this within [`PAGES_COUNTED`].
const LITTLE_N: u64 = 100;
const PAGES_COUNTED: Duration = Duration::from_secs(10);

/// What the looks are for.
#[derive(Clone)]
pub(super) struct Looker {
    readiness: watch::Sender<Readiness>,
    watched: ReadinessSources,
    clock: Clock,
    config: Current<Config>,
    calls: NodeCalls,
}

impl Looker {
    pub(super) fn new(
        readiness: watch::Sender<Readiness>,
        watched: &ReadinessSources,
        clock: &Clock,
        (config, calls): (&Current<Config>, &NodeCalls),
    ) -> Self {
        let (watched, clock) = (watched.clone(), clock.clone());
        Self { readiness, watched, clock, config: config.clone(), calls: calls.clone() }
    }
}

/// How long a node has had no work: since it was touched last.
struct Quiet {
    touches_n: u64,
    since: Instant,
}

impl Quiet {
    fn new(touches_n: u64) -> Self {
        Self { touches_n, since: Instant::now() }
    }

    /// True when a node that was touched so often by now sleeps.
    fn is_asleep(&mut self, touches_n: u64, idle: IdleConfig) -> bool {
        if self.touches_n != touches_n {
            *self = Self::new(touches_n);
        }
        idle == IdleConfig::Sleep && self.since.elapsed() >= QUIET_AFTER
    }
}

/// When memory was given back last, and how often the node had been touched then; and the same of the newest count.
struct Pages {
    given_back: (u64, Instant),
    counted: (u64, Instant),
}

impl Pages {
    fn new(touches_n: u64) -> Self {
        Self { given_back: (touches_n, Instant::now()), counted: (touches_n, Instant::now()) }
    }

    /// True when it is time to give them back: something was done since the last time, and little lately.
    fn are_due(&mut self, touches_n: u64) -> bool {
        let (counted_n, counted_at) = self.counted;
        if counted_at.elapsed() < PAGES_COUNTED {
            return false;
        }
        self.counted = (touches_n, Instant::now());
        let (given_back_n, at) = self.given_back;
        let is_due =
            touches_n != given_back_n && touches_n - counted_n < LITTLE_N && at.elapsed() >= PAGES_KEPT / 2;
        if is_due {
            self.given_back = self.counted;
        }
        is_due
    }
}

/// Looks until the stop.
pub(super) async fn look(looker: Looker, mut stop: Stop) {
    let Looker { readiness, watched, clock, config, calls } = looker;
    // Due times as the outbox has them.
    let store = watched.admission.store.clone().timed_by(&clock);
    let node = store.node();
    let (mut quiet, mut pages) = (Quiet::new(node.touches_n()), Pages::new(node.touches_n()));
    let (mut is_schema_current, mut before) = (false, None);
    while !stop.is_set() {
        let now = config.get();
        let providers = now.providers.keys().map(ToString::to_string).collect();
        let found =
            store.look(&clock, &LookedFor { destinations: calls.destinations(), providers }).await.ok();
        if found.is_some_and(|look| look.is_busy_after(before.as_ref())) {
            node.touch();
        }
        // Where it failed, each part asks by itself.
        node.publish(found);
        before = found.or(before);
        let is_database_there = found.is_some() && watched.admission.is_admitting().await;
        if is_database_there && !is_schema_current {
            is_schema_current = store.schema_state().await.is_ok_and(SchemaState::is_usable);
        }
        readiness.send_replace(Readiness {
            is_database_there,
            is_schema_current,
            is_outbox_running: watched.is_outbox_running.load(Ordering::Relaxed),
            are_parts_running: watched.are_parts_running(),
            is_accepting: !stop.leaving().has_begun(),
        });
        let touches_n = node.touches_n();
        if pages.are_due(touches_n) {
            store.give_back_pages().await;
        }
        if is_database_there && quiet.is_asleep(touches_n, now.database.idle) && !now.database.replicated {
            node.set_asleep(true);
            tokio::select! {
                () = node.touched(touches_n) => {}
                _ = stop.pause(jittered(LOOK_EVERY_ASLEEP)) => {}
            }
            node.set_asleep(false);
        } else {
            let poll = Duration::from_millis(now.outbox.poll_ms);
            stop.pause(jittered(LOOK_EVERY.min(poll))).await;
        }
    }
    readiness.send_modify(|state| state.is_accepting = false);
}

/// Between half and all of `bound`.
fn jittered(bound: Duration) -> Duration {
    bound.mul_f64(0.5 + fastrand::f64() / 2.0)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_node_sleeps_after_a_minute_without_work_where_it_may_and_until_it_is_touched() {
        let mut quiet = Quiet::new(0);
        assert!(!quiet.is_asleep(0, IdleConfig::Sleep));
        advance(QUIET_AFTER).await;
        assert!(quiet.is_asleep(0, IdleConfig::Sleep) && !quiet.is_asleep(0, IdleConfig::Poll));
        assert!(!quiet.is_asleep(1, IdleConfig::Sleep), "touched");
        advance(Duration::from_secs(59)).await;
        assert!(!quiet.is_asleep(1, IdleConfig::Sleep));
        advance(Duration::from_secs(1)).await;
        assert!(quiet.is_asleep(1, IdleConfig::Sleep));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_given_back_once_little_is_done_also_where_it_never_ends() {
        let (mut pages, mut touches_n) = (Pages::new(0), 0);
        let mut after = async |seconds: u32, each: u64| {
            let mut given_back_n = 0;
            for _ in 0..seconds {
                advance(Duration::from_secs(1)).await;
                touches_n += each;
                given_back_n += u32::from(pages.are_due(touches_n));
            }
            given_back_n
        };
        assert_eq!(after(300, 0).await, 0, "nothing was done");
        assert_eq!(after(300, 1_000).await, 0, "a burst");
        assert_eq!(after(60, 0).await, 1, "it is over");
        assert_eq!(after(600, 0).await, 0);
        assert!((5..=20).contains(&after(600, 1).await), "an event a second");
    }
}
