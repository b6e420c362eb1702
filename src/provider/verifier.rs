//! What a provider verifies with, and what its operator chose for it.

use std::sync::Arc;

use super::ActiveProvider;
use crate::config::{AgeConfig, KindSettings, Secret};
use crate::spec::{SignatureSpec, Spec};
use crate::types::{OnConflict, TypePattern};
use crate::verify::{KeyError, Keys, Unverified};

/// Keys for the kind's signature, and for its alternative.
#[derive(Clone)]
pub(super) struct Verifier {
    pub(super) keys: Keys,
    pub(super) alternative: Option<Keys>,
    pub(super) unverified: Unverified,
}

impl Verifier {
    pub(super) fn new(
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
            keys: Keys::new(signature, secrets, settings)?,
            alternative: alternative.transpose()?,
            unverified,
        })
    }
}

/// What `[providers.NAME]` says of events; nothing where no operator was asked.
#[derive(Clone, Default)]
pub(super) struct ActiveOptions {
    /// What becomes of other content under an event's key; the kind's own where it is absent.
    pub(super) on_conflict: Option<OnConflict>,
    /// The types that its sender was told to send, as patterns; any where it is empty.
    pub(super) types: Vec<TypePattern>,
}

/// The operator's bounds in place of the kind's. How far ahead a time may be stays as it is.
fn bounded(signature: &mut SignatureSpec, age: AgeConfig) {
    let (_, ahead_s) = signature.tolerances_s();
    match (signature.tolerance_s, age.tolerance_s, age.max_age_s) {
        (Some(_), Some(past_s), _) => {
            (signature.tolerance_s, signature.tolerance_future_s) = (Some(past_s), Some(ahead_s));
        }
        // Nobody says how far the sender's clock may be ahead either.
        (None, _, Some(past_s)) if signature.age_unchecked => {
            (signature.tolerance_s, signature.tolerance_future_s) = (Some(past_s), Some(u32::MAX));
        }
        _ => {}
    }
}

impl ActiveProvider {
    /// Bounds the age of signed times as its operator says.
    #[must_use]
    pub fn with_age(mut self, age: AgeConfig) -> Self {
        if age == AgeConfig::default() {
            return self;
        }
        let spec = Arc::make_mut(&mut self.spec);
        bounded(&mut spec.signature, age);
        self.verifier.keys = self.verifier.keys.with_tolerance_s(spec.signature.tolerances_s());
        if let Some(other) = &mut spec.alternative {
            bounded(other, age);
            let tolerance_s = other.tolerances_s();
            self.verifier.alternative =
                self.verifier.alternative.map(|keys| keys.with_tolerance_s(tolerance_s));
        }
        self
    }
}
