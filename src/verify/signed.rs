//! A MAC or public-key signature over a template, carried in a header of a known layout or in the body: the
//! schemes of most senders.

use std::borrow::Cow;

use http::HeaderMap;

use super::encoding::decoded;
use super::filled::{Caught, parts};
use super::keys::Macs;
use super::public::{PublicKey, PublicScheme};
use super::time::{check_time, signed_at};
use super::{Believed, Keys, RawRequest, SIGNATURES_N_MAX, VerifyError, deciding_header};
use crate::json::text_of;
use crate::spec::{Layout, LayoutSlot, SignatureSpec};

/// What the places of the kind's layout hold.
#[derive(Default)]
struct Carried<'a> {
    timestamp: Option<&'a str>,
    headers: &'a str,
    /// Which item of which text a signature was in, and the signature.
    signatures: Vec<((usize, usize), &'a str)>,
    key_ids: Vec<((usize, usize), &'a str)>,
}

/// What signatures are compared with: made once, however many there are.
enum Made<'a> {
    Macs(Macs<'a>),
    Message(PublicScheme, Vec<u8>),
}

pub(super) fn verify(
    spec: &SignatureSpec,
    keys: &Keys,
    request: &RawRequest,
) -> Result<Believed, VerifyError> {
    if spec.body_needed && request.body.is_empty() {
        return Err(VerifyError::malformed("body", "it is empty"));
    }
    if spec.body_object && !is_object(&request.body) {
        return Err(VerifyError::malformed("body", "it is no JSON object, and nothing else is sent"));
    }
    for (name, want) in &spec.required_headers {
        if deciding_header(&request.headers, name)? != want {
            return Err(VerifyError::malformed(name, "it has another value than the kind's"));
        }
    }
    let (place, texts) = texts(spec, request)?;
    let carried = carried(spec, place, &texts)?;
    let in_body = match &spec.timestamp_json {
        Some(pointer) => Some(
            text_of(&request.body, pointer)
                .map_err(|_| VerifyError::malformed(pointer, "the body has no timestamp there"))?,
        ),
        None => None,
    };
    let timestamp = match (&spec.timestamp_header, &spec.timestamp_json) {
        (Some(header), _) => Some((header.as_str(), deciding_header(&request.headers, header)?)),
        (None, Some(pointer)) => in_body.as_deref().map(|text| (pointer.as_str(), text)),
        (None, None) => carried.timestamp.map(|text| (place, text)),
    };
    // Where no age is checked the text is signed as it is, whatever it says.
    if let Some((place, text)) = timestamp
        && (spec.tolerance_s.is_some() || spec.timestamp_min_s.is_some())
    {
        check_time(spec, signed_at(spec.timestamp_unit, place, text)?, request.received_at_ms)?;
    }
    let asked = match &spec.key_id_header {
        Some(name) => Some(deciding_header(&request.headers, name)?),
        None => None,
    };
    let caught =
        Caught { timestamp: timestamp.map_or("", |(_, text)| text), headers: carried.headers, mac: "" };
    let parts = parts(&spec.signed, request, keys, &caught)?;
    let mut made = None;
    let mut is_any_decodable = false;
    for (at, text) in carried.signatures.iter().take(SIGNATURES_N_MAX) {
        let Some(signature) = decoded(spec.encoding, text) else { continue };
        is_any_decodable = true;
        let id = carried.key_ids.iter().find(|(known, _)| known == at).map(|(_, id)| *id).or(asked);
        let made = made.get_or_insert_with(|| match spec.scheme.public() {
            Some(scheme) => Made::Message(scheme, parts.concat()),
            None => Made::Macs(keys.macs(&parts)),
        });
        if let Some(secret_n) = matched(spec, keys, id, made, &signature) {
            return Ok(believed(spec, secret_n, &parts, timestamp.map(|(_, text)| text)));
        }
    }
    if is_any_decodable {
        Err(VerifyError::Mismatch { keys_n: keys.len() })
    } else {
        Err(VerifyError::malformed(place, "it holds no signature of the kind's encoding"))
    }
}

/// With its signed text where that tells replays: elsewhere nobody asks for it, and it is as long as the body.
fn believed(
    spec: &SignatureSpec,
    secret_n: usize,
    parts: &[Cow<'_, [u8]>],
    timestamp: Option<&str>,
) -> Believed {
    let believed = if spec.is_signed_text_needed {
        Believed::of(secret_n, &parts.iter().map(|part| &**part).collect::<Vec<_>>())
    } else {
        Believed::plain(secret_n)
    };
    match timestamp {
        Some(time) => believed.at(time),
        None => believed,
    }
}

/// Its first and last byte are enough for what this is: to tell it from a text that a stranger had signed.
fn is_object(body: &[u8]) -> bool {
    let body = body.trim_ascii();
    body.starts_with(b"{") && body.ends_with(b"}")
}

fn matched(
    spec: &SignatureSpec,
    keys: &Keys,
    id: Option<&str>,
    made: &Made<'_>,
    signature: &[u8],
) -> Option<usize> {
    let (public, message) = match made {
        Made::Macs(macs) => return macs.matches(id, signature),
        Made::Message(public, message) => (*public, message),
    };
    keys.public_matches(public, id, message, signature).or_else(|| {
        // A key that the settings hold is that key: whoever names it and did not sign with it is not believed.
        let is_unknown = |(setting, id): &(&str, &str)| keys.settings().of_id(setting, id).is_none();
        let key = spec.keys.as_deref().filter(|_| spec.keys_fetched).zip(id).filter(is_unknown);
        let key = key.and_then(|(setting, id)| PublicKey::parse(&keys.fetched(setting, id)?))?;
        key.verifies(public, message, signature).then_some(0)
    })
}

/// The texts that carry signatures, and what to call their place.
fn texts<'a>(
    spec: &'a SignatureSpec,
    request: &'a RawRequest,
) -> Result<(&'a str, Vec<Cow<'a, str>>), VerifyError> {
    if let Some(pointer) = &spec.json {
        let text = text_of(&request.body, pointer)
            .map_err(|_| VerifyError::malformed(pointer, "the body has no signature there"))?;
        return Ok((pointer, vec![Cow::Owned(text)]));
    }
    let headers = &request.headers;
    if let Some(stem) = spec.headers.iter().find_map(|name| name.strip_suffix('*')) {
        let texts = family(headers, stem)?;
        return Ok((stem, texts));
    }
    let name = super::first_present(headers, &spec.headers)?;
    if spec.repeated {
        let all = headers.get_all(name).iter();
        let text = |value: &'a http::HeaderValue| value.to_str().map(Cow::Borrowed);
        let texts = all.map(text).collect::<Result<Vec<_>, _>>();
        return Ok((name, texts.map_err(|_| VerifyError::malformed(name, "it is not ASCII text"))?));
    }
    Ok((name, vec![Cow::Borrowed(deciding_header(headers, name)?)]))
}

/// Every header whose name is `stem` and a number.
fn family<'a>(headers: &'a HeaderMap, stem: &str) -> Result<Vec<Cow<'a, str>>, VerifyError> {
    let is_member = |name: &str| {
        let number = name.get(..stem.len()).filter(|start| start.eq_ignore_ascii_case(stem));
        number
            .and(name.get(stem.len()..))
            .is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let texts: Vec<Cow<'a, str>> = headers
        .iter()
        .filter(|(name, _)| is_member(name.as_str()))
        .filter_map(|(_, value)| value.to_str().ok().map(Cow::Borrowed))
        .collect();
    if texts.is_empty() { Err(VerifyError::HeaderMissing(format!("{stem}1"))) } else { Ok(texts) }
}

/// Takes the texts apart by the kind's layout. In a list, items of another shape are passed over.
fn carried<'a>(
    spec: &SignatureSpec,
    place: &str,
    texts: &'a [Cow<'a, str>],
) -> Result<Carried<'a>, VerifyError> {
    let layout: &Layout = &spec.layout;
    let mut carried = Carried::default();
    let mut timestamps_n = 0;
    for (text_n, text) in texts.iter().enumerate() {
        let is_read = layout.read(text, |item_n, slot, text| match slot {
            LayoutSlot::Signature => carried.signatures.push(((text_n, item_n), text)),
            LayoutSlot::KeyId => carried.key_ids.push(((text_n, item_n), text)),
            LayoutSlot::Headers => carried.headers = text,
            LayoutSlot::Timestamp => {
                timestamps_n += 1;
                carried.timestamp = Some(text);
            }
        });
        if !is_read && texts.len() == 1 {
            return Err(VerifyError::malformed(place, "it has another layout than the kind's"));
        }
    }
    if timestamps_n > 1 {
        return Err(VerifyError::malformed(place, "it holds two timestamps"));
    }
    if carried.signatures.is_empty() {
        return Err(VerifyError::malformed(place, "it holds no signature of the kind's scheme"));
    }
    if carried.timestamp.is_none() && layout.has(LayoutSlot::Timestamp) {
        return Err(VerifyError::malformed(place, "it holds no timestamp"));
    }
    Ok(carried)
}
