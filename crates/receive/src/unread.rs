//! Requests that are refused before they are verified: a body that is too large or too slow, another method, a path
//! that no provider has, no memory left. Each is counted by provider and reason, logged, and noted beside the rejected
//! ones; but a GET or HEAD that has none of the headers in which its kind looks for a signature, to a provider whose
//! events are POSTs, is not noted: most of those are browsers and monitors.
//!
//! Paths that no provider has and that were posted to (a sender whose URL has a typo, a provider that was renamed, a
//! proxy that changes paths) are kept in memory, with the provider that was probably meant. Strangers choose paths, so
//! the list is bounded: [`PLACES_N`] places, half of them for requests that look like a sender's. A client has up to
//! [`LIKELY_OF_CLIENT_N`] of that half and one of the other, because several senders may reach us through one proxy.
//! Where no place is left, the path that was posted to least often goes.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use http::{HeaderMap, Method};
use tracing::{info, warn};
use uuid::Uuid;

use crate::admit::ProviderEntry;
use crate::counts::RequestEnd;
use crate::notes::Noted;
use crate::receiver::Receiver;
use hooklatch_contract::UnknownPathView;
use hooklatch_core::mistakes::nearest;
use hooklatch_core::net::peer_of;
use hooklatch_core::types::UnixMs;
use hooklatch_verify::spec::EventMethod;

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
    pub(crate) fn peer(&self) -> Option<IpAddr> {
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

    /// True when a browser or a monitor opened the URL of a provider whose events are POSTs, so that nothing is to be
    /// done. With a header of a signature it is an event that a redirect has turned into a GET; of a kind that signs in
    /// no header it may be one, but for a HEAD, which no redirect makes.
    fn is_visit(&self, entry: &ProviderEntry) -> bool {
        let provider = &entry.provider;
        matches!(*self.method, Method::GET | Method::HEAD)
            && provider.spec().method == EventMethod::Post
            && !provider.has_handshake(self.method.as_str())
            && !provider.spec().names_signature_header(self.headers)
            && (*self.method == Method::HEAD || !provider.spec().has_signature_header(self.headers))
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
        let is_visit =
            reason.code == "method_not_allowed" && entry.is_some_and(|entry| request.is_visit(entry));
        let has_signature = if let Some(entry) = entry {
            !is_visit && entry.provider.spec().has_signature_header(request.headers)
        } else {
            let entries = self.entries.values().map(|(entry, ..)| &**entry);
            self.counted.unknown_paths.note(entries, request, arrival)
        };
        self.count_refused(entry, reason.code, has_signature);
        let end = match reason.is_ours {
            true => RequestEnd::Unavailable,
            false if is_visit => RequestEnd::Nothing,
            false => RequestEnd::Refused,
        };
        self.count(entry, end, request.received_at_ms);
        self.counted.refusing.ended(end, request.received_at_ms);
        let name = self.name_of(entry);
        let detail = entry.map_or_else(|| reason.sentence.to_owned(), |entry| request.detail(entry, reason));
        if let Some(left_out_n) = self.may_write(entry, reason.code) {
            let (request_id, client) = (arrival.request_id, arrival.client());
            let path = shown(request.path);
            if reason.is_ours {
                warn!(provider.name = %name, path, reason = reason.code, detail, client.address = client, %request_id, left_out_n, "could not read a request; the sender may send it again");
            } else {
                info!(provider.name = %name, path, reason = reason.code, detail, client.address = client, %request_id, left_out_n, "refused a request unread");
            }
        }
        if let Some(entry) = entry
            && end == RequestEnd::Refused
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

/// Most paths that are kept.
const PLACES_N: usize = 32;
/// Most paths of one client that look like a sender's.
const LIKELY_OF_CLIENT_N: usize = 4;
/// Most characters of a path that are shown.
const SHOWN_CHARS_MAX: usize = 80;

/// The paths of one node since its start.
#[derive(Default)]
pub struct UnknownPaths {
    places: Mutex<Vec<UnknownPath>>,
}

struct UnknownPath {
    view: UnknownPathView,
    peer: Option<IpAddr>,
    /// True when it looks like a sender's.
    is_likely: bool,
}

impl UnknownPaths {
    /// Records a request that is for none of these providers; only POSTs are kept. Returns whether it has a header in
    /// which one of their kinds looks for a signature.
    pub fn note<'a>(
        &self,
        entries: impl Iterator<Item = &'a ProviderEntry> + Clone,
        request: &UnreadRequest<'_>,
        arrival: Arrival,
    ) -> bool {
        let with_header = entries
            .clone()
            .find(|entry| entry.provider.spec().names_signature_header(request.headers))
            .map(|entry| entry.provider.spec().kind.clone());
        let has_signature = with_header.is_some();
        if request.method == http::Method::POST {
            let segment = request.path.rsplit('/').find(|segment| !segment.is_empty()).unwrap_or_default();
            let names: Vec<&str> = entries.map(|entry| entry.provider.name().as_str()).collect();
            let exact = names.contains(&segment).then_some(segment);
            let near = exact.or_else(|| nearest(&segment.to_ascii_lowercase(), names.iter().copied()));
            let now_ms = request.received_at_ms;
            let view = UnknownPathView {
                path: shown(request.path),
                nearest_provider: near.map(str::to_owned),
                signature_of_kind: with_header,
                client_address: arrival.address.map(|address| address.to_string()),
                requests_n: 1,
                first_at_ms: now_ms,
                last_at_ms: now_ms,
            };
            let is_likely = view.nearest_provider.is_some() || has_signature;
            self.keep(UnknownPath { view, peer: arrival.address.map(peer_of), is_likely });
        }
        has_signature
    }

    fn keep(&self, new: UnknownPath) {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let same =
            places.iter_mut().find(|one| one.view.path == new.view.path && one.is_likely == new.is_likely);
        if let Some(one) = same {
            one.view.requests_n += 1;
            one.view.last_at_ms = new.view.last_at_ms;
            one.view.client_address = new.view.client_address;
            one.view.signature_of_kind = new.view.signature_of_kind.or(one.view.signature_of_kind.take());
            return;
        }
        let same_half = |one: &UnknownPath| one.is_likely == new.is_likely;
        let same_client = |one: &UnknownPath| same_half(one) && one.peer.is_some() && one.peer == new.peer;
        let of_client_n = if new.is_likely { LIKELY_OF_CLIENT_N } else { 1 };
        give_up_one(&mut places, of_client_n, same_client);
        give_up_one(&mut places, PLACES_N / 2, same_half);
        places.push(new);
    }

    /// What is kept: first what looks like a sender's, then by number of requests.
    pub fn list(&self) -> Vec<UnknownPathView> {
        let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<&UnknownPath> = places.iter().collect();
        all.sort_by_key(|one| (!one.is_likely, std::cmp::Reverse(one.view.requests_n)));
        all.into_iter().map(|one| one.view.clone()).collect()
    }
}

/// Where `n_max` of these have places, the one that was posted to least often goes, of those the one longest ago.
fn give_up_one(places: &mut Vec<UnknownPath>, n_max: usize, is_of: impl Fn(&UnknownPath) -> bool) {
    let of = places.iter().enumerate().filter(|(_, one)| is_of(one));
    if of.clone().count() >= n_max
        && let Some((at, _)) = of.min_by_key(|(_, one)| (one.view.requests_n, one.view.last_at_ms))
    {
        places.remove(at);
    }
}

/// A path as it may be shown: without its query, cut, and `…` for each part that is not made of plain characters.
pub(crate) fn shown(path: &str) -> String {
    let is_plain = |part: &str| part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.~".contains(&b));
    let parts: Vec<&str> = path.split('/').map(|part| if is_plain(part) { part } else { "…" }).collect();
    let text = parts.join("/");
    if text.chars().count() <= SHOWN_CHARS_MAX {
        return text;
    }
    let mut cut: String = text.chars().take(SHOWN_CHARS_MAX - 1).collect();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Provider;
    use hooklatch_core::config::OnHandlerError;

    fn entry() -> ProviderEntry {
        let kind = Provider::from_spec(include_str!("../../../providers/stripe/provider.toml"));
        ProviderEntry::example(&kind, OnHandlerError::Keep)
    }

    fn post(paths: &UnknownPaths, path: &str, header: Option<&'static str>, from: &str, at_ms: i64) {
        let mut headers = HeaderMap::new();
        if let Some(name) = header {
            headers.insert(name, http::HeaderValue::from_static("x"));
        }
        let request = UnreadRequest {
            method: &Method::POST,
            path,
            headers: &headers,
            body_bytes_max: 1,
            received_at_ms: at_ms,
        };
        paths.note(std::iter::once(&entry()), &request, Arrival::now(from.parse().ok()));
    }

    #[test]
    fn the_provider_that_was_meant_is_guessed_from_the_name_and_the_kind_from_the_header() {
        let name = entry().provider.name().to_string();
        for (path, header, want) in [
            (format!("/webhooks/{}", name.get(1..).expect("a letter")), None, (Some(name.as_str()), None)),
            (format!("/webhooks/{name}/"), None, (Some(name.as_str()), None)),
            (format!("/hooks/{}", name.to_uppercase()), None, (Some(name.as_str()), None)),
            ("/webhooks/other-things".to_owned(), Some("stripe-signature"), (None, Some("stripe"))),
            ("/wp-login.php".to_owned(), None, (None, None)),
        ] {
            let paths = UnknownPaths::default();
            post(&paths, &path, header, "192.0.2.1", 1);
            let [found] = paths.list().try_into().expect("one path");
            let found: UnknownPathView = found;
            assert_eq!(
                (found.nearest_provider.as_deref(), found.signature_of_kind.as_deref()),
                want,
                "{path}"
            );
        }
    }

    #[test]
    fn paths_of_several_senders_behind_one_proxy_stand_side_by_side() {
        let paths = UnknownPaths::default();
        for (n, path) in ["/hooks/a", "/hooks/b", "/hooks/c", "/hooks/d", "/login"].into_iter().enumerate() {
            let header = (path != "/login").then_some("stripe-signature");
            for _ in n..5 {
                post(&paths, path, header, "192.0.2.1", 1);
            }
        }
        let found = |paths: &UnknownPaths| -> Vec<(String, u64)> {
            paths.list().into_iter().map(|one| (one.path, one.requests_n)).collect()
        };
        let path = |path: &str, n| (path.to_owned(), n);
        let wanted = [
            path("/hooks/a", 5),
            path("/hooks/b", 4),
            path("/hooks/c", 3),
            path("/hooks/d", 2),
            path("/login", 1),
        ];
        assert_eq!(found(&paths), wanted);
        post(&paths, "/hooks/e", Some("stripe-signature"), "192.0.2.1", 1);
        assert_eq!(found(&paths)[3], path("/hooks/e", 1), "of five, the one with the fewest requests goes");
        assert_eq!(found(&paths).len(), 5);
    }

    #[test]
    fn strangers_push_out_neither_a_senders_path_nor_more_than_one_place_a_client() {
        let paths = UnknownPaths::default();
        for n in 0..3 {
            post(&paths, "/webhooks/old-name", Some("stripe-signature"), "192.0.2.1", n);
        }
        for n in 0..1_000 {
            post(&paths, &format!("/{n}"), None, "198.51.100.1", n);
        }
        assert_eq!(paths.list().len(), 2, "a client has one place");
        for n in 0..1_000_i64 {
            let from = format!("203.0.{}.{}", n / 250, n % 250);
            post(&paths, &format!("/{n}"), None, &from, n);
            post(&paths, &format!("/x/{n}"), Some("stripe-signature"), &from, n);
        }
        let found = paths.list();
        assert!(found.len() <= PLACES_N, "{}", found.len());
        assert_eq!((found[0].path.as_str(), found[0].requests_n), ("/webhooks/old-name", 3));
    }

    #[test]
    fn a_path_is_shown_without_what_is_not_plain() {
        for (path, want) in [
            ("/webhooks/strpe", "/webhooks/strpe".to_owned()),
            ("/a%20b/c", "/…/c".to_owned()),
            ("/<script>/x", "/…/x".to_owned()),
            (&format!("/{}", "a".repeat(100)), format!("/{}…", "a".repeat(78))),
        ] {
            assert_eq!(shown(path), want);
        }
    }
}
