//! A condition on an event, and its result.

use std::fmt;

use super::decimal::Decimal;
use super::parse;
use super::place::{Found, Lookup, Place};

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
    pub(crate) fn kind(&self) -> &'static str {
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
