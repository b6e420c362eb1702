//! The wait between two tries, for a server in another process that nothing tells us about.

use std::time::Duration;

/// Waits for so long.
pub(crate) async fn patience(length: Duration) {
    tokio::time::sleep(length).await;
}
