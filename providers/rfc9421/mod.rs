//! HTTP Message Signatures (RFC 9421) with Content-Digest (RFC 9530), for senders that the operator agrees with.

mod base;

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).verify_with(verify).sign_with(sign).samples(&[
        ("order.paid", include_str!("samples/order.paid.json")),
        ("order.shipped", include_str!("samples/order.shipped.json")),
        ("order.cancelled", include_str!("samples/order.cancelled.json")),
    ])
}

const INPUT: &str = "signature-input";
const SIGNATURE: &str = "signature";
const DIGEST: &str = "content-digest";
/// How a setting says that a shared secret is bytes.
const BASE64: &str = "base64:";

/// Any label whose key is ours; it must cover what the operator demands, and a covered digest must be the body's.
fn verify(request: &RawRequest, keys: &Keys) -> Result<Authenticated, VerifyError> {
    let malformed = |place: &str, why| VerifyError::malformed(place, why);
    let inputs =
        base::combined(request, INPUT).ok_or_else(|| VerifyError::HeaderMissing(INPUT.to_owned()))?;
    let inputs =
        base::inputs(&inputs).ok_or_else(|| malformed(INPUT, "it is no dictionary of signatures"))?;
    let signatures = base::combined(request, SIGNATURE);
    let signatures = signatures.ok_or_else(|| VerifyError::HeaderMissing(SIGNATURE.to_owned()))?;
    let digest = std::cell::LazyCell::new(|| base::is_digest_of(request, DIGEST));
    let mut why = VerifyError::mismatch(keys);
    for input in &inputs {
        match one((request, &digest), keys, input, &signatures) {
            Ok(authenticated) => return Ok(authenticated),
            Err(error) => why = error,
        }
    }
    Err(why)
}

/// `is_of_body` says whether the digest is the body's, once it is asked. A message without it names no event: two
/// bodies may have it in common.
fn one(
    (request, is_of_body): (&RawRequest, &dyn std::ops::Deref<Target = bool>),
    keys: &Keys,
    input: &base::Input,
    signatures: &str,
) -> Result<Authenticated, VerifyError> {
    let malformed = |place: &str, why| VerifyError::malformed(place, why);
    let demanded = keys.setting("required_components")?;
    let is_covered = |name: &str| input.components.iter().any(|component| component == name);
    if input.components.is_empty() || !demanded.split_whitespace().all(is_covered) {
        return Err(malformed(INPUT, "it does not cover what the settings demand"));
    }
    check_times(request, keys, input)?;
    if is_covered(DIGEST) && !**is_of_body {
        // The header may be right, and the body not there yet: headers alone are looked at before a large one is read.
        return Err(malformed("body", "its content-digest is of another body, or of no digest that we know"));
    }
    let signature = base::signature(signatures, &input.label);
    let signature = signature.ok_or_else(|| malformed(SIGNATURE, "it has no bytes under the label"))?;
    let message = base::message(request, input);
    let message =
        message.ok_or_else(|| malformed(INPUT, "it covers what is not there, or what we do not know"))?;
    let id = input.text("keyid").ok_or_else(|| malformed(INPUT, "it names no key"))?;
    if !is_signed(keys, input, (&id, &message, &signature))? {
        return Err(VerifyError::mismatch(keys));
    }
    let signed = if is_covered(DIGEST) {
        Authenticated::of(0, &[message.as_bytes()])
    } else {
        Authenticated::plain(0)
    };
    Ok(signed.at(input.parameter("created").unwrap_or_default()))
}

/// The key decides how it is used. What the message says must agree; of RSA's two ways it may choose one.
fn is_signed(keys: &Keys, input: &base::Input, signed: (&str, &str, &[u8])) -> Result<bool, VerifyError> {
    let (id, message, signature) = signed;
    let said = input.text("alg");
    let agrees = |name: &str| said.as_deref().is_none_or(|said| said == name);
    if let Some(secret) = keys.settings().of_id("named_secrets", id) {
        let key = match secret.strip_prefix(BASE64) {
            Some(text) => decode_base64(text).unwrap_or_default(),
            None => secret.as_bytes().to_vec(),
        };
        let is_ours = !key.is_empty() && same(&hmac(Hash::Sha256, &key, &[message.as_bytes()]), signature);
        return Ok(is_ours && agrees("hmac-sha256"));
    }
    let key = keys.public_key("public_keys", id)?;
    let schemes: &[(&str, PublicScheme)] = match &key {
        PublicKey::Ed25519(_) => &[("ed25519", PublicScheme::Ed25519)],
        PublicKey::P256(_) => &[("ecdsa-p256-sha256", PublicScheme::P256Fixed)],
        PublicKey::P384(_) => &[("ecdsa-p384-sha384", PublicScheme::P384Fixed)],
        // The registry of RFC 9421 has no algorithm for it.
        PublicKey::P521(_) => &[],
        PublicKey::Rsa(_) | PublicKey::RsaParts(..) => {
            &[("rsa-pss-sha512", PublicScheme::RsaPssSha512), ("rsa-v1_5-sha256", PublicScheme::RsaSha256)]
        }
    };
    let mut usable = schemes.iter().filter(|(name, _)| agrees(name));
    Ok(usable.any(|(_, scheme)| key.verifies(*scheme, message.as_bytes(), signature)))
}

fn check_times(request: &RawRequest, keys: &Keys, input: &base::Input) -> Result<(), VerifyError> {
    let created = input.parameter("created");
    let created =
        created.ok_or_else(|| VerifyError::malformed(INPUT, "it does not say when it was created"))?;
    check_timestamp(keys, TimeUnit::S, "created", created, request.received_at_ms)?;
    let now_s = request.received_at_ms.div_euclid(1_000);
    match input.parameter("expires").map(str::parse::<i64>) {
        Some(Ok(expires)) if expires < now_s => {
            Err(VerifyError::Stale { age_s: now_s.saturating_sub(expires), tolerance_s: 0 })
        }
        Some(Err(_)) => Err(VerifyError::malformed("expires", "it is not a number of seconds")),
        _ => Ok(()),
    }
}

/// By the Ed25519 key; over what the settings demand, and always over
/// method, target and digest.
fn sign(keys: &Keys, body: &[u8], at: &SignAt) -> Result<Signed, SignError> {
    let wrong = |why: &str| SignError::Body(why.to_owned());
    let demanded = keys.setting("required_components").map_err(|_| SignError::NoSigningKey)?;
    let mut components = vec!["@method", "@target-uri", DIGEST];
    components
        .extend(demanded.split_whitespace().filter(|name| !components.contains(name)).collect::<Vec<_>>());
    let list: Vec<String> = components.iter().map(|name| format!("\"{name}\"")).collect();
    let id = keys.id_of("public_keys")?;
    let input = format!("sig1=({});created={};keyid=\"{id}\"", list.join(" "), at.now_s);
    let hash = base64_text(&digest(Hash::Sha256, &[body]));
    let signed = Signed::json(body.to_vec()).with(DIGEST, format!("sha-256=:{hash}:"));
    let inputs = base::inputs(&input).unwrap_or_default();
    let parsed = inputs.first().ok_or_else(|| wrong("a component of the settings cannot be covered"))?;
    let message = base::message(&signed.request(at)?, parsed);
    let message = message.ok_or_else(|| wrong("it lacks a component of the settings"))?;
    let signature = keys.sign_public(PublicScheme::Ed25519, message.as_bytes())?;
    Ok(signed.with(INPUT, input).with(SIGNATURE, format!("sig1=:{}:", base64_text(&signature))))
}
