//! The store as operators see it: every read and every decision of theirs, checked against their role and scope.
//!
//! The API holds an [`OperatorStore`] and no store: even if a route forgets a check, nothing is read or changed that
//! the token's role and scope do not cover. What is out of scope is answered as if it did not exist.
//!
//! A file for each subject: `events.rs` (lists, counts, and numbers of a time), `ledger.rs` (all rows about one
//! event), `search.rs` (what an id leads to), `messages.rs`, `destinations.rs` (with lanes, and facts for judgements of
//! messages), `providers.rs` (with rejected requests and test events), `figures.rs` (counts over time and causes of
//! failures), `records.rs` (tokens and the audit log) and `orders.rs` (decisions, operations and what-if).

mod destinations;
mod events;
mod figures;
mod ledger;
mod messages;
mod orders;
mod providers;
mod records;
mod search;

use super::audit::{AuditEntry, append};
use super::db::{StoreError, Value};
use super::decision::{Deciding, Decision, Refusal, Routed};
use super::handle::Store;
#[cfg(any(test, feature = "testing"))]
use super::{event::DELIVERY_STATEMENTS, operations};
use hooklatch_core::types::{EventKey, Name, Principal, Reach, Role, TypedBy, UnixMs};

pub use destinations::{DestinationStatus, LanePlace, Surroundings};
pub use events::{EventPlace, EventQuery};
pub(crate) use events::{
    FOUND as EVENT_CONDITIONS, IS_WAITING, filter_values as event_filter_values, is_waiting,
};
pub use figures::{ActivityCounts, ActivityQuery, ActivitySubject};
pub(crate) use messages::{Wanted as WantedMessages, attempt_result, message_view, open_destinations};
pub use providers::{ProviderStatus, RejectedQuery, WaitingEvents};
pub use records::{NewToken, TokenMaking};
pub use search::Unsearched;
pub(crate) use search::{search_block, search_blocks, search_ids_delete};

/// A statement and its name, for tests that look at its plan.
#[cfg(any(test, feature = "testing"))]
pub(crate) type NamedStatement = (&'static str, String);

/// The statements of the views of operators, in the dialects of both databases, by name.
#[cfg(any(test, feature = "testing"))]
pub fn operator_statements() -> Vec<(&'static str, &'static str)> {
    leaked([
        messages::statements(),
        destinations::statements(),
        providers::statements(),
        records::statements(),
    ])
}

/// The statements of what operators read of events, likewise.
#[cfg(any(test, feature = "testing"))]
pub fn read_statements() -> Vec<(&'static str, &'static str)> {
    let built = leaked([
        events::statements(),
        operations::statements(),
        figures::statements(),
        ledger::statements(),
        search::statements(),
    ]);
    [&built, DELIVERY_STATEMENTS].concat()
}

#[cfg(any(test, feature = "testing"))]
fn leaked<const N: usize>(built: [Vec<NamedStatement>; N]) -> Vec<(&'static str, &'static str)> {
    built.into_iter().flatten().map(|(name, sql)| (name, &*sql.leak())).collect()
}

/// Access to the store for an authenticated operator only.
#[derive(Clone)]
pub struct OperatorStore {
    store: Store,
    routed: Option<Routed>,
}

impl OperatorStore {
    /// The store, for operators alone.
    pub fn new(store: Store) -> Self {
        Self { store, routed: None }
    }

    /// Adds where the configuration sends events.
    #[must_use]
    pub fn routed(self, routed: Routed) -> Self {
        Self { routed: Some(routed), ..self }
    }

    /// The store as this principal sees it.
    pub fn open(&self, principal: Principal) -> OperatorQueries {
        OperatorQueries { store: self.store.clone(), routed: self.routed.clone(), principal, typed_by: None }
    }
}

/// The store as one principal sees it.
#[derive(Clone)]
pub struct OperatorQueries {
    store: Store,
    principal: Principal,
    routed: Option<Routed>,
    typed_by: Option<TypedBy>,
}

/// Reason why an operator is not served.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
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

impl From<Refusal> for OperatorError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::NotFound => Self::NotFound,
            Refusal::Changed => Self::Changed,
            other => Self::Refused(other),
        }
    }
}

impl OperatorQueries {
    /// Sets who typed the command, as the command line says it.
    #[must_use]
    pub fn typed_by(self, typed_by: Option<TypedBy>) -> Self {
        Self { typed_by, ..self }
    }

    /// The actor as recorded in the audit log: the token's name, and the operator who used it.
    fn actor(&self) -> String {
        let name = &self.principal.name;
        self.typed_by
            .as_ref()
            .map_or_else(|| name.to_string(), |typed| format!("{name} ({})", typed.as_str()))
    }

    /// The principal of the request.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Refuses a principal with a weaker role than `role`.
    pub fn needs(&self, role: Role) -> Result<(), OperatorError> {
        if self.principal.role < role { Err(OperatorError::Denied(role)) } else { Ok(()) }
    }

    /// Refuses what is about a provider out of scope.
    pub fn needs_provider(&self, provider: &str) -> Result<(), OperatorError> {
        if self.principal.providers.has(provider) { Ok(()) } else { Err(OperatorError::NotFound) }
    }

    /// True when contents (bodies, headers of requests, captured answers) may be seen.
    pub fn may_see_contents(&self) -> bool {
        self.principal.role >= Role::Reader
    }

    /// Refuses what is about a destination out of scope.
    fn needs_destination(&self, destination: &str) -> Result<(), OperatorError> {
        if self.principal.destinations.has(destination) { Ok(()) } else { Err(OperatorError::NotFound) }
    }

    /// Refuses events of providers out of scope, and ids that no event can have.
    fn needs_event(&self, key: &EventKey) -> Result<(), OperatorError> {
        let is_possible = !key.event_id.contains('\0') && (1..=255).contains(&key.event_id.len());
        if is_possible { self.needs_provider(key.provider.as_str()) } else { Err(OperatorError::NotFound) }
    }

    /// A decision of this operator.
    fn deciding(&self, decision: &Decision<'_>) -> Deciding {
        Deciding::new(&self.principal, decision, self.actor(), self.routed.clone())
    }

    /// A row of the audit log about what this operator did.
    fn entry(&self, action: &'static str, detail: impl Into<String>) -> AuditEntry {
        AuditEntry::new(self.actor(), action, detail)
    }

    /// Writes rows of the audit log about contents, before they are shown.
    async fn record(&self, entries: Vec<AuditEntry>, now_ms: UnixMs) -> Result<(), OperatorError> {
        if entries.is_empty() {
            return Ok(());
        }
        let work = together!(self.store, deciding, "audit_append", |db| append(db, now_ms, &entries).await);
        Ok(work?)
    }
}

/// The values of `CAST($1 AS BIGINT) = 0 OR column = ANY($2)`: `None` finds everything, an empty list nothing.
pub(crate) fn any_of(names: Option<Vec<String>>) -> [Value; 2] {
    [i64::from(names.is_some()).into(), names.unwrap_or_default().into()]
}

/// The names that are wanted and in reach; `None`: all of them. An empty list shows nothing.
fn within(reach: &Reach, wanted: Option<&str>) -> Option<Vec<String>> {
    match wanted {
        None => reach.names(),
        Some(name) => Some(Some(name.to_owned()).filter(|name| reach.has(name)).into_iter().collect()),
    }
}

/// Those of `names` that are in reach.
fn in_reach(reach: &Reach, names: impl IntoIterator<Item = Name>) -> Vec<Name> {
    names.into_iter().filter(|name| reach.has(name.as_str())).collect()
}

#[cfg(test)]
mod tests {
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
