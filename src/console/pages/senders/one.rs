//! One provider: how it is registered, by what it is believed, and what came of it.

use maud::{Markup, html};

use super::list::waiting;
use super::secrets;
use crate::api::{ActivityView, ProviderView, SenderView};
use crate::console::contract::{path, with_query};
use crate::console::parts::activity::{Hour, counted_by};
use crate::console::parts::chip::{Mood, chip};
use crate::console::parts::{copy, link, list, moment, pause};
use crate::console::visit::Visit;
use crate::types::Role;

/// The page of one provider.
pub(super) fn draw(
    visit: &Visit,
    (view, etag): (&ProviderView, Option<&str>),
    activity: &ActivityView,
) -> Markup {
    let hour = Hour::of(activity);
    let requests = hour.requests(activity.providers.iter().flat_map(|one| &one.minutes));
    html! {
        @if view.pause.is_some() {
            p { (chip(Mood::Needed, "paused")) " Its events are answered 200 and kept, and not dispatched." }
        }
        (pause::note(visit, view.pause.as_ref()))
        @if visit.may(Role::Operator) {
            (pause::section(
                visit,
                &path(&["senders", &view.name]),
                (view.pause.as_ref(), etag),
                [
                    "For a bad deploy: its sender is answered 200, and its events are kept and wait, in their order, until it is resumed. Their \
                     effects are late for as long. Calls of events from before go on.",
                    "What has waited is dispatched first, one event after the other, and new events behind it.",
                ],
            ))
        }
        (warnings(view))
        section aria-labelledby="register" { h2 id="register" { "Register it" } (register(visit, view)) }
        section aria-labelledby="secrets" { h2 id="secrets" { "Secrets" } (secrets::table(visit, view)) }
        section aria-labelledby="events" { h2 id="events" { "Its events" } (events(visit, view)) }
        section aria-labelledby="requests" {
            h2 id="requests" { "Requests in the last hour" }
            (hour.chart("requests", &requests))
            (counted_by(activity))
        }
    }
}

fn warnings(view: &ProviderView) -> Markup {
    html! {
        @if view.is_unverified {
            p class="trouble" {
                "Nobody signs its requests, and they are accepted all the same (" code { "unverified = \"accept\"" }
                "): whoever knows the address can send events."
            }
        }
        @if view.taught_at_ms.is_some() {
            p class="note" {
                "Its sender has taught us a secret. An operator reads it, once, with "
                code { "hooklatch taught " (view.name) } "; then it belongs into the configuration."
            }
        } @else if view.is_pairing {
            p class="note" {
                "It is pairing: a secret that its sender posts to the address is kept until somebody reads it. Take "
                code { "pairing = \"open\"" } " out of the configuration when you have it."
            }
        }
    }
}

fn register(visit: &Visit, view: &ProviderView) -> Markup {
    let SenderView { title, docs, secret_hint, .. } = &view.sender;
    // Such a one has the secret that everybody knows.
    let is_dev = visit.state.everybodys.is_some() && view.name == view.kind;
    html! {
        ol class="steps" {
            li { p { "Give " (moment::foreign(title)) " this address:" } p { (copy::line("url", &view.url)) } }
            @if !view.secrets.is_empty() || !view.is_unverified {
                li {
                    p { "Find the secret there: " (moment::coded(secret_hint)) "." }
                    p {
                        "Write it as the first of " code { "secrets" } " in " code { "[providers." (view.name) "]" }
                        ", and start the server again."
                    }
                }
            }
            li {
                p {
                    "Have it send an event" @if is_dev { ", or send one yourself: " } @else { "." }
                    @if is_dev {
                        (copy::line("send", &format!("hooklatch send {} --url {}", view.kind, view.url)))
                    } @else if visit.may(Role::Operator) {
                        " Or make a test event, which is marked as one and from which nothing follows: "
                        (copy::line("test-event", &format!("hooklatch test-event {} --reason \"a first look\"", view.name)))
                    }
                }
            }
        }
        p { "What " (moment::foreign(title)) " says about it: " (outside(docs)) "." }
    }
}

/// An address elsewhere: a link where a browser may follow it, with nothing told about where it was followed from.
fn outside(address: &str) -> Markup {
    let is_page = ["https://", "http://"].iter().any(|scheme| address.starts_with(scheme));
    html! {
        @if is_page { a href=(address) rel="noopener noreferrer external" { (moment::foreign(address)) } }
        @else { (moment::foreign(address)) }
    }
}

fn events(visit: &Visit, view: &ProviderView) -> Markup {
    let of_it = |path: &str| visit.link(&with_query(path, &[("provider", Some(&view.name))]));
    let last = match &view.last_event {
        None => html! { span class="none" { "none so far" } },
        Some(event) => html! {
            (link::event(visit, &view.name, &event.event_id)) " (" (moment::foreign(&event.event_type)) "), "
            (moment::moment(event.received_at_ms, visit.now_ms))
        },
    };
    let facts = [
        ("Kind", html! { (moment::foreign(&view.kind)) " (" (moment::foreign(&view.sender.title)) ")" }),
        ("Last event", last),
        ("Waiting for somebody", waiting(visit, view)),
        ("Signed by", signed_by(&view.sender)),
        ("Told apart by", told_apart_by(view)),
        ("Horizon", horizon(view)),
        (
            "Ids remembered",
            html! { (days(u64::from(view.ids_days) * 24)) ": a copy that comes later would be a new event." },
        ),
        (
            "Wants its answer",
            html! { "within " (moment::figure(view.sender.answer_within_ms.into(), false)) " ms" },
        ),
    ];
    html! {
        (list::facts(&facts))
        p class="onwards" {
            a href=(of_it("/events")) { "All its events" }
            a href=(of_it("/rejected")) { "Its rejected requests" }
            @if visit.may(Role::Reader) { a href=(of_it("/explain")) { "Explain a request" } }
        }
    }
}

fn signed_by(sender: &SenderView) -> Markup {
    html! {
        (moment::coded(&sender.signed_by))
        @if let Some(weakness) = &sender.weakness { " " (chip(Mood::Needed, "weak")) " " (moment::foreign(weakness)) }
        @if sender.confidence != "official" { " " (chip(Mood::Quiet, "facts not official")) }
    }
}

fn told_apart_by(view: &ProviderView) -> Markup {
    html! {
        @match view.sender.identities.as_slice() {
            [] => (moment::foreign(&view.identity)),
            [one] => (moment::coded(one)),
            several => ul class="plain" { @for one in several { li { (moment::coded(one)) } } },
        }
    }
}

fn horizon(view: &ProviderView) -> Markup {
    html! {
        (days(view.horizon_h.into())) ": for so long its sender goes on sending an event that was not answered well. "
        "An old secret may go when it has not matched for that long."
    }
}

/// A length of time in days, where that says it exactly.
fn days(hours: u64) -> String {
    match hours {
        24 => "1 day".to_owned(),
        hours if hours > 0 && hours.is_multiple_of(24) => format!("{} days", hours / 24),
        hours => format!("{hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_in_days_where_these_are_whole() {
        for (hours, want) in
            [(0, "0 h"), (1, "1 h"), (24, "1 day"), (36, "36 h"), (72, "3 days"), (9_600, "400 days")]
        {
            assert_eq!(days(hours), want);
        }
    }

    #[test]
    fn only_a_pages_address_is_a_link() {
        assert!(
            outside("https://docs.test/?a=1&b=\"2\"")
                .0
                .contains("href=\"https://docs.test/?a=1&amp;b=&quot;2&quot;\"")
        );
        for address in ["javascript:alert(1)", "data:text/html,x", "", "//docs.test", "HTTPS://x"] {
            assert!(!outside(address).0.contains("href"), "{address}");
        }
    }
}
