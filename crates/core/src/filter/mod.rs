//! `when` and `lane` of a route: a condition on an event, and the place of one value in it.
//!
//! `parse.rs` reads an expression once, when the configuration is loaded; here it is evaluated, and numbers are
//! compared as they are written. What an event has at a place a [`Lookup`] finds, by the raw text. A value that is
//! missing, doubled or of another type is an error and never false: the event is then kept as `failed`, where an
//! operator sees it. ADR 0017 says why this is not a language of its own size.

mod parse;

use std::cmp::Ordering;
use std::fmt;

/// The part of an event that a place is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Root {
    /// What handlers get.
    Payload,
    /// The whole text that the event was read from.
    Envelope,
    /// A header of this name, in lower case.
    Header(String),
}

/// The place of one value: `payload.customer`, `envelope.account`, `headers["x-tenant"]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub root: Root,
    /// JSON pointer within the root; empty for a header.
    pub pointer: String,
    /// As it was written.
    text: String,
}

impl Place {
    pub fn new(root: Root, pointer: String, text: String) -> Self {
        Self { root, pointer, text }
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Reads the place of a lane: a JSON pointer into the payload, or a place as `when` has it.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with('/') {
            return Ok(Self::new(Root::Payload, text.to_owned(), text.to_owned()));
        }
        parse::place(text)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// What an event has at a place.
pub enum Found<'a> {
    /// The raw JSON text of one value.
    Json(&'a [u8]),
    /// The value of a header.
    Header(String),
    Missing,
    /// A name on the way is there twice.
    Doubled,
}

/// An event whose values can be read one by one.
pub trait Lookup {
    /// Finds what is at `place`; an error when the text that it is in is not JSON.
    fn find(&self, place: &Place) -> Result<Found<'_>, String>;
}

/// Longest number that is compared. Bytes.
const NUMBER_BYTES_MAX: usize = 400;

/// A number: `0.DIGITS` times ten to the power of `point`. Equal values have one form.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Decimal {
    is_negative: bool,
    /// Without zeros at either end; empty for zero.
    digits: String,
    point: i64,
}

impl Decimal {
    /// Parses a number as JSON writes it; `None` when it is not one, or longer than [`NUMBER_BYTES_MAX`].
    fn parse(text: &str) -> Option<Self> {
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let (is_negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                (mantissa, exponent.parse::<i64>().ok().filter(|_| is_digits(digits))?)
            }
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
        let is_whole = is_digits(whole) && (whole == "0" || !whole.starts_with('0'));
        if text.len() > NUMBER_BYTES_MAX || !is_whole || !is_digits(fraction) {
            return None;
        }
        let all = format!("{whole}{fraction}");
        let significant = all.trim_start_matches('0');
        let digits = significant.trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Some(Self { is_negative: false, digits, point: 0 });
        }
        let shift = i64::try_from(whole.len()).ok()? - i64::try_from(all.len() - significant.len()).ok()?;
        Some(Self { is_negative, digits, point: exponent.checked_add(shift)? })
    }

    /// -1, 0 or 1.
    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_size = || self.point.cmp(&other.point).then_with(|| self.digits.cmp(&other.digits));
        self.sign()
            .cmp(&other.sign())
            .then_with(|| if self.is_negative { by_size().reverse() } else { by_size() })
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// `when` of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    text: String,
    condition: Condition,
    /// Every place that it reads.
    places: Vec<Place>,
}

/// One condition.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
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
enum Operand {
    Literal(Scalar),
    Place(Place),
    /// The number that stands there, also inside a text.
    Number(Place),
}

/// The ways in which two values are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn is_of_order(self) -> bool {
        !matches!(self, Self::Equal | Self::Unequal)
    }
}

/// One value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Scalar {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
}

impl Filter {
    /// Parses an expression; the error says where and what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (condition, places) = parse::condition(text)?;
        Ok(Self { text: text.to_owned(), condition, places })
    }

    /// Every place that it reads.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// True when it lets the event pass. The error names the place and what is wrong with it, without values.
    pub fn passes(&self, event: &impl Lookup) -> Result<bool, String> {
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
            Self::All(all) => all.iter().try_fold(true, |so_far, one| Ok(so_far && one.holds(event)?)),
            Self::Any(any) => any.iter().try_fold(false, |so_far, one| Ok(so_far || one.holds(event)?)),
            Self::Not(one) => Ok(!one.holds(event)?),
            Self::Is(operand) => match operand.value(event)? {
                Scalar::Bool(value) => Ok(value),
                other => Err(format!("{operand} is {}, not true or false", other.kind())),
            },
            Self::Compare(left, how, right) => {
                // Whether something is null may be asked of every type, objects and lists included.
                if let (Operand::Place(place), null) | (null, Operand::Place(place)) = (left, right)
                    && *null == Operand::Literal(Scalar::Null)
                {
                    let is_null = matches!(there(place, event)?, Found::Json(b"null"));
                    return Ok(is_null == (*how == Comparison::Equal));
                }
                let (one, other) = (left.value(event)?, right.value(event)?);
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

/// What is at a place where there has to be something.
fn there<'e>(place: &Place, event: &'e impl Lookup) -> Result<Found<'e>, String> {
    match event.find(place)? {
        Found::Missing => Err(format!("{place} is missing")),
        Found::Doubled => Err(format!("{place} is there twice")),
        found => Ok(found),
    }
}

fn value_at(place: &Place, event: &impl Lookup) -> Result<Scalar, String> {
    let raw = match there(place, event)? {
        Found::Header(text) => return Ok(Scalar::Text(text)),
        Found::Json(raw) => raw,
        Found::Missing | Found::Doubled => b"",
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
    fn kind(&self) -> &'static str {
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
        use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, Unequal};
        match (self, other, how) {
            (_, _, Equal) if self.is_like(other) => Some(self == other),
            (_, _, Unequal) if self.is_like(other) => Some(self != other),
            (Self::Number(one), Self::Number(other), Less) => Some(one < other),
            (Self::Number(one), Self::Number(other), LessOrEqual) => Some(one <= other),
            (Self::Number(one), Self::Number(other), Greater) => Some(one > other),
            (Self::Number(one), Self::Number(other), GreaterOrEqual) => Some(one >= other),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_ordered_by_their_value_whatever_their_size_and_form() {
        let ordered = [
            "-1e400",
            "-9007199254740993",
            "-9007199254740992",
            "-1.5",
            "-0.1",
            "0",
            "1e-400",
            "0.1",
            "0.11",
            "0.2",
            "1",
            "9.99",
            "10",
            "9007199254740992",
            "9007199254740993",
            "18446744073709551616",
            "1e9223372036854775000",
        ];
        let parsed: Vec<Decimal> = ordered.iter().map(|text| Decimal::parse(text).expect(text)).collect();
        for (n, one) in parsed.iter().enumerate() {
            for (m, other) in parsed.iter().enumerate() {
                assert_eq!(one.cmp(other), n.cmp(&m), "{} {}", ordered[n], ordered[m]);
            }
        }
        for (one, other) in [
            ("0.10", "0.1"),
            ("1e2", "100"),
            ("100.0", "1E+2"),
            ("-0", "0.00"),
            ("0e5", "0"),
            ("0.0012", "12e-4"),
        ] {
            assert_eq!(Decimal::parse(one), Decimal::parse(other), "{one} {other}");
        }
    }

    #[test]
    fn what_json_does_not_call_a_number_is_none_and_nothing_is_expanded() {
        for text in [
            "",
            "-",
            "+1",
            "01",
            "1.",
            ".5",
            "1e",
            "1e+",
            "1e++1",
            "0x1",
            "NaN",
            "1 ",
            "1e9223372036854775808",
            "١",
        ] {
            assert_eq!(Decimal::parse(text), None, "{text}");
        }
        assert!(Decimal::parse(&"9".repeat(NUMBER_BYTES_MAX)).is_some());
        assert!(Decimal::parse(&"9".repeat(NUMBER_BYTES_MAX + 1)).is_none());
        assert_eq!(Decimal::parse("1e9223372036854775807"), None, "its place would overflow");
    }
}
