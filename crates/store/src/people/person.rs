//! One operator's view of the store, and the checks that every read and decision makes.
//!
//! The names that a list may show.

use crate::db::StoreError;
use crate::decision::{Deciding, Decision, Refusal, Routed};
use crate::handle::Store;
use hooklatch_core::types::{Name, Principal, Reach, Role, TypedBy};

/// Access to the store for an authenticated operator only.
#[derive(Clone)]
pub struct PeopleDoor {
    store: Store,
    routed: Option<Routed>,
}

impl PeopleDoor {
    /// The store, for operators alone.
    pub fn new(store: Store) -> Self {
        Self { store, routed: None }
    }

    /// The same, with what the configuration says of where events go.
    #[must_use]
    pub fn routed(self, routed: Routed) -> Self {
        Self { routed: Some(routed), ..self }
    }

    /// The store as this principal sees it.
    pub fn open(&self, principal: Principal) -> People {
        People { store: self.store.clone(), routed: self.routed.clone(), principal, typed_by: None }
    }
}

/// The store as one principal sees it.
#[derive(Clone)]
pub struct People {
    pub(crate) store: Store,
    pub principal: Principal,
    routed: Option<Routed>,
    typed_by: Option<TypedBy>,
}

/// Reason why an operator is not served.
#[derive(Debug, thiserror::Error)]
pub enum PeopleError {
    /// The role of the token does not suffice.
    #[error("this needs the role {}", .0.as_str())]
    Denied(Role),
    /// There is none, or it is out of the token's scope.
    #[error("nothing is here")]
    NotFound,
    /// The subject is no longer as the caller saw it (`If-Match`).
    #[error("it has changed since it was read")]
    Changed,
    /// It was not done, and this is why.
    #[error(transparent)]
    Refused(Refusal),
    /// The database did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Refusal> for PeopleError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::NotFound,
            Refusal::Changed => Self::Changed,
            other => Self::Refused(other),
        }
    }
}

impl People {
    /// The same, with who typed, as their command line says it.
    #[must_use]
    pub fn typed_by(self, typed_by: Option<TypedBy>) -> Self {
        Self { typed_by, ..self }
    }

    /// The actor as recorded in the audit log: the token's name, and the operator who used it.
    pub fn actor(&self) -> String {
        let name = &self.principal.name;
        self.typed_by
            .as_ref()
            .map_or_else(|| name.to_string(), |typed| format!("{name} ({})", typed.as_str()))
    }

    /// A decision of this operator.
    pub fn deciding(&self, decision: &Decision<'_>) -> Deciding {
        Deciding::new(&self.principal, decision).by(self.actor()).routed(self.routed.clone())
    }

    /// The principal of the request.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Refuses who has a weaker role than `role`.
    pub fn needs(&self, role: Role) -> Result<(), PeopleError> {
        if self.principal.role < role { Err(PeopleError::Denied(role)) } else { Ok(()) }
    }

    /// Refuses what is about a provider out of scope.
    pub(crate) fn needs_provider(&self, provider: &str) -> Result<(), PeopleError> {
        if self.principal.providers.has(provider) { Ok(()) } else { Err(PeopleError::NotFound) }
    }

    /// Refuses what is about a destination out of scope.
    pub(crate) fn needs_destination(&self, destination: &str) -> Result<(), PeopleError> {
        if self.principal.destinations.has(destination) { Ok(()) } else { Err(PeopleError::NotFound) }
    }

    /// True when contents (bodies, headers of requests, captured answers) may be seen.
    pub fn may_see_contents(&self) -> bool {
        self.principal.role >= Role::Reader
    }
}

/// The names that are wanted and in reach; `None`: all of them. An empty list shows nothing.
pub(crate) fn within(reach: &Reach, wanted: Option<&str>) -> Option<Vec<String>> {
    match wanted {
        None => reach.names(),
        Some(name) => Some(Some(name.to_owned()).filter(|name| reach.has(name)).into_iter().collect()),
    }
}

/// Those of `names` that are in reach.
pub(super) fn in_reach(reach: &Reach, names: impl IntoIterator<Item = Name>) -> Vec<Name> {
    names.into_iter().filter(|name| reach.has(name.as_str())).collect()
}

#[cfg(test)]
mod choice_tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn what_is_wanted_out_of_reach_is_as_if_it_were_not_there() {
        let name = |text: &str| Name::parse(text).expect("a name");
        let some = Reach::These(BTreeSet::from([name("a"), name("b")]));
        let texts = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(within(&Reach::All, None), None);
        assert_eq!(within(&Reach::All, Some("c")), texts(&["c"]));
        assert_eq!(within(&some, None), texts(&["a", "b"]));
        assert_eq!(within(&some, Some("b")), texts(&["b"]));
        assert_eq!(within(&some, Some("c")), texts(&[]));
        assert_eq!(in_reach(&some, [name("c"), name("b")]), [name("b")]);
    }
}
