//! One request's events on their way to a commit.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::admitted::{AdmitError, AdmittedEvents};
use super::entry::{ProviderEntry, WaitingPlace};
use super::room::{HeldMemory, LARGE_BYTES};
use crate::handler::RawEvent;
use hooklatch_core::types::IncomingEvent;
use hooklatch_outbox::traces::{AdmittedRequest, RequestTrace};

/// One request's events on their way to a commit.
pub struct Submission {
    pub entry: Arc<ProviderEntry>,
    pub events: Vec<Arc<IncomingEvent>>,
    /// Numbers of the events, in their order, once their bodies are stored in parts; else empty.
    pub numbers: Vec<i64>,
    /// Large events with transactional handlers, parsed for those, by their positions.
    pub parsed: HashMap<usize, RawEvent>,
    pub answer: oneshot::Sender<Result<AdmittedEvents, AdmitError>>,
    pub since: Instant,
    /// Its way, where it is traced.
    pub trace: Option<RequestTrace>,
    /// The memory that it takes up, also when no caller waits for it any more.
    pub(super) _held: HeldMemory,
    /// Its place among the requests of its provider that wait.
    pub(super) _place: WaitingPlace,
}

impl Submission {
    /// True when no caller waits for the answer any more: the sender hung up or was asked to send again, so what is not
    /// written yet need not be.
    pub fn is_given_up(&self) -> bool {
        let is_given_up = self.answer.is_closed();
        if is_given_up {
            let provider = self.entry.provider.name().to_string();
            metrics::counter!("hooklatch_requests_given_up_total", "provider" => provider).increment(1);
        }
        is_given_up
    }

    /// True when it has an event whose body may be stored in parts.
    pub fn is_large(&self) -> bool {
        self.events.iter().any(|event| event.body.len() > LARGE_BYTES)
    }

    /// Size of its events in a statement. Bytes.
    pub fn bytes_n(&self) -> usize {
        self.events.iter().map(|event| event.body.len() + event.headers.len()).sum()
    }

    /// Answers the request that waits.
    pub fn settle(self, result: Result<AdmittedEvents, AdmitError>) {
        self.entry.admit_seconds.record(self.since.elapsed().as_secs_f64());
        // The request may have gone; what was committed stands, and its next copy is a duplicate.
        if let (Err(Ok(admitted)), Some(trace)) = (self.answer.send(result), self.trace) {
            let AdmittedEvents { events, times } = admitted;
            let provider = self.entry.provider.name().clone();
            trace.admitted(AdmittedRequest { provider, status: None, event_type: None, events, times });
        }
    }
}
