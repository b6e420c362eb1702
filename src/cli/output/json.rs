//! JSON for programs: the server's answer as it came, with each time in RFC 3339 beside its milliseconds.

use serde_json::Value;

use crate::times::rfc3339;

/// Times of the contract whose names end otherwise than in `at_ms`. Lengths of time end in `_ms` too.
const OTHER_TIMES: [&str; 12] = [
    "approve_until_ms",
    "good_until_ms",
    "now_ms",
    "from_ms",
    "to_ms",
    "since_ms",
    "counted_from_ms",
    "looked_back_to_ms",
    "key_valid_until_ms",
    "until_ms",
    "received_from_ms",
    "received_to_ms",
];

fn is_time(name: &str) -> bool {
    name.ends_with("at_ms") || name == "created_before_ms" || OTHER_TIMES.contains(&name)
}

/// The same with `received_at` beside each `received_at_ms`.
pub(crate) fn with_times(mut answer: Value) -> Value {
    add_times(&mut answer);
    answer
}

fn add_times(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(add_times),
        Value::Object(members) => {
            members.values_mut().for_each(add_times);
            let times: Vec<(String, String)> = members
                .iter()
                .filter(|(name, _)| is_time(name))
                .filter_map(|(name, at)| Some((name.strip_suffix("_ms")?.to_owned(), rfc3339(at.as_i64()?)?)))
                .collect();
            for (name, at) in times {
                members.entry(name).or_insert(Value::String(at));
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_time_stands_beside_its_milliseconds_wherever_it_is() {
        let answer = json!({
            "items": [{ "received_at_ms": 1_795_356_311_500_i64, "due_at_ms": null }],
            "looked_back_to_ms": 0, "took_ms": 12, "at_ms": "x", "next": null,
        });
        let want = json!({
            "items": [{
                "received_at_ms": 1_795_356_311_500_i64, "received_at": "2026-11-22T14:05:11.500Z", "due_at_ms": null,
            }],
            "looked_back_to_ms": 0, "looked_back_to": "1970-01-01T00:00:00.000Z", "took_ms": 12, "at_ms": "x",
            "next": null,
        });
        assert_eq!(with_times(answer), want);
    }

    /// A field that is added to the contract is either a time, which is told so, or a length, which is listed here.
    #[test]
    fn every_field_in_milliseconds_of_the_contract_is_known_as_a_time_or_as_a_length() {
        const LENGTHS: [&str; 9] = [
            "age_max_ms",
            "answer_within_ms",
            "first_ms",
            "key_valid_for_ms",
            "max_ms",
            "p50_ms",
            "p95_ms",
            "timeout_ms",
            "took_ms",
        ];
        let document = crate::api::document().to_string();
        let names = document.split('"').filter(|word| word.ends_with("_ms") && !word.contains(' '));
        let unknown: Vec<&str> = names
            .filter(|name| !is_time(name) && !LENGTHS.contains(name) && !name.starts_with('`'))
            .collect();
        assert_eq!(unknown, [""; 0]);
    }
}
