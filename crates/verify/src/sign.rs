//! The sender's side, for `sign` and `send`: creates the headers that a sender would send. Offline, with the
//! newest secret that can sign.

use std::borrow::Cow;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::encoding::{base64_text, encoded};
use super::error::SignError;
use super::form::form_with;
use super::keys::{Keys, KeysExt};
use super::public::PublicScheme;
use super::request::{RawRequest, SignedValues, parts};
use super::schemes::Family;
use super::time::{http_date_text, rfc3339_text};
use crate::spec::{EventMethod, LayoutSlot, Pattern, Piece, Scheme, SignatureSpec, Source, Spec, TimeUnit};

/// The time, URL, id and type with which a request is signed.
#[derive(Debug, Clone)]
pub struct SignAt {
    /// Time of the signature. Unix seconds.
    pub now_s: i64,
    /// The URL the request goes to, as the sender knows it.
    pub url: String,
    /// The id for kinds that carry it in a header.
    pub id: String,
    /// The type for kinds that carry it in a header.
    pub event_type: String,
}

/// A request that passes its kind's verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signed {
    /// Names and values, in the order to send them.
    pub headers: Vec<(String, String)>,
    /// The bytes to send, of events that come by GET as the query; other than what was given only where the signature
    /// is inside.
    pub body: Vec<u8>,
}

/// Signs `body` as the sender of `spec` would.
pub fn sign(spec: &Spec, keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let signature = &spec.signature;
    let mut signed = unsigned(spec, body, at);
    match signature.scheme {
        Scheme::Unsigned => {}
        Scheme::StandardWebhooks => signed.headers.extend(standard(signature, keys, body, at)?),
        Scheme::Token => {
            let token = keys.secrets().next().ok_or(SignError::NoSigningKey)?.to_owned();
            put(&mut signed, signature, &signature.layout.written(|_| token.clone()))?;
        }
        Scheme::Basic => {
            let setting = |name| keys.settings().text(name).ok_or(SignError::NoSigningKey);
            let text = format!("{}:{}", setting("username")?, setting("password")?);
            let value = format!("Basic {}", base64_text(text.as_bytes()));
            signed.headers.push(("authorization".to_owned(), value));
        }
        scheme if scheme.is_mac() || scheme.is_hash() || scheme.is_public() => {
            signature_of(signature, keys, at, &mut signed)?;
        }
        _ => return Err(SignError::Unsupported(spec.kind.clone())),
    }
    Ok(signed)
}

/// The request as its sender would shape it, without a signature: for what is read of it alone.
pub fn unsigned(spec: &Spec, body: &[u8], at: &SignAt) -> Signed {
    let mut signed = Signed { headers: Vec::new(), body: body.to_vec() };
    if spec.method == EventMethod::Post {
        signed.headers.push(content_type(body));
    }
    signed.headers.extend(unsigned_headers(spec, at));
    signed
}

/// The content type of a body, judged by its first byte.
fn content_type(body: &[u8]) -> (String, String) {
    let is_json = body.trim_ascii_start().first().is_some_and(|byte| b"{[\"".contains(byte));
    let is_form = !is_json && body.contains(&b'=');
    let value = if is_form { "application/x-www-form-urlencoded" } else { "application/json" };
    ("content-type".to_owned(), value.to_owned())
}

fn standard(
    signature: &SignatureSpec,
    keys: &Keys,
    body: &[u8],
    at: &SignAt,
) -> Result<Vec<(String, String)>, SignError> {
    let timestamp = at.now_s.to_string();
    let family = Family::of(signature.headers.first().map_or("webhook-", String::as_str));
    let parts: [&[u8]; 5] = [at.id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
    // A private key (`whsk_`) makes a v1a signature.
    let text = match keys.sign_public(PublicScheme::Ed25519, &parts.concat()) {
        Ok(signature) => format!("v1a,{}", base64_text(&signature)),
        Err(_) => format!("v1,{}", base64_text(&keys.mac(&parts).ok_or(SignError::NoSigningKey)?)),
    };
    Ok(vec![(family.id, at.id.clone()), (family.timestamp, timestamp), (family.signature, text)])
}

/// An HMAC or signature over the kind's template, put where the kind carries it.
fn signature_of(
    spec: &SignatureSpec,
    keys: &Keys,
    at: &SignAt,
    signed: &mut Signed,
) -> Result<(), SignError> {
    let timestamp = written_time(spec.timestamp_unit, at.now_s);
    let bare = signed.request(at)?;
    for (name, value) in &spec.required_headers {
        let value = filled(value, &bare, keys, &SignedValues::default())?.concat();
        signed.headers.push((name.clone(), String::from_utf8_lossy(&value).into_owned()));
    }
    signed.headers.extend(spec.timestamp_header.iter().map(|name| (name.clone(), timestamp.clone())));
    let key_id = keys.first_id().unwrap_or_default().to_owned();
    signed.headers.extend(spec.key_id_header.iter().map(|name| (name.clone(), key_id.clone())));
    for piece in spec.signed.pieces() {
        if let Piece::Header(name) = piece
            && !signed.headers.iter().any(|(known, _)| known == name)
        {
            signed.headers.push((name.clone(), at.id.clone()));
        }
    }
    let request = signed.request(at)?;
    let values = SignedValues { timestamp: &timestamp, headers: SIGNED_HEADERS, mac: "" };
    let parts = filled(&spec.signed, &request, keys, &values)?;
    let bytes = match spec.scheme.public() {
        Some(scheme) => keys.sign_public(scheme, &parts.concat())?,
        None => keys.mac(&parts).ok_or(SignError::NoSigningKey)?,
    };
    let text = encoded(spec.encoding, &bytes);
    let value = spec.layout.written(|slot| match slot {
        LayoutSlot::Signature => text.clone(),
        LayoutSlot::Timestamp => timestamp.clone(),
        LayoutSlot::Headers => SIGNED_HEADERS.to_owned(),
        LayoutSlot::KeyId => key_id.clone(),
    });
    put(signed, spec, &value)
}

/// The parts of a text whose places the request has to fill.
fn filled<'a>(
    pattern: &'a Pattern,
    request: &'a RawRequest,
    keys: &'a Keys,
    values: &SignedValues<'a>,
) -> Result<Vec<Cow<'a, [u8]>>, SignError> {
    parts(pattern, request, keys, values).map_err(|why| SignError::Body(why.to_string()))
}

/// The headers that are signed along where the sender chooses some.
const SIGNED_HEADERS: &str = "content-type";

fn written_time(unit: TimeUnit, now_s: i64) -> String {
    match unit {
        TimeUnit::S | TimeUnit::SOrMs => now_s.to_string(),
        TimeUnit::Ms => now_s.saturating_mul(1_000).to_string(),
        TimeUnit::Rfc3339 => rfc3339_text(now_s),
        TimeUnit::HttpDate => http_date_text(now_s),
    }
}

/// Writes a signature or token into its header, or into the body where the kind has it there.
fn put(signed: &mut Signed, spec: &SignatureSpec, value: &str) -> Result<(), SignError> {
    if let Some(name) = &spec.query {
        signed.body = form_with(&signed.body, name, value);
        return Ok(());
    }
    let Some(pointer) = &spec.json else {
        let name = spec.headers.first().cloned().unwrap_or_default();
        let name = name.strip_suffix('*').map_or(name.clone(), |stem| format!("{stem}1"));
        signed.headers.push((name, value.to_owned()));
        return Ok(());
    };
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let mut body: serde_json::Value =
        serde_json::from_slice(&signed.body).map_err(|_| wrong("it is not JSON"))?;
    let missing = || wrong("it has no place for the signature");
    let pointer = pointer.split('|').next().unwrap_or_default();
    let set = |one: &mut serde_json::Value| -> Result<(), SignError> {
        *one.pointer_mut(pointer).ok_or_else(missing)? = value.into();
        Ok(())
    };
    match &spec.each {
        None => set(&mut body)?,
        Some(each) => {
            let list = body.pointer_mut(each).and_then(serde_json::Value::as_array_mut);
            list.ok_or_else(missing)?.iter_mut().try_for_each(set)?;
        }
    }
    signed.body = body.to_string().into_bytes();
    Ok(())
}

impl Signed {
    /// The URL of a GET that sends the same, with what is the body of a POST as its query.
    pub fn url_with_query(&self, url: &str) -> String {
        let joint = if url.contains('?') { '&' } else { '?' };
        format!("{url}{joint}{}", String::from_utf8_lossy(&self.body))
    }

    /// A JSON body without further headers.
    pub fn json(body: Vec<u8>) -> Self {
        Self { headers: vec![("content-type".to_owned(), "application/json".to_owned())], body }
    }

    /// A form without further headers.
    pub fn form(body: Vec<u8>) -> Self {
        let value = "application/x-www-form-urlencoded".to_owned();
        Self { headers: vec![("content-type".to_owned(), value)], body }
    }

    /// Adds a header.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.to_owned(), value.into()));
        self
    }

    /// The request as it would arrive.
    pub fn request(&self, at: &SignAt) -> Result<RawRequest, SignError> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let wrong = |_| SignError::Body(format!("header `{name}` cannot be sent"));
            headers.append(
                HeaderName::from_bytes(name.as_bytes()).map_err(|error| wrong(error.to_string()))?,
                HeaderValue::from_str(value).map_err(|error| wrong(error.to_string()))?,
            );
        }
        Ok(RawRequest {
            method: Method::POST,
            url: at.url.clone(),
            headers,
            body: Bytes::from(self.body.clone()),
            received_at_ms: at.now_s.saturating_mul(1_000),
        })
    }
}

/// Ids and types that the kind carries in headers of their own.
fn unsigned_headers(spec: &Spec, at: &SignAt) -> Vec<(String, String)> {
    let Some(event) = spec.event.last().filter(|_| spec.signature.scheme != Scheme::StandardWebhooks) else {
        return Vec::new();
    };
    let mut headers: Vec<(String, String)> = Vec::new();
    let types = event.event_type.0.iter().map(|source| (source, &at.event_type));
    let ids = event.identity.iter().flat_map(|identity| &identity.id.0).map(|source| (source, &at.id));
    for (source, text) in types.chain(ids) {
        if let Source::Header(names) = source {
            let name = names.split('|').next().unwrap_or_default();
            if !headers.iter().any(|(known, _)| known == name) {
                headers.push((name.to_owned(), text.clone()));
            }
        }
    }
    headers
}
