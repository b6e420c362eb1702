//! Received events, the newest first, by filters in the URL; drawn again while the page is visible.

use std::sync::Arc;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::Response;
use axum::routing::get;
use maud::{Markup, html};

use crate::contract::with_query;
use crate::parts::field::Asked;
use crate::parts::frame::Place;
use crate::parts::list::Narrow;
use crate::parts::{chip, field, link, list, moment};
use crate::state::ConsoleState;
use crate::trouble::PageError;
use crate::visit::Visit;
use hooklatch_contract::{EventView, Page};
use hooklatch_core::figures::plural;
use hooklatch_core::types::{DeliveryFilter, EventState, Role, UnixMs};

pub(crate) fn routes() -> Router<Arc<ConsoleState>> {
    Router::new().route("/events", get(show))
}

async fn show(visit: Visit, raw: RawQuery) -> Response {
    let made = draw(&visit, field::values(&raw)).await.map(|body| ("Events".to_owned(), body));
    visit.answer(Place::Events, made)
}

async fn draw(visit: &Visit, values: Vec<(String, String)>) -> Result<Markup, PageError> {
    let sieve = EventSieve::read(values, visit.now_ms)?;
    let page: Page<EventView> = visit.get(&field::target("/events", &sieve.asked, ("subject", None))).await?;
    Ok(html! {
        (sieve.fields(visit))
        div class="above" {
            @if sieve.is_open() { (follower(visit, &sieve)) }
            @if let Some((path, words)) = sieve.acted_on().filter(|_| visit.may(Role::Operator)) {
                a class="button" href=(visit.link(&path)) { (words) }
            }
        }
        div id="rows" {
            @if page.items.is_empty() { (list::nothing("No event is found by this filter.")) }
            @else { (table(visit, &page.items)) }
        }
        (list::onwards(visit, "/events", &sieve.values, &page))
    })
}

/// What the script makes of a list that is followed; without it, the way to look again.
fn follower(visit: &Visit, sieve: &EventSieve) -> Markup {
    html! {
        div class="follow" data-follow {
            span class="state" role="status" {}
            button type="button" hidden { "Pause" }
            a href=(visit.link(&with_query("/events", &field::pairs(&sieve.values)))) { "Look again" }
        }
    }
}

/// Times to choose with one click: the value in the URL, and the text of the link.
const SPANS: [(&str, &str); 3] = [("15m", "15 min"), ("1h", "1 h"), ("24h", "24 h")];

/// A filter as it stands in the address.
struct EventSieve {
    values: Vec<(String, String)>,
    asked: Asked,
}

impl EventSieve {
    /// Reads it; times are in UTC.
    fn read(values: Vec<(String, String)>, now_ms: UnixMs) -> Result<Self, PageError> {
        let asked = field::asked(&values, now_ms)?;
        Ok(Self { values, asked })
    }

    /// True when what is received now belongs on top of what it finds: it has no calls that are held or given up.
    fn is_open(&self) -> bool {
        !["received_to_ms", "cursor", "delivery"].iter().any(|name| self.asked.contains_key(*name))
    }

    /// The address that acts on all that it finds, and what the link says; where it names no state and no calls, there is
    /// none. An event has calls once it is done.
    fn acted_on(&self) -> Option<(String, &'static str)> {
        let mut asked = self.asked.clone();
        asked.remove("cursor");
        let path = |asked| field::target("/operations/new", &asked, ("subject", Some("events")));
        if asked.contains_key("state") {
            return Some((path(asked), "Act on all of these"));
        }
        asked.get("delivery")?;
        asked.insert("state".to_owned(), EventState::Handled.as_str().to_owned());
        Some((path(asked), "Act on those of these that are done"))
    }

    fn time(&self, name: &str) -> Option<UnixMs> {
        self.asked.get(name)?.parse().ok()
    }

    /// The form, with the times that one click chooses.
    fn fields(&self, visit: &Visit) -> Markup {
        let values = &self.values;
        let fields = html! {
            (field::provider(visit, values))
            (field::text("type", "Type", values))
            (field::choice("state", "State", values, EventState::ALL.iter().map(|state| state.as_str())))
            (field::labelled("delivery", "Calls", values, DeliveryFilter::ALL.iter().map(|calls| (calls.as_str(), calls.shown()))))
            (field::text("object", "Object", values))
            (field::time("from", "From (UTC)", self.time("received_from_ms")))
            (field::time("to", "Before (UTC)", self.time("received_to_ms")))
        };
        html! {
            (field::filter(&visit.link("/events"), &fields, !values.is_empty()))
            nav class="spans" aria-label="Times" {
                span { "The last" }
                @for (span, label) in SPANS {
                    a href=(visit.link(&self.within(span))) aria-current=[(field::value(values, "from") == Some(span)).then_some("true")] { (label) }
                }
            }
        }
    }

    /// The same filter for what was received within this time.
    fn within(&self, span: &str) -> String {
        let mut asked = self.asked.clone();
        asked.retain(|name, _| !["received_from_ms", "received_to_ms", "cursor"].contains(&name.as_str()));
        field::target("/events", &asked, ("from", Some(span)))
    }
}

const HEADINGS: [&str; 8] = ["Received", "Provider", "Event", "Type", "State", "Calls", "Object", "Error"];

/// All that were found.
pub(crate) fn table(visit: &Visit, events: &[EventView]) -> Markup {
    let rows: Vec<Markup> = events.iter().map(|event| row(visit, event)).collect();
    list::table_as(Narrow::Lines, "Events", &HEADINGS, &rows)
}

fn row(visit: &Visit, event: &EventView) -> Markup {
    html! {
        tr data-row=(link::event_path(&event.provider, &event.event_id)) {
            td { (moment::moment(event.received_at_ms, visit.now_ms)) }
            td { (link::provider(visit, &event.provider)) }
            td class="what" { (link::event(visit, &event.provider, &event.event_id)) }
            td { (moment::foreign(&event.event_type)) }
            td {
                (chip::event(event.state))
                @if event.copies_n > 0 { p class="hint" { "and " (plural(event.copies_n, "duplicate")) } }
            }
            td { (chip::delivery(&event.delivery)) }
            td class="named" { @match &event.object { Some(object) => (moment::id(object)), None => (moment::none()) } }
            td class="long" { (chip::why(event)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<EventSieve, PageError> {
        EventSieve::read(form_urlencoded::parse(query.as_bytes()).into_owned().collect(), 1_795_356_311_500)
    }

    #[test]
    fn times_are_read_as_people_write_them_and_asked_for_in_milliseconds() {
        #[track_caller]
        fn check(query: &str, want: &str) {
            let found = read(query).map(|sieve| field::target("/events", &sieve.asked, ("cursor", None)));
            assert_eq!(found.ok().as_deref(), Some(want), "{query}");
        }
        check("", "/events");
        check("state=handled&type=a+b", "/events?state=handled&type=a+b");
        check("from=15m", "/events?received_from_ms=1795355411500");
        check("from=2026-11-22T14:05", "/events?received_from_ms=1795356300000");
        check("to=2026-11-22T14:05:11", "/events?received_to_ms=1795356311000");
        check("received_from_ms=5&to=1970-01-02", "/events?received_from_ms=5&received_to_ms=86400000");
        check("delivery=stuck", "/events?delivery=stuck");
        check("nonsense=1&cursor=x", "/events?cursor=x&nonsense=1");
        let acted_on = |query| {
            read(query).ok().and_then(|sieve| sieve.acted_on()).map(|(path, _)| path).unwrap_or_default()
        };
        assert_eq!(acted_on("state=handled&cursor=x"), "/operations/new?state=handled&subject=events");
        assert_eq!(acted_on("type=a"), "");
        let failed = "/operations/new?delivery=dead&state=failed&subject=events";
        assert_eq!(acted_on("state=failed&delivery=dead"), failed);
        assert_eq!(acted_on("delivery=dead"), "/operations/new?delivery=dead&state=handled&subject=events");
        assert!(read("from=soon").is_err());
    }

    #[test]
    fn a_list_is_followed_unless_it_ends_in_the_past() {
        let open = |query| read(query).map(|sieve| sieve.is_open()).ok();
        assert_eq!(open("from=15m&state=handled"), Some(true));
        assert_eq!((open("to=15m"), open("cursor=x")), (Some(false), Some(false)));
    }
}
