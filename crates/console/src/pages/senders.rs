//! Providers: how long each was silent and whose secrets need attention; and one of them, how it is registered, how its
//! requests are verified and what was received of it.

use super::prelude::*;
use crate::parts::activity::{REQUESTS, chart, series};
use hooklatch_contract::{ActivityView, ProviderView, SecretView, SenderView};
use hooklatch_core::types::EventState;

/// Most providers that are shown; a filter finds the others.
const ROWS_N_MAX: usize = 100;
const HEADINGS: [&str; 5] = ["Provider", "Kind", "Last event", "Secrets", "Waiting"];

/// The list, sorted by the time of the last event.
pub(crate) async fn show_all(visit: Visit, values: Values) -> PageResult {
    let providers = visit.get::<Page<ProviderView>>("/providers").await?.items;
    let wanted = values.get("name").unwrap_or_default().to_lowercase();
    let is_wanted = |one: &&ProviderView| {
        [&one.name, &one.kind, &one.sender.title].iter().any(|text| text.to_lowercase().contains(&wanted))
    };
    let mut found: Vec<&ProviderView> = providers.iter().filter(is_wanted).collect();
    let last_ms = |one: &ProviderView| one.last_event.as_ref().map(|event| event.received_at_ms);
    found.sort_by_key(|one| (std::cmp::Reverse(last_ms(one)), one.name.as_str()));
    let rows: Vec<Markup> = found.iter().take(ROWS_N_MAX).map(|one| row(&visit, one)).collect();
    let name = list::text_field("name", "Name, kind or sender", &values);
    let body = html! {
        @if providers.is_empty() {
            (list::nothing("No provider is configured: write a table [providers.NAME] for each sender."))
        } @else {
            (list::filter(&visit.link("/senders"), &name, !values.is_empty()))
            @if rows.is_empty() { (list::nothing("No provider is found by this filter.")) }
            @else { (list::table("Senders", &HEADINGS, &rows)) }
            @if found.len() > ROWS_N_MAX {
                p class="hint" { "And " (found.len() - ROWS_N_MAX) " more: filter by a part of the name." }
            }
        }
    };
    Ok(PageBody::new("Senders", body))
}

/// Takes the form that pauses or resumes a provider.
pub(crate) async fn decide(
    visit: Visit,
    Path(name): Path<String>,
    form: SentForm,
) -> Result<Response, PageError> {
    let (page, subject) = (path(&["senders", &name]), path(&["providers", &name]));
    form::decide_pause(&visit, &page, &subject, &form).await
}

fn row(visit: &Visit, one: &ProviderView) -> Markup {
    html! {
        tr {
            th scope="row" { (link::provider(visit, &one.name)) }
            td { (text::foreign(&one.kind)) }
            td {
                @match &one.last_event {
                    Some(event) => (text::moment(event.received_at_ms, visit.now_ms)),
                    None => span class="none" { "none so far" },
                }
            }
            td { (secrets_state(one)) }
            td { (waiting(visit, one)) }
        }
    }
}

/// The events of a provider that wait, by state; each leads to them.
fn waiting(visit: &Visit, one: &ProviderView) -> Markup {
    if one.waiting.is_empty() {
        return text::none();
    }
    html! {
        @for count in &one.waiting {
            @let values = [("state", Some(count.state.as_str())), ("provider", Some(one.name.as_str()))];
            a href=(visit.link(&with_query("/events", &values))) {
                (text::figure(count.events_n, count.is_more)) " " (count.state)
            }
            @if let Some(pause) = one.pause.as_ref().filter(|_| count.state == EventState::Retry) {
                " (paused until "
                @match pause.until_ms {
                    Some(until_ms) => (text::moment(until_ms, visit.now_ms)),
                    None => "someone resumes it",
                }
                ")"
            }
            " "
        }
    }
}

/// The page of one provider.
pub(crate) async fn show_one(visit: Visit, Path(name): Path<String>) -> PageResult {
    let (view, etag) = &visit.get_tagged::<ProviderView>(&path(&["providers", &name])).await?;
    let activity: ActivityView =
        visit.get(&with_query("/activity", &[("provider", Some(&view.name))])).await?;
    let requests = chart(&activity, "requests", &series(&activity, &REQUESTS, activity.requests.iter()));
    let hints = [
        "For a bad deploy: its sender is answered 200, and its events are kept and wait, in their order, until it is resumed. \
         Their effects are late for as long. Calls of events from before go on.",
        "What has waited is dispatched first, one event after the other, and new events behind it.",
    ];
    let (own_page, pause) = (path(&["senders", &view.name]), view.pause.as_ref());
    let body = html! {
        @if pause.is_some() {
            p { (chip(Mood::Needed, "paused")) " Its events are answered 200 and kept, and not dispatched." }
        }
        (form::pause_section(&visit, &own_page, pause, etag.as_deref(), hints))
        (warnings(view))
        (list::section("register", "Register it", &register(&visit, view)))
        (list::section("secrets", "Secrets", &secrets_table(&visit, view)))
        (list::section("events", "Its events", &events(&visit, view)))
        (list::section("requests", "Requests in the last day", &requests))
    };
    Ok(PageBody::new(view.name.clone(), body))
}

fn warnings(view: &ProviderView) -> Markup {
    html! {
        @if view.is_unverified {
            p class="trouble" {
                "Its requests are not signed, and they are accepted all the same (" code { "unverified = \"accept\"" }
                "): anyone who knows the address can send events."
            }
        }
        @if view.paired_at_ms.is_some() {
            p class="note" {
                "Its sender has sent us a secret for pairing. An operator reads it, once, with "
                code { "hooklatch pairing " (view.name) } "; then it belongs into the configuration."
            }
        } @else if view.is_pairing {
            p class="note" {
                "It is pairing: a secret that its sender posts to the address is kept until an operator reads it. Take "
                code { "pairing = \"open\"" } " out of the configuration when you have it."
            }
        }
    }
}

fn register(visit: &Visit, view: &ProviderView) -> Markup {
    let SenderView { title, docs, secret_hint, .. } = &view.sender;
    // A provider that is named like its kind has the published development secret.
    let is_dev = visit.state.dev_token.is_some() && view.name == view.kind;
    html! {
        ol class="steps" {
            li { p { "Give " (text::foreign(title)) " this address:" } p { (text::copied("url", &view.url)) } }
            @if !view.secrets.is_empty() || !view.is_unverified {
                li {
                    p { "Find the secret there: " (text::coded(secret_hint)) "." }
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
                        (text::copied("send", &format!("hooklatch send {} --url {}", view.kind, view.url)))
                    } @else if visit.may(Role::Operator) {
                        " Or make a test event, which is marked as one and from which nothing follows: "
                        (text::copied("test-event", &format!("hooklatch test-event {} --reason \"a first look\"", view.name)))
                    }
                }
            }
        }
        p { "What " (text::foreign(title)) " says about it: " (outside(docs)) "." }
    }
}

/// An external URL: a link where a browser may follow it, without a `Referer`.
fn outside(address: &str) -> Markup {
    let is_page = ["https://", "http://"].iter().any(|scheme| address.starts_with(scheme));
    html! {
        @if is_page { a href=(address) rel="noopener noreferrer external" { (text::foreign(address)) } }
        @else { (text::foreign(address)) }
    }
}

fn events(visit: &Visit, view: &ProviderView) -> Markup {
    let of_it = |path: &str| visit.link(&with_query(path, &[("provider", Some(&view.name))]));
    let last = match &view.last_event {
        None => html! { span class="none" { "none so far" } },
        Some(event) => html! {
            (link::event(visit, &view.name, &event.event_id)) " (" (text::foreign(&event.event_type)) "), "
            (text::moment(event.received_at_ms, visit.now_ms))
        },
    };
    let sender = &view.sender;
    let signed_by = html! {
        (text::coded(&sender.signed_by))
        @if let Some(weakness) = &sender.weakness { " " (chip(Mood::Needed, "weak")) " " (text::foreign(weakness)) }
        @if sender.confidence != "official" { " " (chip(Mood::Quiet, "facts not official")) }
    };
    let identified_by = match sender.identities.as_slice() {
        [] => text::foreign(&view.identity),
        [one] => text::coded(one),
        several => html! { ul class="plain" { @for one in several { li { (text::coded(one)) } } } },
    };
    let horizon = html! {
        (days(view.horizon_h.into())) ": for so long its sender goes on sending an event that was not answered well. "
        "An old secret may go when it has not matched for that long."
    };
    let ids = days(u64::from(view.ids_days) * 24);
    let within_ms = text::figure(sender.answer_within_ms.into(), false);
    let facts = [
        ("Kind", html! { (text::foreign(&view.kind)) " (" (text::foreign(&sender.title)) ")" }),
        ("Last event", last),
        ("Waiting for an operator", waiting(visit, view)),
        ("Signed by", signed_by),
        ("Identified by", identified_by),
        ("Horizon", horizon),
        ("Ids remembered", html! { (ids) ": a copy that comes later would be a new event." }),
        ("Wants its answer", html! { "within " (within_ms) " ms" }),
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

/// A length of time, in days where it is a whole number of them.
fn days(hours: u64) -> String {
    match hours {
        24 => "1 day".to_owned(),
        hours if hours > 0 && hours.is_multiple_of(24) => format!("{} days", hours / 24),
        hours => format!("{hours} h"),
    }
}

/// The state of all of them in one chip, behind what is odd about the provider.
fn secrets_state(one: &ProviderView) -> Markup {
    html! {
        @if one.pause.is_some() { (chip(Mood::Needed, "paused")) " " }
        @if one.is_unverified { (chip(Mood::Bad, "unverified")) " " }
        @if one.paired_at_ms.is_some() { (chip(Mood::Needed, "secret received")) " " }
        @else if one.is_pairing { (chip(Mood::Needed, "pairing")) " " }
        @if let Some((mood, word)) = word(&one.secrets) { (chip(mood, word)) }
        @else if !one.is_unverified { (chip(Mood::Quiet, "none needed")) }
    }
}

/// How a provider's secrets stand, if it has any.
fn word(secrets: &[SecretView]) -> Option<(Mood, &'static str)> {
    let (newest, older) = secrets.split_first()?;
    let has_matched = |one: &SecretView| one.matched_n > 0;
    Some(if secrets.iter().any(|one| one.is_safe_to_remove) {
        (Mood::Busy, "an old one may go")
    } else if !has_matched(newest) && older.iter().any(has_matched) {
        (Mood::Needed, "newest not in use")
    } else if has_matched(newest) {
        (Mood::Good, if older.is_empty() { "matches" } else { "newest matches" })
    } else {
        (Mood::Quiet, "not matched yet")
    })
}

/// A row for each secret.
fn secrets_table(visit: &Visit, view: &ProviderView) -> Markup {
    let cells = |one: &SecretView| {
        [
            html! { (one.position) " of " (view.secrets.len()) },
            html! { code { (one.fingerprint) } },
            text::figure(one.matched_n, false),
            text::moment_or_none(one.last_matched_at_ms, visit.now_ms),
            advice(view, one),
        ]
    };
    let headings = ["Secret", "Goes by", "Matched", "Last matched", "What to do"];
    let nothing = "It has no secrets: its requests are believed by keys of its sender, or by nothing.";
    html! {
        (list::rows("Secrets", headings, nothing, &view.secrets, cells))
        @if !view.secrets.is_empty() {
            p class="hint" {
                "The newest one stands first in the configuration. What a secret goes by says nothing about it: the same
                 secret goes by another name elsewhere."
            }
        }
    }
}

fn advice(view: &ProviderView, one: &SecretView) -> Markup {
    let is_older_used = view.secrets.iter().any(|other| other.position > 1 && other.matched_n > 0);
    match (one.position, one.is_safe_to_remove) {
        (_, true) => html! { (chip(Mood::Good, "safe to remove")) },
        (1, _) if one.matched_n == 0 && is_older_used => {
            html! { (chip(Mood::Needed, "not in use")) " Its sender still signs with an older one." }
        }
        (1, _) => html! { "Keep it: it is the newest." },
        (_, false) if one.matched_n == 0 => html! { "Not known: it has never matched here." },
        (_, false) => html! { "Keep it: what was signed with it may still come." },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_days_are_formatted_as_days() {
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

    #[test]
    fn the_state_of_all_secrets_is_one_word() {
        #[track_caller]
        fn check(secrets: &[(u64, bool)], want: Option<&str>) {
            let view = |(position, (matched_n, is_safe_to_remove)): (u32, &(u64, bool))| SecretView {
                position,
                fingerprint: "ab".to_owned(),
                matched_n: *matched_n,
                last_matched_at_ms: None,
                is_safe_to_remove: *is_safe_to_remove,
            };
            let secrets: Vec<SecretView> = (1..).zip(secrets).map(view).collect();
            assert_eq!(word(&secrets).map(|(_, word)| word), want);
        }
        check(&[], None);
        check(&[(0, false)], Some("not matched yet"));
        check(&[(3, false)], Some("matches"));
        check(&[(3, false), (9, false)], Some("newest matches"));
        check(&[(3, false), (9, true)], Some("an old one may go"));
        check(&[(0, false), (9, false)], Some("newest not in use"));
        check(&[(0, false), (0, false)], Some("not matched yet"));
    }
}
