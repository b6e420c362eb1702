//! Signals that nothing tells apart: equal content is a copy for a time after its firing, or after its last copy.

use std::collections::BTreeMap;

use super::db::{DbResult, Door, StoreError};
use super::handle::Store;
use crate::types::{IncomingEvent, UnixMs};

/// One copy of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SignalCopy {
    pub(super) provider: String,
    /// Its key without the firing.
    pub(super) signal: String,
    pub(super) at_ms: UnixMs,
    pub(super) window_ms: i64,
    pub(super) is_renewed: bool,
}

impl Store {
    /// Gives those of `events` that have a window the number of their firing as part of their id: that of the last
    /// one, or the next one when that is longer ago. A stream of copies does not put the next one off, unless the kind
    /// says that its window is renewed. Committed before the events are latched: whoever comes again
    /// after a crash in between is within the window, and gets the same number.
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
        let firings: Vec<i64> = together!(self.signals_number(&asked))?;
        let found: Vec<(SignalCopy, i64)> = copies.into_iter().zip(firings).collect();
        for event in events.iter_mut().filter(|event| event.window_ms.is_some()) {
            let is_its = |(copy, _): &&(SignalCopy, i64)| {
                copy.provider == event.key.provider.as_str() && copy.signal == event.key.event_id
            };
            let (_, firing_n) = found
                .iter()
                .find(is_its)
                .ok_or_else(|| StoreError::inconsistent("signal_firings", "firing_n", &event.key.event_id))?;
            event.key.event_id = format!("{}#{firing_n}", event.key.event_id);
            event.window_ms = None;
        }
        Ok(())
    }
}

/// The number of the firing that each copy belongs to. A new one is above all that were given before a restore.
async fn signals_number(db: &mut Door<'_>, copies: &[SignalCopy]) -> DbResult<Vec<i64>> {
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
                 RETURNING firing_n",
                &[
                    copy.provider.as_str().into(),
                    copy.signal.as_str().into(),
                    copy.at_ms.into(),
                    copy.window_ms.into(),
                    i64::from(copy.is_renewed).into(),
                ],
            )
            .await?;
        firings.push(row.int("firing_n")?);
    }
    Ok(firings)
}
