//! From a request to a verified one: on another thread when its body is large, with the keys and confirmations that it
//! asks for on the way.
//!
//! Verification does no I/O. Where a request names a key that this node does not have yet, verification reports it
//! ([`VerifyError::KeyWanted`]); the key is fetched here, and the same request is verified once more. What a stranger
//! can make us do this way is bounded: two keys for each request, and every call by the budgets of `fetch/`. Nothing is
//! fetched before the kind has checked what it can check without a key, because only then does it ask for one.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tracing::info;

use crate::admit::ProviderEntry;
use crate::fetch::{FetchError, Fetcher, UsedKeys, WantedKey};
use crate::provider::ActiveProvider;
use crate::receiver::ReceiveError;
use hooklatch_core::json::text_of;
use hooklatch_core::types::IncomingEvent;
use hooklatch_verify::spec::AnswerSpec;
use hooklatch_verify::{RawRequest, RejectedRequest, Verified, VerifyError, not_fetched};

/// Up to this many bytes a body is verified where it arrived: that takes less than handing it over. Bytes.
const BYTES_MAX: usize = 64 * 1024;

/// Permits for heavy requests: one less than there are processors, and at least one. Clones share them.
#[derive(Clone)]
pub(super) struct Heavy(Arc<Semaphore>);

impl Heavy {
    pub(crate) fn new() -> Self {
        let processors_n = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self(Arc::new(Semaphore::new(processors_n.saturating_sub(1).max(1))))
    }

    /// True when a body of `bytes_n` bytes is verified where it arrived.
    pub(super) fn is_light(bytes_n: usize) -> bool {
        bytes_n <= BYTES_MAX
    }

    /// Returns the result of `work`; `None` when it broke off. Its place is taken until it is done, whether or not a
    /// caller still waits for it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes_n: usize,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        if Self::is_light(bytes_n) { Some(work()) } else { self.run_blocking(work).await }
    }

    /// Returns the result of `work`, which takes long whatever the size of the body is; `None` when it broke off.
    pub(crate) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let place = Arc::clone(&self.0).acquire_owned().await.ok()?;
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(place);
            done
        });
        working.await.ok()
    }
}

/// Most keys that are fetched for one request.
const KEYS_OF_REQUEST_N_MAX: usize = 2;

/// Verifies a request once: here, or on a thread of its own when its body is large.
pub(crate) async fn verified(
    heavy: &Heavy,
    entry: &Arc<ProviderEntry>,
    request: RawRequest,
) -> Result<Verified, ReceiveError> {
    let bytes_n = request.body.len();
    if Heavy::is_light(bytes_n) {
        return Ok(entry.provider.try_verify(request)?);
    }
    let entry = Arc::clone(entry);
    // Apart, as below: the memory of every request would have room for it.
    let verifying = Box::pin(heavy.run(bytes_n, move || entry.provider.try_verify(request)));
    Ok(verifying.await.ok_or_else(interrupted)??)
}

/// Verifies a request with fetched keys, and records those that verified it.
async fn verified_by(
    heavy: &Heavy,
    entry: &Arc<ProviderEntry>,
    fetcher: &Arc<Fetcher>,
    request: RawRequest,
) -> Result<Verified, ReceiveError> {
    let bytes_n = request.body.len();
    let (entry, used) = (Arc::clone(entry), Arc::new(UsedKeys::new(fetcher)));
    let source = Arc::clone(&used);
    let work = move || entry.provider.verify_with_source(source, request);
    let verified = heavy.run(bytes_n, work).await.ok_or_else(interrupted)??;
    used.proved();
    Ok(verified)
}

/// Reads the events of a request: here, or on a thread of its own when its body is large.
pub(crate) async fn read(
    heavy: &Heavy,
    entry: &Arc<ProviderEntry>,
    verified: Verified,
    events_n_max: usize,
) -> Result<(Verified, Vec<IncomingEvent>), ReceiveError> {
    let bytes_n = verified.request().body.len();
    if Heavy::is_light(bytes_n) {
        let events = entry.provider.read_at_most(&verified, events_n_max);
        return Ok((verified, events));
    }
    let entry = Arc::clone(entry);
    let reading = Box::pin(heavy.run(bytes_n, move || {
        let events = entry.provider.read_at_most(&verified, events_n_max);
        (verified, events)
    }));
    reading.await.ok_or_else(interrupted)
}

/// The kind's own answer to a request whose events are committed: made here, or on a thread of its own where code makes
/// it. An answer that could not be made is the one that `[answer]` has.
pub(crate) async fn answer<'a>(
    heavy: &Heavy,
    entry: &'a Arc<ProviderEntry>,
    verified: &Verified,
) -> Option<Cow<'a, AnswerSpec>> {
    if !entry.provider.computes_answers() {
        return entry.provider.answer(verified);
    }
    let (entry, verified) = (Arc::clone(entry), verified.clone());
    let made = heavy.run_blocking(move || entry.provider.answer(&verified).map(Cow::into_owned));
    Box::pin(made).await.flatten().map(Cow::Owned)
}

/// Verifies a request with keys that are fetched, and confirms what it wants to have confirmed.
pub(super) async fn verified_and_confirmed(
    heavy: &Heavy,
    entry: &Arc<ProviderEntry>,
    fetcher: &Arc<Fetcher>,
    (request, peer): (RawRequest, Option<IpAddr>),
) -> Result<Verified, ReceiveError> {
    let verified = verified_with_keys(heavy, entry, fetcher, (request, peer)).await?;
    confirm(&entry.provider, fetcher, &verified).await?;
    Ok(verified)
}

/// Verifies, fetches the key that is wanted, and verifies again, for as many keys as one request may have fetched.
async fn verified_with_keys(
    heavy: &Heavy,
    entry: &Arc<ProviderEntry>,
    fetcher: &Arc<Fetcher>,
    (mut request, peer): (RawRequest, Option<IpAddr>),
) -> Result<Verified, ReceiveError> {
    for _ in 0..KEYS_OF_REQUEST_N_MAX {
        let mut rejected = match verified_by(heavy, entry, fetcher, request).await {
            Err(ReceiveError::Verify(rejected)) => rejected,
            other => return other,
        };
        let Some(wanted) = wanted(&rejected) else { return Err(rejected.into()) };
        match fetcher.fetch(&wanted, peer).await {
            Ok(()) => request = rejected.request,
            Err(FetchError::NoSuchKey(more)) => {
                rejected.why = not_fetched(rejected.why, &more);
                return Err(rejected.into());
            }
            Err(away) => return Err(away.into()),
        }
    }
    verified_by(heavy, entry, fetcher, request).await
}

/// The key that a verification did not have.
fn wanted(rejected: &RejectedRequest) -> Option<WantedKey> {
    match &rejected.why {
        VerifyError::KeyWanted { setting, id } => {
            Some(WantedKey { setting: setting.clone(), id: id.clone() })
        }
        _ => None,
    }
}

fn interrupted() -> ReceiveError {
    ReceiveError::Keys(FetchError::Away("the verification of a large body broke off".to_owned()))
}

/// Confirms, at the sender, what a believed request wants to have confirmed.
async fn confirm(
    provider: &ActiveProvider,
    fetcher: &Arc<Fetcher>,
    verified: &Verified,
) -> Result<(), ReceiveError> {
    let body = &verified.request().body;
    let says = |pointer: &str| text_of(body, pointer).ok();
    for confirm in &provider.spec().confirm {
        if confirm.when.iter().all(|(pointer, want)| says(pointer).as_ref() == Some(want)) {
            let url = says(&confirm.url).unwrap_or_default();
            fetcher.confirm(confirm, &url).await?;
            info!(provider.name = %provider.name(), "confirmed a subscription at the sender");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method};

    use super::*;
    use crate::fetch::tests::{Host, JSON};
    use crate::provider::Provider;
    use hooklatch_core::config::OnHandlerError;
    use hooklatch_core::types::Clock;
    use hooklatch_verify::{Authenticated, AuthenticatedExt, KeySource, Keys, KeysExt, failed_at};

    #[tokio::test]
    async fn a_large_body_is_verified_beside_what_else_is_served() {
        let heavy = Heavy::new();
        let (sender, receiver) = std::sync::mpsc::channel();
        // A caller that ran it here would wait in vain for the send after it.
        let wait = move || receiver.recv_timeout(std::time::Duration::from_secs(20)).is_ok();
        let verified = heavy.run(BYTES_MAX + 1, wait);
        let (was_received, ()) = futures_util::join!(verified, async { sender.send(()).expect("it waits") });
        assert_eq!(was_received, Some(true));
        let here = std::thread::current().id();
        assert_eq!(heavy.run(BYTES_MAX, || std::thread::current().id()).await, Some(here));
        assert_ne!(heavy.run(BYTES_MAX + 1, || std::thread::current().id()).await, Some(here));
        assert_ne!(
            heavy.run_blocking(|| std::thread::current().id()).await,
            Some(here),
            "however small the body is"
        );
        assert_eq!(heavy.run(BYTES_MAX + 1, || panic!("a defect")).await, None::<()>);
        assert_eq!(heavy.run(BYTES_MAX + 1, || 1).await, Some(1), "and the next one has its place");
    }

    #[tokio::test]
    async fn concurrent_verifications_are_bounded_even_when_their_callers_are_gone() {
        let heavy = Heavy::new();
        let places_n = heavy.0.available_permits();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let receiver = Arc::new(std::sync::Mutex::new(receiver));
        for _ in 0..places_n {
            let receiver = Arc::clone(&receiver);
            let wait = move || drop(receiver.lock().map(|receiver| receiver.recv()));
            let gone = futures_util::future::poll_immediate(Box::pin(heavy.run(BYTES_MAX + 1, wait))).await;
            assert_eq!(gone, None, "its request went away");
        }
        assert_eq!(heavy.0.available_permits(), 0, "its place is taken until it is done");
        drop(sender);
        assert_eq!(heavy.run(BYTES_MAX + 1, || 1).await, Some(1));
    }

    /// Wants a key by each id in the body, one after the other, of the setting that the URL names.
    fn wants_keys(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
        for id in String::from_utf8_lossy(&request.body).split(',') {
            keys.key_text(&request.url, id)?;
        }
        Ok(Authenticated::plain(0))
    }

    fn request(setting: &str, ids: &str) -> RawRequest {
        RawRequest {
            method: Method::POST,
            url: setting.to_owned(),
            headers: HeaderMap::new(),
            body: Bytes::from(ids.to_owned()),
            received_at_ms: 0,
        }
    }

    /// A kind whose keys are at `host`.
    fn entry(fetcher: &Arc<Fetcher>) -> Arc<ProviderEntry> {
        let kind = Provider::from_spec(include_str!("../../../providers/aws_sns/provider.toml"));
        let mut entry = ProviderEntry::example(&kind.verify_with(wants_keys), OnHandlerError::Keep);
        entry.provider = entry.provider.with_key_source(Arc::clone(fetcher) as Arc<dyn KeySource>);
        Arc::new(entry)
    }

    async fn verify_request(fetcher: &Arc<Fetcher>, request: RawRequest) -> Result<(), String> {
        match verified_and_confirmed(&Heavy::new(), &entry(fetcher), fetcher, (request, None)).await {
            Ok(_) => Ok(()),
            Err(ReceiveError::Verify(rejected)) => {
                assert_eq!(failed_at(&rejected.why).reason, "no_key");
                Err(rejected.to_string())
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[tokio::test]
    async fn one_request_has_two_keys_fetched_and_no_more() {
        let (host, clock) = (Host::start().await, Clock::manual(0));
        host.says(200, r#"{"data":{"key":"k"}}"#);
        let fetcher = Arc::new(host.fetcher(JSON, &clock, &["localhost"]));
        let setting = "public_keys_spki_b64";
        assert_eq!(verify_request(&fetcher, request(setting, "a,b")).await, Ok(()));
        assert_eq!(host.requests_n(), 2);
        assert_eq!(verify_request(&fetcher, request(setting, "b,a")).await, Ok(()), "they are here");
        assert_eq!(host.requests_n(), 2);
        let refused = verify_request(&fetcher, request(setting, "c,d,e")).await;
        assert_eq!(
            refused,
            Err("no key to verify with: key `e` of `settings.public_keys_spki_b64` is not at hand".to_owned())
        );
        assert_eq!(host.requests_n(), 4);
    }

    #[tokio::test]
    async fn a_key_that_there_is_not_is_a_refusal_and_one_with_a_long_id_is_not_asked_for() {
        let (host, clock) = (Host::start().await, Clock::manual(0));
        host.says(404, "");
        let fetcher = Arc::new(host.fetcher(JSON, &clock, &["localhost"]));
        let (fetched, long) = ("public_keys_spki_b64", "k".repeat(513));
        for (setting, id, why, calls_n) in [
            ("elsewhere", "k1", "key `k1` of `settings.elsewhere`: the kind fetches no such keys", 0),
            (fetched, long.as_str(), "the id of the key that it names is too long", 0),
            (fetched, "k1", "key `k1` of `settings.public_keys_spki_b64`: the sender's host answered 404", 1),
        ] {
            let refused = verify_request(&fetcher, request(setting, id)).await;
            assert_eq!(refused, Err(format!("no key to verify with: {why}")));
            assert_eq!(host.requests_n(), calls_n);
        }
    }
}
