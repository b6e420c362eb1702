//! Entry and result: a [`RawRequest`] goes in, a [`Verified`] comes out, with which secret signed, and what exactly it
//! signed; and the account of an event, compared with the operator's own. `schemes.rs` and kinds with code return the
//! evidence ([`Authenticated`]); `read/` takes what is made here apart.

use sha2::{Digest, Sha256};

use super::error::VerifyError;
use super::keys::{Keys, KeysExt};
use super::request::{RawRequest, deciding_header};
use super::schemes;
use crate::spec::{Scheme, SignatureSpec, Source, WhoseSpec};
use hooklatch_core::json::{PointerTarget, find, text};
use hooklatch_core::types::BodyDigest;

/// The evidence of a verified request: the secret that matched, and the text, time and id that it signs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authenticated {
    secret_n: usize,
    signed: SignedText,
    time: Option<String>,
    id: Option<String>,
}

/// The text that a MAC or a signature was computed of, as a digest.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SignedText {
    /// Nothing is signed, or the text is not needed.
    Nothing,
    /// One text for the whole request.
    Whole(BodyDigest),
    /// One for each of its events, in their order.
    Each(Vec<BodyDigest>),
}

impl Authenticated {
    /// Signed by the secret at `secret_n` (0 is the newest): the joined text of `parts`.
    pub fn of(secret_n: usize, parts: &[&[u8]]) -> Self {
        Self { signed: SignedText::Whole(digest_of(parts)), ..Self::plain(secret_n) }
    }

    /// A digest that identifies the signed text of the `event_n`th event of the request: where there is one text for
    /// the whole, its event's place joins it.
    pub(crate) fn signed_text(&self, event_n: usize) -> Option<BodyDigest> {
        match &self.signed {
            SignedText::Nothing => None,
            SignedText::Each(texts) => texts.get(event_n).copied(),
            SignedText::Whole(text) if event_n == 0 => Some(*text),
            SignedText::Whole(text) => {
                let place = u64::try_from(event_n).unwrap_or(u64::MAX).to_be_bytes();
                Some(digest_of(&[text, &place]))
            }
        }
    }
}

/// What the built-in kinds say of a verified request besides: not a part of what users of the library see.
pub trait AuthenticatedExt: Sized {
    /// Signed by the secret at `secret_n`, where every event of a batch has its own signed text.
    fn each<T: AsRef<[u8]>>(secret_n: usize, texts: &[T]) -> Self;

    /// Nothing of the request is signed: a token alone authenticated it.
    fn plain(secret_n: usize) -> Self;

    /// The time that the signature covers, as it was written.
    #[must_use]
    fn at(self, time: impl Into<String>) -> Self;

    /// The id that the signature covers.
    #[must_use]
    fn id(self, id: impl Into<String>) -> Self;
}

impl AuthenticatedExt for Authenticated {
    fn each<T: AsRef<[u8]>>(secret_n: usize, texts: &[T]) -> Self {
        let signed = SignedText::Each(texts.iter().map(|text| digest_of(&[text.as_ref()])).collect());
        Self { signed, ..Self::plain(secret_n) }
    }

    fn plain(secret_n: usize) -> Self {
        Self { secret_n, signed: SignedText::Nothing, time: None, id: None }
    }

    fn at(self, time: impl Into<String>) -> Self {
        Self { time: Some(time.into()), ..self }
    }

    fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }
}

fn digest_of(parts: &[&[u8]]) -> BodyDigest {
    parts.iter().fold(Sha256::new(), Sha256::chain_update).finalize().into()
}

/// A request whose signature was checked. Only this file can make one.
#[derive(Debug, Clone)]
pub struct Verified {
    request: RawRequest,
    authenticated: Authenticated,
}

impl Verified {
    /// A request that no sender sent: an operator made it for a test event with this id, and answers for it.
    pub fn by_operator(request: RawRequest, id: &str) -> Self {
        Self { request, authenticated: Authenticated::plain(0).id(id) }
    }

    /// Refuses the request if by `[whose]` of the kind the event is not of one of the operator's accounts.
    pub fn of_own_account(self, whose: &WhoseSpec, keys: &Keys) -> Result<Self, Box<RejectedRequest>> {
        match check_account(whose, keys, &self.request) {
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
        self.authenticated.secret_n
    }

    /// The time that the signature covers, as it was written.
    pub fn signed_time(&self) -> Option<&str> {
        self.authenticated.time.as_deref()
    }

    /// The id that the signature covers.
    pub fn signed_id(&self) -> Option<&str> {
        self.authenticated.id.as_deref()
    }

    /// A digest that identifies the signed text of the `event_n`th event of the request: where there is one text for
    /// the whole, its event's place joins it.
    pub(crate) fn signed_text(&self, event_n: usize) -> Option<BodyDigest> {
        self.authenticated.signed_text(event_n)
    }
}

/// Verification that no spec can express: which of the keys signed the request, and what text; or why it fails.
pub type VerifyFn = fn(&RawRequest, &Keys) -> Result<Authenticated, VerifyError>;

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
    match authenticated(spec, code, keys, unverified, &request) {
        Ok(authenticated) => Ok(Verified { request, authenticated }),
        Err(why) => Err(Box::new(RejectedRequest { why, request })),
    }
}

/// Finds the secret that signed the request, and what it signed.
fn authenticated(
    spec: &SignatureSpec,
    code: Option<VerifyFn>,
    keys: &Keys,
    unverified: Unverified,
    request: &RawRequest,
) -> Result<Authenticated, VerifyError> {
    if spec.may_be_unsigned && keys.is_empty() {
        return match unverified {
            Unverified::Accept => Ok(Authenticated::plain(0)),
            Unverified::Refuse => Err(VerifyError::Unsigned),
        };
    }
    match (spec.scheme, code) {
        (Scheme::Code, Some(code)) => code(request, keys),
        (Scheme::Code, None) => Err(VerifyError::malformed("scheme", "the kind has no code to verify with")),
        (Scheme::StandardWebhooks, _) => schemes::verify_standard(spec, keys, request),
        (Scheme::Token, _) => schemes::verify_token(spec, keys, request).map(Authenticated::plain),
        (Scheme::Basic, _) => schemes::verify_basic(keys, request).map(Authenticated::plain),
        (Scheme::Unsigned, _) => Err(VerifyError::Unsigned),
        _ => schemes::verify_signed(spec, keys, request),
    }
}

/// Refuses a request of an account that is not the operator's, where the spec names the account's place.
fn check_account(whose: &WhoseSpec, keys: &Keys, request: &RawRequest) -> Result<(), VerifyError> {
    let (Some(source), Some(setting)) = (whose.source(), &whose.setting) else { return Ok(()) };
    let account = match source {
        Source::Json(pointers) => account_at(&request.body, &pointers),
        Source::Header(name) => Some(deciding_header(&request.headers, &name)?.to_owned()),
        _ => None,
    };
    keys.check_account(setting, account.as_deref())
}

/// The text at the first of the pointers, separated by `|`, that leads anywhere; `None` where it is not one text.
fn account_at(body: &[u8], pointers: &str) -> Option<String> {
    let mut found = pointers.split('|').map(|pointer| (find(body, pointer), pointer));
    let is_there =
        |target: &PointerTarget<'_>| !matches!(target, PointerTarget::Missing | PointerTarget::One(b"null"));
    let (target, pointer) = found.find(|(target, _)| is_there(target))?;
    text(&target, pointer).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::{HeaderMap, Method};

    use crate::spec::Spec;
    use hooklatch_core::config::KindSettings;

    use super::*;

    #[test]
    fn each_event_of_a_request_has_a_signed_text_that_no_other_has() {
        let whole = Authenticated::of(0, &[b"a", b"b"]);
        assert_eq!(
            whole.signed_text(0),
            Authenticated::of(1, &[b"ab"]).signed_text(0),
            "the parts make one text"
        );
        assert_ne!(whole.signed_text(0), whole.signed_text(1));
        assert_ne!(whole.signed_text(1), whole.signed_text(2));
        assert_ne!(whole.signed_text(1), Authenticated::of(0, &[b"ac"]).signed_text(1));
        let each = Authenticated::each(0, &["a", "b"]);
        assert_eq!(each.signed_text(1), Authenticated::of(0, &[b"b"]).signed_text(0));
        assert_eq!(each.signed_text(2), None, "it has no third");
        assert_eq!(Authenticated::plain(0).signed_text(0), None);
    }

    #[test]
    fn an_event_of_an_account_that_is_not_listed_is_refused_and_a_star_allows_all() {
        let spec = Spec::parse(include_str!("../../../providers/wise/provider.toml")).expect("a spec");
        let whose = spec.whose.clone().expect("[whose]");
        let refused = |own: &[&str], body: &str| {
            let mut settings = KindSettings::default();
            for own in own {
                settings.push("profile_ids", None, *own);
            }
            let pem = include_str!("published/rsa_public_key.pem");
            settings.push("public_key_pem", None, pem);
            let keys = Keys::new(&spec.signature, &[], &settings).expect("keys");
            let request = RawRequest {
                method: Method::POST,
                url: String::new(),
                headers: HeaderMap::new(),
                body: Bytes::from(body.to_owned()),
                received_at_ms: 0,
            };
            check_account(&whose, &keys, &request)
                .err()
                .map(|error| (crate::failed_at(&error).reason, error.to_string()))
        };
        let of = |account| format!("{{\"data\":{{\"resource\":{{\"profile_id\":{account}}}}}}}");
        assert_eq!(refused(&["111", "222"], &of("222")), None);
        assert_eq!(refused(&["111, 222"], &of("222")), None, "one text with a comma is a list");
        assert_eq!(refused(&["*"], &of("666")), None);
        assert_eq!(refused(&["*"], "{}"), None);
        let (reason, said) = refused(&["111"], &of("666")).expect("a refusal");
        assert_eq!(reason, "foreign_account");
        assert!(said.contains("`666`") && said.contains("settings.profile_ids"), "{said}");
        assert_eq!(refused(&["111"], "{}").map(|(reason, _)| reason), Some("foreign_account"));
        assert_eq!(refused(&["111"], &of("null")).map(|(reason, _)| reason), Some("foreign_account"));
        assert_eq!(refused(&[], &of("666")).map(|(reason, _)| reason), Some("foreign_account"));
    }
}
