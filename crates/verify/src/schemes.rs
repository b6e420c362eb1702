//! The named schemes. Standard Webhooks: `v1` (HMAC-SHA-256) and `v1a` (Ed25519) over `id.timestamp.body` (source:
//! github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md). Shared tokens and HTTP Basic, which
//! authenticate the sender, not the content. And a MAC or public-key signature over a template, carried in a header of
//! a known layout or in the body: the schemes of most senders.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

use super::encoding::{decode_base64, decoded, same};
use super::error::VerifyError;
use super::form::Form;
use super::keys::{Keys, KeysExt, Macs};
use super::public::{PublicKey, PublicScheme};
use super::request::{
    RawRequest, SIGNATURES_N_MAX, SignedValues, deciding_header, deciding_value, first_present, parts,
};
use super::time::{SignedAt, check_age, check_time, signed_at};
use super::verified::{Authenticated, AuthenticatedExt};
use crate::spec::{Layout, LayoutSlot, SignatureSpec, TimeUnit};
use hooklatch_core::json::{Document, PointerTarget, elements, text_of};
use hooklatch_core::types::UnixMs;

/// The header names of one family.
pub(crate) struct Family {
    pub id: String,
    pub timestamp: String,
    pub signature: String,
}

impl Family {
    /// The family of a prefix such as `webhook-`.
    pub(crate) fn of(prefix: &str) -> Self {
        let name = |stem: &str| format!("{prefix}{stem}");
        Self { id: name("id"), timestamp: name("timestamp"), signature: name("signature") }
    }
}

/// Standard Webhooks under the family of names that the request carries, of those that the kind knows.
pub(crate) fn verify_standard(
    spec: &SignatureSpec,
    keys: &Keys,
    request: &RawRequest,
) -> Result<Authenticated, VerifyError> {
    let families: Vec<Family> = spec.headers.iter().map(|prefix| Family::of(prefix)).collect();
    let present = families.iter().find(|family| request.headers.contains_key(&family.signature));
    let Some(family) = present.or(families.first()) else {
        return Err(VerifyError::HeaderMissing("webhook-signature".to_owned()));
    };
    let check = |at, received_at_ms| check_time(spec, at, received_at_ms);
    verify_family(family, keys, request, spec.is_signed_text_needed, check)
}

/// The Standard Webhooks scheme under one header prefix, for kinds that verify with code.
pub fn standard_webhooks(
    request: &RawRequest,
    keys: &Keys,
    prefix: &str,
) -> Result<Authenticated, VerifyError> {
    let (past_s, future_s) = keys.tolerance_s();
    let check = |at, received_at_ms| check_age(at, received_at_ms, past_s, future_s);
    verify_family(&Family::of(prefix), keys, request, true, check)
}

/// The scheme under one family of names, with the caller's bounds for its time; and with the signed text where that
/// detects replays, which is one more digest of all of it.
fn verify_family(
    family: &Family,
    keys: &Keys,
    request: &RawRequest,
    is_text_needed: bool,
    check: impl Fn(SignedAt, UnixMs) -> Result<(), VerifyError>,
) -> Result<Authenticated, VerifyError> {
    let signatures = deciding_header(&request.headers, &family.signature)?;
    let id = deciding_header(&request.headers, &family.id)?;
    let timestamp = deciding_header(&request.headers, &family.timestamp)?;
    if id.is_empty() {
        return Err(VerifyError::malformed(&family.id, "it is empty"));
    }
    check(signed_at(TimeUnit::S, &family.timestamp, timestamp)?, request.received_at_ms)?;
    let parts: [&[u8]; 5] = [id.as_bytes(), b".", timestamp.as_bytes(), b".", &request.body];
    let (mut macs, mut message) = (None, None);
    let mut is_any_ours = false;
    for item in signatures.split(' ').take(SIGNATURES_N_MAX) {
        let Some((version, text)) = item.split_once(',') else { continue };
        // Supabase Auth joins several with `, ` (hookshttp.go), which the libraries for JavaScript take.
        let text = text.strip_suffix(',').unwrap_or(text);
        let Some(signature) = STANDARD.decode(text).ok().filter(|bytes| !bytes.is_empty()) else { continue };
        let matched = match version {
            "v1" => macs.get_or_insert_with(|| keys.macs(&parts)).matches(None, &signature),
            "v1a" => {
                let message = message.get_or_insert_with(|| parts.concat());
                keys.public_matches(PublicScheme::Ed25519, None, message, &signature)
            }
            _ => continue,
        };
        is_any_ours = true;
        if let Some(secret_n) = matched {
            let authenticated = if is_text_needed {
                Authenticated::of(secret_n, &parts)
            } else {
                Authenticated::plain(secret_n)
            };
            return Ok(authenticated.at(timestamp).id(id));
        }
    }
    if is_any_ours {
        Err(VerifyError::Mismatch { keys_n: keys.len() })
    } else {
        Err(VerifyError::malformed(&family.signature, "it holds no v1 or v1a signature"))
    }
}

/// One of the secrets, in a header, in the query, at a JSON pointer, or in every element of a batch.
pub(crate) fn verify_token(
    spec: &SignatureSpec,
    keys: &Keys,
    request: &RawRequest,
) -> Result<usize, VerifyError> {
    if let Some(name) = &spec.query {
        let form = Form::parse(&request.body).ok_or_else(|| VerifyError::malformed(name, Form::TOO_MANY))?;
        let token = form
            .one(name)
            .ok_or_else(|| VerifyError::malformed(name, "the query has no such value, or two"))?;
        return keys.token_matches(token).ok_or(VerifyError::Mismatch { keys_n: keys.len() });
    }
    let Some(pointer) = &spec.json else {
        let name = first_present(&request.headers, &spec.headers)?;
        // A token may be any text, so bytes above ASCII count as well.
        let value = str::from_utf8(deciding_value(&request.headers, name)?.as_bytes())
            .map_err(|_| VerifyError::malformed(name, "it is not text"))?;
        let mut token = None;
        spec.layout.read(value, |_, slot, text| token = Some(text).filter(|_| slot == LayoutSlot::Signature));
        let token =
            token.ok_or_else(|| VerifyError::malformed(name, "it has another layout than the kind's"))?;
        return matched(keys, token);
    };
    let missing = || VerifyError::malformed(pointer, "the body has no token there");
    let Some(each) = &spec.each else {
        return matched(keys, &text_of(&request.body, pointer).map_err(|_| missing())?);
    };
    let document = Document::parse(&request.body).ok_or_else(missing)?;
    let PointerTarget::One(list) = document.find(each) else { return Err(missing()) };
    let mut oldest = None;
    for range in elements(list).ok_or_else(missing)? {
        let element = list.get(range).unwrap_or_default();
        oldest = oldest.max(Some(matched(keys, &text_of(element, pointer).map_err(|_| missing())?)?));
    }
    oldest.ok_or_else(missing)
}

fn matched(keys: &Keys, token: &str) -> Result<usize, VerifyError> {
    keys.token_matches(token.as_bytes()).ok_or(VerifyError::Mismatch { keys_n: keys.len() })
}

/// `Authorization: Basic …` with the settings `username` and `password`. The credentials are compared as one
/// text, so a colon in the password needs no rule.
pub(crate) fn verify_basic(keys: &Keys, request: &RawRequest) -> Result<usize, VerifyError> {
    const NAME: &str = "authorization";
    let value = deciding_header(&request.headers, NAME)?;
    let malformed = || VerifyError::malformed(NAME, "it is not `Basic` and base64");
    let (word, text) = value.split_once(' ').ok_or_else(malformed)?;
    let given =
        decode_base64(text.trim()).filter(|_| word.eq_ignore_ascii_case("basic")).ok_or_else(malformed)?;
    let wanted = format!("{}:{}", keys.setting("username")?, keys.setting("password")?);
    if same(wanted.as_bytes(), &given) { Ok(0) } else { Err(VerifyError::Mismatch { keys_n: 1 }) }
}

/// The texts in the places of the kind's layout.
#[derive(Default)]
struct LayoutValues<'a> {
    timestamp: Option<&'a str>,
    headers: &'a str,
    /// Position of the text and of the item in it, and the signature that was there.
    signatures: Vec<((usize, usize), &'a str)>,
    key_ids: Vec<((usize, usize), &'a str)>,
}

/// A signature by a public key, and what it is of.
struct Signature<'a> {
    message: &'a [u8],
    bytes: &'a [u8],
}

/// The text or the MACs that signatures are compared with: made once, however many there are.
enum Made<'a> {
    Macs(Macs<'a>),
    Message(PublicScheme, Vec<u8>),
}

/// Verifies a request that is signed over a template.
pub(crate) fn verify_signed(
    spec: &SignatureSpec,
    keys: &Keys,
    request: &RawRequest,
) -> Result<Authenticated, VerifyError> {
    check_shape(spec, keys, request)?;
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
    // Where no age is checked the text of the time is signed as it is, whatever its format.
    if let Some((place, text)) = timestamp
        && (spec.tolerance_s.is_some() || spec.timestamp_min_s.is_some())
    {
        check_time(spec, signed_at(spec.timestamp_unit, place, text)?, request.received_at_ms)?;
    }
    let asked = match &spec.key_id_header {
        Some(name) => Some(deciding_header(&request.headers, name)?),
        None => None,
    };
    let values =
        SignedValues { timestamp: timestamp.map_or("", |(_, text)| text), headers: carried.headers, mac: "" };
    let parts = parts(&spec.signed, request, keys, &values)?;
    let mut made = None;
    let mut is_any_decodable = false;
    let mut wanted = None;
    for (at, text) in carried.signatures.iter().take(SIGNATURES_N_MAX) {
        let Some(signature) = decoded(spec.encoding, text) else { continue };
        is_any_decodable = true;
        let id = carried.key_ids.iter().find(|(known, _)| known == at).map(|(_, id)| *id).or(asked);
        let made = made.get_or_insert_with(|| match spec.scheme.public() {
            Some(scheme) => Made::Message(scheme, parts.concat()),
            None => Made::Macs(keys.macs(&parts)),
        });
        let matched = match made {
            Made::Macs(macs) => macs.matches(id, &signature),
            Made::Message(scheme, message) => {
                let matched =
                    public_matched(spec, keys, id, *scheme, &Signature { message, bytes: &signature });
                matched.unwrap_or_else(|why| {
                    wanted.get_or_insert(why);
                    None
                })
            }
        };
        if let Some(secret_n) = matched {
            // Not before: a stranger's body is not read for nothing.
            if spec.is_secret_first() && Document::parse(&request.body).is_none() {
                return Err(VerifyError::malformed(
                    "body",
                    "it is not JSON, so that its hash may be of a longer text",
                ));
            }
            return Ok(authenticated(spec, secret_n, &parts, timestamp.map(|(_, text)| text)));
        }
    }
    if let Some(wanted) = wanted {
        Err(wanted)
    } else if is_any_decodable {
        Err(VerifyError::Mismatch { keys_n: keys.len() })
    } else {
        Err(VerifyError::malformed(place, "it holds no signature of the kind's encoding"))
    }
}

/// Checks what every request of the kind has in common, before anything is computed.
fn check_shape(spec: &SignatureSpec, keys: &Keys, request: &RawRequest) -> Result<(), VerifyError> {
    if spec.body_needed && request.body.is_empty() {
        return Err(VerifyError::malformed("body", "it is empty"));
    }
    if spec.body_object && !is_object(&request.body) {
        return Err(VerifyError::malformed("body", "it is no JSON object, and nothing else is sent"));
    }
    for (name, want) in &spec.required_headers {
        let there = deciding_header(&request.headers, name)?;
        if there.as_bytes() == parts(want, request, keys, &SignedValues::default())?.concat() {
            continue;
        }
        // The header may be right, and the body another or not there yet.
        return Err(if want.covers_body() {
            VerifyError::malformed("body", "its digest is not the one that a header says")
        } else {
            VerifyError::malformed(name, "it has another value than the kind's")
        });
    }
    Ok(())
}

/// Builds the verified result, with its signed text where that detects replays: elsewhere the text is not needed, and
/// it is as long as the body.
fn authenticated(
    spec: &SignatureSpec,
    secret_n: usize,
    parts: &[Cow<'_, [u8]>],
    timestamp: Option<&str>,
) -> Authenticated {
    let authenticated = if spec.is_signed_text_needed {
        Authenticated::of(secret_n, &parts.iter().map(|part| &**part).collect::<Vec<_>>())
    } else {
        Authenticated::plain(secret_n)
    };
    match timestamp {
        Some(time) => authenticated.at(time),
        None => authenticated,
    }
}

/// Its first and last byte are enough for what this is: to distinguish it from a text that a stranger had signed.
fn is_object(body: &[u8]) -> bool {
    let body = body.trim_ascii();
    body.starts_with(b"{") && body.ends_with(b"}")
}

/// The position of the public key that made `signature`; or the error that names the key to fetch first.
fn public_matched(
    spec: &SignatureSpec,
    keys: &Keys,
    id: Option<&str>,
    scheme: PublicScheme,
    signature: &Signature<'_>,
) -> Result<Option<usize>, VerifyError> {
    let Signature { message, bytes } = *signature;
    if let Some(secret_n) = keys.public_matches(scheme, id, message, bytes) {
        return Ok(Some(secret_n));
    }
    // A key in the settings is not fetched: a request that names it and was not signed with it fails verification.
    let is_unknown = |(setting, id): &(&str, &str)| keys.settings().of_id(setting, id).is_none();
    let setting = spec.keys.as_deref().filter(|_| spec.keys_fetched && keys.has_source());
    let Some((setting, id)) = setting.zip(id).filter(is_unknown) else { return Ok(None) };
    let key = PublicKey::parse(&keys.fetched(setting, id)?);
    Ok(key.filter(|key| key.verifies(scheme, message, bytes)).map(|_| 0))
}

/// The texts that carry signatures, and what to call their place.
fn texts<'a>(
    spec: &'a SignatureSpec,
    request: &'a RawRequest,
) -> Result<(&'a str, Vec<Cow<'a, str>>), VerifyError> {
    if let Some(pointers) = &spec.json {
        let there = pointers.split('|').filter_map(|pointer| text_of(&request.body, pointer).ok());
        let texts: Vec<Cow<'a, str>> = there.map(Cow::Owned).collect();
        if texts.is_empty() {
            return Err(VerifyError::malformed(pointers, "the body has no signature there"));
        }
        return Ok((pointers, texts));
    }
    let headers = &request.headers;
    if let Some(stem) = spec.headers.iter().find_map(|name| name.strip_suffix('*')) {
        let texts = family(headers, stem)?;
        return Ok((stem, texts));
    }
    let name = first_present(headers, &spec.headers)?;
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

/// Parses the texts by the kind's layout. In a list, items of another shape are skipped.
fn carried<'a>(
    spec: &SignatureSpec,
    place: &str,
    texts: &'a [Cow<'a, str>],
) -> Result<LayoutValues<'a>, VerifyError> {
    let layout: &Layout = &spec.layout;
    let mut carried = LayoutValues::default();
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use http::{HeaderValue, Method};

    use crate::spec::Spec;
    use crate::{DevKeys, Hash, KeyError, KeySource, SigningKey, base64_text, digest, hmac};
    use hooklatch_core::config::{KindSettings, Secret};

    use super::*;

    /// Holds one key under one id.
    struct OneKey(&'static str, String);

    impl KeySource for OneKey {
        fn key(&self, setting: &str, id: &str) -> Option<String> {
            (setting == "public_keys_spki_b64" && id == self.0).then(|| self.1.clone())
        }
    }

    fn signer() -> SigningKey {
        DevKeys::parse(&DevKeys::generate().expect("keys"))
            .expect("keys")
            .signing(crate::spec::DevKey::P256)
            .expect("a key")
    }

    #[test]
    fn a_key_that_is_named_and_not_at_hand_is_wanted_before_anything_is_a_mismatch() {
        let spec = Spec::parse(include_str!("../../../providers/circle/provider.toml")).expect("a spec");
        let spec = &spec.signature;
        let (ours, other) = (signer(), signer());
        let text = |key: &SigningKey| key.public_text().expect("a text");
        let signature = ours.sign(PublicScheme::P256Der, b"body").expect("a signature");
        let mut headers = HeaderMap::new();
        headers.insert("x-circle-signature", HeaderValue::from_str(&base64_text(&signature)).expect("text"));
        headers.insert("x-circle-key-id", HeaderValue::from_static("k1"));
        let request = RawRequest {
            method: Method::POST,
            url: String::new(),
            headers,
            body: Bytes::from_static(b"body"),
            received_at_ms: 0,
        };
        let keys = |settings: &KindSettings| Keys::new(spec, &[], settings).expect("keys");
        let none = KindSettings::default();
        let sourced = |id, key| keys(&none).with_source(Arc::new(OneKey(id, text(key))));
        let wanted = VerifyError::wanted("public_keys_spki_b64", "k1");
        let mismatch = |keys: &Keys| VerifyError::Mismatch { keys_n: keys.len() };

        assert_eq!(
            verify_signed(spec, &sourced("k2", &ours), &request).err(),
            Some(wanted),
            "it may be fetched"
        );
        assert!(verify_signed(spec, &sourced("k1", &ours), &request).is_ok());
        let fetched = sourced("k1", &other);
        assert_eq!(
            verify_signed(spec, &fetched, &request).err(),
            Some(mismatch(&fetched)),
            "it is here, and did not sign"
        );
        let alone = keys(&none);
        assert_eq!(
            verify_signed(spec, &alone, &request).err(),
            Some(mismatch(&alone)),
            "it cannot be fetched"
        );
        let mut settings = KindSettings::default();
        settings.push("public_keys_spki_b64", Some("k1"), text(&other));
        let configured = keys(&settings).with_source(Arc::new(OneKey("k1", text(&ours))));
        assert_eq!(
            verify_signed(spec, &configured, &request).err(),
            Some(mismatch(&configured)),
            "the operator's key counts"
        );
    }

    #[test]
    fn a_family_of_headers_is_a_stem_and_a_number() {
        let mut headers = HeaderMap::new();
        for name in ["x-signature-1", "x-signature-", "x-signature-a", "x-signature-12", "x-sig-1"] {
            headers.append(name, HeaderValue::from_static(name));
        }
        let mut found = family(&headers, "X-Signature-").expect("two");
        found.sort();
        assert_eq!(found, ["x-signature-1", "x-signature-12"]);
        assert_eq!(family(&headers, "x-other-"), Err(VerifyError::HeaderMissing("x-other-1".to_owned())));
    }

    /// A request of a kind with one secret, with these headers.
    fn sent(url: &str, headers: &[(&'static str, &str)], body: &[u8]) -> RawRequest {
        let value = |text: &str| HeaderValue::from_str(text).expect("text");
        RawRequest {
            method: Method::POST,
            url: url.to_owned(),
            headers: headers
                .iter()
                .map(|(name, text)| (http::HeaderName::from_static(name), value(text)))
                .collect(),
            body: Bytes::copy_from_slice(body),
            received_at_ms: 1_680_165_512_000,
        }
    }

    fn keys_of(spec: &SignatureSpec, secret: &str) -> Keys {
        Keys::new(spec, &[Secret::new(secret)], &KindSettings::default()).expect("keys")
    }

    #[test]
    fn a_header_that_holds_the_digest_of_a_body_proves_nothing_of_another_body() {
        let spec =
            Spec::parse(include_str!("../../../providers/vipps/provider.toml")).expect("a spec").signature;
        let keys = keys_of(&spec, "vipps-secret-0123456789");
        let (date, url) = ("Thu, 30 Mar 2023 08:38:32 GMT", "https://hooks.example.com/webhooks/vipps?a=1");
        let (body, other) = (br#"{"name":"CREATED"}"#.as_slice(), br#"{"name":"CAPTURED"}"#.as_slice());
        let digest_of = |body: &[u8]| base64_text(&digest(Hash::Sha256, &[body]));
        let signed = |body: &[u8]| {
            let text = format!("POST\n/webhooks/vipps?a=1\n{date};hooks.example.com;{}", digest_of(body));
            let signature = hmac(Hash::Sha256, b"vipps-secret-0123456789", &[text.as_bytes()]);
            let names = "x-ms-date;host;x-ms-content-sha256";
            format!("HMAC-SHA256 SignedHeaders={names}&Signature={}", base64_text(&signature))
        };
        let judged = |url: &str, digest: &str, signed: &str, body: &[u8]| {
            let headers = [("x-ms-date", date), ("x-ms-content-sha256", digest), ("authorization", signed)];
            verify_signed(&spec, &keys, &sent(url, &headers, body))
                .map(|_| ())
                .map_err(|why| crate::failed_at(&why).reason)
        };
        let (of_body, of_other) = (digest_of(body), digest_of(other));
        assert_eq!(judged(url, &of_body, &signed(body), body), Ok(()));
        for (what, digest, of, body, reason) in [
            ("the digest and signature of the first body", &of_body, body, other, "malformed"),
            ("its own digest and the signature of the first body", &of_other, body, other, "mismatch"),
            ("a digest of nothing it has", &of_other, body, body, "malformed"),
        ] {
            assert_eq!(judged(url, digest, &signed(of), body), Err(reason), "{what}");
        }
        for other in
            ["https://hooks.example.com/webhooks/vipps", "https://other.example.com/webhooks/vipps?a=1"]
        {
            assert_eq!(judged(other, &of_body, &signed(body), body), Err("mismatch"), "{other}");
        }
    }

    /// Lengthens a text of which a plain SHA-256 is known with a secret of `secret_n` bytes in front: the bytes behind
    /// the text, and the hash of all. The secret is not needed for this.
    fn lengthened(hash: &[u8], text: &[u8], secret_n: usize, suffix: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let padding = |bytes_n: usize| {
            let mut padding = vec![0x80];
            padding.resize(1 + (119 - bytes_n % 64) % 64, 0);
            padding.extend((bytes_n as u64 * 8).to_be_bytes());
            padding
        };
        let glue = padding(secret_n + text.len());
        let hashed_n = secret_n + text.len() + glue.len();
        let mut state = [0_u32; 8];
        for (word, bytes) in state.iter_mut().zip(hash.chunks_exact(4)) {
            *word = u32::from_be_bytes(bytes.try_into().expect("four bytes"));
        }
        let rest = [suffix, &padding(hashed_n + suffix.len())].concat();
        let (blocks, _) = rest.as_chunks::<64>();
        sha2::block_api::compress256(&mut state, blocks);
        ([text, &glue, suffix].concat(), state.iter().flat_map(|word| word.to_be_bytes()).collect())
    }

    #[test]
    fn a_text_behind_a_secret_can_be_lengthened_by_a_stranger_and_is_json_no_longer() {
        let spec =
            Spec::parse(include_str!("../../../providers/pagbank/provider.toml")).expect("a spec").signature;
        let secret = "pagbank-token-0123456789";
        let keys = keys_of(&spec, secret);
        let judged = |body: &[u8], hash: &[u8]| {
            verify_signed(&spec, &keys, &sent("", &[("x-authenticity-token", &hex::encode(hash))], body))
        };
        for body in [
            r#"{"id":"CHAR_1","status":"WAITING"}"#,
            r#"{"id":"CHAR_1","status":"WAITING","padded":"to 64"}"#,
        ] {
            let text = [b"-", body.as_bytes()].concat();
            let hash = digest(Hash::Sha256, &[secret.as_bytes(), &text]);
            assert!(judged(body.as_bytes(), &hash).is_ok());
            for suffix in [r#"{"id":"CHAR_1","status":"PAID"}"#, "}", "", "\n"] {
                let (forged, forged_hash) = lengthened(&hash, &text, secret.len(), suffix.as_bytes());
                let known = digest(Hash::Sha256, &[secret.as_bytes(), &forged]);
                assert_eq!(known, forged_hash, "the attack does find the hash of the longer text");
                let why = judged(&forged[1..], &forged_hash).expect_err("refused");
                assert_eq!(
                    why,
                    VerifyError::malformed(
                        "body",
                        "it is not JSON, so that its hash may be of a longer text"
                    )
                );
            }
        }
    }

    #[test]
    fn a_secret_behind_the_text_is_hashed_behind_it() {
        let text = include_str!("../../../providers/pagbank/provider.toml");
        let text = text.replace("{secret}-{body}", "{body}{secret}").replace("hash-sha256", "hash-sha512");
        let spec = Spec::parse(&text).expect("a spec").signature;
        let keys = keys_of(&spec, "pagbank-token-0123456789");
        let judged = |hashed: &str| {
            let hash = hex::encode(digest(Hash::Sha512, &[hashed.as_bytes()]));
            verify_signed(&spec, &keys, &sent("", &[("x-authenticity-token", &hash)], b"a=1")).is_ok()
        };
        let short = Keys::new(&spec, &[Secret::new("a-short-one")], &KindSettings::default()).expect("keys");
        let too_short = short.check_strength(&Spec::parse(&text).expect("a spec")).expect_err("too short");
        assert_eq!(too_short, KeyError::TooShort { position: 1, bytes_n: 11, min_n: 16 });
        assert!(judged("a=1pagbank-token-0123456789"));
        for other in ["a=1", "pagbank-token-0123456789a=1", "a=1pagbank-token-0123456780"] {
            assert!(!judged(other), "{other}");
        }
    }
}
