//! The filters, tests and functions that templates have: a closed list, each of which draws on the budget of its
//! rendering (`budget.rs`) what it is going to make.

use std::fmt::Write;

use minijinja::value::{Rest, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value, filters, functions, tests};

use super::budget::{self, Ended, MadeText};

/// What a filter draws before it runs.
#[derive(Clone, Copy)]
enum Cost {
    /// What its arguments take as texts, so many times over.
    Text(usize),
    /// What their entries take.
    Entries,
}

/// Filter that draws on the budget for the operand of a comparison.
pub(super) const CHARGED: &str = "_charged";
/// Filter that lets nothing but numbers pass.
pub(crate) const NUMBER: &str = "_number";
/// Filter that joins the operands of `~`.
pub(super) const CONCAT: &str = "_concat";

/// Filters or tests of the engine by what they draw; each goes by the name of its function, and by others behind it.
macro_rules! kept {
    ($module:ident { $($cost:expr => $($function:ident $(or $other:ident)?),+;)+ }) => {
        vec![$($(
            (stringify!($function), Value::from_function($module::$function), $cost),
            $((stringify!($other), Value::from_function($module::$function), $cost),)?
        )+)+]
    };
}

/// Name, function and cost.
type Kept = (&'static str, Value, Cost);

/// The filters of the engine that are kept, with what they may make of their arguments.
fn kept_filters() -> Vec<Kept> {
    use Cost::{Entries, Text};
    let mut kept = kept!(filters {
        Entries => abs, attr, bool, default or d, first, float, int, items, last, length or count, round;
        Text(1) => dictsort, map, max, min, reject, rejectattr, reverse, safe, select, selectattr, sort, string, trim,
            unique;
        Text(3) => capitalize, lower, title, upper;
        Text(6) => escape or e;
        // A piece takes more than the byte that it may have.
        Text(8) => lines, list, split;
    });
    kept.push(("sum", Value::from_function(sum), Text(1)));
    kept
}

/// The tests of the engine that are kept.
fn kept_tests() -> Vec<Kept> {
    use Cost::{Entries, Text};
    let mut kept = kept!(tests {
        Entries => is_boolean, is_defined, is_even, is_false, is_float, is_integer, is_iterable, is_mapping, is_none,
            is_number, is_odd, is_sequence, is_string, is_true, is_undefined;
        Text(1) => is_endingwith, is_eq or is_equalto, is_ge, is_gt, is_in, is_le, is_lower, is_lt, is_ne, is_startingwith;
    });
    kept.push(("is_divisibleby", Value::from_function(is_divisibleby), Entries));
    kept.into_iter().map(|(name, test, cost)| (name.trim_start_matches("is_"), test, cost)).collect()
}

/// An environment with these filters, tests and functions alone.
pub(crate) fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    for (name, filter, cost) in kept_filters() {
        environment.add_filter(name, bounded(filter, cost));
    }
    for (name, test, cost) in kept_tests() {
        let test = bounded(test, cost);
        let answer = move |state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>| {
            test(state, values).map(|value| value.is_true())
        };
        environment.add_test(name, answer);
    }
    environment.add_filter("join", join);
    environment.add_filter("replace", replace);
    environment.add_filter("tojson", tojson);
    environment.add_filter(CHARGED, charged);
    environment.add_filter(NUMBER, number);
    environment.add_filter(CONCAT, concat);
    environment.add_function("range", functions::range);
    environment
}

/// True when templates may use a filter of this name.
pub(super) fn has_filter(name: &str) -> bool {
    matches!(name, "join" | "replace" | "tojson") || kept_filters().iter().any(|(known, ..)| *known == name)
}

/// True when templates may use a test of this name.
pub(super) fn has_test(name: &str) -> bool {
    kept_tests().iter().any(|(known, ..)| *known == name)
}

/// A filter or test that draws before it runs.
fn bounded(
    inner: Value,
    cost: Cost,
) -> impl Fn(&mut State<'_, '_>, Rest<ValueOrKwargs>) -> Result<Value, Error> + Send + Sync + 'static {
    move |state, values| {
        let values = values.into_values();
        for value in &values {
            match cost {
                Cost::Text(times) => budget::draw_text(value, times)?,
                Cost::Entries => budget::draw_entries(value)?,
            }
        }
        inner.call(state, &values)
    }
}

/// A sum that begins with 0: one that begins with a text would join texts, one after the other.
fn sum(state: &mut State<'_, '_>, values: Rest<ValueOrKwargs>) -> Result<Value, Error> {
    let values = values.into_values();
    let has_start = |value: &Value| value.get_attr("start").is_ok_and(|start| !start.is_undefined());
    if values.len() > 2 || values.iter().skip(1).any(has_start) {
        return Err(Error::from(ErrorKind::TooManyArguments));
    }
    Value::from_function(filters::sum).call(state, &values)
}

/// Nothing is divisible by 0, by which the engine would divide.
fn is_divisibleby(value: &Value, other: &Value) -> bool {
    let is_zero = f64::try_from(other.clone()).is_ok_and(|number| number == 0.0);
    !is_zero && tests::is_divisibleby(value, other)
}

fn charged(value: Value) -> Result<Value, Error> {
    budget::draw_text(&value, 1)?;
    Ok(value)
}

fn number(value: Value) -> Result<Value, Error> {
    match value.kind() {
        ValueKind::Number => budget::draw(1).map(|()| value),
        ValueKind::Undefined => Err(Error::from(ErrorKind::UndefinedError)),
        _ => Err(budget::end(Ended::NotANumber)),
    }
}

/// The entries of a list as one text.
fn joined(parts: &Value, between: &str) -> Result<Value, Error> {
    let mut text = MadeText::default();
    for (n, part) in parts.try_iter()?.enumerate() {
        if n > 0 {
            text.write_str(between)?;
        }
        write!(text, "{}", there(&part)?)?;
    }
    Ok(Value::from(text.0))
}

fn join(parts: &Value, between: Option<&Value>) -> Result<Value, Error> {
    joined(parts, between.map_or(Ok(""), text_of)?)
}

fn concat(parts: &Value) -> Result<Value, Error> {
    joined(parts, "")
}

fn replace(text: &Value, from: &Value, to: &Value) -> Result<Value, Error> {
    let (from, to) = (text_of(from)?, text_of(to)?);
    let mut plain = MadeText::default();
    write!(plain, "{}", there(text)?)?;
    let added = plain.0.matches(from).count().saturating_mul(to.len());
    budget::draw(plain.0.len().saturating_add(added))?;
    Ok(Value::from(plain.0.replace(from, to)))
}

/// A value as JSON; it is put into JSON as it is.
fn tojson(state: &State<'_, '_>, value: &Value) -> Result<Value, Error> {
    let mut text = MadeText::default();
    serde_json::to_writer(&mut text, there(value)?).map_err(|_| Error::from(ErrorKind::BadSerialization))?;
    let is_json = *state.auto_escape() == AutoEscape::Json;
    Ok(if is_json { Value::from_safe_string(text.0) } else { Value::from(text.0) })
}

/// A value that is not missing.
fn there(value: &Value) -> Result<&Value, Error> {
    if value.is_undefined() { Err(Error::from(ErrorKind::UndefinedError)) } else { Ok(value) }
}

/// An argument, which must be a text.
fn text_of(value: &Value) -> Result<&str, Error> {
    value.as_str().ok_or_else(|| Error::from(ErrorKind::InvalidOperation))
}

/// The names of all filters that templates may use.
#[cfg(test)]
pub(crate) fn names() -> Vec<&'static str> {
    let kept = kept_filters().into_iter().map(|(name, ..)| name);
    kept.chain(["join", "replace", "tojson"]).collect()
}

/// The names of all tests that templates may use.
#[cfg(test)]
pub(super) fn test_names() -> Vec<&'static str> {
    kept_tests().into_iter().map(|(name, ..)| name).collect()
}
