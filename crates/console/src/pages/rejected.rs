//! Requests that were refused, and why.

use std::collections::BTreeMap;

use super::prelude::*;
use hooklatch_contract::{BacklogView, RejectedGroup, RejectedView, UnknownPathView};

/// Rows of a page: headers make them heavy.
const LIMIT: &str = "20";
/// Most bytes of one request's headers that are shown, as they are drawn.
const HEADERS_BYTES_MAX: usize = 1_200;
/// Most characters of a header's value that are shown.
const VALUE_CHARS_MAX: usize = 200;

pub(crate) async fn show(visit: Visit, values: Values) -> PageResult {
    let (provider, reason, cursor) = (values.get("provider"), values.get("reason"), values.get("cursor"));
    let asked = [("provider", provider), ("reason", reason), ("cursor", cursor), ("limit", Some(LIMIT))];
    let found: Page<RejectedView> = visit.get(&with_query("/rejected", &asked)).await?;
    let is_filtered = provider.is_some() || reason.is_some();
    let is_first = !is_filtered && cursor.is_none();
    let groups =
        if is_first { visit.get::<Page<RejectedGroup>>("/rejected/groups").await?.items } else { Vec::new() };
    let backlog: BacklogView = visit.get("/backlog").await?;
    let nothing =
        if is_filtered { "No refused request matches this filter." } else { "No request was refused." };
    let fields =
        html! { (list::provider_field(&visit, &values)) (list::text_field("reason", "Reason", &values)) };
    let headings = ["Received", "Provider", "Step", "Why", "Body"];
    let body = html! {
        p class="hint" {
            "Requests that Hooklatch refused: no event was stored, and the sender got a 4xx. The newest 100 of each provider
             are kept."
        }
        (list::filter(&visit.link("/rejected"), &fields, is_filtered))
        @if groups.len() > 1 { (grouped(&visit, &groups)) }
        (list::rows("Rejected requests", headings, nothing, &found.items, |one| cells(&visit, one)))
        (list::onwards(&visit, "/rejected", &values, &found))
        @if is_first { (unknown_paths(&visit, &backlog.unknown_paths)) }
    };
    Ok(PageBody::new("Rejected", body))
}

/// The refused requests by provider, reason and client: a fault of one sender is one line.
fn grouped(visit: &Visit, groups: &[RejectedGroup]) -> Markup {
    let cells = |one: &RejectedGroup| {
        let filter = [("provider", Some(one.provider.as_str())), ("reason", Some(one.reason.as_str()))];
        let all = visit.link(&with_query("/rejected", &filter));
        [
            html! { a href=(all) { (text::figure(one.requests_n, false)) } },
            text::moment(one.last_at_ms, visit.now_ms),
            link::provider(visit, &one.provider),
            chip(Mood::Bad, in_words(&one.reason).0.unwrap_or(&one.reason)),
            client(visit, one.client_address.as_deref()),
        ]
    };
    let headings = ["Requests", "Last", "Provider", "Reason", "Client"];
    html! {
        h2 { "By cause" }
        (list::rows("Rejected requests by cause", headings, "", groups, cells))
        h2 { "Newest" }
    }
}

/// The address of a client, which readers may see.
fn client(visit: &Visit, address: Option<&str>) -> Markup {
    match address {
        Some(address) => html! { code { (text::foreign(address)) } },
        None if !visit.may(Role::Reader) => html! { span class="none" { "for readers" } },
        None => html! { span class="none" { "not known" } },
    }
}

/// Paths that no provider has, and that were posted to.
fn unknown_paths(visit: &Visit, paths: &[UnknownPathView]) -> Markup {
    let cells = |one: &UnknownPathView| {
        let remedy = html! {
            @match (&one.nearest_provider, &one.signature_of_kind) {
                (Some(name), _) => { "Probably meant for " (link::provider(visit, name)) ": correct the URL at the sender." }
                (None, Some(kind)) => { "Signed like " (text::foreign(kind)) ": add the provider, or correct the URL at the sender." }
                (None, None) => { span class="none" { "nothing like a provider" } }
            }
        };
        [
            text::moment(one.last_at_ms, visit.now_ms),
            text::foreign(&one.path),
            remedy,
            text::foreign(one.client_address.as_deref().unwrap_or("—")),
            text::figure(one.requests_n, false),
        ]
    };
    let headings = ["Last", "Path", "What to do", "Client", "Requests"];
    let title = "Paths without a provider";
    html! {
        h2 { (title) }
        p class="hint" {
            "POSTs to paths that no provider has. They were answered 404, so their senders may give up. This node keeps 32 of
             them since its start."
        }
        (list::rows(title, headings, "None since this node started.", paths, cells))
    }
}

fn cells(visit: &Visit, one: &RejectedView) -> [Markup; 5] {
    let (word, hint) = in_words(&one.reason);
    let explain = with_query("/explain", &[("provider", Some(one.provider.as_str()))]);
    let why = html! {
        p { (chip(Mood::Bad, word.unwrap_or(&one.reason))) " " (text::coded(&one.detail)) "." }
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
    };
    [
        text::moment(one.received_at_ms, visit.now_ms),
        link::provider(visit, &one.provider),
        text::foreign(&one.step),
        html! { div class="why" { (why) } },
        html! { span class="short" { (text::figure(one.body_bytes_n, false)) " B" } },
    ]
}

fn request(visit: &Visit, one: &RejectedView) -> Markup {
    let headers = if !visit.may(Role::Reader) {
        html! { span class="none" { "for readers" } }
    } else if one.headers.is_empty() {
        html! { span class="none" { "none were kept" } }
    } else {
        headers(&one.headers)
    };
    let digest = match one.body_digest.as_str() {
        "" => html! { span class="none" { "the body was not read" } },
        digest => html! { code { (digest) } },
    };
    let facts = [
        ("Client", client(visit, one.client_address.as_deref())),
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
        let line = html! { (text::foreign(name)) ": " (text::foreign(&short)) (cut) };
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
            ("header missing", "A sender always sends it: a proxy may take it away, or someone is probing.")
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
            "It was forged, its bytes were changed on the way, or the secret is not the one of this address.",
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
