//! The client of most calls: HTTP/1.1 on connections of our own, without a proxy.
//!
//! A call begins on an idle connection if there is one (`link.rs`), else on a new one (`connect.rs`), to an address
//! that was looked up and checked a moment ago. Before the first byte leaves the connection is checked once more; a
//! request of which no byte has left goes to another one, any other ends here. It follows nothing, inflates nothing and
//! repeats nothing.

mod connect;
mod link;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::HOST;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use crate::destinations::CONNECTION_AGE_MAX;
use crate::destinations::kinds::http::address::Origin;
use crate::destinations::kinds::http::client::{
    BodyCut, Call, CallFailure, CallerOptions, HttpAnswer, answered_early, error_line, no_answer, retry_after,
};
use connect::{Connected, Connector};
pub(crate) use connect::{Lookup, system_lookup};
use hooklatch_core::net::is_private_host;
use link::{Link, LinkPool, Lost, idle_for};

/// Makes the calls of one destination.
pub(crate) struct Lean {
    pub(crate) connector: Connector,
    pub(crate) connect_timeout: Duration,
    pub(crate) pool: Arc<LinkPool>,
    /// [`CONNECTION_AGE_MAX`], but for tests.
    pub(crate) age_max: Duration,
}

/// The reason why a call was not made to its end.
pub(crate) enum LeanStop {
    /// The destination would rather have HTTP/2; nothing was sent, and the call is as it was.
    Http2,
    Failed(CallFailure),
}

impl Lean {
    /// A client that looks names up with `lookup`.
    pub(crate) fn new(lookup: Lookup, options: &CallerOptions) -> Self {
        Self {
            connector: Connector::new(lookup, options.tls.clone(), options.connect_timeout),
            connect_timeout: options.connect_timeout,
            pool: LinkPool::new(options.idle_n_max),
            age_max: CONNECTION_AGE_MAX,
        }
    }

    /// Makes one call, once.
    pub(crate) async fn call(&self, call: &mut Call<'_>) -> Result<HttpAnswer, LeanStop> {
        let deadline = Instant::now() + call.timeout;
        let (mut link, response) = self.sent(call, deadline).await?;
        let (code, retry_after) = (response.status().as_u16(), retry_after(response.headers()));
        let idle_for = idle_for(response.headers());
        // Unless the body has a say, the status decides: one that is cut off, endless or slow changes nothing.
        let body = link.body(response.into_body(), call.is_body_wanted);
        let body = timeout_at(deadline, body).await.unwrap_or(Err(BodyCut::TooSlow));
        // A server that answers so has not looked at the body: the page of a proxy, for instance.
        if (200..=299).contains(&code) && link.is_cut(call.body.len()) {
            return Err(LeanStop::Failed(CallFailure::Unknown(answered_early(code))));
        }
        if body.is_ok() && link.can_be_used_again().await {
            link.idle_until = (Instant::now() + idle_for).min(link.made_at + self.age_max);
            self.pool.put(link);
        }
        Ok(HttpAnswer { code, retry_after, body })
    }

    async fn sent(
        &self,
        call: &mut Call<'_>,
        deadline: Instant,
    ) -> Result<(Link, Response<Incoming>), LeanStop> {
        let origin = &call.address.origin;
        let has_own_host = call.headers.contains_key(HOST);
        let mut request = request(call);
        while let Some(mut link) = self.pool.take(origin) {
            match sent_on(&mut link, request, deadline, call.timeout).await {
                Ok(response) => return Ok((link, response)),
                // It was closed while it was idle.
                Err(Lost::Unsent(back, _)) => request = *back,
                Err(lost) => return Err(lost.into()),
            }
        }
        let mut link = match self.connected(origin, deadline, call.timeout).await {
            Ok(link) => link,
            Err(stopped) => {
                call.headers = std::mem::take(request.headers_mut());
                if !has_own_host {
                    call.headers.remove(HOST);
                }
                return Err(stopped);
            }
        };
        let response = sent_on(&mut link, request, deadline, call.timeout).await?;
        Ok((link, response))
    }

    async fn connected(
        &self,
        origin: &Arc<Origin>,
        deadline: Instant,
        timeout: Duration,
    ) -> Result<Link, LeanStop> {
        let not_sent = |why: String| LeanStop::Failed(CallFailure::NotSent(why));
        let patience = (Instant::now() + self.connect_timeout).min(deadline);
        let connected = match timeout_at(patience, self.connector.connect(origin)).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) if is_private_host(&*error) => {
                return Err(LeanStop::Failed(CallFailure::Private(error_line(&*error))));
            }
            Ok(Err(error)) => return Err(not_sent(error_line(&*error))),
            Err(_) => {
                let waited = self.connect_timeout.min(timeout);
                return Err(not_sent(format!("no connection within {} ms", waited.as_millis())));
            }
        };
        match connected {
            Connected::Http2 => Err(LeanStop::Http2),
            Connected::Http1(stream, seen) => {
                Link::new(origin, stream, seen).await.map_err(|error| not_sent(error_line(&error)))
            }
        }
    }
}

async fn sent_on(
    link: &mut Link,
    request: Request<Full<Bytes>>,
    deadline: Instant,
    timeout: Duration,
) -> Result<Response<Incoming>, Lost> {
    match timeout_at(deadline, link.send(request)).await {
        Ok(sent) => sent,
        Err(_) if link.is_sent() => Err(Lost::Failed(CallFailure::Unknown(no_answer(timeout)))),
        Err(_) => Err(Lost::Failed(CallFailure::NotSent(no_answer(timeout)))),
    }
}

/// The call as a request, which takes its headers.
fn request(call: &mut Call<'_>) -> Request<Full<Bytes>> {
    let mut request = Request::new(Full::new(call.body.clone()));
    request.method_mut().clone_from(&call.method);
    request.uri_mut().clone_from(&call.address.path);
    *request.headers_mut() = std::mem::take(&mut call.headers);
    let host = || call.address.origin.header.clone();
    request.headers_mut().entry(HOST).or_insert_with(host);
    request
}

impl From<Lost> for LeanStop {
    fn from(lost: Lost) -> Self {
        match lost {
            Lost::Unsent(_, why) => Self::Failed(CallFailure::NotSent(why)),
            Lost::Failed(failed) => Self::Failed(failed),
        }
    }
}
