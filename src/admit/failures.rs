//! What people hear of events whose dispatch failed, and of parts of admission that panicked. The sender hears
//! nothing of it: it did nothing wrong.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing::{error, warn};

use super::{AdmitContext, ProviderEntry};
use crate::handler::{Handled, HandlerError, RawEvent, panic_text};
use crate::store::EventUpdate;
use crate::types::EventState;

impl AdmitContext {
    /// Tells of committed rows of events that were not dispatched as they should have been.
    pub(super) fn tell_failed(&self, updates: &[EventUpdate]) {
        for update in updates.iter().filter(|update| is_failure(update)) {
            let provider = &update.key.provider;
            metrics::counter!(
                "hooklatch_dispatch_failures_total",
                "provider" => provider.to_string(),
                "state" => update.state.as_str(),
            )
            .increment(1);
            let Some(left_out_n) = self.lines.may_write(provider, update.state.as_str()) else { continue };
            warn!(
                provider.name = %provider,
                event.id = update.key.event_id,
                state = update.state.as_str(),
                attempts_n = update.attempts_n,
                due_at_ms = update.due_at_ms,
                reason = update.error.as_deref().unwrap_or_default(),
                left_out_n,
                "an event was kept, but its dispatch failed"
            );
        }
    }

    /// Runs the plain handlers and routes of an event, and fills in what its messages need: all that may panic for
    /// one event is contained here.
    pub(super) fn dispatched(&self, entry: &ProviderEntry, event: &RawEvent, is_stale: bool) -> Handled {
        contained("dispatch", || self.filled(event, 0, entry.provider.handlers().dispatch(event, is_stale)))
    }

    /// Refuses messages to destinations that nobody configured: they would wait for ever, unseen.
    pub(super) fn destined(&self, handled: Handled) -> Handled {
        let effects = handled?;
        let is_known = |to: &str| self.destinations.contains(to);
        match effects.messages().iter().find(|message| !is_known(&message.destination)) {
            Some(message) => {
                Err(HandlerError::Refused(format!("no destination is called `{}`", message.destination)))
            }
            None => Ok(effects),
        }
    }
}

/// The names of the destinations that there are.
pub(crate) type Destinations = BTreeSet<String>;

/// Whether a row says that a dispatch failed.
pub(super) fn is_failure(update: &EventUpdate) -> bool {
    matches!(update.state, EventState::Retry | EventState::Failed)
}

/// Runs what is done about one event; a panic is an error of that event.
pub(super) fn contained(part: &'static str, run: impl FnOnce() -> Handled) -> Handled {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(panicked(part, panic.as_ref())))
}

/// Counts a panic in a part of admission, and makes it an error of the event that it was about.
pub(super) fn panicked(part: &'static str, panic: &(dyn Any + Send)) -> HandlerError {
    HandlerError::Retry(anyhow::anyhow!("{}", panic_told(part, panic)))
}

/// Counts a panic in a part of admission; what it said.
pub(super) fn panic_told(part: &'static str, panic: &(dyn Any + Send)) -> String {
    let what = format!("{part} panicked: {}", panic_text(panic));
    metrics::counter!("hooklatch_panics_total", "part" => part).increment(1);
    error!(part, reason = what, "contained a panic");
    what
}
