//! `/v1/tail`: events as they come in, as server-sent events.
//!
//! An answer that does not end. It takes its connection's place as any other does: it counts among its peer's, gives way
//! when there is no room, ends with the life of its connection (a client comes back with `Last-Event-ID`), and one whose
//! reader does not read is closed when a write has waited for `write_timeout_ms`. Nothing is kept for a slow reader: it
//! has a place in a list that all share, and is told how many it missed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{Stream, stream};
use http::{HeaderMap, StatusCode, header};
use tokio::time::{Instant, timeout};

use super::super::error::Problem;
use super::super::extensions::ConnectionEnd;
use super::super::token_gate::Credential;
use super::asking::Asking;
use super::query::{name, query};
use super::state::ApiState;
use crate::tail::{QUIET_EVERY, TailChoice, TailStep, TailViewer};

/// Time that the first look may take, if nobody viewed before.
const OPEN_WITHIN: Duration = Duration::from_secs(10);
/// Time after which a client that lost its connection comes back. Milliseconds.
const RETRY_MS: u32 = 3_000;

/// One answer while it goes on.
struct Telling {
    viewer: TailViewer,
    state: Arc<ApiState>,
    credential: Credential,
    ends_at: Option<Instant>,
    /// Time at which the token is looked at again.
    checked_at: Instant,
    is_begun: bool,
}

pub(super) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    (Extension(credential), connection): (Extension<Credential>, Option<Extension<ConnectionEnd>>),
    headers: HeaderMap,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider"])?;
    let choice = TailChoice {
        reach: people.principal().providers.clone(),
        provider: name(&values, "provider")?.map(|name| name.to_string()),
    };
    let last_id = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let opened = timeout(OPEN_WITHIN, state.tail.open(choice, last_id)).await;
    let viewer = opened.map_err(|_| Problem::UNAVAILABLE)??.map_err(|_| Problem::TOO_MANY_VIEWERS)?;
    let telling = Telling {
        viewer,
        state,
        credential,
        ends_at: connection.map(|Extension(ConnectionEnd(at))| at),
        checked_at: Instant::now() + QUIET_EVERY,
        is_begun: false,
    };
    let headers = [
        (header::CONTENT_TYPE, "text/event-stream"),
        (header::CACHE_CONTROL, "no-store"),
        // For proxies that would wait until they have more.
        (header::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    Ok((StatusCode::OK, headers, Body::from_stream(told(telling))).into_response())
}

fn told(telling: Telling) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(telling, |mut telling| async move {
        let text = telling.next().await?;
        Some((Ok(Bytes::from(text)), telling))
    })
}

impl Telling {
    /// The next piece; `None` when the answer is over.
    async fn next(&mut self) -> Option<String> {
        if !self.is_begun {
            self.is_begun = true;
            return Some(format!("retry: {RETRY_MS}\n\n"));
        }
        loop {
            let now = Instant::now();
            if self.ends_at.is_some_and(|at| now >= at) {
                return None;
            }
            if now >= self.checked_at {
                // A token that was revoked meanwhile hears no more.
                if !self.state.gate.still_lets(&self.credential) {
                    return None;
                }
                self.checked_at = now + QUIET_EVERY;
            }
            let until = self.ends_at.map_or(self.checked_at, |at| at.min(self.checked_at));
            return match self.viewer.next(until).await {
                TailStep::Told { what, data, id } => {
                    Some(format!("id: {id}\nevent: {what}\ndata: {data}\n\n"))
                }
                // A comment, and where to resume: an id without data is told to nobody.
                TailStep::Quiet { id } if Instant::now() >= self.checked_at => {
                    Some(format!(": nothing new\nid: {id}\n\n"))
                }
                TailStep::Quiet { .. } => continue,
                TailStep::End => None,
            };
        }
    }
}
