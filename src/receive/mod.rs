//! The way of a request, as the README tells it: find the provider, verify, read, admit, answer.
//!
//! No HTTP types and no SQL: `http/` turns bytes into a [`RawRequest`] and an [`Answer`] into bytes. After
//! a valid signature there is no refusal of ours that a sender could act on: what cannot be read is kept.

mod answer;
mod counts;
mod diagnose;
mod heavy;
mod notes;

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::{info, warn};

use crate::admit::{AdmitError, Admitted, Admitter, Held, ProviderEntry};
use crate::fetch::{FetchError, Fetcher, Recorder, Wanted};
use crate::provider::ActiveProvider;
use crate::types::{IncomingEvent, Name, Outcome};
use crate::verify::{KeySource, RawRequest, Unbelieved, Verified, VerifyError};
pub(crate) use answer::Answer;
use counts::{Counts, End};
use diagnose::Diagnosis;
pub(crate) use diagnose::diagnose;
use heavy::Heavy;
pub(crate) use notes::{RequestNotes, fingerprint};

/// Why a request was not admitted.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReceiveError {
    /// Nothing is configured under this name.
    #[error("no provider of that name")]
    UnknownProvider,
    /// Not believed.
    #[error("not believed: {0}")]
    Verify(#[from] Box<Unbelieved>),
    /// Nobody can say: the sender's own keys are out of reach, and it may send it again.
    #[error(transparent)]
    Keys(#[from] FetchError),
    /// Believed, but not admitted; the sender may send it again.
    #[error(transparent)]
    Admit(#[from] AdmitError),
}

/// The receiving side of the app. Cloning is cheap.
#[derive(Clone)]
pub(crate) struct Receiver {
    entries: Arc<BTreeMap<Name, (Arc<ProviderEntry>, Counts)>>,
    admitter: Admitter,
    notes: RequestNotes,
    events_n_max: usize,
    heavy: Heavy,
}

impl Receiver {
    /// Receives for `entries`, through `admitter`, requests of at most `events_n_max` events.
    pub(crate) fn new(
        entries: &BTreeMap<Name, Arc<ProviderEntry>>,
        admitter: Admitter,
        notes: RequestNotes,
        events_n_max: usize,
    ) -> Self {
        let counted = |(name, entry): (&Name, &Arc<ProviderEntry>)| {
            (name.clone(), (Arc::clone(entry), Counts::default()))
        };
        let entries = Arc::new(entries.iter().map(counted).collect());
        Self { entries, admitter, notes, events_n_max, heavy: Heavy::new() }
    }

    /// The provider configured under `name`.
    pub(crate) fn entry(&self, name: &str) -> Option<&Arc<ProviderEntry>> {
        self.entries.get(name).map(|(entry, _)| entry)
    }

    fn count(&self, provider: &Name, end: End) {
        if let Some((_, counts)) = self.entries.get(provider) {
            counts.count(provider, end);
        }
    }

    /// Takes one request to its answer, and writes the one log line about it, unless too many of its sort were
    /// written. `held` is the memory it takes up.
    pub(crate) async fn receive(
        &self,
        entry: &Arc<ProviderEntry>,
        request: RawRequest,
        held: Held,
    ) -> Result<Answer, ReceiveError> {
        let name = entry.provider.name();
        let result = self.verify_and_admit(entry, request, held).await;
        let end = match &result {
            Ok(answer) => End::of(answer.outcome),
            Err(ReceiveError::Verify(unbelieved)) => {
                let found = self.looked_into(entry, unbelieved).await;
                if let Some(left_out_n) = self.may_write(entry, found.reason) {
                    info!(provider.name = %name, reason = found.reason, detail = found.detail, left_out_n, "rejected a request");
                }
                End::Rejected
            }
            Err(ReceiveError::Admit(why)) => {
                if let Some(left_out_n) = self.may_write(entry, "unavailable") {
                    warn!(provider.name = %name, reason = %why, left_out_n, "could not admit a request; the sender may send it again");
                }
                End::Unavailable
            }
            Err(ReceiveError::Keys(why)) => {
                if let Some(left_out_n) = self.may_write(entry, "no_keys") {
                    warn!(provider.name = %name, reason = %why, left_out_n, "could not verify a request; the sender may send it again");
                }
                End::Unavailable
            }
            // Told before anything of its request was read.
            Err(ReceiveError::UnknownProvider) => return result,
        };
        self.count(name, end);
        result
    }

    /// Whether a line of this sort may be written, and how many were not.
    fn may_write(&self, entry: &ProviderEntry, word: &'static str) -> Option<u64> {
        self.notes.lines.may_write(entry.provider.name(), word)
    }

    /// The same of a request that was believed. What is new has its line, beside its row; what is not, anybody who has
    /// seen one request can send without end.
    fn may_tell(&self, entry: &ProviderEntry, outcome: Option<Outcome>) -> Option<u64> {
        match outcome {
            Some(Outcome::Accepted) => Some(0),
            other => self.may_write(entry, other.map_or("none", Outcome::as_str)),
        }
    }

    fn answered_a_handshake(&self, entry: &ProviderEntry) {
        if let Some(left_out_n) = self.may_write(entry, "handshake") {
            info!(provider.name = %entry.provider.name(), left_out_n, "answered a handshake");
        }
    }

    /// The answer to a handshake by another method than POST; events never come by those.
    pub(crate) fn answer(&self, entry: &Arc<ProviderEntry>, request: &RawRequest) -> Option<Answer> {
        let reply = entry.provider.handshake(request)?;
        self.answered_a_handshake(entry);
        self.count(entry.provider.name(), End::Nothing);
        Some(Answer::to_handshake(reply))
    }

    async fn verify_and_admit(
        &self,
        entry: &Arc<ProviderEntry>,
        request: RawRequest,
        held: Held,
    ) -> Result<Answer, ReceiveError> {
        let provider = &entry.provider;
        if let Some(reply) = provider.handshake(&request) {
            self.answered_a_handshake(entry);
            if let Some(secret) = &reply.taught {
                self.notes.taught(provider.name(), secret, request.received_at_ms);
            }
            return Ok(Answer::to_handshake(reply));
        }
        let verified = match &entry.fetcher {
            None => self.believed(entry, request).await?,
            Some(fetcher) => self.verify_fetching(entry, fetcher, request).await?,
        };
        if let Some(reply) = provider.challenge(&verified) {
            if let Some(left_out_n) = self.may_write(entry, "challenge") {
                info!(provider.name = %provider.name(), left_out_n, "answered a challenge");
            }
            return Ok(Answer::to_handshake(reply));
        }
        let received_at_ms = verified.request().received_at_ms;
        self.notes.matched(provider.name(), verified.secret_n(), received_at_ms);
        let events = provider.read_at_most(&verified, self.events_n_max);
        if events.is_empty() {
            if let Some(left_out_n) = self.may_write(entry, "no_events") {
                info!(provider.name = %provider.name(), left_out_n, "acknowledged a request without events");
            }
            return Ok(Answer::of(entry, provider.answer(&verified), &Admitted { events: Vec::new() }));
        }
        self.tell_unidentified(entry, &events);
        let event_type = events.first().map(|event| event.event_type.clone()).unwrap_or_default();
        let admitted = self.admitter.admit(entry, events, held).await?;
        let event_id = admitted.events.first().map_or("", |(id, _)| id.as_str());
        let answer = Answer::of(entry, provider.answer(&verified), &admitted);
        if answer.outcome == Some(Outcome::Conflict) {
            if let Some(left_out_n) = self.may_tell(entry, answer.outcome) {
                warn!(
                    provider.name = %provider.name(),
                    event.id = event_id,
                    event.kind = event_type,
                    left_out_n,
                    "received other content under an id or a signed text that is taken: `hooklatch events show` has both"
                );
            }
        } else if let Some(left_out_n) = self.may_tell(entry, answer.outcome) {
            info!(
                provider.name = %provider.name(),
                event.id = event_id,
                event.kind = event_type,
                events_n = admitted.events.len(),
                outcome = answer.outcome.map_or("none", Outcome::as_str),
                secret_n = verified.secret_n(),
                left_out_n,
                "received a request"
            );
        }
        Ok(answer)
    }

    /// Counts what goes by its content for want of what its kind looks for: the sender has changed, or the kind is wrong.
    fn tell_unidentified(&self, entry: &ProviderEntry, events: &[IncomingEvent]) {
        for (event, why) in events.iter().filter_map(|event| Some((event, event.unidentified()?))) {
            let name = entry.provider.name();
            metrics::counter!("hooklatch_unidentified_total", "provider" => name.to_string()).increment(1);
            if let Some(left_out_n) = self.may_write(entry, "unidentified") {
                warn!(
                    provider.name = %name,
                    event.kind = event.event_type,
                    reason = why,
                    left_out_n,
                    "an event goes by its content: nothing that its kind tells events apart by is there"
                );
            }
        }
    }

    async fn believed(
        &self,
        entry: &Arc<ProviderEntry>,
        request: RawRequest,
    ) -> Result<Verified, ReceiveError> {
        let bytes_n = request.body.len();
        if Heavy::is_light(bytes_n) {
            return Ok(entry.provider.believe(request)?);
        }
        let entry = Arc::clone(entry);
        let believed = self.heavy.done(bytes_n, move || entry.provider.believe(request)).await;
        Ok(believed.ok_or_else(interrupted)??)
    }

    async fn looked_into(&self, entry: &Arc<ProviderEntry>, unbelieved: &Unbelieved) -> Diagnosis {
        let (notes, entry, looked) = (self.notes.clone(), Arc::clone(entry), unbelieved.clone());
        let bytes_n = unbelieved.request.body.len();
        let found = self.heavy.done(bytes_n, move || notes.refused(&entry, &looked)).await;
        found.unwrap_or_else(|| Diagnosis::plain(&unbelieved.why))
    }

    /// Verifies, fetching keys that the request names and nobody has yet; and confirms what wants to be confirmed.
    async fn verify_fetching(
        &self,
        entry: &Arc<ProviderEntry>,
        fetcher: &Arc<Fetcher>,
        request: RawRequest,
    ) -> Result<Verified, ReceiveError> {
        let verified = match self.believed(entry, request).await {
            Err(ReceiveError::Verify(mut unbelieved)) => {
                let missing = self.missing(entry, fetcher, &unbelieved.request).await?;
                if missing.is_empty() {
                    return Err(unbelieved.into());
                }
                match fetcher.fetch_missing(&missing).await {
                    Ok(()) => self.believed(entry, unbelieved.request).await?,
                    Err(FetchError::NoSuchKey(more)) => {
                        unbelieved.why = VerifyError::NoKey(format!("{}: {more}", unbelieved.why));
                        return Err(unbelieved.into());
                    }
                    Err(away) => return Err(away.into()),
                }
            }
            other => other?,
        };
        confirm(&entry.provider, fetcher, &verified).await?;
        Ok(verified)
    }

    /// Verifies once more, to see which keys it asks for in vain.
    async fn missing(
        &self,
        entry: &Arc<ProviderEntry>,
        fetcher: &Arc<Fetcher>,
        request: &RawRequest,
    ) -> Result<Vec<Wanted>, ReceiveError> {
        let recorder = Arc::new(Recorder::new(Arc::clone(fetcher)));
        let asking = entry.provider.clone().with_key_source(Arc::clone(&recorder) as Arc<dyn KeySource>);
        let (bytes_n, request) = (request.body.len(), request.clone());
        self.heavy.done(bytes_n, move || drop(asking.believe(request))).await.ok_or_else(interrupted)?;
        Ok(recorder.missing())
    }
}

fn interrupted() -> ReceiveError {
    ReceiveError::Keys(FetchError::Away("the verification broke off".to_owned()))
}

/// Confirms, at the sender, what a believed request wants to have confirmed.
async fn confirm(
    provider: &ActiveProvider,
    fetcher: &Arc<Fetcher>,
    verified: &Verified,
) -> Result<(), ReceiveError> {
    let body = &verified.request().body;
    let says = |pointer: &str| crate::json::text_of(body, pointer).ok();
    for confirm in &provider.spec().confirm {
        if confirm.when.iter().all(|(pointer, want)| says(pointer).as_ref() == Some(want)) {
            let url = says(&confirm.url).unwrap_or_default();
            fetcher.confirm(confirm, &url).await?;
            info!(provider.name = %provider.name(), "confirmed a subscription at the sender");
        }
    }
    Ok(())
}
