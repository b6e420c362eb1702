//! The keys that a provider verifies with, and the options that its operator chose.

use hooklatch_core::config::{KindSettings, Secret};
use hooklatch_core::json::RedactedPaths;
use hooklatch_core::types::{OnConflict, TypePattern};
use hooklatch_verify::spec::{SignatureSpec, Spec};
use hooklatch_verify::{KeyError, Keys, KeysExt, Unverified};

/// Keys for the kind's signature, and for its alternative.
#[derive(Clone)]
pub struct Verifier {
    pub keys: Keys,
    pub alternative: Option<Keys>,
    pub unverified: Unverified,
}

impl Verifier {
    pub fn new(
        spec: &Spec,
        secrets: &[Secret],
        settings: &KindSettings,
        is_unverified_accepted: bool,
    ) -> Result<Self, KeyError> {
        // A kind that may be unsigned needs no key where the operator says so.
        let signature = if spec.signature.may_be_unsigned && secrets.is_empty() {
            &SignatureSpec { secrets_needed: false, ..spec.signature.clone() }
        } else {
            &spec.signature
        };
        let unverified = if is_unverified_accepted { Unverified::Accept } else { Unverified::Refuse };
        let alternative = spec.alternative.as_ref().map(|other| Keys::new(other, secrets, settings));
        Ok(Self {
            keys: Keys::new(signature, secrets, settings)?.with_own_key(spec)?,
            alternative: alternative.transpose()?,
            unverified,
        })
    }
}

/// The options of `[providers.NAME]` about events; empty where no operator was asked.
#[derive(Clone, Default)]
pub struct ActiveOptions {
    /// Decides what becomes of other content under an event's key; `None` leaves it to the kind.
    pub on_conflict: Option<OnConflict>,
    /// Patterns of the types that its sender was configured to send; empty for any.
    pub types: Vec<TypePattern>,
    /// Values that are not stored.
    pub redact: RedactedPaths,
    /// True when its events are not searched by the ids in them.
    pub(super) is_search_off: bool,
}
