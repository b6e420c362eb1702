//! Requests that are no event: a challenge that proves who owns the URL, a ping, a negotiation. Answered by the kind's
//! `[[handshake]]`; nothing is admitted.

use std::borrow::Cow;
use std::cell::LazyCell;

use super::encoding::{encoded, hmac, same};
use super::form::Form;
use super::keys::{Keys, KeysExt};
use super::request::{RawRequest, SignedValues, parts, query_value};
use crate::spec::{HandshakeSpec, MacSpec, TokenSpec};
use hooklatch_core::json::{Document, PointerTarget, text_of};

/// Longest text of a stranger's that is sent back.
const ECHO_BYTES_MAX: usize = 2_048;
/// Longest secret that a sender may send for pairing. Bytes.
const PAIRING_SECRET_BYTES_MAX: usize = 512;
/// Text of a setting that is armed.
const ARMED: &str = "open";

/// The answer to a handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// HTTP status, 100 to 599.
    pub status: u16,
    /// Headers besides the content type: names and values.
    pub headers: Vec<(String, String)>,
    /// Body of the answer.
    pub body: String,
    /// Content type of the body.
    pub content_type: String,
    /// The secret that the sender sent for pairing, for an operator to read.
    pub pairing_secret: Option<String>,
}

impl Reply {
    /// 200 and a plain text.
    pub fn text(body: String) -> Self {
        let content_type = "text/plain; charset=utf-8".to_owned();
        Self { status: 200, headers: vec![nosniff()], body, content_type, pairing_secret: None }
    }
}

/// The response of `spec` to this request; `None` when it is no such handshake.
pub fn reply(spec: &HandshakeSpec, keys: &Keys, request: &RawRequest) -> Option<Reply> {
    if !is_handshake(spec, request) {
        return None;
    }
    let is_armed = spec.armed_by.as_deref().is_none_or(|name| keys.settings().text(name) == Some(ARMED));
    if !is_armed || !spec.token.as_ref().is_none_or(|token| knows_token(token, keys, request)) {
        return None;
    }
    let pairing_secret = match &spec.keeps {
        Some(pointer) => Some(secret_at(&request.body, pointer)?),
        None => None,
    };
    let mac = match &spec.mac {
        Some(mac) => Some(mac_of(mac, keys, request)?),
        None => None,
    };
    let values = SignedValues { mac: mac.as_deref().unwrap_or_default(), ..SignedValues::default() };
    let filled = |pattern| text(&parts(pattern, request, keys, &values).ok()?);
    let (body, usual) = if spec.json.is_empty() {
        (filled(&spec.body)?, "text/plain; charset=utf-8")
    } else {
        let pairs = spec.json.iter().map(|(name, pattern)| Some((name.clone(), filled(pattern)?.into())));
        let object: serde_json::Map<String, serde_json::Value> = pairs.collect::<Option<_>>()?;
        (serde_json::Value::Object(object).to_string(), "application/json")
    };
    let mut headers: Vec<(String, String)> =
        spec.headers.iter().filter_map(|(name, pattern)| Some((name.clone(), filled(pattern)?))).collect();
    headers.push(nosniff());
    let content_type = spec.content_type.clone().unwrap_or_else(|| usual.to_owned());
    Some(Reply { status: spec.status, headers, body, content_type, pairing_secret })
}

/// The secret at `pointer`, if it looks like one.
fn secret_at(body: &[u8], pointer: &str) -> Option<String> {
    let is_plain =
        |text: &String| text.len() <= PAIRING_SECRET_BYTES_MAX && text.bytes().all(|b| b.is_ascii_graphic());
    text_of(body, pointer).ok().filter(|text| !text.is_empty()).filter(is_plain)
}

/// A stranger's text is never to be taken for a page of ours.
fn nosniff() -> (String, String) {
    ("x-content-type-options".to_owned(), "nosniff".to_owned())
}

fn text(parts: &[Cow<'_, [u8]>]) -> Option<String> {
    String::from_utf8(parts.concat()).ok().filter(|text| text.len() <= ECHO_BYTES_MAX)
}

fn is_handshake(spec: &HandshakeSpec, request: &RawRequest) -> bool {
    let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
    // For most requests it is not looked at; for the others it is needed for every pointer.
    let json = LazyCell::new(|| Document::parse(&request.body));
    let says = |pointer: &str, want: &String| {
        json.as_ref().is_some_and(|json| json.text(pointer).as_ref() == Ok(want))
    };
    let lacks =
        |pointer: &String| json.as_ref().is_some_and(|json| json.find(pointer) == PointerTarget::Missing);
    request.method.as_str() == spec.method
        && spec.query.as_deref().is_none_or(|name| query_value(&request.url, name).is_some())
        && spec.header.as_deref().is_none_or(|name| header(name).is_some())
        && spec.when_header.iter().all(|(name, want)| header(name) == Some(want))
        && spec.when.iter().all(|(pointer, want)| says(pointer, want))
        && spec.without.iter().all(lacks)
        && spec.form.as_deref().is_none_or(|name| is_only_field(&request.body, name))
}

fn is_only_field(body: &[u8], name: &str) -> bool {
    let form = Form::parse(body).unwrap_or_default();
    matches!(form.pairs(), [(known, _)] if known == name.as_bytes())
}

fn knows_token(token: &TokenSpec, keys: &Keys, request: &RawRequest) -> bool {
    let Some(given) = query_value(&request.url, &token.query) else { return false };
    keys.settings().text(&token.setting).is_some_and(|wanted| same(wanted.as_bytes(), given.as_bytes()))
}

fn mac_of(spec: &MacSpec, keys: &Keys, request: &RawRequest) -> Option<String> {
    let text = parts(&spec.of, request, keys, &SignedValues::default()).ok()?.concat();
    std::str::from_utf8(&text).ok().filter(|text| spec.chars.fit(text, spec.length_max))?;
    let secret = keys.secrets().next()?;
    Some(encoded(spec.encoding, &hmac(spec.scheme.hash(), secret.as_bytes(), &[&text])))
}
