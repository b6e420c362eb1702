//! The event: as a handler sees it, as dispatch does before a handler's own type is known, and the texts that routes
//! read of it, each parsed at most once and only when a route asks for it.

use std::any::Any;
use std::cell::OnceCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde::Serialize;
use serde::de::{DeserializeOwned, Error};

use hooklatch_core::filter::{Found, Lookup, Place, Root};
use hooklatch_core::json::{Document, PointerTarget, find, text};
use hooklatch_core::types::{Name, UnixMs};
use hooklatch_verify::read::covered_header;

/// An event as a handler sees it.
#[derive(Debug, Clone)]
pub struct Event<T> {
    /// The configured provider of the request.
    pub provider: Name,
    /// The provider's own id; with `provider` it names the event permanently.
    pub id: String,
    /// The provider's word for what happened, such as `invoice.paid`.
    pub event_type: String,
    /// The part of the envelope that the kind's `payload` pointer names: `hooklatch providers KIND` shows it. With
    /// `payload = ""` in the configuration, the whole envelope.
    pub payload: T,
    /// The whole text that the event was read from, parsed when you ask for it.
    pub envelope: Envelope,
    /// The request's headers that the kind lists and its signature covers.
    pub headers: Headers,
    /// Arrival of the first copy. Milliseconds since 1970, UTC.
    pub received_at_ms: UnixMs,
    /// Number of this dispatch: 1 at admission, one more at each retry.
    pub attempt_n: u32,
}

/// The JSON text that an event was read from: the request's body as it was signed; of a request with several events,
/// the element that is this event; of a form or an encrypted body, the JSON text in it. Nothing is parsed until you
/// ask.
#[derive(Debug, Clone, Default)]
pub struct Envelope(Bytes);

impl Envelope {
    /// An envelope with this value as JSON, for tests of handlers.
    pub fn of(value: impl Serialize) -> Self {
        Self(serde_json::to_vec(&value).unwrap_or_default().into())
    }

    pub(crate) fn new(text: Bytes) -> Self {
        Self(text)
    }

    /// The text, byte for byte.
    pub fn bytes(&self) -> &Bytes {
        &self.0
    }

    /// Parses the whole envelope.
    pub fn json<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(&self.0)
    }

    /// Parses the value at this JSON pointer alone (`/livemode`), whatever else there is and however large. An error
    /// when it is missing, is there twice, or has another type.
    pub fn at<T: DeserializeOwned>(&self, pointer: &str) -> serde_json::Result<T> {
        let why = match find(&self.0, pointer) {
            PointerTarget::One(raw) => return serde_json::from_slice(raw),
            PointerTarget::Missing => "is missing",
            PointerTarget::Doubled => "is there twice",
            PointerTarget::NotJson => "cannot be found: the envelope is not JSON",
        };
        Err(serde_json::Error::custom(format!("envelope: {pointer} {why}")))
    }
}

/// Headers of an event's request: those that its kind lists under `headers` and its signature covers. A stranger could
/// have written what no signature covers, so it is not here.
#[derive(Debug, Clone, Default)]
pub struct Headers {
    /// A JSON object of the headers that are kept, secrets blanked.
    kept: Arc<str>,
    /// The names that may be read, in lower case.
    names: Arc<[String]>,
}

impl Headers {
    /// These headers, for tests of handlers.
    pub fn of<'a>(headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let headers: serde_json::Map<_, _> =
            headers.into_iter().map(|(name, value)| (name.to_ascii_lowercase(), value.into())).collect();
        let names = headers.keys().cloned().collect();
        Self::new(serde_json::Value::Object(headers).to_string().into(), names)
    }

    pub(crate) fn new(kept: Arc<str>, names: Arc<[String]>) -> Self {
        Self { kept, names }
    }

    /// The value of a header, by its name in any letter case; `None` when the request had none, or its kind does not
    /// list it.
    pub fn get(&self, name: &str) -> Option<String> {
        let name = self.names.iter().find(|known| known.eq_ignore_ascii_case(name))?;
        covered_header(&self.kept, name)
    }

    /// Those that the request had, by name.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, String)> {
        self.names.iter().filter_map(|name| Some((name.as_str(), covered_header(&self.kept, name)?)))
    }
}

/// The texts of an event that its handlers, routes and templates read.
#[derive(Debug, Clone, Default)]
pub struct EventContent {
    /// JSON text of what the spec's `payload` points at.
    pub payload: Bytes,
    /// The whole text.
    pub envelope: Envelope,
    /// Headers of its request.
    pub headers: Headers,
}

/// An event as dispatch sees it, before a handler's own type is known.
#[derive(Debug, Clone)]
pub struct RawEvent {
    /// Name of the configured provider.
    pub provider: Name,
    /// The provider's own id of it.
    pub event_id: String,
    /// The provider's word for what happened.
    pub event_type: String,
    /// JSON text of what the spec's `payload` points at.
    pub payload: Bytes,
    /// The whole text.
    pub envelope: Envelope,
    /// Headers of its request.
    pub headers: Headers,
    /// Arrival of the first copy. Milliseconds since 1970, UTC.
    pub received_at_ms: UnixMs,
    /// Number of this dispatch: 1 at admission, one more at each retry.
    pub attempt_n: u32,
    /// What was parsed of it for transactional handlers before their transaction began.
    pub ahead: ParsedAhead,
}

/// Events that were parsed ahead, one for each transactional handler, in the types that those take.
#[derive(Clone, Default)]
pub struct ParsedAhead(Arc<Mutex<Vec<Box<dyn Any + Send>>>>);

impl std::fmt::Debug for ParsedAhead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ParsedAhead")
    }
}

impl ParsedAhead {
    fn all(&self) -> MutexGuard<'_, Vec<Box<dyn Any + Send>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RawEvent {
    /// Parses it as `T` now, for a later [`RawEvent::take_typed`]. What does not parse is not kept: its handler says
    /// so.
    pub(super) fn parse_ahead<T: DeserializeOwned + Send + 'static>(&self) {
        if let Ok(event) = self.typed::<T>() {
            self.ahead.all().push(Box::new(event));
        }
    }

    /// This event with its payload as the handler's type: as it was parsed ahead, if it was.
    pub(super) fn take_typed<T: DeserializeOwned + Send + 'static>(&self) -> serde_json::Result<Event<T>> {
        let parsed = {
            let mut all = self.ahead.all();
            all.iter().position(|one| one.is::<Event<T>>()).map(|n| all.swap_remove(n))
        };
        match parsed.and_then(|parsed| parsed.downcast().ok()) {
            Some(event) => Ok(*event),
            None => self.typed(),
        }
    }

    /// This event with its payload as the handler's type.
    pub fn typed<T: DeserializeOwned>(&self) -> serde_json::Result<Event<T>> {
        Ok(Event {
            provider: self.provider.clone(),
            id: self.event_id.clone(),
            event_type: self.event_type.clone(),
            payload: serde_json::from_slice(&self.payload)?,
            envelope: self.envelope.clone(),
            headers: self.headers.clone(),
            received_at_ms: self.received_at_ms,
            attempt_n: self.attempt_n,
        })
    }
}

/// What the routes of one dispatch read of an event.
pub struct EventTexts<'a> {
    event: &'a RawEvent,
    payload: OnceCell<Option<Document<'a>>>,
    envelope: OnceCell<Option<Document<'a>>>,
}

impl<'a> EventTexts<'a> {
    /// Parses nothing yet.
    pub fn new(event: &'a RawEvent) -> Self {
        Self { event, payload: OnceCell::new(), envelope: OnceCell::new() }
    }

    /// The id-like text at `place`: a text, a whole number as it is written, true or false; or why there is none.
    pub fn id_text(&self, place: &Place) -> Result<String, String> {
        match self.find(place)? {
            Found::Header(value) => Ok(value),
            Found::Json(raw) => text(&PointerTarget::One(raw), place.as_str()),
            Found::Missing => Err(format!("{place} is missing")),
            Found::Doubled => Err(format!("{place} is there twice")),
        }
    }
}

impl Lookup for EventTexts<'_> {
    fn find(&self, place: &Place) -> Result<Found<'_>, String> {
        let event = self.event;
        let (part, document) = match &place.root {
            Root::Payload => ("payload", self.payload.get_or_init(|| Document::parse(&event.payload))),
            Root::Envelope => {
                ("envelope", self.envelope.get_or_init(|| Document::parse(event.envelope.bytes())))
            }
            Root::Header(name) => return Ok(event.headers.get(name).map_or(Found::Missing, Found::Header)),
        };
        let document = document.as_ref().ok_or_else(|| format!("{part} is not JSON"))?;
        Ok(match document.find(&place.pointer) {
            PointerTarget::One(raw) => Found::Json(raw),
            PointerTarget::Doubled => Found::Doubled,
            PointerTarget::Missing | PointerTarget::NotJson => Found::Missing,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::handler::{Envelope, Handlers, Headers};
    use hooklatch_core::config::RouteConfig;
    use hooklatch_core::filter::Filter;
    use hooklatch_core::types::TypePattern;

    static PARSED_N: AtomicU32 = AtomicU32::new(0);

    struct Counted;

    impl<'de> serde::Deserialize<'de> for Counted {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            PARSED_N.fetch_add(1, Ordering::Relaxed);
            serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
        }
    }

    #[test]
    fn what_was_parsed_ahead_is_not_parsed_again() {
        let event = RawEvent {
            provider: Name::parse("p").expect("a name"),
            event_id: "e".to_owned(),
            event_type: "t".to_owned(),
            payload: Bytes::from_static(b"{}"),
            envelope: Envelope::default(),
            headers: Headers::default(),
            received_at_ms: 0,
            attempt_n: 1,
            ahead: ParsedAhead::default(),
        };
        event.parse_ahead::<Counted>();
        event.parse_ahead::<u8>();
        assert!(event.take_typed::<Counted>().is_ok());
        assert_eq!(PARSED_N.load(Ordering::Relaxed), 1);
        assert!(event.take_typed::<Counted>().is_ok() && event.take_typed::<u8>().is_err());
        assert_eq!(PARSED_N.load(Ordering::Relaxed), 2, "once for each handler");
    }

    const ENVELOPE: &str = r#"{"livemode":true,"account":"acct_1","none":null,"twice":1,"twice":2,"data":{"object":
        {"amount":9007199254740993,"rate":0.10,"price":"10.00","currency":"eur","customer":null,"lines":[{"n":1},{"n":2}],
         "escaped":"\u0065ur","odd name":"x","a/b~c":"y","half":"\ud800","negative":-5,"huge":1e400,"empty":""}}}"#;

    fn event(payload: String) -> RawEvent {
        RawEvent {
            provider: Name::parse("stripe").expect("a name"),
            event_id: "evt_1".to_owned(),
            event_type: "t".to_owned(),
            payload: payload.into(),
            envelope: Envelope::new(ENVELOPE.into()),
            headers: Headers::of([("x-tenant", "t1"), ("x-time", "17")]),
            received_at_ms: 0,
            attempt_n: 1,
            ahead: crate::handler::ParsedAhead::default(),
        }
    }

    fn of_envelope() -> RawEvent {
        let payload: Box<serde_json::value::RawValue> = serde_json::from_str(
            &ENVELOPE.split_once("\"object\":").expect("an object").1.replace("}}}", "}"),
        )
        .expect("JSON");
        event(payload.get().to_owned())
    }

    #[track_caller]
    fn check(text: &str, want: Result<bool, &str>) {
        let event = of_envelope();
        let got = Filter::parse(text).expect(text).passes(&EventTexts::new(&event));
        match (want, got) {
            (Err(want), Err(why)) => assert!(why.contains(want), "{text}: {why}"),
            (want, got) => assert_eq!(got, want.map_err(str::to_owned), "{text}"),
        }
    }

    #[test]
    fn a_condition_reads_envelope_payload_and_headers() {
        for (text, want) in [
            ("envelope.livemode", true),
            ("not envelope.livemode", false),
            ("envelope.livemode and payload.amount > 0", true),
            ("envelope.livemode == false or payload.currency == 'eur'", true),
            ("not (envelope.livemode and payload.currency == \"eur\")", false),
            ("envelope.data.object.currency in ['usd', \"eur\"]", true),
            ("payload.currency not in [\"usd\"]", true),
            ("payload.escaped == \"eur\"", true),
            ("payload[\"odd name\"] == 'x' and payload['a/b~c'] == 'y'", true),
            ("payload.lines[1].n == 2", true),
            ("headers[\"X-Tenant\"] == \"t1\" and number(headers[\"x-time\"]) == 17", true),
            ("payload.customer == null", true),
            ("payload.customer != null", false),
            ("payload.currency != null", true),
            ("payload.lines != null and null != envelope.data", true),
            ("payload.currency in [null, 'eur'] and payload.customer in ['x', null]", true),
            ("envelope.account is defined", true),
            ("envelope.customer is defined", false),
            ("envelope.customer is not defined and headers[\"x-other\"] is not defined", true),
            ("envelope.none is defined", true),
            ("payload.empty == ''", true),
            // What is not reached need not be there.
            ("envelope.customer is defined and envelope.customer == 'x'", false),
            ("envelope.livemode or payload.nothing", true),
            // `and` binds closer than `or`, `not` closer than both.
            ("envelope.livemode or envelope.livemode and not envelope.livemode", true),
            ("not envelope.livemode or envelope.livemode", true),
        ] {
            check(text, Ok(want));
        }
    }

    #[test]
    fn numbers_compare_by_their_decimal_text_at_any_size() {
        for (text, want) in [
            ("payload.amount == 9007199254740993", true),
            ("payload.amount == 9007199254740992", false),
            ("payload.amount > 9007199254740992 and payload.amount < 9007199254740994", true),
            ("payload.rate == 0.1", true),
            ("payload.rate == 0.10000000000000000001", false),
            ("payload.rate < 0.10000000000000000001", true),
            ("0 < payload.rate", true),
            ("payload.negative >= -5.0 and payload.negative < 0", true),
            ("payload.huge > 1e399", true),
            ("number(payload.price) == 10", true),
            ("number(payload.price) in [9.99, 10.0]", true),
            ("payload.lines[0].n in [1.0]", true),
        ] {
            check(text, Ok(want));
        }
    }

    #[test]
    fn what_is_missing_or_of_another_type_is_an_error_and_never_false() {
        for (text, want) in [
            ("payload.amuont > 0", "payload.amuont is missing"),
            ("not payload.amuont", "payload.amuont is missing"),
            ("payload.lines[2].n == 1", "payload.lines[2].n is missing"),
            ("headers[\"x-other\"] == 'x'", "headers[\"x-other\"] is missing"),
            ("envelope.twice == 1", "envelope.twice is there twice"),
            ("envelope.twice is defined", "envelope.twice is there twice"),
            ("payload.price > 0", "payload.price is a text, compared with a number"),
            ("payload.price == 10", "payload.price is a text, compared with a number"),
            ("0.1 == payload.price", "payload.price is a text, compared with a number"),
            ("payload.rate == '0.10'", "payload.rate is a number, compared with a text"),
            ("payload.customer == 'cus_1'", "payload.customer is null, compared with a text"),
            ("payload.currency in [1, 2]", "payload.currency is a text, compared with a number"),
            ("payload.customer in ['x']", "payload.customer is null, compared with a text"),
            ("payload.currency", "payload.currency is a text, not true or false"),
            ("payload.amount", "payload.amount is a number, not true or false"),
            ("payload.lines == 1", "payload.lines is a list, not one value"),
            ("envelope.data == 1", "envelope.data is an object, not one value"),
            ("payload.half == 'x'", "payload.half is not valid text"),
            ("number(payload.currency) > 0", "payload.currency is a text that is not a number"),
            ("number(payload.customer) > 0", "payload.customer is null, not a number"),
            ("payload.currency > payload.amount", "payload.currency is a text, compared with a number"),
            ("payload.currency > payload.currency", "payload.currency is a text, compared with a text"),
        ] {
            check(text, Err(want));
        }
        let long = event(format!("{{\"n\":{}}}", "9".repeat(401)));
        let filter = Filter::parse("payload.n > 0").expect("a filter");
        assert_eq!(
            filter.passes(&EventTexts::new(&long)),
            Err("payload.n is a number too long to compare".to_owned())
        );
        let odd = event("no JSON".to_owned());
        assert_eq!(filter.passes(&EventTexts::new(&odd)), Err("payload is not JSON".to_owned()));
    }

    #[test]
    fn nothing_is_parsed_that_is_not_requested() {
        let event = event("no JSON".to_owned());
        let texts = EventTexts::new(&event);
        assert!(texts.payload.get().is_none() && texts.envelope.get().is_none());
        let filter = Filter::parse("envelope.livemode or payload.a").expect("a filter");
        assert_eq!(filter.passes(&texts), Ok(true));
        assert!(
            texts.payload.get().is_none() && texts.envelope.get().is_some(),
            "what is not reached is not parsed"
        );
        let wild = || TypePattern::parse("*").expect("a pattern");
        let route = |when: Option<&str>| RouteConfig {
            on: vec![wild()],
            to: Name::parse("billing").expect("a name"),
            latest: false,
            lane: None,
            when: when.map(|text| Filter::parse(text).expect(text)),
        };
        let event = RawEvent { envelope: Envelope::new("no JSON either".into()), ..event };
        for (when, want) in [
            (None, Ok(1)),
            (Some("envelope.livemode"), Err("when of the route to `billing`: envelope is not JSON")),
        ] {
            let mut handlers = Handlers::default();
            handlers.add_route(wild(), &route(when));
            let got = handlers.dispatch(&event, false).map(|effects| effects.messages().len());
            assert_eq!(got.map_err(|why| why.to_string()), want.map_err(str::to_owned));
        }
    }

    #[test]
    fn a_mistake_is_reported_with_its_place_and_every_bound_holds() {
        let nested = |n: usize| format!("{}envelope.livemode{}", "(".repeat(n), ")".repeat(n));
        let places = |n: usize| vec!["envelope.livemode"; n].join(" or ");
        let long = |n: usize| format!("payload.a == '{}'", "x".repeat(n - "payload.a == ''".len()));
        for good in [nested(16), places(16), long(1_000), "not ".repeat(16) + "envelope.livemode"] {
            assert!(Filter::parse(&good).is_ok(), "{good}");
        }
        for (text, want) in [
            (nested(17).as_str(), "nested deeper than 16"),
            (("not ".repeat(17) + "envelope.livemode").as_str(), "nested deeper than 16"),
            (places(17).as_str(), "more than 16 values of the event are read"),
            (long(1_001).as_str(), "longer than 1000 bytes"),
            ("", "at character 1: expected a value"),
            ("amount > 0", "at character 1: `amount` is not known; write payload.NAME"),
            ("payload > 0", "at character 9: expected payload.NAME"),
            ("payload.a = 1", "expected `and`, `or` or the end; `==` compares"),
            ("payload.a == 1 && payload.b", "at character 16: expected `and`, `or` or the end; write `and`"),
            ("payload.a || payload.b", "write `or`"),
            ("!payload.a", "write `not`"),
            ("payload.a == None", "`None` is not known"),
            ("payload.a == none", "write `null`"),
            ("payload.a == 1.", "expected a number as JSON has it"),
            ("payload.a == 'x", "a text has no end"),
            ("payload.a in ['x'", "expected `,` or `]`"),
            ("payload.a in payload.b", "expected a list"),
            ("payload.a in []", "expected a text, a number"),
            ("payload.a > 'x'", "only numbers have an order"),
            ("payload.a < null", "only numbers have an order"),
            ("1 == 1", "two values that are written here"),
            ("true", "expected a comparison"),
            ("1 < payload.a < 3", "expected `and`, `or` or the end"),
            ("payload.a-b == 1", "expected `and`, `or` or the end"),
            ("payload..a", "expected a name"),
            ("headers.a.b == 'x'", "expected payload.NAME, envelope.NAME or headers"),
            ("payload.a is empty", "expected `defined`"),
            ("'x' is defined", "only a place"),
            ("(payload.a", "expected `and`, `or` or `)`"),
            ("payload.a | length > 1", "write `or`"),
            ("len(payload.a) > 1", "`len` is not known"),
            ("and", "expected a value"),
        ] {
            let why = Filter::parse(text).expect_err(text);
            assert!(why.contains(want), "{text}: {why}");
        }
    }

    #[test]
    fn a_lane_is_a_pointer_into_the_payload_or_a_place() {
        let event = of_envelope();
        for (text, want) in [
            ("/currency", Ok("eur")),
            ("payload.currency", Ok("eur")),
            ("payload.amount", Ok("9007199254740993")),
            ("envelope.account", Ok("acct_1")),
            ("headers[\"x-tenant\"]", Ok("t1")),
            ("/nothing", Err("/nothing is missing")),
            ("envelope.nothing", Err("envelope.nothing is missing")),
            ("envelope.twice", Err("envelope.twice is there twice")),
            ("payload.rate", Err("payload.rate is neither a text nor a whole number")),
        ] {
            let got = EventTexts::new(&event).id_text(&Place::parse(text).expect(text));
            assert_eq!(got.as_deref().map_err(String::as_str), want, "{text}");
        }
        for bad in ["currency", "payload", "payload.a == 1", "", "envelope:/account"] {
            assert!(Place::parse(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        /// For every path and every text: an answer or an error, after a bounded time.
        #[test]
        fn no_expression_panics(tokens in prop::collection::vec(prop::sample::select(vec![
            "payload", "envelope", "headers", ".a", ".b", "[0]", "[\"é\"]", "['x']", "==", "!=", "<", ">=", "and", "or", "not",
            "in", "is", "defined", "(", ")", "[", "]", ",", "1", "-0.50", "1e9", "'t'", "\"", "é", "null", "true", "number(", " ",
            "\u{0}", ".",
        ]), 0..60), json in "[\\[\\]{}\",:a-c0-9.eE+ \\\\-]{0,80}") {
            let glued = tokens.concat();
            for text in [tokens.join(" "), glued] {
                let Ok(filter) = Filter::parse(&text) else { continue };
                prop_assert!(filter.places().len() <= 16);
                let event = event(json.clone());
                drop(filter.passes(&EventTexts::new(&event)));
                prop_assert_eq!(Filter::parse(&filter.to_string()), Ok(filter), "it is written as it was read");
            }
        }

        #[test]
        fn whole_numbers_compare_as_whole_numbers_do(one: i128, other: i128) {
            let event = event(format!("{{\"one\":{one}}}"));
            let is = |how: &str| Filter::parse(&format!("payload.one {how} {other}"))
                .and_then(|filter| filter.passes(&EventTexts::new(&event)));
            prop_assert_eq!(is("<"), Ok(one < other));
            prop_assert_eq!(is("=="), Ok(one == other));
            prop_assert_eq!(is(">="), Ok(one >= other));
        }
    }
}
