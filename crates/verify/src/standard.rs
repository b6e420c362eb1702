//! Standard Webhooks: `v1` (HMAC-SHA-256) and `v1a` (Ed25519) over `id.timestamp.body`.
//!
//! Source: github.com/standard-webhooks/standard-webhooks, spec/standard-webhooks.md. A request uses one
//! family of header names; the id of one and the signature of another are never mixed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::believed::Believed;
use super::error::VerifyError;
use super::keys::Keys;
use super::public::PublicScheme;
use super::request::{RawRequest, SIGNATURES_N_MAX, deciding_header};
use super::time::{SignedAt, check_age, check_time, signed_at};
use crate::Evidence;
use crate::spec::{SignatureSpec, TimeUnit};
use hooklatch_core::types::UnixMs;

/// The header names of one family.
pub(super) struct Family {
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

/// The scheme under the family of names that the request carries, of those that the kind knows.
pub(crate) fn verify(
    spec: &SignatureSpec,
    keys: &Keys,
    request: &RawRequest,
) -> Result<Believed, VerifyError> {
    let families: Vec<Family> = spec.headers.iter().map(|prefix| Family::of(prefix)).collect();
    let present = families.iter().find(|family| request.headers.contains_key(&family.signature));
    let Some(family) = present.or(families.first()) else {
        return Err(VerifyError::HeaderMissing("webhook-signature".to_owned()));
    };
    let check = |at, received_at_ms| check_time(spec, at, received_at_ms);
    verify_family(family, keys, request, spec.is_signed_text_needed, check)
}

/// The Standard Webhooks scheme under one header prefix, for kinds that verify with code.
pub fn standard_webhooks(request: &RawRequest, keys: &Keys, prefix: &str) -> Result<Believed, VerifyError> {
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
) -> Result<Believed, VerifyError> {
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
            let believed =
                if is_text_needed { Believed::of(secret_n, &parts) } else { Believed::plain(secret_n) };
            return Ok(believed.at(timestamp).id(id));
        }
    }
    if is_any_ours {
        Err(VerifyError::Mismatch { keys_n: keys.len() })
    } else {
        Err(VerifyError::malformed(&family.signature, "it holds no v1 or v1a signature"))
    }
}
