//! Mistakes of a provider's keys, handlers and routes, as data: the loader says where they stand.

use crate::mistakes::Mistake;
use crate::spec::Spec;
use crate::verify::KeyError;

/// The remedy for a key or secret of another form than its kind wants.
pub(super) const CORRECT_IT: &str = "correct it; `hooklatch providers KIND` says what this kind needs";

/// A mistake at `key` of the provider, empty for the provider as a whole.
pub(super) fn said(key: &str, why: impl ToString) -> Mistake {
    Mistake::said(key, why.to_string(), CORRECT_IT)
}

/// The key that cannot be used, and the remedy.
pub(super) fn of_key(spec: &Spec, error: &KeyError) -> Mistake {
    const MAKE_LONGER: &str = "have the sender make a longer one, or choose one: `openssl rand -hex 32`";
    match (error, &spec.signature.keys) {
        (KeyError::NoSetting(_), _) => said("", error),
        (KeyError::SettingTooShort { name, .. }, _) | (KeyError::TooShort { .. }, Some(name)) => {
            Mistake::said(format!("settings.{name}"), error.to_string(), MAKE_LONGER)
        }
        (KeyError::TooShort { .. }, None) => Mistake::said("secrets", error.to_string(), MAKE_LONGER),
        _ => said("secrets", error),
    }
}
