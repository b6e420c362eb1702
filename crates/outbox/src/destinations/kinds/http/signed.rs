//! The text that an `hmac` covers: a template around the bytes of the body.
//!
//! A template gives text, and a body need not be text. So `{{ body }}` is not a value of the template: the text is
//! taken apart at it, what is between is a template of its own, and the bytes of the body go to the digest as they are.
//! That leaves one rule that Jinja does not have: the body stands alone, `{{ body }}`, and no filter or condition sees
//! it.

use serde_json::Value;

use super::values::{samples, with_timestamp};
use hooklatch_core::template::{self, Escape, Limits, Template};

/// The text that is signed, taken apart.
#[derive(Debug)]
pub(super) struct HmacTemplate(Vec<HmacPiece>);

/// One piece of the text that is signed. The values that signatures usually cover are pieces of their own, so that a
/// call needs no template for them.
#[derive(Debug)]
enum HmacPiece {
    Text(String),
    Timestamp,
    IdempotencyKey,
    Body,
    Template(Box<Template>),
}

/// The facts of one attempt that can be signed.
pub(super) struct Attempted<'a> {
    /// Time of the attempt. Unix seconds.
    pub now_s: i64,
    /// The key of its message.
    pub idempotency_key: &'a str,
    /// The bytes that are sent.
    pub body: &'a [u8],
}

impl HmacTemplate {
    /// Takes `text` apart; the error says where a template in it is wrong.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let (mut begin, mut rest) = (text, text);
        while let Some((_, tag)) = rest.split_once("{{") {
            let Some((inside, after)) = tag.split_once("}}") else { break };
            if inside.trim() == "body" {
                let before = begin.len() - tag.len() - 2;
                pieces.extend(between(begin.get(..before).unwrap_or_default())?);
                pieces.push(HmacPiece::Body);
                begin = after;
            }
            rest = after;
        }
        pieces.extend(between(begin)?);
        Ok(Self(pieces))
    }

    /// True when the body is signed.
    pub(crate) fn has_body(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, HmacPiece::Body))
    }

    /// Gives what is signed to `update`, piece by piece. `values` are those of templates.
    pub(crate) fn each(
        &self,
        attempted: &Attempted<'_>,
        values: impl Fn() -> Value,
        mut update: impl FnMut(&[u8]),
    ) -> Result<(), String> {
        for piece in &self.0 {
            match piece {
                HmacPiece::Text(text) => update(text.as_bytes()),
                HmacPiece::Timestamp => update(attempted.now_s.to_string().as_bytes()),
                HmacPiece::IdempotencyKey => update(attempted.idempotency_key.as_bytes()),
                HmacPiece::Body => update(attempted.body),
                HmacPiece::Template(template) => {
                    let values = template::values(&with_timestamp(values(), attempted.now_s));
                    let text = template.render(&values, Limits::head()).map_err(|error| error.why)?;
                    update(text.as_bytes());
                }
            }
        }
        Ok(())
    }

    /// The bytes that would be signed at `now_s` (unix seconds) of a message that was made up.
    pub(crate) fn sample(&self, now_s: i64) -> Result<Vec<u8>, String> {
        let [values, _] = samples();
        let attempted = Attempted { now_s, idempotency_key: "key-1", body: b"{}" };
        let mut all = Vec::new();
        self.each(&attempted, || values.clone(), |bytes| all.extend_from_slice(bytes))?;
        Ok(all)
    }
}

/// The pieces before, between and behind bodies.
fn between(text: &str) -> Result<Vec<HmacPiece>, String> {
    if let Some(pieces) = simple(text) {
        return Ok(pieces);
    }
    let template = Template::parse_to_the_letter(text, Escape::Nothing)?;
    Ok(vec![HmacPiece::Template(Box::new(template))])
}

/// The pieces of a text that has nothing but `{{ timestamp }}` and `{{ idempotency_key }}` in it.
fn simple(text: &str) -> Option<Vec<HmacPiece>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    loop {
        let (before, tag) = rest.split_once("{{").map_or((rest, None), |(before, tag)| (before, Some(tag)));
        if before.contains("{%") || before.contains("{#") {
            return None;
        }
        if !before.is_empty() {
            pieces.push(HmacPiece::Text(before.to_owned()));
        }
        let Some(tag) = tag else { return Some(pieces) };
        let (inside, after) = tag.split_once("}}")?;
        pieces.push(match inside.trim() {
            "timestamp" => HmacPiece::Timestamp,
            "idempotency_key" => HmacPiece::IdempotencyKey,
            _ => return None,
        });
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(text: &str, body: &[u8]) -> Result<Vec<u8>, String> {
        let [values, _] = samples();
        let attempted = Attempted { now_s: 7, idempotency_key: "key-1", body };
        let mut all = Vec::new();
        let template = HmacTemplate::parse(text)?;
        template.each(&attempted, || values.clone(), |bytes| all.extend_from_slice(bytes))?;
        Ok(all)
    }

    #[test]
    fn what_is_signed_is_the_template_with_the_body_to_the_byte() {
        #[track_caller]
        fn check(text: &str, body: &[u8], want: &[u8]) {
            assert_eq!(signed(text, body).unwrap(), want, "{text}");
        }
        check("{{ body }}", b"{\"a\":1}", b"{\"a\":1}");
        check("{{body}}", b"\xff\x00\xfe", b"\xff\x00\xfe");
        check("{{ timestamp }}.{{ body }}", b"\xc3", b"7.\xc3");
        check("{{ timestamp }}\n{{ body }}\n", b"b", b"7\nb\n");
        check("v0:{{ idempotency_key }}:{{ body }}:{{ body }}", b"b", b"v0:key-1:b:b");
        check("{{ timestamp + 0 }}\n{{ idempotency_key | upper }}\n{{ body }}", b"b", b"7\nKEY-1\nb");
        check("{% if timestamp %}{{ timestamp }}{% endif %}.{{ body }}", b"b", b"7.b");
        check("{{ event.id }}/{{ message.id }}{{ body }}", b"<&\"", b"event-1/1<&\"");
        check("{\"t\":{{ timestamp }},\"b\":{{ body }}}", b"1", b"{\"t\":7,\"b\":1}");
        // What looks like a template in a body stays what it is.
        check("{{ body }}", b"{{ timestamp }}", b"{{ timestamp }}");
    }

    #[test]
    fn a_body_that_does_not_stand_alone_is_an_error() {
        for text in [
            "{{ body | upper }}",
            "{{ timestamp }}{{ body ~ 'x' }}",
            "{% if body %}x{% endif %}",
            "{{ 'body' }}{{ nothing }}",
        ] {
            assert!(signed(text, b"b").is_err(), "{text}");
        }
        assert!(HmacTemplate::parse("{% if timestamp %}{{ body }}{% endif %}").is_err());
        assert!(!HmacTemplate::parse("{{ timestamp }}").unwrap().has_body());
    }
}
