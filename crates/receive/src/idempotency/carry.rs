//! One request, from its key to its answer; and [`IdempotencyClaim`], by which an effect and its answer are one commit.

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use bytes::{Bytes, BytesMut};
use futures_util::StreamExt;
use http_body_util::{BodyExt, BodyStream, Limited, StreamBody};
use hyper::body::Frame;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};
use tower::Service;
use tracing::warn;

use super::answers::{
    BODY_BYTES_MAX, fingerprint, in_use, kept, known_until, problem, problem_for_now, replay, state_after,
    unavailable,
};
use super::{RequestRules, UnderWay};
use hooklatch_core::types::{IdempotencyKey, ProblemCode};
use hooklatch_store::{KeyClaim, KeyReply, KeyRequest, NewAnswer, Store, Tx, roll_back};

/// The right to carry out the request that has it as an extension: `Extension(claim): Extension<IdempotencyClaim>`.
///
/// A handler that writes its effect with [`begin`](Self::begin) and [`commit`](Self::commit) takes effect exactly once:
/// whatever is killed, effect and answer are both there or neither is, and who lost its claim commits nothing.
#[derive(Clone)]
pub struct IdempotencyClaim(Arc<HeldClaim>);

struct HeldClaim {
    store: Store,
    claim: KeyClaim,
    transactions: Arc<Semaphore>,
    /// Its transaction's place, given back with the request.
    place: Mutex<Option<OwnedSemaphorePermit>>,
}

/// Marks an answer that was kept with its effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct CommittedAnswer;

impl IdempotencyClaim {
    pub(crate) fn new(store: Store, claim: KeyClaim, transactions: Arc<Semaphore>) -> Self {
        Self(Arc::new(HeldClaim { store, claim, transactions, place: Mutex::new(None) }))
    }

    /// Opens a transaction on the database of Hooklatch. Dropping it rolls it back. Be quick: on SQLite nothing else is
    /// written meanwhile, not even events.
    pub async fn begin(&self) -> anyhow::Result<Tx> {
        let place = Arc::clone(&self.0.transactions).acquire_owned().await?;
        let tx = self.0.store.idempotency_tx(&self.0.claim).await?;
        *self.0.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(place);
        Ok(tx)
    }

    /// Commits what was written through `tx` together with the answer, and gives the answer back: return it. An answer
    /// that is not kept (5xx, 408, …) rolls back instead.
    ///
    /// When nothing could be committed the answer is another one: 409 where another process has taken over, 503 where
    /// the database did not confirm.
    pub async fn commit(&self, tx: Tx, answer: impl IntoResponse) -> Response {
        let (parts, body) = answer.into_response().into_parts();
        let Some(state) = state_after(parts.status) else {
            if let Err(error) = roll_back(tx).await {
                warn!(%error, "could not roll back a request without effect");
            }
            return Response::from_parts(parts, body);
        };
        let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
            // Nothing was committed, so nothing is lost.
            let sentence =
                "an answer that is kept with its effect has 64 KiB at most, and is there as a whole";
            return problem(500, ProblemCode::IdempotencyAnswerUnusable, sentence, &[]);
        };
        let body = body.to_bytes();
        let answer = kept(state, parts.status, &parts.headers, Some(&body));
        match self.0.store.idempotency_commit(tx, &self.0.claim, &answer).await {
            Ok(true) => {
                let mut response = Response::from_parts(parts, Body::from(body));
                response.extensions_mut().insert(CommittedAnswer);
                response
            }
            Ok(false) => in_use(1),
            Err(error) => {
                warn!(%error, "could not commit a request with its answer");
                unavailable()
            }
        }
    }
}

/// Longest body of a request. Bytes.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// Longest time that a request's body may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time between two looks for the answer of another node; longer each time, up to the second one.
const LOOK_FIRST: Duration = Duration::from_millis(25);
const LOOK_MAX: Duration = Duration::from_millis(400);
/// Tries to write an answer down.
const WRITES_N: u32 = 3;

/// The answer to one request.
pub(crate) async fn carried<S>(rules: Arc<RequestRules>, mut inner: S, request: Request) -> Response
where
    S: Service<Request, Response = Response, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    if request.method().is_safe() {
        return inner.call(request).await.unwrap_or_else(|never| match never {});
    }
    let (asked, request) = match read(&rules, request).await {
        Ok(read) => read,
        Err(refused) => return *refused,
    };
    // To its end, also without its caller: a caller that hangs up in the middle repeats its request, for this answer.
    #[expect(clippy::disallowed_methods, reason = "ends by itself when its lock does")]
    let task = tokio::spawn(async move {
        match claimed(&rules, asked).await {
            Ok((claim, place)) => carried_out(rules, (claim, place), inner, request).await,
            Err(answer) => *answer,
        }
    });
    task.await.unwrap_or_else(|_| {
        problem(500, ProblemCode::Internal, "the request broke off, and may be repeated", &[])
    })
}

/// Carries out a request that is held.
async fn carried_out<S>(
    rules: Arc<RequestRules>,
    (claim, place): (KeyClaim, UnderWay),
    mut inner: S,
    mut request: Request,
) -> Response
where
    S: Service<Request, Response = Response, Error = Infallible> + Send + 'static,
    S::Future: Send + 'static,
{
    let guard = ClaimGuard { rules: Arc::clone(&rules), claim: Some(claim.clone()), place: Some(place) };
    let held = IdempotencyClaim::new(rules.store.clone(), claim.clone(), Arc::clone(&rules.transactions));
    request.extensions_mut().insert(held);
    let work = async { gathered(inner.call(request).await.unwrap_or_else(|never| match never {})).await };
    let response = match timeout(rules.lock, work).await {
        Ok(Gathered::Committed(response)) => known_until(response, claim.expires_at_ms),
        Ok(Gathered::Kept(answer, response)) => match written(&rules.store, &claim, &answer).await {
            Some(false) => in_use(1),
            // The caller gets the answer, and has no reason to ask again.
            Some(true) | None => known_until(response, claim.expires_at_ms),
        },
        Ok(Gathered::Freed(response)) => {
            release(&rules.store, &claim).await;
            response
        }
        Err(_) => {
            release(&rules.store, &claim).await;
            let sentence = "the request was not carried out in time, and may be repeated";
            problem_for_now(503, ProblemCode::IdempotencyTimeout, sentence, 1)
        }
    };
    guard.ended();
    response
}

/// Frees the key of a request that broke off.
struct ClaimGuard {
    rules: Arc<RequestRules>,
    claim: Option<KeyClaim>,
    /// Given up before others learn that it has ended.
    place: Option<UnderWay>,
}

impl ClaimGuard {
    fn ended(mut self) {
        self.claim = None;
    }
}

impl Drop for ClaimGuard {
    fn drop(&mut self) {
        let (rules, place) = (Arc::clone(&self.rules), self.place.take());
        let Some(claim) = self.claim.take() else {
            drop(place);
            return rules.ended.notify_waiters();
        };
        #[expect(clippy::disallowed_methods, reason = "one statement, which ends by itself")]
        drop(tokio::spawn(async move {
            release(&rules.store, &claim).await;
            drop(place);
            rules.ended.notify_waiters();
        }));
    }
}

async fn release(store: &Store, claim: &KeyClaim) {
    if let Err(error) = store.idempotency_release(claim).await {
        warn!(%error, "could not release the key of a request; it is free when its lock ends");
    }
}

/// Reads a request as far as its key is asked for by it; or says what is wrong with it.
async fn read(rules: &RequestRules, request: Request) -> Result<(KeyRequest, Request), Box<Response>> {
    let (parts, body) = request.into_parts();
    let refused = |status, code, sentence: &str| Box::new(problem(status, code, sentence, &[]));
    let key = IdempotencyKey::of_headers(&parts.headers)
        .map_err(|mistake| refused(400, mistake.code(), &mistake.to_string()))?;
    let principal = (rules.principals)(&parts)
        .ok_or_else(|| refused(401, ProblemCode::Unauthorized, "authenticate: keys belong to a caller"))?;
    let body = timeout(REQUEST_TIMEOUT, Limited::new(body, REQUEST_BYTES_MAX).collect()).await;
    let body = body.map_err(|_| refused(408, ProblemCode::BodyTooSlow, "the body did not arrive in time"))?;
    let body = body
        .map_err(|_| refused(413, ProblemCode::BodyTooLarge, "the body is over 1 MiB, or broke off"))?
        .to_bytes();
    let asked = rules.request(&principal, &key, fingerprint(&parts, &principal, &body));
    Ok((asked, Request::from_parts(parts, Body::from(body))))
}

/// The claim, or the answer where there is none. Waits for an answer that is under way.
async fn claimed(rules: &RequestRules, mut asked: KeyRequest) -> Result<(KeyClaim, UnderWay), Box<Response>> {
    let (until, mut look) = (Instant::now() + rules.wait, LOOK_FIRST);
    loop {
        let ended = rules.ended.notified();
        let (place, reply) = match UnderWay::take(rules, &asked) {
            Ok(place) => (Some(place), rules.store.idempotency_begin(&asked).await),
            Err(reply) => (None, Ok(reply)),
        };
        let response = match reply {
            Ok(KeyReply::Claimed(claim)) => {
                let Some(place) = place else { continue };
                return Ok((claim, place));
            }
            Ok(KeyReply::Answered(kept)) => replay(kept),
            Ok(KeyReply::Reused { expires_at_ms }) => {
                let sentence =
                    "this `Idempotency-Key` was used for another request: send this one under a new key";
                let more = [("expires_at_ms", expires_at_ms)];
                problem(rules.mismatch_status, ProblemCode::IdempotencyKeyReused, sentence, &more)
            }
            Ok(KeyReply::InProgress { locked_until_ms, now_ms }) => {
                if Instant::now() < until {
                    drop(timeout(look.min(until - Instant::now()), ended).await);
                    look = (look * 2).min(LOOK_MAX);
                    asked.now_ms = rules.clock.now_ms();
                    continue;
                }
                // Most are done long before their lock ends.
                in_use(((locked_until_ms - now_ms) / 1_000).clamp(1, 5))
            }
            Err(error) => {
                warn!(%error, "could not ask for the key of a request");
                unavailable()
            }
        };
        return Err(Box::new(response));
    }
}

/// Writes an answer down, and again when the database is away; `None` when it stays away.
async fn written(store: &Store, claim: &KeyClaim, answer: &NewAnswer) -> Option<bool> {
    for n in 1..=WRITES_N {
        match store.idempotency_finish(claim, answer).await {
            Ok(is_ours) => return Some(is_ours),
            Err(error) => warn!(%error, n, "could not keep the answer to a request"),
        }
    }
    None
}

/// An answer, and what becomes of its key.
enum Gathered {
    /// It was kept with its effect.
    Committed(Response),
    /// It is to be kept.
    Kept(NewAnswer, Response),
    /// It is none to keep: the key is free again.
    Freed(Response),
}

/// Reads as much of an answer as is kept, and puts it together again; a long one is streamed on.
async fn gathered(response: Response) -> Gathered {
    if response.extensions().get::<CommittedAnswer>().is_some() {
        return Gathered::Committed(response);
    }
    let Some(state) = state_after(response.status()) else { return Gathered::Freed(response) };
    let (parts, body) = response.into_parts();
    let (mut bytes, mut rest) = (BytesMut::new(), BodyStream::new(body));
    while bytes.len() <= BODY_BYTES_MAX {
        match rest.next().await {
            None => {
                let answer = kept(state, parts.status, &parts.headers, Some(&bytes));
                return Gathered::Kept(answer, Response::from_parts(parts, Body::from(bytes.freeze())));
            }
            Some(Ok(frame)) => bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data)),
            Some(Err(error)) => {
                warn!(%error, "an answer broke off before it could be kept");
                return Gathered::Freed(problem(500, ProblemCode::Internal, "the answer broke off", &[]));
            }
        }
    }
    let answer = kept(state, parts.status, &parts.headers, None);
    let first = futures_util::stream::once(async move { Ok(Frame::data(Bytes::from(bytes))) });
    Gathered::Kept(answer, Response::from_parts(parts, Body::new(StreamBody::new(first.chain(rest)))))
}
