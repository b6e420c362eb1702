//! Gauges that are read at each scrape, because they are in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::watch;

use super::numbers::{number, seconds};
use super::recorder::written;
use super::rhythms::Rhythms;
use hooklatch_operator::http::operator::Readiness;
use hooklatch_receive::CountedRequests;
use hooklatch_receive::admit::{MemoryRoom, Providers};
use hooklatch_store::Store;

/// Everything that a scrape reads.
pub(crate) struct LiveGauges {
    pub(crate) handle: PrometheusHandle,
    pub(crate) readiness: watch::Receiver<Readiness>,
    pub(crate) providers: Providers,
    pub(crate) requests: CountedRequests,
    pub(crate) rhythms: Arc<Rhythms>,
    pub(crate) store: Store,
    pub(crate) memory: MemoryRoom,
}

impl LiveGauges {
    /// Renders the current text of `/metrics`. Queries neither the database nor the system.
    pub(crate) fn text(&self) -> String {
        let (is_ready, is_database_there) = {
            let readiness = self.readiness.borrow();
            (readiness.is_ready(), readiness.is_database_there)
        };
        metrics::gauge!("hooklatch_ready").set(f64::from(u8::from(is_ready)));
        metrics::gauge!("hooklatch_database_up").set(f64::from(u8::from(is_database_there)));
        let waiting_n: usize =
            self.providers.get().values().map(|entry| entry.waiting_n.load(Ordering::Relaxed)).sum();
        metrics::gauge!("hooklatch_admit_waiting").set(number(waiting_n));
        metrics::gauge!("hooklatch_refusing_since_timestamp_seconds")
            .set(seconds(self.requests.refusing_since_ms(self.rhythms.now_ms(), is_ready)));
        metrics::gauge!("hooklatch_inflight_bytes").set(number(self.memory.held_bytes()));
        for used in self.store.connections() {
            metrics::gauge!("hooklatch_db_connections_in_use", "pool" => used.pool)
                .set(f64::from(used.in_use_n));
            metrics::gauge!("hooklatch_db_connections_max", "pool" => used.pool)
                .set(f64::from(used.places_n));
        }
        self.rhythms.publish(&self.requests);
        written(&self.handle)
    }
}
