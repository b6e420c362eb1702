//! What was received: headers and body as they were sent, or why they are not here.

use maud::{Markup, html};

use super::look::LedgerLook;
use crate::api::{ContentView, LedgerView};
use crate::console::contract::with_query;
use crate::console::parts::body::{self, BodyLook};
use crate::console::parts::list::{self, Narrow};
use crate::console::parts::{copy, moment};
use crate::console::visit::Visit;
use crate::figures::{grouped, plural};

/// Most bytes of a body that the contract tells within a ledger.
const BODY_BYTES_MAX: u64 = 64 << 10;
/// Longest value of a header that is shown. Bytes.
const VALUE_BYTES_MAX: usize = 2 << 10;

/// The beginning of a text, of at most so many bytes, and whether there is more of it.
pub(super) fn shown(text: &str, bytes_max: usize) -> (&str, bool) {
    let shown = text.get(..text.floor_char_boundary(bytes_max)).unwrap_or(text);
    (shown, shown.len() < text.len())
}

/// True when a content is shown in part only.
pub(super) fn is_cut(content: &ContentView) -> bool {
    content.body_bytes_n > BODY_BYTES_MAX
}

pub(super) fn content(visit: &Visit, view: &LedgerView, path: &str, look: LedgerLook) -> Markup {
    match (&view.content, view.content_missing.as_deref()) {
        (Some(content), _) => kept(visit, content, path, look),
        (None, Some("role")) => list::nothing(
            "Headers, bodies and answers of destinations are for the role reader and stronger ones; yours is viewer.",
        ),
        (None, _) => list::nothing(
            "Headers and body are no longer kept. Id, digest and state of the event are, so that a copy of it is still known.",
        ),
    }
}

fn kept(visit: &Visit, content: &ContentView, path: &str, look: LedgerLook) -> Markup {
    if let Some(why) = &content.unopened {
        return html! {
            p class="trouble" { "It is kept, and does not open: " (moment::foreign(why)) "." }
        };
    }
    let is_cut = is_cut(content);
    html! {
        @if content.is_encrypted { p class="hint" { "It is stored encrypted." } }
        (headers(content))
        h3 { "Body, " (plural(content.body_bytes_n, "byte")) }
        @if let Some(redacted_n) = content.redacted_n { (redacted(redacted_n)) }
        @if content.is_lossy {
            p class="note" { "Not all of it is UTF-8: � stands for bytes that are not. The file below has them as they are." }
        }
        @if content.body.is_empty() { (list::nothing("The body is empty.")) }
        @else {
            div id="body" { (body::body(&content.body, "Body", BodyLook { is_cut, is_as_sent: look.is_as_sent })) }
        }
        p class="links" {
            @if !content.body.is_empty() { (copy::button("body", "Copy the body as it is shown")) " " }
            @if is_cut { "The first 64 KiB are shown. " }
            @if look.is_as_sent { a href=(visit.link(&format!("{path}#content"))) { "Indent it" } }
            @else { a href=(visit.link(&format!("{}#content", with_query(path, &[("body", Some("sent"))])))) { "Show it without indentation" } }
            " · "
            a href=(visit.link(&format!("{path}/body"))) download="body" { "Download all of it" }
        }
    }
}

fn redacted(redacted_n: u32) -> Markup {
    html! {
        p class="note" {
            @if redacted_n == 0 { "All of it was left out before it was stored." }
            @else { "Left out before it was stored, as the configuration says: " (plural(redacted_n.into(), "value")) "." }
        }
    }
}

fn headers(content: &ContentView) -> Markup {
    let values_n: usize = content.headers.values().map(Vec::len).sum();
    let rows: Vec<Markup> = content
        .headers
        .iter()
        .flat_map(|(name, values)| values.iter().map(move |value| (name, value)))
        .map(|(name, value)| row(name, value))
        .collect();
    html! {
        h3 { "Headers, " (grouped(values_n as u64)) }
        @if rows.is_empty() { (list::nothing("No headers are kept.")) }
        @else {
            div id="headers" { (list::table_as(Narrow::Stacked, "Headers", &["Name", "Value"], &rows)) }
            p { (copy::button("headers", "Copy the headers")) }
        }
    }
}

fn row(name: &str, value: &str) -> Markup {
    let (value, is_cut) = shown(value, VALUE_BYTES_MAX);
    html! {
        tr {
            th scope="row" { code { (moment::foreign(name)) } }
            td { code { (moment::foreign(value)) @if is_cut { "…" } } }
        }
    }
}
