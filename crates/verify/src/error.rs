//! The errors of verification: why a request failed, why configured secrets are no keys, why nothing was signed.

/// Longest id or URL of a key that a request may name. Bytes; longer ones are never fetched and never kept.
pub const KEY_ID_BYTES_MAX: usize = 512;
/// Most characters of a stranger's key id that are shown.
const SHOWN_CHARS_MAX: usize = 64;

/// The reason why a request failed verification. The sender gets only "401"; the operator sees this.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VerifyError {
    /// No signature where the kind puts one.
    #[error("header `{0}` is missing")]
    HeaderMissing(String),
    /// A header that decides appears more than once.
    #[error("header `{0}` appears more than once")]
    HeaderRepeated(String),
    /// The place of the signature is there, but has another shape than the kind's.
    #[error("`{place}` is malformed: {why}")]
    Malformed {
        /// Name of the header, or pointer into the body.
        place: String,
        /// Reason why it is invalid.
        why: &'static str,
    },
    /// The signed time is too long ago.
    #[error("timestamp is {age_s} s old, tolerance is {tolerance_s} s")]
    Stale {
        /// Age by our clock, in seconds.
        age_s: i64,
        /// Largest age that is allowed, in seconds.
        tolerance_s: u32,
    },
    /// The signed time is ahead of our clock.
    #[error("timestamp is {ahead_s} s ahead of our clock, tolerance is {tolerance_s} s")]
    Future {
        /// Distance by our clock, in seconds.
        ahead_s: i64,
        /// Largest distance that is allowed, in seconds.
        tolerance_s: u32,
    },
    /// The key to verify it with is not at hand.
    #[error("no key to verify with: {0}")]
    NoKey(String),
    /// The request names a key that no setting holds and that was not fetched yet. A caller that can fetch it does so,
    /// and verifies once more; for everybody else it is a key that is not at hand.
    #[error("no key to verify with: key `{}` of `settings.{setting}` is not at hand", printable(id))]
    KeyWanted {
        /// Name of the setting that would hold the key.
        setting: String,
        /// Id or URL of the key, as the request names it: at most 512 bytes.
        id: String,
    },
    /// The sender signs nothing, and the operator did not configure that this is accepted.
    #[error("the request is not signed, and `unverified = \"accept\"` is not configured")]
    Unsigned,
    /// The sender signed it, for an account that is not one of the configured ones.
    #[error("{}", foreign(setting, account.as_deref()))]
    ForeignAccount {
        /// Name of the setting that lists the operator's accounts.
        setting: String,
        /// The account that the request names, if it names one.
        account: Option<String>,
    },
    /// Well-formed and in time, but signed with none of our secrets.
    #[error("signature {}", unmatched(*keys_n))]
    Mismatch {
        /// Number of secrets that were tried.
        keys_n: usize,
    },
}

impl VerifyError {
    /// The key that a request names is not at hand. An id that is too long is not passed on, and never fetched.
    pub(crate) fn wanted(setting: &str, id: &str) -> Self {
        if id.len() > KEY_ID_BYTES_MAX {
            return Self::NoKey("the id of the key that it names is too long".to_owned());
        }
        Self::KeyWanted { setting: setting.to_owned(), id: id.to_owned() }
    }

    /// The sender signed it for `account`, which the setting does not list.
    pub(crate) fn foreign_account(setting: &str, account: Option<&str>) -> Self {
        Self::ForeignAccount { setting: setting.to_owned(), account: account.map(str::to_owned) }
    }

    /// The place of the signature has another shape than the kind's.
    pub fn malformed(place: &str, why: &'static str) -> Self {
        Self::Malformed { place: place.to_owned(), why }
    }
}

/// What tables and metrics say of a failed verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FailedAt {
    /// The step that failed: `header`, `timestamp`, `secret`, `signature` or `account`.
    pub step: &'static str,
    /// The reason in one word of a closed set.
    pub reason: &'static str,
}

/// Where a verification failed, and why.
pub fn failed_at(error: &VerifyError) -> FailedAt {
    let (step, reason) = match error {
        VerifyError::HeaderMissing(_) => ("header", "header_missing"),
        VerifyError::HeaderRepeated(_) => ("header", "header_repeated"),
        VerifyError::Malformed { .. } => ("header", "malformed"),
        VerifyError::Stale { .. } => ("timestamp", "stale"),
        VerifyError::Future { .. } => ("timestamp", "future"),
        VerifyError::NoKey(_) | VerifyError::KeyWanted { .. } => ("secret", "no_key"),
        VerifyError::Unsigned => ("signature", "unsigned"),
        VerifyError::ForeignAccount { .. } => ("account", "foreign_account"),
        VerifyError::Mismatch { .. } => ("signature", "mismatch"),
    };
    FailedAt { step, reason }
}

/// The error after the key that is wanted could not be fetched, because of `why`.
pub fn not_fetched(error: VerifyError, why: &str) -> VerifyError {
    match error {
        VerifyError::KeyWanted { setting, id } => {
            VerifyError::NoKey(format!("key `{}` of `settings.{setting}`: {why}", printable(&id)))
        }
        other => other,
    }
}

/// A stranger's text, cut and without what a screen or a log could take for something else.
fn printable(id: &str) -> String {
    id.chars().filter(char::is_ascii_graphic).take(SHOWN_CHARS_MAX).collect()
}

/// The error that names the setting without the account of a request, and what to do.
fn foreign(setting: &str, account: Option<&str>) -> String {
    match account {
        Some(account) => format!(
            "the sender signed it for account `{}`, which `settings.{setting}` does not list: add it if it is yours",
            printable(account)
        ),
        None => format!(
            "the sender signed it, but it names no account that `settings.{setting}` could list: only \"*\" accepts it"
        ),
    }
}

/// How many secrets were tried in vain.
fn unmatched(keys_n: usize) -> String {
    match keys_n {
        1 => "does not match the configured secret".to_owned(),
        n => format!("matches none of the {n} configured secrets"),
    }
}

/// The reason why configured secrets are no keys. It never shows the secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Nothing to verify with.
    #[error("no secret is configured: everything would be refused")]
    NoSecrets,
    /// A setting that the scheme cannot do without.
    #[error("setting `{0}` is missing")]
    NoSetting(String),
    /// An empty or blank secret would verify anybody's requests.
    #[error("secret {0} is empty")]
    Empty(usize),
    /// Not in the format its kind uses.
    #[error("secret {position} is not {wanted}")]
    Undecodable {
        /// Position in the config, from 1.
        position: usize,
        /// Names the format that the kind uses.
        wanted: &'static str,
    },
    /// With a private key one could sign; a receiver needs the public half alone.
    #[error("a secret is a private key, which only its sender should have: configure the public one")]
    Private,
    /// Shorter than its scheme allows.
    #[error("secret {position} has {bytes_n} bytes of key, and fewer than {min_n} can be guessed")]
    TooShort {
        /// Position in the config, from 1.
        position: usize,
        /// Length of the key in bytes.
        bytes_n: usize,
        /// Shortest length that is taken, in bytes.
        min_n: usize,
    },
    /// A setting that should hold the operator's own private key, and does not.
    #[error("is not a private RSA key of 2048 bits or more in PEM (PKCS#8 or PKCS#1, without a passphrase)")]
    NoPrivateKey {
        /// Name of the setting.
        name: String,
    },
    /// A setting that is a secret, and shorter than it may be.
    #[error("has {bytes_n} bytes, and fewer than {min_n} can be guessed")]
    SettingTooShort {
        /// Name of the setting.
        name: String,
        /// Length of its text in bytes.
        bytes_n: usize,
        /// Shortest length that is taken, in bytes.
        min_n: usize,
    },
}

/// The reason why nothing was signed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// Only public keys are configured.
    #[error("none of the configured secrets can sign")]
    NoSigningKey,
    /// The kind signs fields that this body does not have.
    #[error("body cannot be signed: {0}")]
    Body(String),
    /// The kind's code verifies but does not sign.
    #[error("kind `{0}` cannot be signed offline")]
    Unsupported(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_wanted_by_an_id_that_may_be_asked_for_alone() {
        let longest = "k".repeat(KEY_ID_BYTES_MAX);
        let wanted = VerifyError::wanted("jwks", &longest);
        assert_eq!(wanted, VerifyError::KeyWanted { setting: "jwks".to_owned(), id: longest.clone() });
        assert!(matches!(VerifyError::wanted("jwks", &format!("{longest}k")), VerifyError::NoKey(_)));
    }

    #[test]
    fn a_wanted_key_is_a_missing_key_to_operators_and_its_id_is_cut_and_plain() {
        let wanted = VerifyError::wanted("jwks", &format!("a\n\u{1b}[0m{}", "x".repeat(100)));
        assert_eq!(failed_at(&wanted), FailedAt { step: "secret", reason: "no_key" });
        let text = wanted.to_string();
        assert_eq!(
            text,
            format!("no key to verify with: key `a[0m{}` of `settings.jwks` is not at hand", "x".repeat(60))
        );
    }
}
