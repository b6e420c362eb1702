//! The order in the body of a POST: read within its bounds, and checked against the schema of its type before serde
//! reads it.
//!
//! Serde accepts an array for a struct, by the order of the fields, and its error about a wrong value names no field.
//! Here an object is an object, however deep it lies, and a refusal names the wrong field and what it must be. Patterns
//! are left to the routes, whose sentences are more precise.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::super::error::Problem;
use hooklatch_contract::is_reason;
use hooklatch_core::plain;

/// Largest body of a usual order, and of one with the text of a request or an event. Bytes.
pub(super) const ORDER_BYTES_MAX: usize = 16 * 1024;
pub(super) const LARGE_ORDER_BYTES_MAX: usize = 1 << 20;
/// Longest text about what is wrong with a body; it repeats a part of it. Characters.
const DETAIL_CHARS_MAX: usize = 300;
/// Longest time that an order's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest name or value of a request that a refusal repeats. Characters.
const SHOWN_CHARS_MAX: usize = 64;

/// The whole body.
pub(super) async fn read_body(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let read = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, bytes_max).collect()).await;
    Ok(read.map_err(|_| Problem::TOO_SLOW)?.map_err(|_| Problem::TOO_LARGE)?.to_bytes())
}

/// The order in a body, which is a JSON object; a refusal names the field that is wrong.
pub(super) fn order<T: DeserializeOwned + JsonSchema>(body: &[u8]) -> Result<T, Problem> {
    let unread = |error: serde_json::Error| {
        let detail: String =
            format!("the body cannot be read: {error}").chars().take(DETAIL_CHARS_MAX).collect();
        Problem::bad_request("the body cannot be read").with_detail(plain::line(&detail))
    };
    let value = serde_json::from_slice(body).map_err(unread)?;
    if let Some(mistake) = mistake::<T>(&value) {
        return Err(Problem::bad_request("the body is not as the route needs it").with_detail(mistake));
    }
    // From the text: of a name that is there twice, a `Value` keeps one.
    serde_json::from_slice(body).map_err(unread)
}

/// Refuses a reason that cannot be kept.
pub(super) fn check_reason(reason: &str) -> Result<(), Problem> {
    if is_reason(reason) { Ok(()) } else { Err(Problem::BAD_REASON) }
}

/// What is wrong with a value, and how deep in it.
struct Mistake {
    depth: usize,
    text: String,
    /// The field that is missing, where that is what is wrong.
    missing: Option<String>,
}

/// What is wrong with the shape of `value`, as a sentence; `None` when `T` can be read from it.
fn mistake<T: JsonSchema>(value: &Value) -> Option<String> {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    find(&schema, value, &mut Vec::new()).map(|mistake| mistake.text)
}

impl Mistake {
    /// Of the mistakes by two options of a union the one in the option that was meant: what fits deepest, and of two
    /// that fit equally the one whose field is there. Where neither is, both are named.
    fn or_meant(self, other: Self) -> Self {
        let rank = |one: &Self| (one.depth, one.missing.is_none());
        if let (Some(one), Some(another)) = (&self.missing, &other.missing)
            && self.depth == other.depth
            && one != another
        {
            let missing = format!("{one} or {another}");
            return Self { depth: self.depth, text: format!("{missing} is missing"), missing: Some(missing) };
        }
        if rank(&other) > rank(&self) { other } else { self }
    }
}

fn find<'v>(schema: &Value, value: &'v Value, path: &mut Vec<&'v str>) -> Option<Mistake> {
    let must = |what: String| {
        Some(Mistake { depth: path.len(), text: format!("{} must be {what}", name(path)), missing: None })
    };
    if let Some(words) = words(schema) {
        if words.contains(&value) {
            return None;
        }
        let words: Vec<String> = words.into_iter().map(in_text).collect();
        return must(format!("one of {}", words.join(", ")));
    }
    if let Some(options) = schema.get("oneOf").or(schema.get("anyOf")).and_then(Value::as_array) {
        let mut worst: Option<Mistake> = None;
        for option in options {
            let found = find(option, value, path)?;
            worst = Some(match worst {
                None => found,
                Some(worst) => worst.or_meant(found),
            });
        }
        return worst;
    }
    if let Some(types) = schema.get("type") {
        let types: Vec<&str> = types.as_array().map_or_else(
            || types.as_str().into_iter().collect(),
            |types| types.iter().filter_map(Value::as_str).collect(),
        );
        if !types.iter().any(|name| is_of(name, value)) {
            let types: Vec<&str> = types.into_iter().map(in_words).collect();
            return must(format!("{}, not {}", types.join(" or "), in_words(type_of(value))));
        }
    }
    let length = |n: usize| u32::try_from(n).map_or(f64::INFINITY, f64::from);
    let measured = match value {
        Value::Number(number) => number.as_f64().map(|number| (number, ("minimum", "maximum"), "")),
        Value::String(text) => {
            Some((length(text.chars().count()), ("minLength", "maxLength"), " characters"))
        }
        Value::Array(items) => Some((length(items.len()), ("minItems", "maxItems"), " items")),
        _ => None,
    };
    if let Some((measure, bounds, unit)) = measured {
        let [least, most] = [bounds.0, bounds.1].map(|name| schema.get(name).and_then(Value::as_f64));
        if least.is_some_and(|least| measure < least) || most.is_some_and(|most| measure > most) {
            return must(range(schema, bounds, unit));
        }
    }
    match value {
        Value::Object(fields) => of_fields(schema, fields, path),
        Value::Array(items) => {
            let schema = schema.get("items")?;
            items.iter().find_map(|item| find(schema, item, path))
        }
        _ => None,
    }
}

fn of_fields<'v>(schema: &Value, fields: &'v Map<String, Value>, path: &mut Vec<&'v str>) -> Option<Mistake> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let depth = path.len() + 1;
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(missing) = required.filter_map(Value::as_str).find(|name| !fields.contains_key(*name)) {
        let missing: Vec<&str> = path.iter().copied().chain([missing]).collect();
        let missing = name(&missing);
        return Some(Mistake { depth, text: format!("{missing} is missing"), missing: Some(missing) });
    }
    for (field, value) in fields {
        path.push(field);
        let found = match properties.and_then(|all| all.get(field)) {
            Some(schema) => find(schema, value, path),
            None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                let names = properties.into_iter().flatten().map(|(name, _)| format!("`{name}`"));
                let names = names.collect::<Vec<_>>().join(", ");
                let text = format!("{} does not exist; the fields here are {names}", name(path));
                Some(Mistake { depth, text, missing: None })
            }
            None => None,
        };
        path.pop();
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The words of an enumeration, each of which may stand in a schema of its own.
fn words(schema: &Value) -> Option<Vec<&Value>> {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        return Some(words.iter().collect());
    }
    if let Some(word) = schema.get("const") {
        return Some(vec![word]);
    }
    let options = schema.get("oneOf")?.as_array()?;
    let words: Option<Vec<Vec<&Value>>> = options.iter().map(words).collect();
    words.map(|words| words.into_iter().flatten().collect())
}

fn in_text(word: &Value) -> String {
    word.as_str().map_or_else(|| word.to_string(), |word| format!("`{word}`"))
}

/// `a number from 1 to 500`, or `of 1 to 255 characters`.
fn range(schema: &Value, (least, most): (&str, &str), unit: &str) -> String {
    let (of, from) = if unit.is_empty() { ("a number", " from") } else { ("of", "") };
    match (schema.get(least), schema.get(most)) {
        (Some(least), Some(most)) => format!("{of}{from} {least} to {most}{unit}"),
        (None, Some(most)) => format!("{of} at most {most}{unit}"),
        (least, None) => format!("{of} at least {}{unit}", least.unwrap_or(&Value::Null)),
    }
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        // `3.0` is an integer: JSON Schema 2020-12, validation, 6.1.1.
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        "number" => value.is_number(),
        name => name == type_of(value),
    }
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn in_words(name: &str) -> &str {
    match name {
        "null" => "null",
        "boolean" => "true or false",
        "number" => "a number",
        "integer" => "a whole number",
        "string" => "a string",
        "array" => "an array",
        "object" => "an object",
        other => other,
    }
}

/// The field at this path, or the body.
fn name(path: &[&str]) -> String {
    if path.is_empty() {
        return "the body".to_owned();
    }
    let text: String = path.join(".").chars().take(SHOWN_CHARS_MAX).collect();
    format!("`{}`", plain::line(&text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use hooklatch_contract::{
        ExplainOrder, MessageOrder, OperationOrder, PauseOrder, TokenOrder, WhatIfOrder,
    };

    #[track_caller]
    fn check<T: JsonSchema>(value: &Value, want: Option<&str>) {
        assert_eq!(mistake::<T>(value).as_deref(), want, "{value}");
    }

    #[test]
    fn an_array_in_place_of_an_object_is_refused_however_deep_it_lies() {
        check::<MessageOrder>(&json!(["discard", "r"]), Some("the body must be an object, not an array"));
        check::<WhatIfOrder>(&json!([]), Some("the body must be an object, not an array"));
        check::<WhatIfOrder>(
            &json!({ "filter": ["handled"] }),
            Some("`filter` must be an object, not an array"),
        );
        let order = |subject: Value| json!({ "subject": subject, "counted_n": 1, "set": "s", "reason": "r" });
        check::<OperationOrder>(
            &order(json!({ "messages": ["send", ["held"]] })),
            Some("`subject.messages` must be an object, not an array"),
        );
        check::<OperationOrder>(
            &order(json!({ "messages": { "act": "send", "filter": ["held"] } })),
            Some("`subject.messages.filter` must be an object, not an array"),
        );
        check::<ExplainOrder>(&json!({ "request": "POST / HTTP/1.1" }), None);
        check::<ExplainOrder>(&json!({ "request": { "headers": [{ "name": "a", "value": "b" }] } }), None);
        check::<ExplainOrder>(
            &json!({ "request": { "headers": [["a", "b"]] } }),
            Some("`request.headers` must be an object, not an array"),
        );
    }

    #[test]
    fn a_refusal_names_the_field_and_what_it_must_be() {
        let message = |act: Value| json!({ "act": act, "reason": "r" });
        check::<MessageOrder>(&message(json!("send")), None);
        check::<MessageOrder>(
            &message(json!("sell")),
            Some("`act` must be one of `send`, `done`, `discard`"),
        );
        check::<MessageOrder>(&json!({ "act": "send" }), Some("`reason` is missing"));
        check::<MessageOrder>(
            &json!({ "act": "send", "reason": "r", "id": 1 }),
            Some("`id` does not exist; the fields here are `act`, `reason`"),
        );
        check::<MessageOrder>(
            &json!({ "act": "send", "reason": "" }),
            Some("`reason` must be of 1 to 255 characters"),
        );
        let token = |valid_for_s: Value| json!({ "name": "bob", "role": "viewer", "valid_for_s": valid_for_s, "reason": "r" });
        check::<TokenOrder>(&token(json!(60.0)), None);
        check::<TokenOrder>(&token(json!(59)), Some("`valid_for_s` must be a number from 60 to 31622400"));
        check::<TokenOrder>(&token(json!("60")), Some("`valid_for_s` must be a whole number, not a string"));
        check::<TokenOrder>(&token(json!(60.5)), Some("`valid_for_s` must be a whole number, not a number"));
        let pause = |until_ms: Value| json!({ "act": "pause", "reason": "r", "until_ms": until_ms });
        check::<PauseOrder>(&pause(Value::Null), None);
        check::<PauseOrder>(
            &pause(json!("now")),
            Some("`until_ms` must be a whole number or null, not a string"),
        );
        let operation = |act: &str| {
            json!({
                "subject": { "messages": { "act": act, "filter": { "state": "held" } } }, "counted_n": 1, "set": "s",
                "reason": "r",
            })
        };
        check::<OperationOrder>(&operation("send"), None);
        let subject =
            |subject: Value| json!({ "subject": subject, "counted_n": 1, "set": "s", "reason": "r" });
        let missing = Some("`subject.messages` or `subject.events` is missing");
        check::<OperationOrder>(&subject(json!({})), missing);
        check::<OperationOrder>(
            &subject(json!({ "events": 7 })),
            Some("`subject.events` must be an object, not a number"),
        );
        check::<OperationOrder>(
            &operation("rerun"),
            Some("`subject.messages.act` must be one of `send`, `done`, `discard`"),
        );
    }

    #[test]
    fn an_order_is_an_act_of_its_subject_and_a_reason_and_nothing_that_is_overlooked() {
        #[track_caller]
        fn check(body: &str, want: Option<&str>) {
            let found = order::<MessageOrder>(body.as_bytes()).err().and_then(|problem| problem.detail);
            assert_eq!(found.is_some(), want.is_some(), "{body}");
            assert!(found.unwrap_or_default().contains(want.unwrap_or_default()), "{body}");
        }
        check(r#"{"act":"send","reason":"asked by Ann"}"#, None);
        check(r#"{"act":"send","reason":"x","state":"held"}"#, Some("`state` does not exist"));
        check(r#"{"act":"send"}"#, Some("`reason` is missing"));
        check(r#"{"act":"pause","reason":"x"}"#, Some("`act` must be one of"));
        check(r#"{"act":"send","act":"done","reason":"x"}"#, Some("duplicate field `act`"));
        check(r#"["send","x"]"#, Some("the body must be an object"));
        check("", Some("EOF"));
    }
}
