//! Who asks, and how far their word reaches.

use std::collections::BTreeSet;

use super::name::Name;

/// The rights of a person or of a program of theirs. Each role may do all that the roles before it may.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
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

    /// Whose idempotency keys are its own: those of this name with this role and scope. A token that is made later under
    /// the same name, with less, is not answered what was answered to the first.
    pub fn key_owner(&self) -> String {
        let Self { name, role, providers, destinations } = self;
        let scope = format!("{}|{:?}|{:?}", role.as_str(), providers.names(), destinations.names());
        let first = super::token_digest(&scope).first_chunk().copied().unwrap_or_default();
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
}
