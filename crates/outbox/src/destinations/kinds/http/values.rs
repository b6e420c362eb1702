//! The values that templates of a call have of its message: the same names as templates that are filled in at
//! admission.

use serde_json::{Value, json};

use hooklatch_store::LeasedMessage;

/// The values of one message.
pub(crate) fn of_message(message: &LeasedMessage) -> Value {
    json!({
        "idempotency_key": message.idempotency_key,
        "event": {
            "provider": message.key.provider.as_str(), "id": message.key.event_id, "type": message.event_type,
        },
        "message": { "id": message.message_id.to_string(), "name": message.effect_name },
    })
}

/// The same, with the time of the attempt. Seconds.
pub(super) fn with_timestamp(mut values: Value, now_s: i64) -> Value {
    if let Value::Object(values) = &mut values {
        values.insert("timestamp".to_owned(), Value::from(now_s));
    }
    values
}

/// The values of two messages that were made up, of two runs of one event: what is filled in with them when the program
/// starts is what will be filled in later.
pub(crate) fn samples() -> [Value; 2] {
    ["1", "2"].map(|n| {
        json!({
            "idempotency_key": format!("key-{n}"),
            "event": { "provider": "provider-1", "id": "event-1", "type": "type-1" },
            "message": { "id": n, "name": "name-1" },
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::destinations::tests::message;

    #[test]
    fn a_message_that_was_made_up_has_the_names_of_a_real_one() {
        fn names(value: &Value) -> Vec<String> {
            let Value::Object(values) = value else { return Vec::new() };
            let inner = values.iter().map(|(name, value)| (name, names(value)));
            inner.flat_map(|(name, below)| std::iter::once(name.clone()).chain(below)).collect()
        }
        for sample in samples() {
            assert_eq!(names(&sample), names(&of_message(&message())));
        }
    }
}
