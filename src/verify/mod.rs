//! Pure: bytes in, [`Verified`] out. No clock, no network, no database.
//!
//! A [`Verified`] can be made here only; whatever needs a believed request asks for one. Secrets are
//! compared in constant time and never printed. `keys.rs` turns configured secrets into keys, `hmac.rs`
//! and `standard.rs` are the named schemes. Start at [`verify`].

mod hmac;
mod keys;
mod sign;
mod standard;

use bytes::Bytes;
use http::HeaderMap;

pub use keys::{KeyError, Keys};
pub use sign::{SignAt, SignError, Signed, sign};

use crate::spec::{Scheme, SignatureSpec};
use crate::types::UnixMs;

/// Most signatures of one header that are tried; a sender in rotation sends two or three.
const SIGNATURES_N_MAX: usize = 16;

/// A request as it came, before anything is believed.
#[derive(Debug, Clone)]
pub struct RawRequest {
    /// The URL as the sender called it: the public URL with path and query.
    pub url: String,
    /// All headers, repeated ones included.
    pub headers: HeaderMap,
    /// The exact bytes.
    pub body: Bytes,
    /// When the last byte arrived.
    pub received_at_ms: UnixMs,
}

/// A request whose signature was checked. Only this module can make one.
#[derive(Debug, Clone)]
pub struct Verified {
    request: RawRequest,
    secret_n: usize,
}

impl Verified {
    /// What was believed.
    pub fn request(&self) -> &RawRequest {
        &self.request
    }

    /// Which of the configured secrets matched, from 0 (newest).
    pub fn secret_n(&self) -> usize {
        self.secret_n
    }
}

/// Verification that no spec can say: which of the keys signed the request, or why it is not believed.
/// Gives back the index of the secret that matched.
pub type VerifyFn = fn(&RawRequest, &Keys) -> Result<usize, VerifyError>;

/// Why a request was not believed. The sender learns only "401"; the operator learns this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// No signature where the kind puts one.
    #[error("header `{0}` is missing")]
    HeaderMissing(String),
    /// A header that decides appears more than once.
    #[error("header `{0}` appears more than once")]
    HeaderRepeated(String),
    /// What carries the signature is there but has another shape than the kind's.
    #[error("`{place}` is malformed: {why}")]
    Malformed {
        /// Which header, or which place in the body.
        place: String,
        /// What was expected.
        why: &'static str,
    },
    /// The signed time is too long ago.
    #[error("timestamp is {age_s} s old, tolerance is {tolerance_s} s")]
    Stale {
        /// Age by our clock.
        age_s: i64,
        /// What is allowed.
        tolerance_s: u32,
    },
    /// The signed time is ahead of our clock.
    #[error("timestamp is {ahead_s} s ahead of our clock, tolerance is {tolerance_s} s")]
    Future {
        /// Distance by our clock.
        ahead_s: i64,
        /// What is allowed.
        tolerance_s: u32,
    },
    /// Well-formed and in time, but signed with none of our secrets.
    #[error("signature matches none of the {keys_n} configured secrets")]
    Mismatch {
        /// How many were tried.
        keys_n: usize,
    },
}

impl VerifyError {
    /// Which step failed, as one word for tables: `header`, `timestamp` or `signature`.
    pub fn step(&self) -> &'static str {
        match self {
            Self::HeaderMissing(_) | Self::HeaderRepeated(_) | Self::Malformed { .. } => "header",
            Self::Stale { .. } | Self::Future { .. } => "timestamp",
            Self::Mismatch { .. } => "signature",
        }
    }

    fn malformed(place: &str, why: &'static str) -> Self {
        Self::Malformed { place: place.to_owned(), why }
    }
}

/// Believes `request` or says why not: the named scheme of `spec`, or `code` where the spec says so.
pub fn verify(
    spec: &SignatureSpec,
    code: Option<VerifyFn>,
    keys: &Keys,
    request: RawRequest,
) -> Result<Verified, VerifyError> {
    let secret_n = match (spec.scheme, code) {
        (Scheme::Code, Some(code)) => code(&request, keys)?,
        (Scheme::Code, None) => {
            return Err(VerifyError::malformed("scheme", "the kind has no code to verify with"));
        }
        (Scheme::StandardWebhooks, _) => standard::verify(spec, keys, &request)?,
        (Scheme::HmacSha256 | Scheme::HmacSha512 | Scheme::HmacSha1, _) => {
            hmac::verify(spec, keys, &request)?
        }
    };
    Ok(Verified { request, secret_n })
}

/// The value of a header that decides: present once, and text.
pub fn deciding_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, VerifyError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or_else(|| VerifyError::HeaderMissing(name.to_owned()))?;
    if values.next().is_some() {
        return Err(VerifyError::HeaderRepeated(name.to_owned()));
    }
    value.to_str().map_err(|_| VerifyError::malformed(name, "it is not ASCII text"))
}

/// The one header of `names` that the request carries: the first one present.
fn first_present<'a>(headers: &HeaderMap, names: &'a [String]) -> Result<&'a str, VerifyError> {
    let present = names.iter().find(|name| headers.contains_key(name.as_str()));
    present
        .map(String::as_str)
        .ok_or_else(|| VerifyError::HeaderMissing(names.first().cloned().unwrap_or_default()))
}

/// Unix seconds, digits only: signs, blanks and fractions are other texts than the sender signed.
fn timestamp_s(place: &str, text: &str) -> Result<i64, VerifyError> {
    let is_plain = !text.is_empty() && text.len() <= 15 && text.bytes().all(|b| b.is_ascii_digit());
    let parsed = if is_plain { text.parse().ok() } else { None };
    parsed.ok_or_else(|| VerifyError::malformed(place, "the timestamp is not a number of seconds"))
}

/// Whether `signed_at_s` is near enough to the request's arrival; both ends belong to the tolerance.
fn check_time(spec: &SignatureSpec, signed_at_s: i64, received_at_ms: UnixMs) -> Result<(), VerifyError> {
    let Some(tolerance_s) = spec.tolerance_s else { return Ok(()) };
    let future_s = spec.tolerance_future_s.unwrap_or(tolerance_s);
    let age_s = received_at_ms.div_euclid(1_000).saturating_sub(signed_at_s);
    if age_s > i64::from(tolerance_s) {
        return Err(VerifyError::Stale { age_s, tolerance_s });
    }
    if -age_s > i64::from(future_s) {
        return Err(VerifyError::Future { ahead_s: -age_s, tolerance_s: future_s });
    }
    Ok(())
}

/// Standard base64 with padding, canonical; `None` for anything else.
pub fn decode_base64(text: &str) -> Option<Vec<u8>> {
    hmac::decoded(crate::spec::Encoding::Base64, text)
}
