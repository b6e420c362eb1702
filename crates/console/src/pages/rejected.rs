//! Requests that were refused, and why.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::contract::with_query;
use crate::parts::chip::{Mood, chip};
use crate::parts::frame::Place;
use crate::parts::{field, link, list, moment};
use crate::state::ConsoleState;
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_contract::{BacklogView, Page, RejectedGroup, RejectedView, UnknownPathView};
use hooklatch_core::types::Role;

/// Rows of a page: headers make them heavy.
const LIMIT: &str = "20";
/// Most bytes of one request's headers that are shown, as they are drawn.
const HEADERS_BYTES_MAX: usize = 1_200;
/// Most characters of a header's value that are shown.
const VALUE_CHARS_MAX: usize = 200;
const HEADINGS: [&str; 5] = ["Received", "Provider", "Step", "Why", "Body"];

pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/rejected", get(show))
}

async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, &field::values(&raw)).await.map(|body| ("Rejected".to_owned(), body));
    visit.answer(Place::Rejected, made)
}

async fn draw(visit: &Visit, values: &[(String, String)]) -> Result<Markup, PageError> {
    let (provider, reason) = (field::value(values, "provider"), field::value(values, "reason"));
    let cursor = field::value(values, "cursor");
    let asked = [("provider", provider), ("reason", reason), ("cursor", cursor), ("limit", Some(LIMIT))];
    let page: Page<RejectedView> = visit.get(&with_query("/rejected", &asked)).await?;
    let rows: Vec<Markup> = page.items.iter().map(|one| row(visit, one)).collect();
    let is_first = provider.is_none() && reason.is_none() && cursor.is_none();
    let groups =
        if is_first { visit.get::<Page<RejectedGroup>>("/rejected/groups").await?.items } else { Vec::new() };
    let backlog: BacklogView = visit.get("/backlog").await?;
    let is_filtered = provider.is_some() || reason.is_some();
    let nothing =
        if is_filtered { "No refused request matches this filter." } else { "No request was refused." };
    let fields = html! { (field::provider(visit, values)) (field::text("reason", "Reason", values)) };
    Ok(html! {
        p class="hint" {
            "Requests that Hooklatch refused: no event was stored, and the sender got a 4xx. The newest 100 of each provider
             are kept."
        }
        (field::filter(&visit.link("/rejected"), &fields, is_filtered))
        @if groups.len() > 1 { (grouped(visit, &groups)) }
        @if rows.is_empty() { (list::nothing(nothing)) }
        @else { (list::table("Rejected requests", &HEADINGS, &rows)) }
        (list::onwards(visit, "/rejected", values, &page))
        @if is_first { (unknown_paths(visit, &backlog.unknown_paths)) }
    })
}

/// The refused requests by provider, reason and client: a fault of one sender is one line.
fn grouped(visit: &Visit, groups: &[RejectedGroup]) -> Markup {
    let row = |one: &RejectedGroup| {
        let filter = [("provider", Some(one.provider.as_str())), ("reason", Some(one.reason.as_str()))];
        let client = one.client_address.as_deref();
        html! {
            tr {
                td { a href=(visit.link(&with_query("/rejected", &filter))) { (moment::figure(one.requests_n, false)) } }
                td { (moment::moment(one.last_at_ms, visit.now_ms)) }
                td { (link::provider(visit, &one.provider)) }
                td { (chip(Mood::Bad, in_words(&one.reason).0.unwrap_or(&one.reason))) }
                td {
                    @if let Some(client) = client { (moment::foreign(client)) }
                    @else if visit.may(Role::Reader) { span class="none" { "not known" } }
                    @else { span class="none" { "for readers" } }
                }
            }
        }
    };
    let rows: Vec<Markup> = groups.iter().map(row).collect();
    html! {
        h2 { "By cause" }
        (list::table("Rejected requests by cause", &["Requests", "Last", "Provider", "Reason", "Client"], &rows))
        h2 { "Newest" }
    }
}

/// Paths that no provider has, and that were posted to.
fn unknown_paths(visit: &Visit, paths: &[UnknownPathView]) -> Markup {
    let row = |one: &UnknownPathView| {
        html! {
            tr {
                td { (moment::moment(one.last_at_ms, visit.now_ms)) }
                td { (moment::foreign(&one.path)) }
                td {
                    @match (&one.nearest_provider, &one.signature_of_kind) {
                        (Some(name), _) => { "Probably meant for " (link::provider(visit, name)) ": correct the URL at the sender." }
                        (None, Some(kind)) => { "Signed like " (moment::foreign(kind)) ": add the provider, or correct the URL at the sender." }
                        (None, None) => { span class="none" { "nothing like a provider" } }
                    }
                }
                td { (moment::foreign(one.client_address.as_deref().unwrap_or("—"))) }
                td { (moment::figure(one.requests_n, false)) }
            }
        }
    };
    let rows: Vec<Markup> = paths.iter().map(row).collect();
    html! {
        h2 { "Paths without a provider" }
        p class="hint" {
            "POSTs to paths that no provider has. They were answered 404, so their senders may give up. This node keeps 32 of
             them since its start."
        }
        @if rows.is_empty() { (list::nothing("None since this node started.")) }
        @else { (list::table("Paths without a provider", &["Last", "Path", "What to do", "Client", "Requests"], &rows)) }
    }
}

fn row(visit: &Visit, one: &RejectedView) -> Markup {
    let (word, hint) = in_words(&one.reason);
    let explain = with_query("/explain", &[("provider", Some(one.provider.as_str()))]);
    html! {
        tr {
            td { (moment::moment(one.received_at_ms, visit.now_ms)) }
            td { (link::provider(visit, &one.provider)) }
            td { (moment::foreign(&one.step)) }
            td class="why" {
                p { (chip(Mood::Bad, word.unwrap_or(&one.reason))) " " (moment::coded(&one.detail)) "." }
                @if !hint.is_empty() {
                    p class="hint" {
                        (hint)
                        @if visit.may(Role::Reader) { " " a href=(visit.link(&explain)) { "Explain a request" } }
                    }
                }
                details {
                    summary { "The request" }
                    (request(visit, one))
                }
            }
            td { span class="short" { (moment::figure(one.body_bytes_n, false)) " B" } }
        }
    }
}

fn request(visit: &Visit, one: &RejectedView) -> Markup {
    let headers = if !visit.may(Role::Reader) {
        html! { span class="none" { "for readers" } }
    } else if one.headers.is_empty() {
        html! { span class="none" { "none were kept" } }
    } else {
        headers(&one.headers)
    };
    let client = match &one.client_address {
        Some(address) => html! { code { (moment::foreign(address)) } },
        None if !visit.may(Role::Reader) => html! { span class="none" { "for readers" } },
        None => html! { span class="none" { "not known" } },
    };
    let digest = match one.body_digest.as_str() {
        "" => html! { span class="none" { "the body was not read" } },
        digest => html! { code { (digest) } },
    };
    let facts = [
        ("Client", client),
        ("Headers", headers),
        ("SHA-256 of the body", digest),
        ("Request id", html! { code { (one.rejection_id) } }),
    ];
    list::facts(&facts)
}

/// The headers as they may be kept, as many as a page bears.
fn headers(headers: &BTreeMap<String, Vec<String>>) -> Markup {
    let all = headers.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    let (mut shown, mut bytes_n, mut left_out_n) = (Vec::new(), 0, 0_u32);
    for (name, value) in all {
        let short: String = value.chars().take(VALUE_CHARS_MAX).collect();
        let cut = if short.len() < value.len() { " …" } else { "" };
        let line = html! { (moment::foreign(name)) ": " (moment::foreign(&short)) (cut) };
        bytes_n += line.0.len();
        if bytes_n > HEADERS_BYTES_MAX {
            left_out_n += 1;
        } else {
            shown.push(line);
        }
    }
    html! {
        ul class="plain" { @for line in &shown { li { code { (line) } } } }
        @if left_out_n > 0 {
            p class="hint" { (left_out_n) " more do not fit here: " code { "hooklatch rejected list --json" } " has them." }
        }
    }
}

/// What a reason means, and what to do about it; a word of a later version stands for itself.
fn in_words(reason: &str) -> (Option<&'static str>, &'static str) {
    let (word, hint) = match reason {
        "body_too_large" => ("body too large", "The event is lost unless its sender sends it again."),
        "body_too_slow" => ("body too slow", "The sender, or a proxy, sends too slowly. It usually retries."),
        "body_broken" => {
            ("connection lost", "The sender, or a proxy, closed the connection. It usually retries.")
        }
        "method_not_allowed" => ("wrong method", "A redirect on the way can turn a POST into a GET."),
        "address" => ("address not allowed", "Is it the sender's? Then add it to allow_from."),
        "header_missing" => {
            ("header missing", "A sender always sends it: a proxy may take it away, or somebody tries.")
        }
        "header_repeated" => ("header twice", "A proxy may add it again."),
        "malformed" => ("malformed", "The kind of the provider may be another one."),
        "stale" => ("too old", "Delayed, played again, or a clock is wrong."),
        "future" => ("from the future", "Is the clock of this machine right?"),
        "foreign_account" => (
            "another account",
            "The sender signed it for an account that the settings do not list: add it if it is yours.",
        ),
        "no_key" => ("no key", "The key that it names is not at hand."),
        "unsigned" => ("not signed", "Its sender signs nothing, or is not the one you think."),
        "mismatch" => (
            "wrong signature",
            "Somebody forged it, something changed its bytes, or the secret is not the one of this address.",
        ),
        "other_secret" => {
            ("another provider's secret", "It was sent to the wrong address, or secrets are exchanged.")
        }
        "rewritten_body" => {
            ("body rewritten", "Something on the way changes bodies: it must pass them on as they are.")
        }
        "other_url" => ("signed for another address", "server.public_url must be what the sender calls."),
        _ => return (None, ""),
    };
    (Some(word), hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_shown_as_text_and_no_more_than_a_page_bears() {
        let of = |name: &str, value: &str| (name.to_owned(), vec![value.to_owned()]);
        let drawn = headers(&[of("x-a", "<script>\u{202e}"), of("x-b", "")].into()).0;
        assert!(drawn.contains("&lt;script&gt;\\u202e") && !drawn.contains("more do not fit"), "{drawn}");
        let many: BTreeMap<String, Vec<String>> =
            (0..99).map(|n| of(&format!("x-{n}"), &"<\u{202e}".repeat(9_000))).collect();
        let drawn = headers(&many).0;
        assert!(drawn.len() < 2 * HEADERS_BYTES_MAX && drawn.contains("more do not fit"), "{}", drawn.len());
    }
}
