//! Who asks, how far their rights reach, and by which token, session or certificate they show it.

use std::collections::BTreeSet;
use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::text::Name;

/// The rights of a person or of a program of theirs. Each role may do all that the roles before it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// May look at everything but contents: no bodies, no headers of requests, no captured answers.
    Viewer,
    /// May look at contents too; the audit log records each time.
    Reader,
    /// May decide about events, messages and destinations.
    Operator,
    /// May make and revoke tokens, and verify the audit log.
    Admin,
}

impl Role {
    /// All roles, the weakest first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Reader, Self::Operator, Self::Admin];

    /// The word for it, in the configuration, the tables and the API alike.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Reader => "reader",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Returns the role that `word` names.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

/// The names that a principal's word reaches, of providers or of destinations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Reach {
    /// Every one, also those that are configured later.
    #[default]
    All,
    /// These and no others.
    These(BTreeSet<Name>),
}

impl Reach {
    /// True when it reaches `name`. Names are compared as the tables hold them.
    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::These(names) => names.contains(name),
        }
    }

    /// True when it reaches all that `other` reaches, now and later.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::These(_), Self::All) => false,
            (Self::These(own), Self::These(names)) => names.is_subset(own),
        }
    }

    /// The names, for a statement's `= ANY`; `None` when there is no limit.
    pub fn names(&self) -> Option<Vec<String>> {
        match self {
            Self::All => None,
            Self::These(names) => Some(names.iter().map(Name::to_string).collect()),
        }
    }
}

/// Name of the header in which the command line says who typed.
pub const TYPED_BY: &str = "hooklatch-typed-by";

/// Who typed a command, as the command line gives it: `LOGIN@HOST`. It separates people who share a token, and it is
/// only a claim: anyone with the token can write anything there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypedBy(String);

impl TypedBy {
    /// Most characters of it.
    const CHARS_MAX: usize = 100;

    /// `None` for what is not such a text: 1 to 100 letters, digits and `._@+-`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._@+-".contains(c);
        let is_good = (1..=Self::CHARS_MAX).contains(&text.len()) && text.chars().all(is_plain);
        is_good.then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Who asks: a person, or a program of theirs, known by a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Name in the audit log; unique among those who may ask.
    pub name: Name,
    /// Role that the token gives.
    pub role: Role,
    /// Providers whose events may be seen.
    pub providers: Reach,
    /// Destinations whose messages may be seen.
    pub destinations: Reach,
}

impl Principal {
    /// A principal whose word reaches everything.
    pub fn everywhere(name: Name, role: Role) -> Self {
        Self { name, role, providers: Reach::All, destinations: Reach::All }
    }

    /// The owner of its idempotency keys: this name with this role and scope. A token that is made later under the same
    /// name, with less, does not get the answers of the first.
    pub fn key_owner(&self) -> String {
        let Self { name, role, providers, destinations } = self;
        let scope = format!("{}|{:?}|{:?}", role.as_str(), providers.names(), destinations.names());
        let first = token_digest(&scope).first_chunk().copied().unwrap_or_default();
        format!("{name}#{:016x}", u64::from_be_bytes(first))
    }

    /// True when it may do all that `other` may, and sees all that `other` sees.
    pub fn covers(&self, other: &Self) -> bool {
        self.role >= other.role
            && self.providers.covers(&other.providers)
            && self.destinations.covers(&other.destinations)
    }

    /// True when no name is out of reach.
    pub fn is_everywhere(&self) -> bool {
        self.providers == Reach::All && self.destinations == Reach::All
    }
}

/// A client certificate that was verified in the handshake of its connection. Requests carry it as an extension, in an
/// `Arc`; it does not say whether its holder may do anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its subject, such as `CN=ledger, O=Example`.
    pub subject: String,
    /// Its subject alternative names, each behind its sort: `dns:`, `uri:` or `email:`.
    pub names: Vec<String>,
    /// SHA-256 of the whole certificate.
    pub fingerprint: [u8; 32],
}

/// Random bytes of a token or a session.
const RANDOM_BYTES: usize = 32;

/// True for a text that so many random bytes make.
fn is_random(text: &str) -> bool {
    text.len() == (RANDOM_BYTES * 8).div_ceil(6)
        && URL_SAFE_NO_PAD.decode(text).is_ok_and(|random| random.len() == RANDOM_BYTES)
}

/// What a token begins with: people, and programs that look for secrets in texts, see what it is.
const PREFIX: &str = "hlt_";

/// A token that was made at run time: `hlt_` and 256 random bits in base64url. It does not print itself.
///
/// It is kept as its SHA-256. A slow hash protects what can be guessed; 256 bits cannot be guessed, and a fast one lets
/// a token be checked at every request.
pub struct TokenText(String);

impl TokenText {
    /// The token made of these random bytes.
    pub fn of(random: &[u8; RANDOM_BYTES]) -> Self {
        Self(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(random)))
    }

    /// Parses what a caller presents; `None` when it does not have the form of such a token.
    pub fn parse(text: &str) -> Option<Self> {
        is_random(text.strip_prefix(PREFIX)?).then(|| Self(text.to_owned()))
    }

    /// The token itself, for the one who asked for it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The digest that it goes by.
    pub fn digest(&self) -> [u8; 32] {
        token_digest(&self.0)
    }
}

/// The digest that any token goes by, also one of the configuration.
pub fn token_digest(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[token]")
    }
}

/// A session: 256 random bits in base64url. It does not print itself, and is kept as its SHA-256.
pub struct SessionText(String);

impl SessionText {
    /// The session made of these random bytes.
    pub fn of(random: &[u8; RANDOM_BYTES]) -> Self {
        Self(URL_SAFE_NO_PAD.encode(random))
    }

    /// Parses what a browser presents; `None` when it does not have the form of a session.
    pub fn parse(text: &str) -> Option<Self> {
        is_random(text).then(|| Self(text.to_owned()))
    }

    /// The session itself, for the browser that it is of.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// The digest that it goes by.
    pub fn digest(&self) -> [u8; 32] {
        token_digest(&self.0)
    }

    /// What is kept of the token that it was made with, which goes by `token_digest`: only the holder of the session
    /// can try tokens against it. A person may have made up a token of the configuration, so its own digest is kept
    /// nowhere.
    pub fn bound_to(&self, token_digest: &[u8; 32]) -> [u8; 32] {
        Sha256::new_with_prefix("hooklatch session of a token\0")
            .chain_update(&self.0)
            .chain_update(token_digest)
            .finalize()
            .into()
    }

    /// True when `bound` was made of this session and the token that goes by `token_digest`.
    pub fn is_bound(&self, bound: &[u8; 32], token_digest: &[u8; 32]) -> bool {
        self.bound_to(token_digest).ct_eq(bound).into()
    }
}

impl fmt::Debug for SessionText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[session]")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_grow_and_their_words_are_read_back() {
        assert!(Role::ALL.is_sorted());
        for role in Role::ALL {
            assert_eq!(Role::parse(role.as_str()), Some(role));
            assert_eq!(serde_json::to_string(&role).unwrap(), format!("\"{}\"", role.as_str()));
        }
        assert_eq!([Role::parse("Admin"), Role::parse("")], [None; 2]);
    }

    #[test]
    fn a_scope_reaches_its_names_alone() {
        let stripe = Reach::These(BTreeSet::from([Name::parse("stripe").expect("a name")]));
        assert_eq!([stripe.has("stripe"), stripe.has("stripe2"), stripe.has("")], [true, false, false]);
        assert!(Reach::All.has("whatever"));
        assert_eq!(stripe.names(), Some(vec!["stripe".to_owned()]));
        let nothing = Reach::These(BTreeSet::new());
        for (own, other, wanted) in [
            (&Reach::All, &Reach::All, true),
            (&Reach::All, &stripe, true),
            (&stripe, &Reach::All, false),
            (&stripe, &stripe, true),
            (&stripe, &nothing, true),
            (&nothing, &stripe, false),
        ] {
            assert_eq!(own.covers(other), wanted, "{own:?} {other:?}");
        }
        let ops = Principal::everywhere(Name::parse("ops").expect("a name"), Role::Operator);
        let of_stripe = Principal { providers: stripe.clone(), ..ops.clone() };
        let admin = Principal { role: Role::Admin, ..of_stripe.clone() };
        assert!(ops.covers(&of_stripe) && !of_stripe.covers(&ops));
        assert!(admin.covers(&of_stripe) && !admin.covers(&ops) && !ops.covers(&admin));
        assert!(ops.is_everywhere() && !Principal { providers: stripe, ..ops }.is_everywhere());
    }

    #[test]
    fn a_token_is_read_back_and_nothing_else_is_one() {
        let token = TokenText::of(&[0xfb; 32]);
        assert_eq!(token.reveal(), "hlt_-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
        let again = TokenText::parse(token.reveal()).expect("a token");
        assert_eq!(again.digest(), token.digest());
        assert_ne!(TokenText::of(&[0xfa; 32]).digest(), token.digest());
        assert_eq!(format!("{token:?}"), "[token]");
        for other in [
            "",
            "hlt_",
            token.reveal().trim_start_matches("hlt_"),
            &token.reveal().replace("hlt_", "HLT_"),
            token.reveal().get(..46).expect("46 bytes"),
            &format!("{}A", token.reveal()),
            // Bits beyond the last byte: the same bytes are written in one way alone.
            &format!("{}t", token.reveal().get(..46).expect("46 bytes")),
            &format!("hlt_{}", "é".repeat(22)),
            &format!("hlt_{}", "x".repeat(1_000_000)),
        ] {
            assert!(TokenText::parse(other).is_none(), "{}", other.len());
        }
    }

    #[test]
    fn a_session_is_read_back_and_nothing_else_is_one() {
        let session = SessionText::of(&[0xfb; 32]);
        assert_eq!(session.reveal(), "-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s");
        let again = SessionText::parse(session.reveal()).expect("a session");
        assert_eq!(again.digest(), session.digest());
        assert_eq!(format!("{again:?}"), "[session]");
        for other in ["", "x", "hlt_-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s", &"é".repeat(22)] {
            assert!(SessionText::parse(other).is_none(), "{other}");
        }
        assert!(SessionText::parse("-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_t").is_none(), "bits beyond");
    }

    #[test]
    fn what_is_kept_of_a_token_fits_one_session_and_one_token() {
        let (one, other) = (SessionText::of(&[1; 32]), SessionText::of(&[2; 32]));
        let bound = one.bound_to(&[7; 32]);
        assert!(one.is_bound(&bound, &[7; 32]));
        assert!(!one.is_bound(&bound, &[8; 32]) && !other.is_bound(&bound, &[7; 32]));
    }
}
