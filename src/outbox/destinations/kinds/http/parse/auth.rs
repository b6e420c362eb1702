//! `auth`: the `Authorization` header.

use super::secret::needed_secret;
use crate::config::{AuthConfig, Checker, Field};

/// Basic or bearer; what is wrong is recorded.
pub(super) fn auth(checker: &mut Checker<'_>, field: Field) -> Option<AuthConfig> {
    let place = field.clone();
    let mut table = field.table(checker)?;
    let is_basic = table.word(checker, "scheme", &[("basic", true), ("bearer", false)]);
    let user = table.text(checker, "user");
    let secret = needed_secret(checker, &mut table, "secret");
    if is_basic.is_none() {
        checker.problem(&place, "does not say how", "write scheme = \"basic\" or scheme = \"bearer\"");
    }
    let user = match (is_basic?, user) {
        (true, None) => {
            checker.missing(table.path("user"), "basic authentication has a user and a password, `secret`");
            None
        }
        (true, Some((field, user))) if user.contains(':') => {
            checker.problem(&field, "has a colon", "a user's name cannot have one: it ends there");
            None
        }
        (false, Some((field, _))) => {
            checker.problem(&field, "is there with \"bearer\"", "remove it or write scheme = \"basic\"");
            None
        }
        (true, Some((_, user))) => Some(user),
        (false, None) => None,
    };
    table.finish(checker);
    Some(if is_basic? {
        AuthConfig::Basic { user: user?, password: secret? }
    } else {
        AuthConfig::Bearer(secret?)
    })
}
