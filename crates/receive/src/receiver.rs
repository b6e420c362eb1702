//! One request: handshake, verify, read, admit, answer; and its one log line. Start at [`Receiver::receive`].

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tracing::{info, warn};

use crate::admit::{AdmitError, AdmittedEvents, Admitter, HeldMemory, ProviderEntry, ProviderTable};

use crate::answer::{
    RECEIPT_LOOKS_N, SenderAnswer, caller_answer, caller_refusal, is_batch, no_receipt, render_receipt,
};
use crate::counts::{RefusingSince, RequestCounts, RequestEnd, SignedTimes, count_unconfirmed};
use crate::diagnose::Diagnosis;
use crate::fetch::FetchError;
use crate::notes::{Noted, RequestNotes};
use crate::unread::{Arrival, UnknownPaths};
use crate::verification::{Heavy, answer, read, verified, verified_and_confirmed};
use hooklatch_contract::UnknownPathView;
use hooklatch_core::current::Current;
use hooklatch_core::types::{EventKey, IdempotencyKey, IncomingEvent, Name, Outcome, UnixMs};
use hooklatch_outbox::traces::{AdmittedRequest, Traces};
use hooklatch_store::{ActivityCounts, ActivitySubject, Store};
use hooklatch_verify::{RawRequest, RejectedRequest};

/// The reason why a request was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The request is not believed.
    #[error("not believed: {0}")]
    Verify(#[from] Box<RejectedRequest>),
    /// It cannot be decided: the sender's own keys are out of reach, and it may send it again.
    #[error(transparent)]
    Keys(#[from] FetchError),
    /// Believed, but not admitted; the sender may send it again.
    #[error(transparent)]
    Admit(#[from] AdmitError),
}

impl ReceiveError {
    /// The reason as one word for metrics and log lines.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Verify(_) => "rejected",
            Self::Keys(_) => "keys_unavailable",
            Self::Admit(AdmitError::Saturated) => "saturated",
            Self::Admit(AdmitError::Unavailable(_)) => "unavailable",
            Self::Admit(AdmitError::Rejected(_)) => "handler_failed",
        }
    }
}

/// The configured providers, each with its counters.
type CountedEntries = BTreeMap<Name, (Arc<ProviderEntry>, Arc<RequestCounts>, Arc<SignedTimes>)>;

/// The receiving side of the app, with the providers of one configuration: a request is received and answered with the
/// same ones, whatever is reloaded meanwhile. Cloning is cheap.
#[derive(Clone)]
pub struct Receiver {
    pub entries: Arc<CountedEntries>,
    admitter: Admitter,
    pub notes: RequestNotes,
    pub counted: CountedRequests,
    /// Counts of requests for no provider, and the name that stands for it.
    others: Arc<(Name, RequestCounts)>,
    events_n_max: usize,
    heavy: Heavy,
    store: Store,
    traces: Traces,
    /// Permits for lookups of receipts.
    looks: Arc<Semaphore>,
}

/// What one node counted of requests, for the API and the metrics. A reload changes none of it.
#[derive(Clone)]
pub struct CountedRequests {
    entries: Current<CountedEntries>,
    pub(crate) refusing: Arc<RefusingSince>,
    pub unknown_paths: Arc<UnknownPaths>,
}

impl CountedRequests {
    /// Counts for these providers, and goes on where one was counted for before.
    fn count_for(&self, entries: &ProviderTable) -> Arc<CountedEntries> {
        let before = self.entries.get();
        let counted = |(name, entry): (&Name, &Arc<ProviderEntry>)| {
            let (counts, times) = match before.get(name) {
                Some((_, counts, times)) => (Arc::clone(counts), Arc::clone(times)),
                None => Default::default(),
            };
            (name.clone(), (Arc::clone(entry), counts, times))
        };
        self.entries.set(entries.iter().map(counted).collect::<CountedEntries>());
        self.entries.get()
    }

    /// Paths that no provider has, and that were posted to since the start.
    pub fn unknown_paths(&self) -> Vec<UnknownPathView> {
        self.unknown_paths.list()
    }

    /// Requests since the start, by provider and outcome.
    pub fn totals(&self) -> ActivityCounts {
        let entries = self.entries.get();
        let of_provider = |(name, (_, counts, _)): (&Name, &(_, Arc<RequestCounts>, _))| {
            counts
                .totals()
                .map(|(outcome, n)| ((ActivitySubject::Provider, name.clone(), outcome), n))
                .collect::<Vec<_>>()
        };
        entries.iter().flat_map(of_provider).collect()
    }

    /// When the newest request of this provider was received that was accepted here; `None` before the first.
    pub fn last_accepted_ms(&self, provider: &Name) -> Option<UnixMs> {
        self.entries.get().get(provider).and_then(|(_, counts, _)| counts.last_accepted_ms())
    }

    /// Since when every request that could have been admitted was refused; 0 while that is not so.
    pub fn refusing_since_ms(&self, now_ms: UnixMs, is_ready: bool) -> UnixMs {
        self.refusing.at_ms(now_ms, is_ready)
    }

    /// How long after they were signed the newest requests of this provider were received. Milliseconds.
    pub fn delays_ms(&self, provider: &str) -> Vec<i64> {
        self.entries.get().get(provider).map(|(_, _, times)| times.delays_ms()).unwrap_or_default()
    }
}

impl Receiver {
    /// Receives for `entries`, through `admitter`, requests of at most `events_n_max` events.
    pub fn new(
        entries: &ProviderTable,
        admitter: Admitter,
        notes: RequestNotes,
        store: Store,
        events_n_max: usize,
    ) -> Self {
        let unknown_paths = Arc::new(UnknownPaths::default());
        let counted =
            CountedRequests { entries: Current::default(), refusing: Arc::default(), unknown_paths };
        let entries = counted.count_for(entries);
        let looks = Arc::new(Semaphore::new(RECEIPT_LOOKS_N));
        let (heavy, traces) = (Heavy::new(), Traces::default());
        let others = Arc::new((hooklatch_core::types::no_provider(), RequestCounts::default()));
        Self { entries, admitter, notes, counted, others, events_n_max, heavy, store, traces, looks }
    }

    /// A receiver for other providers, which goes on counting for those that stay.
    #[must_use]
    pub fn reloaded(&self, entries: &Arc<ProviderTable>) -> Self {
        self.admitter.share_by(entries.len());
        let (entries, notes) = (self.counted.count_for(entries), self.notes.reloaded(Arc::clone(entries)));
        Self { entries, notes, ..self.clone() }
    }

    /// Records spans of what is admitted.
    #[must_use]
    pub fn traced(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// The provider configured under `name`.
    pub fn entry(&self, name: &str) -> Option<&Arc<ProviderEntry>> {
        self.entries.get(name).map(|(entry, _, _)| entry)
    }

    /// What is counted of requests, for the API and the metrics.
    pub fn counted(&self) -> CountedRequests {
        self.counted.clone()
    }

    /// Counts the end of one request; `None`: of no provider.
    pub fn count(&self, entry: Option<&Arc<ProviderEntry>>, end: RequestEnd, received_at_ms: UnixMs) {
        let name = self.name_of(entry);
        let of_entry = entry.and_then(|_| self.entries.get(name)).map(|(_, counts, _)| &**counts);
        of_entry.unwrap_or(&self.others.1).count(name, end, received_at_ms);
    }

    /// The name of the provider in metrics and log lines.
    pub(crate) fn name_of<'a>(&'a self, entry: Option<&'a Arc<ProviderEntry>>) -> &'a Name {
        entry.map_or(&self.others.0, |entry| entry.provider.name())
    }

    /// Verifies, reads and admits one request, and returns its answer. Writes the one log line about it, unless too
    /// many of its sort were written. `held` is the memory that it takes up.
    pub async fn receive(
        &self,
        entry: &Arc<ProviderEntry>,
        request: RawRequest,
        held: HeldMemory,
        arrival: Arrival,
    ) -> Result<SenderAnswer, ReceiveError> {
        let received_at_ms = request.received_at_ms;
        let result = self.verify_and_admit(entry, request, held, arrival).await;
        self.ended(entry, received_at_ms, arrival, result).await
    }

    /// Returns the receipt of the command under `key` to the caller that sent it: what followed from it.
    pub async fn receipt(
        &self,
        entry: &Arc<ProviderEntry>,
        request: RawRequest,
        key: &str,
        arrival: Arrival,
    ) -> Result<SenderAnswer, ReceiveError> {
        let received_at_ms = request.received_at_ms;
        let result = self.verify_and_look(entry, request, key).await;
        self.ended(entry, received_at_ms, arrival, result).await
    }

    async fn verify_and_look(
        &self,
        entry: &Arc<ProviderEntry>,
        request: RawRequest,
        key: &str,
    ) -> Result<SenderAnswer, ReceiveError> {
        let verified = verified(&self.heavy, entry, request).await?;
        let provider = entry.provider.name();
        self.notes.matched(provider, verified.secret_n(), verified.request().received_at_ms);
        let Some(rules) = entry.caller else { return Ok(no_receipt()) };
        // A signature is for its own key alone.
        if verified.signed_id().is_some_and(|signed| signed != key) {
            return Ok(no_receipt());
        }
        let Ok(key) = IdempotencyKey::of_text(key) else { return Ok(no_receipt()) };
        let key = EventKey { provider: provider.clone(), event_id: key.to_string() };
        let found = match self.looks.acquire().await {
            Ok(_place) => self.store.event_receipt(&key).await,
            Err(closed) => return Err(AdmitError::Unavailable(closed.to_string()).into()),
        };
        let found = found.map_err(|error| AdmitError::Unavailable(error.to_string()))?;
        Ok(found.map_or_else(no_receipt, |found| render_receipt(&found, rules.kept_ms)))
    }

    /// Logs a request that was refused or could not be admitted, and counts the end of any.
    async fn ended(
        &self,
        entry: &Arc<ProviderEntry>,
        received_at_ms: UnixMs,
        arrival: Arrival,
        result: Result<SenderAnswer, ReceiveError>,
    ) -> Result<SenderAnswer, ReceiveError> {
        let name = entry.provider.name();
        let request_id = arrival.request_id;
        let end = match &result {
            Ok(SenderAnswer { refused: Some(reason), .. }) => {
                self.count_refused(Some(entry), reason, true);
                RequestEnd::Refused
            }
            Ok(answer) => RequestEnd::of(answer.outcome),
            Err(ReceiveError::Verify(rejected)) => {
                let found = Box::pin(self.looked_into(entry, rejected, arrival)).await;
                if let Some(left_out_n) = self.may_write(Some(entry), found.reason) {
                    info!(provider.name = %name, reason = found.reason, detail = found.detail, client.address = arrival.client(), %request_id, left_out_n, "rejected a request");
                }
                RequestEnd::Rejected
            }
            Err(error @ (ReceiveError::Admit(_) | ReceiveError::Keys(_))) => {
                let code = error.code();
                self.count_refused(Some(entry), code, true);
                if let Some(left_out_n) = self.may_write(Some(entry), code) {
                    let what = if matches!(error, ReceiveError::Keys(_)) { "verify" } else { "admit" };
                    warn!(provider.name = %name, reason = %error, %request_id, left_out_n, "could not {what} a request; the sender may send it again");
                }
                RequestEnd::Unavailable
            }
        };
        self.count(Some(entry), end, received_at_ms);
        self.counted.refusing.ended(end, received_at_ms);
        result
    }

    /// Notes and counts a request from an address which its provider's list does not have. Nothing of its body was
    /// read.
    pub fn refused_address(
        &self,
        entry: &Arc<ProviderEntry>,
        headers: &http::HeaderMap,
        arrival: Arrival,
        received_at_ms: UnixMs,
    ) {
        let (name, client) = (entry.provider.name(), arrival.client());
        if let Some(left_out_n) = self.may_write(Some(entry), "address") {
            let request_id = arrival.request_id;
            info!(provider.name = %name, client.address = client, %request_id, left_out_n, "refused a request from an address that is not in allow_from");
        }
        metrics::counter!("hooklatch_rejected_total", "provider" => name.to_string(), "reason" => "address")
            .increment(1);
        let detail = format!("it came from {client}, which is not in allow_from; its body was not read");
        let noted = Noted { arrival, headers, body_digest: String::new(), body_bytes_n: 0, received_at_ms };
        self.notes.note(entry, &noted, ("address", "address", &detail));
        self.count(Some(entry), RequestEnd::Rejected, received_at_ms);
    }

    /// `Some` when a line of this sort may be written, with the number of those that were left out since the last one.
    pub(super) fn may_write(&self, entry: Option<&Arc<ProviderEntry>>, word: &'static str) -> Option<u64> {
        self.notes.lines.may_write(self.name_of(entry), word)
    }

    /// Decides whether the line about a verified request is written, as [`Self::may_write`] does. A new event always
    /// has its line, beside its row; anything else a stranger who has seen one request can send without end.
    fn may_log(&self, entry: &Arc<ProviderEntry>, outcome: Option<Outcome>) -> Option<u64> {
        match outcome {
            Some(Outcome::Accepted) => Some(0),
            other => self.may_write(Some(entry), other.map_or("none", Outcome::as_str)),
        }
    }

    fn answered_a_handshake(&self, entry: &Arc<ProviderEntry>) {
        if let Some(left_out_n) = self.may_write(Some(entry), "handshake") {
            info!(provider.name = %entry.provider.name(), left_out_n, "answered a handshake");
        }
    }

    /// The answer to a handshake by another method than POST; events are never sent by those.
    pub fn answer_handshake(&self, entry: &Arc<ProviderEntry>, request: &RawRequest) -> Option<SenderAnswer> {
        let reply = entry.provider.handshake(request)?;
        self.answered_a_handshake(entry);
        self.count(Some(entry), RequestEnd::Nothing, request.received_at_ms);
        Some(SenderAnswer::to_handshake(reply))
    }

    async fn verify_and_admit(
        &self,
        entry: &Arc<ProviderEntry>,
        request: RawRequest,
        held: HeldMemory,
        arrival: Arrival,
    ) -> Result<SenderAnswer, ReceiveError> {
        let provider = &entry.provider;
        let trace = self.traces.request(&request.headers);
        if let Some(reply) = provider.handshake(&request) {
            self.answered_a_handshake(entry);
            if let Some(secret) = &reply.pairing_secret {
                self.notes.paired(provider.name(), secret, request.received_at_ms);
            }
            return Ok(SenderAnswer::to_handshake(reply));
        }
        let verified = match &entry.fetcher {
            None => verified(&self.heavy, entry, request).await?,
            // Apart: the memory of every request would have room for the calls that some kinds make.
            Some(fetcher) => {
                let request = (request, arrival.peer());
                Box::pin(verified_and_confirmed(&self.heavy, entry, fetcher, request)).await?
            }
        };
        if let Some(reply) = provider.challenge(&verified) {
            if let Some(left_out_n) = self.may_write(Some(entry), "challenge") {
                info!(provider.name = %provider.name(), left_out_n, "answered a challenge");
            }
            return Ok(SenderAnswer::to_handshake(reply));
        }
        let received_at_ms = verified.request().received_at_ms;
        if let (Some(signed), Some((_, _, times))) =
            (verified.signed_time(), self.entries.get(provider.name()))
        {
            times.note(signed, received_at_ms);
        }
        let secret = self.notes.matched(provider.name(), verified.secret_n(), received_at_ms);
        let (verified, mut events) = read(&self.heavy, entry, verified, self.events_n_max).await?;
        for event in &mut events {
            event.secret = secret;
        }
        if let Some(refused) = entry.caller.and_then(|_| caller_refusal(&verified, &events)) {
            if let Some(left_out_n) = self.may_write(Some(entry), "refused") {
                info!(provider.name = %provider.name(), answer = refused.body, left_out_n, "refused a caller's request");
            }
            return Ok(refused);
        }
        if events.is_empty() {
            if let Some(left_out_n) = self.may_write(Some(entry), "no_events") {
                info!(provider.name = %provider.name(), left_out_n, "acknowledged a request without events");
            }
            let of_kind = answer(&self.heavy, entry, &verified).await;
            return Ok(SenderAnswer::of(entry, of_kind, &AdmittedEvents::default()));
        }
        self.record_unidentified(entry, &events);
        let event_type = events.first().map(|event| event.event_type.clone()).unwrap_or_default();
        let is_taken =
            |event: &IncomingEvent| !event.is_undispatched && provider.handlers().wants(&event.event_type);
        let sorts: Vec<(bool, bool)> =
            events.iter().map(|event| (is_taken(event), event.is_unconfirmed())).collect();
        let admitted = self.admitter.admit(entry, events, held, trace.clone()).await?;
        self.count_sorts(provider.name(), &sorts, &admitted);
        self.notes.copies.note(provider.name(), &admitted.events, received_at_ms);
        let answer = match entry.caller {
            Some(rules) => caller_answer(provider.name(), rules, is_batch(&verified), &admitted),
            None => SenderAnswer::of(entry, answer(&self.heavy, entry, &verified).await, &admitted),
        };
        self.log_answered(entry, &answer, &admitted, (&event_type, verified.secret_n(), arrival));
        if let Some(trace) = trace {
            let AdmittedEvents { events, times } = admitted;
            let (provider, status, event_type) =
                (provider.name().clone(), Some(answer.status), Some(event_type));
            trace.admitted(AdmittedRequest { provider, status, event_type, events, times });
        }
        Ok(answer)
    }

    /// Counts what was accepted: whether anything takes it, and whether its kind could not confirm it.
    fn count_sorts(&self, provider: &Name, sorts: &[(bool, bool)], admitted: &AdmittedEvents) {
        let Some((_, counts, _)) = self.entries.get(provider) else { return };
        let all = admitted.events.iter().zip(sorts);
        let accepted: Vec<(bool, bool)> =
            all.filter(|((_, outcome), _)| *outcome == Outcome::Accepted).map(|(_, sort)| *sort).collect();
        let taken_n = accepted.iter().filter(|(is_taken, _)| *is_taken).count();
        counts.count_taken(provider, (taken_n, accepted.len() - taken_n));
        count_unconfirmed(provider, accepted.iter().filter(|(_, is_unconfirmed)| *is_unconfirmed).count());
    }

    /// Logs what became of a request, as often as lines may be written.
    fn log_answered(
        &self,
        entry: &Arc<ProviderEntry>,
        answer: &SenderAnswer,
        admitted: &AdmittedEvents,
        (event_type, secret_n, arrival): (&str, usize, Arrival),
    ) {
        let provider = &entry.provider;
        let event_id = admitted.events.first().map_or("", |(id, _)| id.as_str());
        let request_id = arrival.request_id;
        if answer.outcome == Some(Outcome::Conflict) {
            if let Some(left_out_n) = self.may_log(entry, answer.outcome) {
                warn!(
                    provider.name = %provider.name(),
                    event.id = event_id,
                    event.kind = event_type,
                    client.address = arrival.client(),
                    %request_id,
                    left_out_n,
                    "received other content under an id or a signed text that is taken: `hooklatch events show` has both"
                );
            }
        } else if let Some(left_out_n) = self.may_log(entry, answer.outcome) {
            info!(
                provider.name = %provider.name(),
                event.id = event_id,
                event.kind = event_type,
                events_n = admitted.events.len(),
                outcome = answer.outcome.map_or("none", Outcome::as_str),
                secret_n,
                took_ms = u64::try_from(arrival.began.elapsed().as_millis()).unwrap_or(u64::MAX),
                %request_id,
                trace_id = self.traces.trace_id(provider.name(), event_id),
                left_out_n,
                "received a request"
            );
        }
    }

    /// Counts events that are identified by their content, because nothing that their kind looks for is there: the
    /// sender has changed, or the kind is wrong.
    fn record_unidentified(&self, entry: &Arc<ProviderEntry>, events: &[IncomingEvent]) {
        for (event, why) in events.iter().filter_map(|event| Some((event, event.unidentified()?))) {
            let name = entry.provider.name();
            metrics::counter!("hooklatch_unidentified_total", "provider" => name.to_string()).increment(1);
            if let Some(left_out_n) = self.may_write(Some(entry), "unidentified") {
                warn!(
                    provider.name = %name,
                    event.kind = event.event_type,
                    reason = why,
                    left_out_n,
                    "an event is identified by its content: it has nothing by which its kind identifies events"
                );
            }
        }
    }

    /// Finds out why a request failed verification, for its log line and the note for operators.
    async fn looked_into(
        &self,
        entry: &Arc<ProviderEntry>,
        rejected: &RejectedRequest,
        arrival: Arrival,
    ) -> Diagnosis {
        let (notes, entry, looked) = (self.notes.clone(), Arc::clone(entry), rejected.clone());
        let bytes_n = rejected.request.body.len();
        let found = self.heavy.run(bytes_n, move || notes.refused(&entry, &looked, arrival)).await;
        found.unwrap_or_else(|| Diagnosis::plain(&rejected.why))
    }
}
