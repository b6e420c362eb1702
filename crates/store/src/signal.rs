//! Signals without an id: equal content counts as a copy for a time after the firing, or after its last copy.

use std::collections::BTreeMap;

use super::db::{DbResult, Executor, StoreError};
use super::handle::Store;
use hooklatch_core::types::{IncomingEvent, UnixMs};

/// One copy of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignalCopy {
    pub provider: String,
    /// Its key without the firing.
    pub signal: String,
    pub at_ms: UnixMs,
    pub window_ms: i64,
    pub(super) is_renewed: bool,
}

/// The firing that a copy belongs to.
#[derive(Debug, Clone, Copy)]
struct Firing {
    firing_n: i64,
    /// Beginning of its window.
    from_ms: UnixMs,
}

/// Time after a window that its end is waited for, so that another node's clock, which may be that far behind, has no
/// copy within the window any more.
const MARGIN_MS: i64 = 1_000;
/// Behind the number of a firing: what it was repeated by within its window.
const REARMED: char = '+';

impl Store {
    /// Gives those of `events` that have a window the number of their firing as part of their id: that of the last
    /// one, or the next one when that is longer ago. A stream of copies does not put the next one off, unless the kind
    /// says that its window is renewed. Committed before the events are latched: a request repeated after a crash in
    /// between is within the window, and gets the same number.
    ///
    /// Where copies rearm a signal, those within the window are one event besides the firing, which is dispatched when
    /// the window has ended: whatever a handler fetches then is newer than the last of them.
    pub async fn signals_number(&self, events: &mut [IncomingEvent]) -> Result<(), StoreError> {
        let mut copies: BTreeMap<(String, String), SignalCopy> = BTreeMap::new();
        for event in events.iter() {
            let Some(window_ms) = event.window_ms else { continue };
            let (provider, signal) = (event.key.provider.to_string(), event.key.event_id.clone());
            let (at_ms, is_renewed) = (event.received_at_ms, event.is_window_renewed);
            copies
                .entry((provider.clone(), signal.clone()))
                .and_modify(|one| one.at_ms = one.at_ms.max(at_ms))
                .or_insert(SignalCopy { provider, signal, at_ms, window_ms, is_renewed });
        }
        if copies.is_empty() {
            return Ok(());
        }
        // Sorted, so that two nodes with the same signals cannot wait for each other.
        let copies: Vec<SignalCopy> = copies.into_values().collect();
        let asked = copies.clone();
        let firings: Vec<Firing> = together!(self, writer, "signals_number", |db| {
            // The firing that each copy belongs to. A new one is above all that were given before a restore.
            let copies = &asked;
            let mut firings = Vec::with_capacity(copies.len());
            for copy in copies {
                let row = db
            .fetch_one(
                "/* signals_number */ INSERT INTO signal_firings AS f (provider, signal, firing_n, counted_from_ms)
                 VALUES ($1, $2, (SELECT restored_s FROM installation) + 1, $3)
                 ON CONFLICT (provider, signal) DO UPDATE SET
                     firing_n = CASE WHEN ABS(excluded.counted_from_ms - f.counted_from_ms) > $4
                         THEN GREATEST(excluded.firing_n, f.firing_n + 1) ELSE f.firing_n END,
                     counted_from_ms = CASE
                         WHEN ABS(excluded.counted_from_ms - f.counted_from_ms) > $4 THEN excluded.counted_from_ms
                         WHEN $5 = 1 THEN GREATEST(f.counted_from_ms, excluded.counted_from_ms)
                         ELSE f.counted_from_ms END
                 RETURNING firing_n, counted_from_ms",
                &[
                    copy.provider.as_str().into(),
                    copy.signal.as_str().into(),
                    copy.at_ms.into(),
                    copy.window_ms.into(),
                    i64::from(copy.is_renewed).into(),
                ],
            )
            .await?;
                firings.push(Firing { firing_n: row.int("firing_n")?, from_ms: row.int("counted_from_ms")? });
            }
            Ok(firings)
        })?;
        let found: Vec<(SignalCopy, Firing)> = copies.into_iter().zip(firings).collect();
        for event in events.iter_mut().filter(|event| event.window_ms.is_some()) {
            let is_its = |(copy, _): &&(SignalCopy, Firing)| {
                copy.provider == event.key.provider.as_str() && copy.signal == event.key.event_id
            };
            let (copy, firing) = found
                .iter()
                .find(is_its)
                .ok_or_else(|| StoreError::inconsistent("signal_firings", "firing_n", &event.key.event_id))?;
            event.key.event_id = format!("{}#{}", event.key.event_id, firing.firing_n);
            event.window_ms = None;
            if event.is_window_rearmed && copy.at_ms != firing.from_ms {
                event.key.event_id.push(REARMED);
                event.not_before_ms = Some(firing.from_ms + copy.window_ms + MARGIN_MS);
            }
        }
        Ok(())
    }
}

/// The name under which the repeats of a provider are counted among its signals, which all begin with `signal:`.
const REPEATS: &str = "repeats";
/// Time in which one repeat of each provider is accepted. Milliseconds.
pub(super) const REPEAT_EVERY_MS: i64 = 600_000;

/// Takes the place for one repeated text of a provider in this transaction, and says which one it is; `None` when
/// another one had it within the last ten minutes. Another node that asks meanwhile waits for the end of this
/// transaction.
pub(super) async fn repeat_claim(
    db: &mut Executor<'_>,
    provider: &str,
    at_ms: UnixMs,
) -> DbResult<Option<i64>> {
    let row = db
        .fetch_optional(
            "/* repeat_claim */ INSERT INTO signal_firings AS f (provider, signal, firing_n, counted_from_ms)
             VALUES ($1, $2, 1, $3)
             ON CONFLICT (provider, signal) DO UPDATE SET
                 firing_n = f.firing_n + 1, counted_from_ms = excluded.counted_from_ms
                 WHERE ABS(excluded.counted_from_ms - f.counted_from_ms) > $4
             RETURNING firing_n",
            &[provider.into(), REPEATS.into(), at_ms.into(), REPEAT_EVERY_MS.into()],
        )
        .await?;
    row.map(|row| row.int("firing_n")).transpose()
}
