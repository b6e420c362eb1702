//! Senders that never stop: the responses that they received, and when.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::process::{Server, client, post_stripe};

/// How long a sender waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Events on their way, until this value goes.
pub(super) struct Load {
    responses: Arc<Responses>,
    _senders: JoinSet<()>,
}

#[derive(Default)]
struct Responses {
    acked: Mutex<Vec<(String, Instant)>>,
    refused_n: AtomicU64,
    /// Those of them without a request to retry.
    failed: Mutex<Vec<String>>,
    next: AtomicU64,
}

impl Load {
    /// `senders_n` senders, one event after the other each, to these nodes in turn.
    pub fn start(servers: &[&Server], senders_n: usize) -> Self {
        let responses = Arc::new(Responses::default());
        let mut senders = JoinSet::new();
        for n in 0..senders_n {
            let (responses, url) =
                (Arc::clone(&responses), servers[n % servers.len()].url("/webhooks/stripe"));
            senders.spawn(async move {
                let client = client();
                loop {
                    let id = format!("evt_{}", responses.next.fetch_add(1, Ordering::Relaxed));
                    let sent = tokio::time::timeout(TIMEOUT, post_stripe(&client, &url, &id)).await;
                    if matches!(sent, Ok(Ok(_))) {
                        responses.acked.lock().unwrap().push((id, Instant::now()));
                        continue;
                    }
                    if !matches!(&sent, Ok(Err(status)) if status == "503") {
                        responses.failed.lock().unwrap().push(format!("{id}: {sent:?}"));
                    }
                    responses.refused_n.fetch_add(1, Ordering::Relaxed);
                    // The sender pauses before it retries.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            });
        }
        Self { responses, _senders: senders }
    }

    pub fn acked_n(&self) -> usize {
        self.responses.acked.lock().unwrap().len()
    }

    pub fn refused_n(&self) -> u64 {
        self.responses.refused_n.load(Ordering::Relaxed)
    }

    /// What became of events that were neither taken nor answered with 503.
    pub fn failed(&self) -> Vec<String> {
        self.responses.failed.lock().unwrap().clone()
    }

    /// Waits until `more_n` further events are taken.
    pub async fn flows(&self, more_n: usize, within: Duration) {
        let before_n = self.acked_n();
        let so_far = || format!("{} taken, {} refused", self.acked_n(), self.refused_n());
        crate::process::until("events are taken", within, so_far, async || {
            self.acked_n() >= before_n + more_n
        })
        .await;
    }

    /// How long after `moment` an event was taken that had been sent later. No request is quicker than `margin`, so a
    /// shorter gap cannot be measured.
    pub async fn gap(&self, moment: Instant, margin: Duration, within: Duration) -> Duration {
        let first = || {
            let acked = self.responses.acked.lock().unwrap();
            acked.iter().map(|(_, at)| *at).find(|at| *at > moment + margin)
        };
        let so_far = || format!("{} taken, {} refused", self.acked_n(), self.refused_n());
        crate::process::until("an event is taken again", within, so_far, async || first().is_some()).await;
        first().unwrap() - moment
    }

    /// Ends the sending, looks which ids `there` are, and gives back those that were taken and are not.
    pub async fn lost(self, there: impl Future<Output = Vec<String>>) -> Vec<String> {
        let Self { responses, _senders: senders } = self;
        drop(senders);
        let acked: Vec<String> = responses.acked.lock().unwrap().iter().map(|(id, _)| id.clone()).collect();
        let there: HashSet<String> = there.await.into_iter().collect();
        acked.into_iter().filter(|id| !there.contains(id)).collect()
    }
}
