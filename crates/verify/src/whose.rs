//! The account of an event: compares the account that a signed request names with the operator's own.

use super::error::VerifyError;
use super::keys::Keys;
use super::request::{RawRequest, deciding_header};
use crate::spec::{Source, WhoseSpec};
use hooklatch_core::json::{PointerTarget, find, text};

/// The entry of a setting that allows every account.
const EVERY_ACCOUNT: &str = "*";

impl Keys {
    /// Refuses an account that `setting` does not list. The entry `*` allows every account; a missing setting none.
    #[doc(hidden)]
    pub fn check_account(&self, setting: &str, account: Option<&str>) -> Result<(), VerifyError> {
        let mut own = self.settings().all(setting).flat_map(|one| one.value.reveal().split(','));
        let is_own = |own: &str| own == EVERY_ACCOUNT || Some(own) == account;
        if own.any(|own| is_own(own.trim())) {
            Ok(())
        } else {
            Err(VerifyError::foreign_account(setting, account))
        }
    }
}

/// Refuses a request of an account that is not the operator's, where the spec names the account's place.
pub(crate) fn check(whose: &WhoseSpec, keys: &Keys, request: &RawRequest) -> Result<(), VerifyError> {
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

    use super::*;
    use crate::spec::Spec;
    use hooklatch_core::config::KindSettings;

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
            check(&whose, &keys, &request).err().map(|error| (error.reason(), error.to_string()))
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
