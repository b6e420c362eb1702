//! What admission is made of, and the parts that run beside it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::counts::Counts;
use super::parts::Parts;
use super::{App, health, spawn};
use crate::admit::{self, AdmitContext, ProviderEntry, Start, Templates, UnderWay, Unreadable};
use crate::logging;
use crate::outbox::Outbox;
use crate::receive::RequestNotes;
use crate::retention::Pruner;
use crate::stop::Stop;
use crate::store::Store;
use crate::types::Name;

type Entries = Arc<BTreeMap<Name, Arc<ProviderEntry>>>;

impl App {
    /// What the parts of admission share.
    pub(super) fn admission(
        &self,
        store: &Store,
        installation_id: &Uuid,
        outbox: &Outbox,
        lines: &Arc<logging::Lines>,
    ) -> anyhow::Result<AdmitContext> {
        let (waker, handover) = (outbox.waker(), outbox.handover());
        Ok(AdmitContext {
            store: store.clone(),
            clock: self.clock.clone(),
            installation_id: *installation_id,
            templates: Templates::new(&self.config.destinations).map_err(anyhow::Error::msg)?,
            destinations: self.config.destinations.keys().map(ToString::to_string).collect(),
            unreadable: Unreadable::new(self.config.server.unreadable_bytes_max.into()),
            lines: Arc::clone(lines),
            handler_timeout: Duration::from_millis(self.config.server.handler_timeout_ms),
            turns: Arc::new(Semaphore::new(store.handlers_n())),
            take_slot: Box::new(move |destination| {
                handover.take(destination).map(|(lease, start)| (lease, Box::new(start) as Start))
            }),
            wake_outbox: Box::new(move || waker.wake()),
            under_way: UnderWay::default(),
            batch_events: metrics::histogram!("hooklatch_batch_events"),
            wake_retries: Notify::new(),
        })
    }

    /// The long-lived parts besides admission and outbox.
    pub(super) fn helpers(
        &self,
        parts: &Parts,
        (admission, entries, notes): (&Arc<AdmitContext>, &Entries, &RequestNotes),
        metrics: &PrometheusHandle,
        stopping: &Stop,
    ) -> Vec<JoinHandle<()>> {
        let poll = Duration::from_millis(self.config.outbox.poll_ms);
        let (shared, entries, stop) = (Arc::clone(admission), Arc::clone(entries), stopping.clone());
        let retries = async move || {
            admit::run_retries(Arc::clone(&shared), Arc::clone(&entries), poll, stop.clone()).await;
        };
        let (shared, metrics, stop) = (Arc::clone(admission), metrics.clone(), stopping.clone());
        let mut counts = Counts::new(&self.config);
        let counting = async move || {
            health::count_tables(&shared, &mut counts, &metrics, stop.clone()).await;
        };
        let (store, notes, stop) = (admission.store.clone(), notes.clone(), stopping.clone());
        let noting = async move || notes.run(&store, stop.clone()).await;
        let mut tasks = vec![
            spawn(parts.clone().keep("retry", retries)),
            spawn(parts.clone().keep("counts", counting)),
            spawn(parts.clone().keep("evidence", noting)),
        ];
        if self.config.retention.every_ms > 0 {
            let (store, clock) = (admission.store.clone(), self.clock.clone());
            let mut pruner = Pruner::new(store, clock, self.config.retention.clone(), false);
            let stop = stopping.clone();
            let pruning = async move || pruner.run(stop.clone()).await;
            tasks.push(spawn(parts.clone().keep("retention", pruning)));
        }
        tasks
    }
}
