//! Entry and result: a [`RawRequest`] goes in, a [`Verified`] comes out. Only `read/` is above this file; everything else
//! in this crate never calls it.

use super::believed::Believed;
use super::error::VerifyError;
use super::keys::Keys;
use super::request::RawRequest;
use super::{signed, standard, token, whose};
use crate::Evidence;
use crate::spec::{Scheme, SignatureSpec, WhoseSpec};

/// A request whose signature was checked. Only this file can make one.
#[derive(Debug, Clone)]
pub struct Verified {
    request: RawRequest,
    believed: Believed,
}

impl Verified {
    /// A request that no sender sent: an operator made it for a test event with this id, and answers for it.
    pub fn by_operator(request: RawRequest, id: &str) -> Self {
        Self { request, believed: Believed::plain(0).id(id) }
    }

    /// The same, unless by `[whose]` of the kind the event is not of one of the operator's accounts.
    pub fn of_own_account(self, whose: &WhoseSpec, keys: &Keys) -> Result<Self, Box<RejectedRequest>> {
        match whose::check(whose, keys, &self.request) {
            Ok(()) => Ok(self),
            Err(why) => Err(Box::new(RejectedRequest { why, request: self.request })),
        }
    }

    /// The verified request.
    pub fn request(&self) -> &RawRequest {
        &self.request
    }

    /// Position of the configured secret that matched, from 0 (the newest).
    pub fn secret_n(&self) -> usize {
        self.believed.secret_n()
    }

    /// The secret, text, time and id that verified it.
    pub fn believed(&self) -> &Believed {
        &self.believed
    }
}

/// Verification that no spec can express: which of the keys signed the request, and what text; or why it fails.
pub type VerifyFn = fn(&RawRequest, &Keys) -> Result<Believed, VerifyError>;

/// The operator's choice about requests that a sender does not sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unverified {
    /// Refused, as any other request that fails verification.
    #[default]
    Refuse,
    /// Accepted, because the operator configured it; only where no key is configured.
    Accept,
}

/// A request that failed verification, and why. Its `Debug` shows the reason alone: the request may hold anything.
#[derive(Clone, thiserror::Error)]
#[error("{why}")]
pub struct RejectedRequest {
    /// The reason why the request failed verification.
    pub why: VerifyError,
    /// The request as received.
    pub request: RawRequest,
}

impl std::fmt::Debug for RejectedRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RejectedRequest").field("why", &self.why).finish_non_exhaustive()
    }
}

/// Verifies `request`: by the named scheme of `spec`, or by `code` where the spec requires it.
pub fn verify(
    spec: &SignatureSpec,
    code: Option<VerifyFn>,
    keys: &Keys,
    unverified: Unverified,
    request: RawRequest,
) -> Result<Verified, Box<RejectedRequest>> {
    match believed(spec, code, keys, unverified, &request) {
        Ok(believed) => Ok(Verified { request, believed }),
        Err(why) => Err(Box::new(RejectedRequest { why, request })),
    }
}

/// Finds the secret that signed the request, and what it signed.
fn believed(
    spec: &SignatureSpec,
    code: Option<VerifyFn>,
    keys: &Keys,
    unverified: Unverified,
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
