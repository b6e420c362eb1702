//! A condition on an event, and what it comes to.

use std::fmt;

use super::decimal::Decimal;
use super::parse;
use super::place::{Found, Lookup, Place};

/// `when` of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    text: String,
    condition: Condition,
    /// Every place that it reads.
    places: Vec<Place>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// What is there is true.
    Is(Operand),
    Compare(Operand, Comparison, Operand),
    In(Operand, Vec<Scalar>),
    Defined(Place),
}

/// One side of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Operand {
    Literal(Scalar),
    Place(Place),
    /// The number that stands there, also inside a text.
    Number(Place),
}

/// The ways in which two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    pub(super) fn is_of_order(self) -> bool {
        !matches!(self, Self::Equal | Self::Unequal)
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
}

impl Filter {
    /// Parses an expression; the error says where and what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (condition, places) = parse::condition(text)?;
        Ok(Self { text: text.to_owned(), condition, places })
    }

    /// Every place that it reads.
    pub(crate) fn places(&self) -> &[Place] {
        &self.places
    }

    /// True when it lets the event pass. The error names the place and what is wrong with it, without values.
    pub(crate) fn passes(&self, event: &impl Lookup) -> Result<bool, String> {
        self.condition.holds(event)
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Condition {
    fn holds(&self, event: &impl Lookup) -> Result<bool, String> {
        match self {
            Self::All(all) => {
                for one in all {
                    if !one.holds(event)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(any) => {
                for one in any {
                    if one.holds(event)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::Not(one) => Ok(!one.holds(event)?),
            Self::Is(operand) => match operand.value(event)? {
                Scalar::Bool(value) => Ok(value),
                other => Err(format!("{operand} is {}, not true or false", other.kind())),
            },
            Self::Compare(left, how, right) => {
                let (one, other) = (left.value(event)?, right.value(event)?);
                // Whether something is null may be asked of every type.
                if [left, right].into_iter().any(Operand::is_null) {
                    return Ok((one == other) == (*how == Comparison::Equal));
                }
                one.compared(*how, &other).ok_or_else(|| unlike((left, &one), (right, &other)))
            }
            Self::In(operand, list) => {
                let value = operand.value(event)?;
                if list.contains(&value) {
                    return Ok(true);
                }
                // A value of another type than all of them is a mistake; but whether it is null may be asked.
                let unlike = list.iter().find(|one| **one != Scalar::Null && !one.is_like(&value));
                unlike.map_or(Ok(false), |one| {
                    Err(format!("{operand} is {}, compared with {}", value.kind(), one.kind()))
                })
            }
            Self::Defined(place) => match event.find(place)? {
                Found::Json(_) | Found::Header(_) => Ok(true),
                Found::Missing => Ok(false),
                Found::Doubled => Err(format!("{place} is there twice")),
            },
        }
    }
}

/// Two values that cannot be compared; a literal is not named, its type says enough.
fn unlike((left, one): (&Operand, &Scalar), (right, other): (&Operand, &Scalar)) -> String {
    let (named, its, others) = match left {
        Operand::Literal(_) => (right, other, one),
        _ => (left, one, other),
    };
    format!("{named} is {}, compared with {}", its.kind(), others.kind())
}

impl Operand {
    pub(super) fn is_null(&self) -> bool {
        *self == Self::Literal(Scalar::Null)
    }

    fn value(&self, event: &impl Lookup) -> Result<Scalar, String> {
        match self {
            Self::Literal(value) => Ok(value.clone()),
            Self::Place(place) => value_at(place, event),
            Self::Number(place) => match value_at(place, event)? {
                Scalar::Text(text) => Decimal::parse(&text)
                    .map(Scalar::Number)
                    .ok_or_else(|| format!("{place} is a text that is not a number")),
                value @ Scalar::Number(_) => Ok(value),
                other => Err(format!("{place} is {}, not a number", other.kind())),
            },
        }
    }
}

impl fmt::Display for Operand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(value) => f.write_str(value.kind()),
            Self::Place(place) | Self::Number(place) => place.fmt(f),
        }
    }
}

fn value_at(place: &Place, event: &impl Lookup) -> Result<Scalar, String> {
    let raw = match event.find(place)? {
        Found::Json(raw) => raw,
        Found::Header(text) => return Ok(Scalar::Text(text)),
        Found::Missing => return Err(format!("{place} is missing")),
        Found::Doubled => return Err(format!("{place} is there twice")),
    };
    match raw {
        b"null" => Ok(Scalar::Null),
        b"true" => Ok(Scalar::Bool(true)),
        b"false" => Ok(Scalar::Bool(false)),
        [b'{', ..] => Err(format!("{place} is an object, not one value")),
        [b'[', ..] => Err(format!("{place} is a list, not one value")),
        [b'"', ..] => {
            let text = serde_json::from_slice(raw).map(Scalar::Text);
            text.map_err(|_| format!("{place} is not valid text"))
        }
        _ => std::str::from_utf8(raw)
            .ok()
            .and_then(Decimal::parse)
            .map(Scalar::Number)
            .ok_or_else(|| format!("{place} is a number too long to compare")),
    }
}

impl Scalar {
    /// The type, for people.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Number(_) => "a number",
            Self::Text(_) => "a text",
        }
    }

    fn is_like(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// `None` when the two cannot be compared so: they have different types, or no order.
    fn compared(&self, how: Comparison, other: &Self) -> Option<bool> {
        match (self, other, how) {
            (_, _, Comparison::Equal) if self.is_like(other) => Some(self == other),
            (_, _, Comparison::Unequal) if self.is_like(other) => Some(self != other),
            (Self::Number(one), Self::Number(other), Comparison::Less) => Some(one < other),
            (Self::Number(one), Self::Number(other), Comparison::LessOrEqual) => Some(one <= other),
            (Self::Number(one), Self::Number(other), Comparison::Greater) => Some(one > other),
            (Self::Number(one), Self::Number(other), Comparison::GreaterOrEqual) => Some(one >= other),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::handler::{Envelope, EventTexts, Headers, RawEvent};
    use crate::types::Name;

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
    fn a_mistake_is_told_with_its_place_and_every_bound_holds() {
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
        /// Whatever is written, and whatever comes: an answer or an error, after a bounded time.
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
