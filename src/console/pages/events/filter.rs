//! The filter of events: in the words of the contract, but for times, which people write as dates or as how long ago.

use maud::{Markup, html};

use crate::console::contract::with_query;
use crate::console::parts::field;
use crate::console::trouble::Trouble;
use crate::console::visit::Visit;
use crate::times;
use crate::types::{DeliveryFilter, EventState, UnixMs};

/// Values that the contract has under the same name.
const SAME: [&str; 5] = ["provider", "type", "state", "object", "delivery"];
/// Times to choose with one click: what the address says, and what the link says.
const SPANS: [(&str, &str); 3] = [("15m", "15 min"), ("1h", "1 h"), ("24h", "24 h")];

/// A filter as it stands in the address.
pub(super) struct EventSieve {
    values: Vec<(String, String)>,
    from_ms: Option<UnixMs>,
    to_ms: Option<UnixMs>,
}

impl EventSieve {
    /// Reads it; times are in UTC.
    pub(super) fn read(values: Vec<(String, String)>, now_ms: UnixMs) -> Result<Self, Trouble> {
        let time = |name: &str, name_of_contract: &str| {
            let written = field::value(&values, name).map(|text| times::parse_time(text, now_ms));
            let given = field::value(&values, name_of_contract).map(|text| {
                text.parse().map_err(|_| format!("`{name_of_contract}` is a time in milliseconds"))
            });
            written.or(given).transpose().map_err(|why| Trouble::bad_form(&why))
        };
        let (from_ms, to_ms) = (time("from", "received_from_ms")?, time("to", "received_to_ms")?);
        Ok(Self { values, from_ms, to_ms })
    }

    pub(super) fn values(&self) -> &[(String, String)] {
        &self.values
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        field::value(&self.values, name)
    }

    /// True when what comes in now belongs on top of what it finds: it has no calls that are held or given up.
    pub(super) fn is_open(&self) -> bool {
        self.to_ms.is_none() && self.value("cursor").is_none() && self.value("delivery").is_none()
    }

    /// The address that asks for a page of it.
    pub(super) fn asked(&self) -> String {
        self.said("/events", ("cursor", self.value("cursor")))
    }

    /// The address that acts on all that it finds, and what the link says; where it names no state and no calls, there is
    /// none. An event has calls once it is done.
    pub(super) fn acted_on(&self) -> Option<(String, &'static str)> {
        let subject = ("subject", Some("events"));
        if self.value("state").is_some() {
            return Some((self.said("/operations/new", subject), "Act on all of these"));
        }
        self.value("delivery")?;
        let path = format!("{}&state=handled", self.said("/operations/new", subject));
        Some((path, "Act on those of these that are done"))
    }

    /// It and one value more, in the words of the contract.
    fn said(&self, path: &str, more: (&str, Option<&str>)) -> String {
        let (from_ms, to_ms) = (self.from_ms.map(|ms| ms.to_string()), self.to_ms.map(|ms| ms.to_string()));
        let mut values: Vec<(&str, Option<&str>)> = SAME.map(|name| (name, self.value(name))).to_vec();
        values.push(("received_from_ms", from_ms.as_deref()));
        values.push(("received_to_ms", to_ms.as_deref()));
        values.push(more);
        with_query(path, &values)
    }

    /// The form, with the times that one click chooses.
    pub(super) fn fields(&self, visit: &Visit) -> Markup {
        let values = &self.values;
        let fields = html! {
            (field::provider(visit, values))
            (field::text("type", "Type", values))
            (field::choice("state", "State", values, EventState::ALL.iter().map(|state| state.as_str())))
            (field::labelled("delivery", "Calls", values, DeliveryFilter::ALL.iter().map(|calls| (calls.as_str(), calls.shown()))))
            (field::text("object", "Object", values))
            (field::time("from", "From (UTC)", self.from_ms))
            (field::time("to", "Before (UTC)", self.to_ms))
        };
        html! {
            (field::filter(&visit.link("/events"), &fields, !values.is_empty()))
            nav class="spans" aria-label="Times" {
                span { "The last" }
                @for (span, label) in SPANS {
                    a href=(visit.link(&self.within(span))) aria-current=[(self.value("from") == Some(span)).then_some("true")] { (label) }
                }
            }
        }
    }

    /// The same filter for what came within this time.
    fn within(&self, span: &str) -> String {
        let mut values = SAME.map(|name| (name, self.value(name))).to_vec();
        values.push(("from", Some(span)));
        with_query("/events", &values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str) -> Result<EventSieve, Trouble> {
        EventSieve::read(form_urlencoded::parse(query.as_bytes()).into_owned().collect(), 1_795_356_311_500)
    }

    #[test]
    fn times_are_read_as_people_write_them_and_asked_for_in_milliseconds() {
        #[track_caller]
        fn check(query: &str, want: &str) {
            assert_eq!(read(query).map(|sieve| sieve.asked()).ok().as_deref(), Some(want), "{query}");
        }
        check("", "/events");
        check("state=handled&type=a+b", "/events?type=a+b&state=handled");
        check("from=15m", "/events?received_from_ms=1795355411500");
        check("from=2026-11-22T14:05", "/events?received_from_ms=1795356300000");
        check("to=2026-11-22T14:05:11", "/events?received_to_ms=1795356311000");
        check("received_from_ms=5&to=1970-01-02", "/events?received_from_ms=5&received_to_ms=86400000");
        check("delivery=stuck", "/events?delivery=stuck");
        check("nonsense=1&cursor=x", "/events?cursor=x");
        let acted_on = |query| {
            read(query).ok().and_then(|sieve| sieve.acted_on()).map(|(path, _)| path).unwrap_or_default()
        };
        assert_eq!(acted_on("state=handled&cursor=x"), "/operations/new?state=handled&subject=events");
        assert_eq!(acted_on("type=a"), "");
        let failed = "/operations/new?state=failed&delivery=dead&subject=events";
        assert_eq!(acted_on("state=failed&delivery=dead"), failed);
        assert_eq!(acted_on("delivery=dead"), "/operations/new?delivery=dead&subject=events&state=handled");
        assert!(read("from=soon").is_err() && read("received_to_ms=soon").is_err());
    }

    #[test]
    fn a_list_is_followed_unless_it_ends_in_the_past() {
        let open = |query| read(query).map(|sieve| sieve.is_open()).ok();
        assert_eq!(open("from=15m&state=handled"), Some(true));
        assert_eq!((open("to=15m"), open("cursor=x")), (Some(false), Some(false)));
    }
}
