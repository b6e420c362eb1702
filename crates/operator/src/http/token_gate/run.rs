//! Keeps the tokens and sessions in memory in step with the database.

use std::time::Duration;

use tokio::time::Instant;

use super::gate::{TokenGate, log_failure};
use hooklatch_core::stop::Stop;

/// Pause between two reads of the tokens, and of the sessions in use.
const READ_EVERY: Duration = Duration::from_secs(2);
/// Pause between two notes of which tokens were used.
const USED_EVERY: Duration = Duration::from_mins(1);

impl TokenGate {
    /// Keeps tokens and sessions known, and notes which tokens were used, until the stop.
    pub async fn run(&self, mut stop: Stop) {
        let mut noted = Instant::now();
        while !stop.is_set() {
            if let Err(error) = self.read().await {
                log_failure(&error);
            } else if let Err(error) = self.read_sessions().await {
                log_failure(&error);
            }
            if noted.elapsed() >= USED_EVERY {
                noted = Instant::now();
                self.note().await;
            }
            stop.pause(READ_EVERY).await;
        }
        self.note().await;
    }
}
