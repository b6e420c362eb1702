//! HMAC over a template of timestamp, URL and body, written in a header of a known layout: the scheme of
//! most senders.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{
    Keys, RawRequest, SIGNATURES_N_MAX, VerifyError, check_time, deciding_header, first_present, timestamp_s,
};
use crate::spec::{Encoding, SignatureSpec};

/// What a header of the kind's layout holds.
#[derive(Default)]
struct Carried<'a> {
    timestamp: Option<&'a str>,
    signatures: Vec<&'a str>,
}

pub(super) fn verify(spec: &SignatureSpec, keys: &Keys, request: &RawRequest) -> Result<usize, VerifyError> {
    let name = first_present(&request.headers, &spec.headers)?;
    let carried = carried(&spec.layout, name, deciding_header(&request.headers, name)?)?;
    let timestamp = match &spec.timestamp_header {
        Some(header) => Some((header.as_str(), deciding_header(&request.headers, header)?)),
        None => carried.timestamp.map(|text| (name, text)),
    };
    if let Some((place, text)) = timestamp {
        check_time(spec, timestamp_s(place, text)?, request.received_at_ms)?;
    }
    let filled =
        Filled { timestamp: timestamp.map_or("", |(_, text)| text), url: &request.url, body: &request.body };
    let parts = parts(&spec.signed, &filled);
    for text in carried.signatures.iter().take(SIGNATURES_N_MAX) {
        let Some(signature) = decoded(spec.encoding, text) else { continue };
        if let Some(secret_n) = keys.mac_matches(&parts, &signature) {
            return Ok(secret_n);
        }
    }
    let is_any_decodable = carried.signatures.iter().any(|text| decoded(spec.encoding, text).is_some());
    if !is_any_decodable {
        return Err(VerifyError::malformed(name, "it holds no signature of the kind's encoding"));
    }
    Err(VerifyError::Mismatch { keys_n: keys.len() })
}

/// What fills a template of signed content.
pub(super) struct Filled<'a> {
    pub(super) timestamp: &'a str,
    pub(super) url: &'a str,
    pub(super) body: &'a [u8],
}

/// The signed content, piece by piece, so that nothing is copied.
pub(super) fn parts<'a>(template: &'a str, filled: &Filled<'a>) -> Vec<&'a [u8]> {
    let mut parts: Vec<&'a [u8]> = Vec::with_capacity(4);
    let mut rest = template;
    while let Some((literal, tail)) = rest.split_once('{') {
        parts.push(literal.as_bytes());
        let (name, tail) = tail.split_once('}').unwrap_or((tail, ""));
        parts.push(match name {
            "timestamp" => filled.timestamp.as_bytes(),
            "url" => filled.url.as_bytes(),
            _ => filled.body,
        });
        rest = tail;
    }
    parts.push(rest.as_bytes());
    parts
}

/// Takes a header apart by its layout. A layout with a comma is a list of `name=value`, in any order and
/// with names repeated; names that the layout does not have are passed over.
fn carried<'a>(layout: &str, name: &str, value: &'a str) -> Result<Carried<'a>, VerifyError> {
    let malformed = || VerifyError::malformed(name, "it has another layout than the kind's");
    let mut carried = Carried::default();
    if !layout.contains(',') {
        let (before, after) = layout.split_once("{signature}").ok_or_else(malformed)?;
        let stem =
            value.strip_prefix(before).and_then(|rest| rest.strip_suffix(after)).ok_or_else(malformed)?;
        carried.signatures.push(stem);
        return Ok(carried);
    }
    for item in value.split(',') {
        let (key, text) = item.trim().split_once('=').ok_or_else(malformed)?;
        let slot = layout.split(',').find_map(|want| want.strip_prefix(key)?.strip_prefix('='));
        match slot {
            Some("{signature}") => carried.signatures.push(text),
            Some("{timestamp}") if carried.timestamp.is_none() => carried.timestamp = Some(text),
            Some("{timestamp}") => return Err(VerifyError::malformed(name, "it holds two timestamps")),
            _ => {}
        }
    }
    if carried.signatures.is_empty() {
        return Err(VerifyError::malformed(name, "it holds no signature of the kind's scheme"));
    }
    if carried.timestamp.is_none() && layout.contains("{timestamp}") {
        return Err(VerifyError::malformed(name, "it holds no timestamp"));
    }
    Ok(carried)
}

/// Signature bytes; `None` for anything but the canonical text of the encoding.
pub(super) fn decoded(encoding: Encoding, text: &str) -> Option<Vec<u8>> {
    if text.is_empty() || text.len() > 1_024 {
        return None;
    }
    match encoding {
        // Senders write lower case; two texts for one signature would be one too many.
        Encoding::Hex if text.bytes().any(|b| b.is_ascii_uppercase()) => None,
        Encoding::Hex => hex::decode(text).ok(),
        Encoding::Base64 => STANDARD.decode(text).ok(),
    }
}
