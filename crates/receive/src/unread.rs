//! Requests that are refused before they are verified: a body that is too large or too slow, another method, a path that
//! no provider has, no memory left. Each is counted by provider and reason, logged, and noted beside the rejected ones.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, Method};
use tracing::{info, warn};
use uuid::Uuid;

use super::counts::RequestEnd;
use super::notes::Noted;
use super::receiver::Receiver;
use crate::admit::ProviderEntry;
use hooklatch_core::net::peer_of;
use hooklatch_core::types::UnixMs;

/// One request as it arrived.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Id of the request: a `UUIDv7`, which its answer, its log line and its rejection carry.
    pub request_id: Uuid,
    /// Address of the client; `None` on a server of a program's own.
    pub address: Option<IpAddr>,
    /// When its headers were complete.
    pub began: Instant,
}

impl Arrival {
    /// A request from `address` that arrived just now.
    pub fn now(address: Option<IpAddr>) -> Self {
        Self { request_id: Uuid::now_v7(), address, began: Instant::now() }
    }

    /// The peer that the client belongs to: in IPv6 a /64 is one.
    pub fn peer(&self) -> Option<IpAddr> {
        self.address.map(peer_of)
    }

    /// The address of the client in a log line.
    pub fn client(&self) -> String {
        self.address.map_or_else(|| "unknown".to_owned(), |address| address.to_string())
    }
}

/// What is known of a request that is refused unread.
pub struct UnreadRequest<'a> {
    pub method: &'a Method,
    pub path: &'a str,
    pub headers: &'a HeaderMap,
    /// Largest body that is accepted. Bytes.
    pub body_bytes_max: usize,
    pub received_at_ms: UnixMs,
}

/// Why a request is refused unread.
#[derive(Debug, Clone, Copy)]
pub struct UnreadReason {
    /// The code of the answer, which is the label `reason` of the metric.
    pub code: &'static str,
    /// The sentence of the answer.
    pub sentence: &'static str,
    /// True when the server is the cause: the answer is 5xx.
    pub is_ours: bool,
}

impl UnreadRequest<'_> {
    /// Length of the body as the sender announced it. Bytes.
    fn declared_bytes_n(&self) -> Option<u64> {
        self.headers.get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
    }

    /// The reason for operators: what was wrong, with its numbers, and what to do.
    fn detail(&self, entry: &ProviderEntry, reason: UnreadReason) -> String {
        let name = entry.provider.name();
        match reason.code {
            "body_too_large" => {
                let found = self.declared_bytes_n().map_or("more".to_owned(), |n| format!("{n} bytes"));
                format!(
                    "its body has {found}, and at most {} bytes are accepted: raise providers.{name}.body_bytes_max",
                    self.body_bytes_max
                )
            }
            "body_too_slow" => "its body did not arrive within server.body_timeout_ms, or more slowly than \
                                server.body_bytes_per_s_min (beyond 1 MiB, than 1 MiB a second while others waited)"
                .to_owned(),
            "body_broken" => "the connection ended before the body was complete".to_owned(),
            "method_not_allowed" => {
                format!("its method was {}: senders use POST", self.method.as_str().escape_default())
            }
            "saturated" => "the requests under way take up server.inflight_bytes_max".to_owned(),
            _ => reason.sentence.to_owned(),
        }
    }
}

impl Receiver {
    /// Records that a request was refused before it was verified: `entry` is the provider that it was for, if any.
    pub fn refused_unread(
        &self,
        entry: Option<&Arc<ProviderEntry>>,
        request: &UnreadRequest<'_>,
        arrival: Arrival,
        reason: UnreadReason,
    ) {
        let has_signature = if let Some(entry) = entry {
            entry.provider.spec().has_signature_header(request.headers)
        } else {
            let entries = self.entries.values().map(|(entry, ..)| &**entry);
            self.counted.unknown_paths.note(entries, request, arrival)
        };
        self.count_refused(entry, reason.code, has_signature);
        let end = if reason.is_ours { RequestEnd::Unavailable } else { RequestEnd::Refused };
        self.count(entry, end, request.received_at_ms);
        self.counted.refusing.ended(end, request.received_at_ms);
        let name = self.name_of(entry);
        let detail = entry.map_or_else(|| reason.sentence.to_owned(), |entry| request.detail(entry, reason));
        if let Some(left_out_n) = self.may_write(entry, reason.code) {
            let (request_id, client) = (arrival.request_id, arrival.client());
            let path = super::unknown_paths::shown(request.path);
            if reason.is_ours {
                warn!(provider.name = %name, path, reason = reason.code, detail, client.address = client, %request_id, left_out_n, "could not read a request; the sender may send it again");
            } else {
                info!(provider.name = %name, path, reason = reason.code, detail, client.address = client, %request_id, left_out_n, "refused a request unread");
            }
        }
        if let Some(entry) = entry
            && !reason.is_ours
        {
            let body_bytes_n = request.declared_bytes_n().unwrap_or_default();
            let noted = Noted {
                arrival,
                headers: request.headers,
                body_digest: String::new(),
                body_bytes_n,
                received_at_ms: request.received_at_ms,
            };
            self.notes.note(entry, &noted, ("request", reason.code, &detail));
        }
    }

    /// Counts a request whose head is not HTTP (`head_malformed`), is too large (`head_too_large`), or did not arrive
    /// in time (`head_too_slow`).
    pub fn count_headless(&self, reason: &'static str, received_at_ms: UnixMs) {
        self.count_refused(None, reason, false);
        self.count(None, RequestEnd::Refused, received_at_ms);
    }

    /// Counts one request that was neither admitted nor rejected, by its reason.
    pub(super) fn count_refused(
        &self,
        entry: Option<&Arc<ProviderEntry>>,
        reason: &'static str,
        has_signature: bool,
    ) {
        let provider = self.name_of(entry).to_string();
        let signed = if has_signature { "yes" } else { "no" };
        metrics::counter!("hooklatch_refused_total", "provider" => provider, "reason" => reason, "signed" => signed)
            .increment(1);
    }
}
