//! Pure: bytes in, [`Verified`] out. No clock, no network, no database.
//!
//! A [`Verified`] can be made here only; whatever needs a believed request asks for one. Secrets are
//! compared in constant time and never printed. `keys.rs` turns configured secrets into keys, `public.rs`
//! public keys, `private.rs` is the other side of those; `signed.rs`, `standard.rs` and `token.rs` are the named schemes, `handshake.rs` answers what
//! is no event; `form.rs`, `jws.rs` and `canonical.rs` help kinds that verify with code. Start at [`verify`].

mod believed;
mod canonical;
mod chain;
mod encoding;
mod filled;
mod form;
mod handshake;
mod jws;
mod keys;
mod p521;
mod private;
mod public;
mod seal;
mod sign;
mod signed;
mod standard;
mod time;
mod token;

use bytes::Bytes;
use http::{HeaderMap, Method};

pub use believed::Believed;
pub use canonical::{compact_json, php_serialized, sorted_json};
pub use chain::{Vouched, vouched};
pub use encoding::{
    Hash, base64_text, base64url_text, crc32, decode_base64, decode_base64_long, decode_base64url,
    decode_base64url_long, decode_hex, digest, hex_text, hmac, same,
};
pub use filled::{path_and_query, query_value};
pub use form::{FIELDS_N_MAX, Form, form_with};
pub use handshake::{Reply, reply};
pub use jws::{Jws, jws_chained, jws_detached, jws_hs256, jws_signed};
pub use keys::{KeyError, KeySource, KeyWanted, Keys};
pub(crate) use private::is_published;
pub use private::{DevKeys, SigningKey};
pub use public::{Certificate, PublicKey, PublicScheme};
pub use seal::{open_aes_128_cbc, open_aes_gcm, seal_aes_128_cbc, seal_aes_gcm};
pub use sign::{SignAt, SignError, Signed, sign};
pub(crate) use time::rfc3339_ms;
pub use time::{check_timestamp, rfc3339_text};

use crate::spec::{Scheme, SignatureSpec};
use crate::types::UnixMs;

/// Most signatures of one header that are tried; a sender in rotation sends two or three.
const SIGNATURES_N_MAX: usize = 16;

/// Longest value of a header that decides. Bytes; the longest of a sender is a token of some two thousand.
pub const HEADER_BYTES_MAX: usize = 8_192;

/// A request as it came, before anything is believed.
#[derive(Debug, Clone)]
pub struct RawRequest {
    /// Usually POST.
    pub method: Method,
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
    believed: Believed,
}

impl Verified {
    /// What was believed.
    pub fn request(&self) -> &RawRequest {
        &self.request
    }

    /// Which of the configured secrets matched, from 0 (newest).
    pub fn secret_n(&self) -> usize {
        self.believed.secret_n()
    }

    /// What it was believed for.
    pub fn believed(&self) -> &Believed {
        &self.believed
    }
}

/// Verification that no spec can say: which of the keys signed the request, and what text; or why it is not believed.
pub type VerifyFn = fn(&RawRequest, &Keys) -> Result<Believed, VerifyError>;

/// Why a request was not believed. The sender learns only "401"; the operator learns this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// No signature where the kind puts one.
    #[error("header `{0}` is missing")]
    #[doc(hidden)]
    HeaderMissing(String),
    /// A header that decides appears more than once.
    #[error("header `{0}` appears more than once")]
    #[doc(hidden)]
    HeaderRepeated(String),
    /// What carries the signature is there but has another shape than the kind's.
    #[error("`{place}` is malformed: {why}")]
    #[doc(hidden)]
    Malformed {
        /// Which header, or which place in the body.
        place: String,
        /// What was expected.
        why: &'static str,
    },
    /// The signed time is too long ago.
    #[error("timestamp is {age_s} s old, tolerance is {tolerance_s} s")]
    #[doc(hidden)]
    Stale {
        /// Age by our clock.
        age_s: i64,
        /// What is allowed.
        tolerance_s: u32,
    },
    /// The signed time is ahead of our clock.
    #[error("timestamp is {ahead_s} s ahead of our clock, tolerance is {tolerance_s} s")]
    #[doc(hidden)]
    Future {
        /// Distance by our clock.
        ahead_s: i64,
        /// What is allowed.
        tolerance_s: u32,
    },
    /// What to verify it with is not at hand.
    #[error("no key to verify with: {0}")]
    #[doc(hidden)]
    NoKey(String),
    /// The sender signs nothing, and the operator did not say that this is to be accepted.
    #[error("the request is not signed, and `unverified = \"accept\"` is not configured")]
    #[doc(hidden)]
    Unsigned,
    /// Well-formed and in time, but signed with none of our secrets.
    #[error("signature matches none of the {keys_n} configured secrets")]
    #[doc(hidden)]
    Mismatch {
        /// How many were tried.
        keys_n: usize,
    },
}

impl VerifyError {
    /// Signed with none of these keys.
    pub fn mismatch(keys: &Keys) -> Self {
        Self::Mismatch { keys_n: keys.len().max(1) }
    }

    /// Why, as one word of a closed set, for tables and metrics.
    #[doc(hidden)]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::HeaderMissing(_) => "header_missing",
            Self::HeaderRepeated(_) => "header_repeated",
            Self::Malformed { .. } => "malformed",
            Self::Stale { .. } => "stale",
            Self::Future { .. } => "future",
            Self::NoKey(_) => "no_key",
            Self::Unsigned => "unsigned",
            Self::Mismatch { .. } => "mismatch",
        }
    }

    /// Which step failed, as one word for tables: `header`, `timestamp`, `secret` or `signature`.
    #[doc(hidden)]
    pub fn step(&self) -> &'static str {
        match self {
            Self::HeaderMissing(_) | Self::HeaderRepeated(_) | Self::Malformed { .. } => "header",
            Self::Stale { .. } | Self::Future { .. } => "timestamp",
            Self::NoKey(_) => "secret",
            Self::Mismatch { .. } | Self::Unsigned => "signature",
        }
    }

    /// What carries the signature has another shape than the kind's.
    pub fn malformed(place: &str, why: &'static str) -> Self {
        Self::Malformed { place: place.to_owned(), why }
    }
}

/// How the operator wants requests judged that a sender does not sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unverified {
    /// As any other that is not believed.
    #[default]
    Refuse,
    /// Taken, at the operator's own word; only where no key is configured.
    Accept,
}

/// A request that was not believed, and why. Its `Debug` says why alone: the request may hold anything.
#[derive(Clone, thiserror::Error)]
#[error("{why}")]
pub struct Unbelieved {
    /// Why.
    pub why: VerifyError,
    /// As it came.
    pub request: RawRequest,
}

impl std::fmt::Debug for Unbelieved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unbelieved").field("why", &self.why).finish_non_exhaustive()
    }
}

/// Believes `request` or says why not: the named scheme of `spec`, or `code` where the spec says so.
pub fn verify(
    spec: &SignatureSpec,
    code: Option<VerifyFn>,
    keys: (&Keys, Unverified),
    request: RawRequest,
) -> Result<Verified, Box<Unbelieved>> {
    match believed(spec, code, keys, &request) {
        Ok(believed) => Ok(Verified { request, believed }),
        Err(why) => Err(Box::new(Unbelieved { why, request })),
    }
}

/// Which secret signed the request, and what.
fn believed(
    spec: &SignatureSpec,
    code: Option<VerifyFn>,
    (keys, unverified): (&Keys, Unverified),
    request: &RawRequest,
) -> Result<Believed, VerifyError> {
    if spec.may_be_unsigned && keys.is_empty() {
        return match unverified {
            Unverified::Accept => Ok(Believed::plain(0)),
            Unverified::Refuse => Err(VerifyError::Unsigned),
        };
    }
    match (spec.scheme, code) {
        (Scheme::Code, Some(code)) => code(request, keys),
        (Scheme::Code, None) => Err(VerifyError::malformed("scheme", "the kind has no code to verify with")),
        (Scheme::StandardWebhooks, _) => standard::verify(spec, keys, request),
        (Scheme::Token, _) => token::verify(spec, keys, request).map(Believed::plain),
        (Scheme::Basic, _) => token::basic(keys, request).map(Believed::plain),
        (Scheme::Unsigned, _) => Err(VerifyError::Unsigned),
        _ => signed::verify(spec, keys, request),
    }
}

/// The Standard Webhooks scheme under one header prefix, for kinds that verify with code.
pub fn standard_webhooks(request: &RawRequest, keys: &Keys, prefix: &str) -> Result<Believed, VerifyError> {
    let (past_s, future_s) = keys.tolerance_s();
    let check = |at, received_at_ms| time::check_age(at, received_at_ms, past_s, future_s);
    standard::verify_family(&standard::Family::of(prefix), keys, request, (true, check))
}

/// The value of a header that decides: present once, and text.
pub fn deciding_header<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, VerifyError> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or_else(|| VerifyError::HeaderMissing(name.to_owned()))?;
    if values.next().is_some() {
        return Err(VerifyError::HeaderRepeated(name.to_owned()));
    }
    if value.len() > HEADER_BYTES_MAX {
        return Err(VerifyError::malformed(name, "it is longer than 8192 bytes"));
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
