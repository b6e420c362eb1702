//! Spawning of tasks, in one place, so that a stop can wait for each.

use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use tracing::warn;

/// The one place that spawns the app's tasks, so that a stop can wait for each.
#[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    tokio::spawn(task)
}

/// Waits for tasks until the deadline, and aborts those that are left.
pub(super) async fn join(part: &'static str, tasks: Vec<JoinHandle<()>>, until: Instant) {
    for mut task in tasks {
        match timeout_at(until, &mut task).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(%error, part, "a task of the app ended badly"),
            Err(_) => {
                warn!(
                    part,
                    "did not end in time and was given up: what it had not confirmed will be sent again"
                );
                task.abort();
            }
        }
    }
}
