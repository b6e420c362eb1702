//! The reasons why a configured provider cannot be made, each with its key and its remedy.

use hooklatch_core::mistakes::Mistake;
use hooklatch_verify::KeyError;
use hooklatch_verify::spec::Spec;

/// Remedy for a key or secret of another form than its kind wants.
pub(super) const CORRECT_IT: &str = "correct it; `hooklatch providers KIND` says what this kind needs";

/// A mistake of `key`, in the words of its error.
pub(crate) fn said(key: &str, why: impl Into<String>) -> Mistake {
    Mistake::said(key, why, CORRECT_IT)
}

/// The place of a key that cannot be used, and the remedy.
pub(super) fn of_key(spec: &Spec, error: &KeyError) -> Mistake {
    const MAKE_LONGER: &str = "have the sender make a longer one, or choose one: `openssl rand -hex 32`";
    match (error, &spec.signature.keys) {
        (KeyError::NoSetting(_), _) => said("", error.to_string()),
        (KeyError::NoPrivateKey { name }, _) => Mistake::said(
            format!("settings.{name}"),
            error.to_string(),
            "write { file = \"PATH\" } of the key whose public half the sender has, made by `openssl genrsa 2048`",
        ),
        (KeyError::SettingTooShort { name, .. }, _) | (KeyError::TooShort { .. }, Some(name)) => {
            Mistake::said(format!("settings.{name}"), error.to_string(), MAKE_LONGER)
        }
        (KeyError::TooShort { .. }, None) => Mistake::said("secrets", error.to_string(), MAKE_LONGER),
        _ => said("secrets", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_unusable_key_is_reported_at_its_place_with_its_remedy() {
        #[track_caller]
        fn check(kind: &str, error: &KeyError, key: &str, remedy: &str) {
            let mistake = of_key(&Spec::parse(kind).expect("a spec"), error);
            assert_eq!((mistake.key.as_str(), mistake.flaw.to_string()), (key, error.to_string()));
            assert!(mistake.remedy.contains(remedy), "{mistake:?}");
        }
        let by_secrets = include_str!("../../../../providers/stripe/provider.toml");
        let by_setting = include_str!("../../../../providers/ably/provider.toml");
        let short = KeyError::TooShort { position: 1, bytes_n: 3, min_n: 16 };
        check(by_secrets, &short, "secrets", "openssl rand");
        check(by_setting, &short, "settings.named_secrets", "openssl rand");
        let name = "password".to_owned();
        let setting = KeyError::SettingTooShort { name: name.clone(), bytes_n: 3, min_n: 16 };
        check(by_secrets, &setting, "settings.password", "openssl rand");
        check(by_secrets, &KeyError::Empty(1), "secrets", "correct it");
        check(by_secrets, &KeyError::Private, "secrets", "correct it");
        check(by_secrets, &KeyError::NoSetting(name), "", "correct it");
    }
}
