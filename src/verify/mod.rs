//! Pure: bytes in, [`Verified`] out. No clock, no network, no database.
//!
//! A [`Verified`] can be made here only; whatever needs a believed request asks for one. Secrets are
//! compared in constant time and never printed. Start at [`Keys`] and [`RawRequest`].

use bytes::Bytes;
use http::HeaderMap;

use crate::types::UnixMs;

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

/// Why a request was not believed. The sender learns only "401"; the operator learns this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// No signature where the kind puts one.
    #[error("header `{0}` is missing")]
    HeaderMissing(String),
    /// A header that decides appears more than once.
    #[error("header `{0}` appears more than once")]
    HeaderRepeated(String),
    /// The header is there but has another shape than the kind's.
    #[error("header `{header}` is malformed: {why}")]
    Malformed {
        /// Which header.
        header: String,
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
