//! The long-running parts of the app: one that panics is counted and restarted, and readiness is false until it runs
//! again.

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tracing::error;

use hooklatch_core::stop;
use hooklatch_receive::handler::panic_text;

/// Pause before a part is restarted after a panic, so that one that panics at once does not loop.
const AWAY: Duration = Duration::from_millis(200);

/// The parts that are down. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Parts(Arc<Mutex<BTreeSet<&'static str>>>);

impl Parts {
    /// True when every part runs.
    pub(super) fn are_running(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Runs a part until it ends by itself, again after every panic.
    pub(super) async fn keep(self, part: &'static str, mut run: impl AsyncFnMut()) {
        loop {
            self.note(part, true);
            let Err(panic) = AssertUnwindSafe(run()).catch_unwind().await else { break };
            self.note(part, false);
            metrics::counter!("hooklatch_panics_total", "part" => part).increment(1);
            error!(
                part,
                reason = panic_text(panic.as_ref()),
                "a part of the app panicked and is started again"
            );
            stop::pass(AWAY).await;
        }
        self.note(part, false);
    }

    fn note(&self, part: &'static str, is_running: bool) {
        let mut away = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if is_running {
            away.remove(part);
        } else {
            away.insert(part);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_panics_is_started_again_and_missed_meanwhile() {
        let (parts, mut runs_n) = (Parts::default(), 0);
        let seen = parts.clone();
        parts
            .keep("test", async || {
                runs_n += 1;
                assert!(seen.are_running());
                assert!(runs_n >= 3, "not yet");
            })
            .await;
        assert_eq!(runs_n, 3);
        assert!(!seen.are_running(), "it has ended");
    }
}
