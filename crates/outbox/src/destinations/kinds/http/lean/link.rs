//! One connection that speaks HTTP/1.1: one request at a time, each in the task that makes the call; and the idle
//! connections of one destination.
//!
//! A request goes out on a connection at most once. Whether any byte of it left decides what its failure means.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, Weak};
use std::task::Poll;

use bytes::Bytes;
use http::header::HeaderName;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep_until};

use super::connect::{Seen, Stream};
use crate::destinations::kinds::http::address::Origin;
use crate::destinations::kinds::http::client::{ANSWER_BYTES_MAX, BodyCut, CallFailure, IDLE, error_line};
use crate::locked;

/// A connection is dropped so much sooner than the destination says.
const BEFORE: Duration = Duration::from_secs(1);

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// The part of a connection that moves bytes.
type HttpConnection = Box<Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>>;

/// A connection. Dropping it closes it.
pub(crate) struct Link {
    pub(crate) origin: Arc<Origin>,
    /// The time from which it has been idle for too long to be used.
    pub(crate) idle_until: Instant,
    pub(crate) made_at: Instant,
    sender: SendRequest<Full<Bytes>>,
    /// The part that moves bytes; `None` once it has ended.
    connection: Option<HttpConnection>,
    seen: Arc<Seen>,
}

/// The reason why there is no answer.
pub(crate) enum Lost {
    /// No byte of it left, and here it is again.
    Unsent(Box<Request<Full<Bytes>>>, String),
    /// It cannot be made again.
    Failed(CallFailure),
}

impl Link {
    pub(crate) async fn new(
        origin: &Arc<Origin>,
        stream: Box<dyn Stream>,
        seen: Arc<Seen>,
    ) -> hyper::Result<Self> {
        let (sender, connection) =
            http1::Builder::new().max_buf_size(ANSWER_BYTES_MAX).handshake(TokioIo::new(stream)).await?;
        let connection = Some(Box::new(connection));
        let now = Instant::now();
        Ok(Self { origin: Arc::clone(origin), idle_until: now, made_at: now, sender, connection, seen })
    }

    /// Sends one request and reads the head of its answer.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Response<Incoming>, Lost> {
        self.seen.begin();
        let answer = self.sender.try_send_request(request);
        let mut lost = match drive(&mut self.connection, answer).await {
            Ok(response) => return Ok(response),
            Err(lost) => lost,
        };
        let (request, why) = (lost.take_message(), error_line(lost.error()));
        Err(match request {
            _ if self.seen.is_sent() => Lost::Failed(CallFailure::Unknown(why)),
            Some(request) => Lost::Unsent(Box::new(request), why),
            None => Lost::Failed(CallFailure::NotSent(why)),
        })
    }

    /// True when the destination may have any byte of the request.
    pub(crate) fn is_sent(&self) -> bool {
        self.seen.is_sent()
    }

    /// True when the destination cannot have all of a request with a body of so many bytes.
    pub(crate) fn is_cut(&self, body_bytes_n: usize) -> bool {
        self.seen.sent_n() < body_bytes_n as u64
    }

    /// Reads the body of the answer, or says why it is not whole. Without `is_wanted` it is read and dropped.
    pub(crate) async fn body(&mut self, mut body: Incoming, is_wanted: bool) -> Result<Bytes, BodyCut> {
        let (mut read, mut read_n) = (Vec::new(), 0);
        while !body.is_end_stream() {
            let Some(frame) = drive(&mut self.connection, body.frame()).await else { break };
            let Ok(data) = frame.map_err(|error| BodyCut::Broken(error_line(&error)))?.into_data() else {
                continue;
            };
            read_n += data.len();
            if read_n > ANSWER_BYTES_MAX {
                return Err(BodyCut::TooLong);
            }
            if !is_wanted {
                continue;
            }
            if read.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            read.extend_from_slice(&data);
        }
        Ok(read.into())
    }

    /// True when another request may follow, after the whole answer was read. Not when the destination refused that,
    /// when it did not take the whole request, or when it sent more than it had announced.
    pub(crate) async fn can_be_used_again(&mut self) -> bool {
        poll_fn(|cx| {
            move_bytes(&mut self.connection, cx);
            Poll::Ready(())
        })
        .await;
        self.connection.is_some() && self.sender.is_ready()
    }
}

/// The time that a connection may idle after an answer with these headers.
pub(crate) fn idle_for(headers: &HeaderMap) -> Duration {
    let said = headers.get(&KEEP_ALIVE).and_then(|value| value.to_str().ok());
    let timeout_s = said.and_then(|said| {
        said.split(',').find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim()
                .eq_ignore_ascii_case("timeout")
                .then(|| value.trim().trim_matches('"').parse().ok())?
        })
    });
    timeout_s.map_or(IDLE, |timeout_s: u64| Duration::from_secs(timeout_s).saturating_sub(BEFORE).min(IDLE))
}

/// Moves bytes while `work` waits for them.
async fn drive<T>(connection: &mut Option<HttpConnection>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        move_bytes(connection, cx);
        work.as_mut().poll(cx)
    })
    .await
}

/// A connection that has ended is dropped, which hands back what it had not begun.
fn move_bytes(connection: &mut Option<HttpConnection>, cx: &mut std::task::Context<'_>) {
    if let Some(moving) = connection
        && Pin::new(moving).poll(cx).is_ready()
    {
        *connection = None;
    }
}

/// The idle connections between calls.
pub(crate) struct LinkPool {
    idle_n_max: usize,
    state: Mutex<IdleLinks>,
}

#[derive(Default)]
struct IdleLinks {
    /// The one that was used last is the last.
    links: Vec<Link>,
    /// Closes what has been idle for too long, while there is any.
    closing: JoinSet<()>,
    is_watched: bool,
}

impl LinkPool {
    pub(crate) fn new(idle_n_max: usize) -> Arc<Self> {
        Arc::new(Self { idle_n_max, state: Mutex::default() })
    }

    /// A connection to `origin` that has not been idle for too long.
    pub(crate) fn take(&self, origin: &Origin) -> Option<Link> {
        loop {
            let link = {
                let links = &mut locked(&self.state).links;
                let at = links.iter().rposition(|link| *link.origin == *origin)?;
                links.remove(at)
            };
            if link.idle_until > Instant::now() {
                return Some(link);
            }
        }
    }

    /// Pools a connection until `link.idle_until`.
    pub(crate) fn put(self: &Arc<Self>, link: Link) {
        let is_late = link.idle_until <= Instant::now();
        if self.idle_n_max == 0 || is_late {
            return;
        }
        let mut state = locked(&self.state);
        // Closed after the lock is released, so that no caller waits for it.
        let oldest = (state.links.len() >= self.idle_n_max).then(|| state.links.remove(0));
        state.links.push(link);
        if !state.is_watched {
            state.is_watched = true;
            while state.closing.try_join_next().is_some() {}
            state.closing.spawn(watch(Arc::downgrade(self)));
        }
        drop(state);
        drop(oldest);
    }

    /// Closes what has been idle for too long; says when to look again, if anything is left.
    fn close(&self) -> Option<Instant> {
        let now = Instant::now();
        let mut state = locked(&self.state);
        let closed: Vec<Link> = state.links.extract_if(.., |link| link.idle_until <= now).collect();
        let next = state.links.iter().map(|link| link.idle_until).min();
        state.is_watched = next.is_some();
        drop(state);
        drop(closed);
        next
    }

    #[cfg(test)]
    pub(crate) fn idle_n(&self) -> usize {
        locked(&self.state).links.len()
    }
}

async fn watch(pool: Weak<LinkPool>) {
    while let Some(next) = pool.upgrade().and_then(|pool| pool.close()) {
        sleep_until(next).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_idles_no_longer_than_the_destination_says() {
        #[track_caller]
        fn check(said: Option<&'static str>, want_s: u64) {
            let said = said.map(|said| (KEEP_ALIVE.clone(), said.parse().unwrap()));
            assert_eq!(idle_for(&said.into_iter().collect()).as_secs(), want_s);
        }
        check(None, 4);
        check(Some("timeout=5, max=100"), 4);
        check(Some("max=100, Timeout = \"3\""), 2);
        check(Some("timeout=1"), 0);
        check(Some("timeout=0"), 0);
        check(Some("timeout=-1"), 4);
        check(Some("timeout=18446744073709551615"), 4);
        check(Some("timeouts"), 4);
    }
}
