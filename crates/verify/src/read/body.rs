//! The JSON text of a body.

use bytes::Bytes;

use crate::spec::{BodyFormat, EventSpec};

/// The JSON text of a body: the body itself, or one field of a form, or all of them. Its bytes say which of
/// these it is: they are signed, and the content type is not.
pub(super) fn json_of(event: &EventSpec, body: &Bytes) -> Result<Bytes, String> {
    match &event.form_field {
        Some(field) if is_form(body) => form_value(field, body),
        None if event.body == BodyFormat::Form && is_form(body) => Ok(form_object(body)),
        _ => Ok(body.clone()),
    }
}

/// True when a body that may be a form or JSON is a form.
fn is_form(body: &[u8]) -> bool {
    !matches!(body.trim_ascii_start().first(), Some(b'{' | b'['))
}

fn form_value(field: &str, body: &[u8]) -> Result<Bytes, String> {
    let mut values = form_urlencoded::parse(body).filter(|(name, _)| name == field);
    let value = values.next().ok_or_else(|| format!("form field `{field}` is missing"))?;
    if values.next().is_some() {
        return Err(format!("form field `{field}` is there twice"));
    }
    Ok(Bytes::from(value.1.into_owned()))
}

/// A form as one JSON object of texts, in its order. A field that is there twice stays so, and is found to.
fn form_object(body: &[u8]) -> Bytes {
    let pairs = form_urlencoded::parse(body).map(|(name, value)| {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        format!("{}:{}", text(&name), text(&value))
    });
    Bytes::from(format!("{{{}}}", pairs.collect::<Vec<_>>().join(",")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_form_is_an_object_of_texts_in_its_order_and_keeps_what_is_there_twice() {
        #[track_caller]
        fn check(form: &str, want: &str) {
            assert_eq!(form_object(form.as_bytes()), want.as_bytes(), "{form}");
        }
        check("", "{}");
        check("b=1&a=2+3&b=%22", r#"{"b":"1","a":"2 3","b":"\""}"#);
        check("a&b=", r#"{"a":"","b":""}"#);
    }

    #[test]
    fn the_one_value_of_a_field_is_the_body_and_two_are_none() {
        assert_eq!(form_value("p", b"x=1&p=%7B%7D"), Ok(Bytes::from_static(b"{}")));
        assert_eq!(form_value("p", b"x=1"), Err("form field `p` is missing".to_owned()));
        assert_eq!(form_value("p", b"p=1&p=1"), Err("form field `p` is there twice".to_owned()));
    }

    #[test]
    fn the_first_byte_distinguishes_json_from_a_form() {
        for (body, want) in
            [(" {\"a\":1}", false), ("\n[1]", false), ("a=1", true), ("", true), ("a={", true)]
        {
            assert_eq!(is_form(body.as_bytes()), want, "{body}");
        }
    }
}
