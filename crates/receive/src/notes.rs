//! Notes about requests besides their events: why some were refused, and which secrets still match.
//!
//! Requests only leave notes; one task writes them, at most once a second, so a flood of forgeries costs a few
//! rows and no more. What does not fit is counted and dropped: it is for people to look at, not a promise. Each
//! provider has its own share of everything, so that a flood for one hides nothing of another.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tracing::{info, warn};
use uuid::Uuid;

use crate::admit::{ProviderEntry, ProviderTable};
use crate::counts::CopyCounts;
use crate::diagnose::{Diagnosis, diagnose};
use crate::unread::Arrival;
use hooklatch_core::logging::Lines;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Name, UnixMs};
use hooklatch_store::{PairingSecret, Rejection, SecretUse, Store, StoreError};
use hooklatch_verify::{Hash, RejectedRequest, digest, failed_at, hex_text, hmac};

/// Most notes of one provider that wait to be written.
const NOTES_N_MAX: usize = 16;
/// Most refusals a second of one provider that are looked into: each costs up to a dozen verifications.
const DIAGNOSES_PER_S: u32 = 5;
/// Most refusals a second of all providers that are looked into, besides the first one of each.
const DIAGNOSES_PER_S_OF_ALL: u32 = 25;
/// Longest text of headers that is kept of a refusal.
const HEADERS_BYTES_MAX: usize = 16 * 1024;
/// Longest detail that is kept, in characters.
const DETAIL_CHARS_MAX: usize = 500;
/// Time between two writes of notes.
const WRITE_EVERY: Duration = Duration::from_secs(1);

/// Takes notes. Cloning shares them.
#[derive(Clone)]
pub struct RequestNotes {
    entries: Arc<ProviderTable>,
    notes: Arc<Mutex<BTreeMap<Name, Vec<Rejection>>>>,
    pairings: Arc<Mutex<BTreeMap<Name, PairingSecret>>>,
    uses: Arc<Uses>,
    /// Those of every configuration of which something may have to be written.
    all_uses: Arc<Mutex<Vec<Arc<Uses>>>>,
    installation_id: Uuid,
    /// Further copies of events.
    pub copies: CopyCounts,
    budget: Arc<Mutex<DiagnosisBudget>>,
    /// Bounds the log lines about requests.
    pub lines: Arc<Lines>,
}

/// What is kept of a refused request, besides the reason.
pub struct Noted<'a> {
    pub arrival: Arrival,
    pub headers: &'a http::HeaderMap,
    /// SHA-256 of the body in hexadecimal; empty where the body was not read.
    pub body_digest: String,
    /// Length of the body; as its sender announced it where it was not read. Bytes.
    pub body_bytes_n: u64,
    pub received_at_ms: UnixMs,
}

/// Numbers of refusals that were looked into in the second that is running.
#[derive(Default)]
struct DiagnosisBudget {
    second: UnixMs,
    all_n: u32,
    of_provider: BTreeMap<Name, u32>,
}

type Uses = BTreeMap<Name, Vec<SecretMatches>>;

/// One configured secret since the last write.
struct SecretMatches {
    fingerprint: String,
    /// The fingerprint as events keep it: its 64 bits.
    number: i64,
    matched_n: AtomicU64,
    last_matched_at_ms: AtomicI64,
    /// Follows when notes are written.
    counter: metrics::Counter,
}

/// The name that a secret goes by where it is not to be known: a digest that is keyed with the installation's id.
pub fn fingerprint(installation_id: &Uuid, provider: &Name, secret: &str) -> String {
    let parts = [provider.as_str().as_bytes(), b"\0", secret.as_bytes()];
    let mut text = hex_text(&hmac(Hash::Sha256, installation_id.as_bytes(), &parts));
    text.truncate(16);
    text
}

/// Records secrets that senders posted during pairing; after an error those that are left.
async fn keep_secrets(
    store: &Store,
    secrets: BTreeMap<Name, PairingSecret>,
) -> Result<(), (StoreError, BTreeMap<Name, PairingSecret>)> {
    let mut left = secrets;
    while let Some(first) = left.first_entry() {
        if let Err(error) = store.pairing_secret_keep(first.get().clone()).await {
            return Err((error, left));
        }
        first.remove();
    }
    Ok(())
}

impl RequestNotes {
    /// Nothing noted yet. `lines` decides which lines about requests are written, here and elsewhere.
    pub fn new(entries: Arc<ProviderTable>, installation_id: &Uuid, lines: Arc<Lines>) -> Self {
        let uses = Arc::new(uses(&entries, installation_id));
        Self {
            entries,
            installation_id: *installation_id,
            notes: Arc::default(),
            pairings: Arc::default(),
            all_uses: Arc::new(Mutex::new(vec![Arc::clone(&uses)])),
            uses,
            copies: CopyCounts::default(),
            budget: Arc::default(),
            lines,
        }
    }

    /// Notes for other providers and secrets; what is noted already is still written.
    pub fn reloaded(&self, entries: Arc<ProviderTable>) -> Self {
        let uses = Arc::new(uses(&entries, &self.installation_id));
        self.all_uses.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&uses));
        Self { entries, uses, ..self.clone() }
    }

    /// A request was believed by this secret. Returns its fingerprint as a number.
    pub(crate) fn matched(&self, provider: &Name, secret_n: usize, now_ms: UnixMs) -> Option<i64> {
        let one = self.uses.get(provider).and_then(|uses| uses.get(secret_n))?;
        one.matched_n.fetch_add(1, Ordering::Relaxed);
        one.last_matched_at_ms.fetch_max(now_ms, Ordering::Relaxed);
        Some(one.number)
    }

    /// Keeps the newest secret that a sender sent while its provider is pairing.
    pub(crate) fn paired(&self, provider: &Name, secret: &str, paired_at_ms: UnixMs) {
        let pairing =
            PairingSecret { provider: provider.to_string(), secret: secret.to_owned(), paired_at_ms };
        self.pairings.lock().unwrap_or_else(PoisonError::into_inner).insert(provider.clone(), pairing);
        if let Some(left_out_n) = self.lines.may_write(provider, "pairing") {
            info!(provider.name = %provider, left_out_n, "a sender sent a secret while its provider was pairing: `hooklatch pairing` shows it, once");
        }
    }

    /// Looks into a request that was not believed, if there is time, and notes it. Returns why it was refused.
    pub fn refused(&self, entry: &ProviderEntry, rejected: &RejectedRequest, arrival: Arrival) -> Diagnosis {
        let RejectedRequest { why, request } = rejected;
        let provider = &entry.provider;
        let is_same_kind = |other: &&Arc<ProviderEntry>| {
            other.provider.name() != provider.name() && other.provider.spec().kind == provider.spec().kind
        };
        let diagnosis = if self.may_diagnose(provider.name(), request.received_at_ms) {
            let others = self.entries.values().filter(is_same_kind).map(|other| &other.provider);
            diagnose(provider, others, request, why)
        } else {
            Diagnosis::plain(why)
        };
        metrics::counter!(
            "hooklatch_rejected_total",
            "provider" => provider.name().to_string(),
            "reason" => diagnosis.reason,
        )
        .increment(1);
        // Looked at before the work, which a flood would be.
        if self.is_full(provider.name()) {
            metrics::counter!("hooklatch_rejections_dropped_total").increment(1);
            return diagnosis;
        }
        let noted = Noted {
            arrival,
            headers: &request.headers,
            body_digest: hex_text(&digest(Hash::Sha256, &[&request.body])),
            body_bytes_n: request.body.len() as u64,
            received_at_ms: request.received_at_ms,
        };
        self.note(entry, &noted, (failed_at(why).step, diagnosis.reason, &diagnosis.detail));
        diagnosis
    }

    fn is_full(&self, provider: &Name) -> bool {
        let notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.get(provider).is_some_and(|noted| noted.len() >= NOTES_N_MAX)
    }

    /// Notes a refused request, with the step, the reason and the detail, unless its provider's share is used up.
    pub fn note(&self, entry: &ProviderEntry, noted: &Noted<'_>, why: (&str, &str, &str)) {
        let name = entry.provider.name();
        // Looked at before the work, which a flood would be.
        let mut is_noted = !self.is_full(name);
        if is_noted {
            let rejection = rejection(entry, noted, why);
            let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
            let waiting = notes.entry(name.clone()).or_default();
            is_noted = waiting.len() < NOTES_N_MAX;
            if is_noted {
                waiting.push(rejection);
            }
        }
        if !is_noted {
            metrics::counter!("hooklatch_rejections_dropped_total").increment(1);
        }
    }

    fn may_diagnose(&self, provider: &Name, now_ms: UnixMs) -> bool {
        let mut budget = self.budget.lock().unwrap_or_else(PoisonError::into_inner);
        let second = now_ms.div_euclid(1_000);
        if budget.second != second {
            *budget = DiagnosisBudget { second, ..DiagnosisBudget::default() };
        }
        let all_n = budget.all_n;
        let of_provider_n = budget.of_provider.entry(provider.clone()).or_default();
        let may = match *of_provider_n {
            0 => true,
            n => n < DIAGNOSES_PER_S && all_n < DIAGNOSES_PER_S_OF_ALL,
        };
        if may {
            *of_provider_n += 1;
            budget.all_n += 1;
        }
        may
    }

    /// Writes notes until `stop`, and once more after it.
    pub async fn run(&self, store: &Store, mut stop: Stop) {
        let mut is_stopping = false;
        while !is_stopping {
            is_stopping = stop.pause(WRITE_EVERY).await;
            for (provider, sort, lines_n) in self.lines.left_out() {
                info!(provider.name = %provider, sort, lines_n, "left out lines of one sort");
            }
            let noted = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
            let rejections: Vec<Rejection> = noted.into_values().flatten().collect();
            let uses = self.taken_uses();
            let copies = self.copies.taken();
            let pairings = std::mem::take(&mut *self.pairings.lock().unwrap_or_else(PoisonError::into_inner));
            if let Err((error, left)) = keep_secrets(store, pairings).await {
                // Its sender does not send it again.
                let mut pairings = self.pairings.lock().unwrap_or_else(PoisonError::into_inner);
                for (name, secret) in left {
                    pairings.entry(name).or_insert(secret);
                }
                warn!(%error, "could not record a secret that was received during pairing: it is tried again");
            }
            let written = async {
                store.rejections_insert(&rejections).await?;
                store.secret_uses_add(&uses).await?;
                for (name, entry) in &*self.entries {
                    if let Some(fetcher) = &entry.fetcher {
                        fetcher.store_keys(name, store).await?;
                    }
                }
                store.event_copies_add(&copies).await
            };
            if let Err(error) = written.await {
                warn!(%error, rejections_n = rejections.len(), "could not record refusals, matches of secrets and fetched keys, or copies");
            }
        }
    }

    fn taken_uses(&self) -> Vec<SecretUse> {
        let mut all_uses = self.all_uses.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all_uses.len().saturating_sub(1);
        let mut position = 0..;
        // Those that requests may have are looked at once more.
        let kept: Vec<_> = all_uses
            .iter()
            .filter(|one| position.next() == Some(last) || Arc::strong_count(one) > 1)
            .cloned()
            .collect();
        let all_uses = std::mem::replace(&mut *all_uses, kept);
        let all = all_uses.iter().flat_map(|uses| uses.iter());
        let all = all.flat_map(|(name, uses)| uses.iter().map(move |one| (name, one)));
        let taken = all.filter_map(|(name, one)| {
            let matched_n = one.matched_n.swap(0, Ordering::Relaxed);
            one.counter.increment(matched_n);
            (matched_n > 0).then(|| SecretUse {
                provider: name.to_string(),
                fingerprint: one.fingerprint.clone(),
                matched_n: i64::try_from(matched_n).unwrap_or(i64::MAX),
                last_matched_at_ms: one.last_matched_at_ms.load(Ordering::Relaxed),
            })
        });
        taken.collect()
    }
}

/// The secrets of these providers, none of which has matched yet.
fn uses(entries: &ProviderTable, installation_id: &Uuid) -> Uses {
    let of = |(name, entry): (&Name, &Arc<ProviderEntry>)| {
        let one = |(slot, secret): (usize, &str)| {
            let fingerprint = fingerprint(installation_id, name, secret);
            let slot = slot.to_string();
            SecretMatches {
                // From the start on, so that the first match of an old secret is seen to be one more.
                counter: metrics::counter!(
                    "hooklatch_secret_matched_total",
                    "provider" => name.to_string(),
                    "slot" => slot,
                ),
                number: u64::from_str_radix(&fingerprint, 16).unwrap_or_default().cast_signed(),
                fingerprint,
                matched_n: AtomicU64::new(0),
                last_matched_at_ms: AtomicI64::new(0),
            }
        };
        (name.clone(), entry.provider.secrets().enumerate().map(one).collect())
    };
    entries.iter().map(of).collect()
}

fn rejection(
    entry: &ProviderEntry,
    noted: &Noted<'_>,
    (step, reason, detail): (&str, &str, &str),
) -> Rejection {
    Rejection {
        rejection_id: noted.arrival.request_id.to_string(),
        provider: entry.provider.name().to_string(),
        received_at_ms: noted.received_at_ms,
        step: step.to_owned(),
        reason: reason.to_owned(),
        detail: detail.chars().filter(|c| !c.is_control()).take(DETAIL_CHARS_MAX).collect(),
        headers: Some(entry.provider.kept_headers(noted.headers))
            .filter(|headers| headers.len() <= HEADERS_BYTES_MAX)
            .unwrap_or_else(|| "{}".to_owned()),
        body_digest: noted.body_digest.clone(),
        body_bytes_n: i64::try_from(noted.body_bytes_n).unwrap_or(i64::MAX),
        client_address: noted.arrival.address.map(|address| address.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_refusal_of_each_provider_is_looked_into_and_few_more_in_a_second() {
        let notes = RequestNotes::new(Arc::default(), &Uuid::nil(), Arc::default());
        let name = |n: usize| Name::parse(&format!("p{n}")).expect("a name");
        let looked_n = |n: usize, now_ms| (0..20).filter(|_| notes.may_diagnose(&name(n), now_ms)).count();
        assert_eq!(looked_n(0, 1_000), 5);
        assert_eq!(looked_n(0, 1_999), 0, "the second is not over");
        assert_eq!((1..5).map(|n| looked_n(n, 1_999)).sum::<usize>(), 20, "each has its own share");
        assert_eq!(looked_n(5, 1_999), 1, "of all it is enough, but not of this one");
        assert_eq!(looked_n(0, 2_000), 5);
    }

    #[test]
    fn a_secret_has_another_name_at_each_provider_and_installation() {
        let (a, b) = (Name::parse("a").expect("a name"), Name::parse("ab").expect("a name"));
        let first = fingerprint(&Uuid::nil(), &a, "bc");
        assert_eq!(first.len(), 16);
        assert_ne!(first, fingerprint(&Uuid::nil(), &b, "c"));
        assert_ne!(first, fingerprint(&Uuid::max(), &a, "bc"));
    }
}
