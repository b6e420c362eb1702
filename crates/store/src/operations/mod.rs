//! Operations: what a person ordered to be done to all that a filter found. The set is fixed and counted with the order
//! and worked off in batches, by whichever node gets to it.
//!
//! A batch is one transaction that holds the operation's row: in it are the acts on the next rows of the set, their
//! marks, their records and the operation's progress. So nobody needs a lease that could outlive its holder, a process
//! that dies leaves a batch undone or done as a whole, and no lock is held from one batch to the next.
//!
//! To read it: `set.rs` (the rows), `preview.rs` (what it would be, what changed since, and results), `order.rs` (orders,
//! approvals and what people see), `batch.rs` (a batch and its acts), `steps.rs` (operations that make calls go in steps,
//! and stop when too many of them fail). When batches are made, and how large, is decided elsewhere (`crates/receive/src/operations/`).

mod batch;
mod order;
mod preview;
mod set;
mod steps;

use steps::Steps;

use super::db::{DbError, DbResult, Row};
use hooklatch_contract::{OperationState, OperationSubject, OperationView};
use hooklatch_core::types::{Principal, Reach, UnixMs};

pub use order::OperationAct;
pub(crate) use order::{
    operation_begin, operation_decide, operation_list, operation_view, operations_for_persons,
};
pub(crate) use preview::{Looking, SeenSets, operation_preview, operation_preview_again};

/// The statements by name, for tests that look at their plans.
pub(super) const STATEMENTS: [&[(&str, &str)]; 3] = [set::STATEMENTS, preview::STATEMENTS, order::STATEMENTS];
/// Those of a batch, likewise.
pub(super) const BATCH_STATEMENTS: &[(&str, &str)] = batch::STATEMENTS;

/// Most rows of an operation.
pub const OPERATION_ROWS_N_MAX: u64 = 100_000;
/// Most operations that are unfinished at once.
const UNFINISHED_N_MAX: u64 = 100;
/// Who is named in the audit log where an operation stopped or ended by itself.
const ACTOR: &str = "hooklatch";

/// What this installation demands of an operation before it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BulkRules {
    /// Persons that have to agree, the orderer included.
    pub approvals_n: u32,
    /// Time for which a second person can approve it. Milliseconds.
    pub approval_ms: i64,
}

impl Default for BulkRules {
    fn default() -> Self {
        Self { approvals_n: 1, approval_ms: 86_400_000 }
    }
}

/// Result of one batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationStep {
    /// Number of rows that were acted on.
    pub changed_n: u64,
    /// Number of rows that were passed over.
    pub skipped_n: u64,
    /// True when nothing of the operation is left to do.
    pub is_over: bool,
    /// Why it stopped, if too many of its calls failed.
    pub stopped: Option<String>,
}

/// The row of an operation.
struct OperationRow {
    /// What people see of it, but for the rows that were passed over.
    view: OperationView,
    /// Providers and destinations that the order could reach; `None` is every one.
    providers: Option<Vec<String>>,
    destinations: Option<Vec<String>>,
    expires_at_ms: Option<UnixMs>,
    steps: Option<Steps>,
    stepped_at_ms: UnixMs,
}

/// All columns of [`OperationRow`], and then what follows.
macro_rules! operation_rows_sql {
    ($name:literal, $rest:literal) => {
        concat!(
            "/* ",
            $name,
            " */ SELECT operation_id, state, subject, actor, reason, providers, destinations, created_at_ms,
                finished_at_ms, cancelled_by, approved_by, expires_at_ms, note, steps, stepped_at_ms, total_n, changed_n, skipped_n FROM operations ",
            $rest
        )
    };
}
use operation_rows_sql;

impl OperationRow {
    fn of(row: &Row) -> DbResult<Self> {
        let (state, subject) = (row.text("state")?, row.text("subject")?);
        let odd = |column: &str| DbError::decode(column, "what no version writes");
        let names = |column: &str| -> DbResult<Option<Vec<String>>> {
            let names = row.text_or_null(column)?;
            names.map(|names| serde_json::from_str(&names)).transpose().map_err(|_| odd(column))
        };
        let state = OperationState::parse(&state).ok_or_else(|| odd("state"))?;
        let steps: Option<Steps> = (row.text_or_null("steps")?)
            .map(|steps| serde_json::from_str(&steps))
            .transpose()
            .map_err(|_| odd("steps"))?;
        let expires_at_ms = row.int_or_null("expires_at_ms")?;
        Ok(Self {
            view: OperationView {
                operation_id: row.text("operation_id")?,
                state,
                subject: serde_json::from_str(&subject).map_err(|_| odd("subject"))?,
                actor: row.text("actor")?,
                reason: row.text("reason")?,
                created_at_ms: row.int("created_at_ms")?,
                finished_at_ms: row.int_or_null("finished_at_ms")?,
                cancelled_by: row.text_or_null("cancelled_by")?,
                approved_by: row.text_or_null("approved_by")?,
                approve_until_ms: expires_at_ms.filter(|_| state == OperationState::Waiting),
                note: row.text_or_null("note")?,
                steps: steps.as_ref().map(Steps::view),
                total_n: row.int("total_n")?.unsigned_abs(),
                changed_n: row.int("changed_n")?.unsigned_abs(),
                skipped_n: row.int("skipped_n")?.unsigned_abs(),
                skipped: Vec::new(),
            },
            providers: names("providers")?,
            destinations: names("destinations")?,
            expires_at_ms,
            steps,
            stepped_at_ms: row.int("stepped_at_ms")?,
        })
    }

    /// Number of rows that are behind it.
    fn passed_n(&self) -> u64 {
        self.view.changed_n.saturating_add(self.view.skipped_n)
    }

    /// True when a person's decision reaches everything that this could have been about.
    fn is_seen_by(&self, who: &Principal) -> bool {
        let reaches = |mine: &Reach, said: Option<&String>, theirs: Option<&Vec<String>>| match (said, theirs)
        {
            (Some(name), _) => mine.has(name),
            (None, Some(names)) => names.iter().all(|name| mine.has(name)),
            (None, None) => *mine == Reach::All,
        };
        match &self.view.subject {
            OperationSubject::Messages { filter, .. } => {
                reaches(&who.providers, filter.provider.as_ref(), self.providers.as_ref())
                    && reaches(&who.destinations, filter.destination.as_ref(), self.destinations.as_ref())
            }
            OperationSubject::Events { filter, .. } => {
                reaches(&who.providers, filter.provider.as_ref(), self.providers.as_ref())
            }
        }
    }
}

#[cfg(test)]
mod types_tests {
    use std::collections::BTreeSet;

    use super::*;
    use hooklatch_contract::{EventAct, EventFilter, MessageAct, MessageFilter};
    use hooklatch_core::types::{Name, Role};

    fn row(
        subject: &OperationSubject,
        providers: Option<&[&str]>,
        destinations: Option<&[&str]>,
    ) -> OperationRow {
        let names = |names: Option<&[&str]>| {
            names.map(|names| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        let view = serde_json::json!({
            "operation_id": "o", "state": "running", "subject": subject, "actor": "", "reason": "", "created_at_ms": 0,
            "total_n": 5, "changed_n": 2, "skipped_n": 1, "skipped": [],
        });
        OperationRow {
            view: serde_json::from_value(view).unwrap(),
            providers: names(providers),
            destinations: names(destinations),
            expires_at_ms: None,
            steps: None,
            stepped_at_ms: 0,
        }
    }

    fn reach(names: Option<&[&str]>) -> Reach {
        names.map_or(Reach::All, |names| {
            Reach::These(names.iter().map(|name| Name::parse(name).unwrap()).collect::<BTreeSet<_>>())
        })
    }

    #[test]
    fn an_operation_is_seen_by_those_whose_word_reaches_all_that_it_could_be_about() {
        #[track_caller]
        fn check(row: &OperationRow, providers: Option<&[&str]>, destinations: Option<&[&str]>, want: bool) {
            let who = Principal {
                providers: reach(providers),
                destinations: reach(destinations),
                ..Principal::everywhere(Name::parse("ann").unwrap(), Role::Viewer)
            };
            assert_eq!(row.is_seen_by(&who), want, "{providers:?} {destinations:?}");
        }
        let messages = |provider: Option<&str>, destination: Option<&str>| OperationSubject::Messages {
            act: MessageAct::Send,
            filter: MessageFilter {
                provider: provider.map(str::to_owned),
                destination: destination.map(str::to_owned),
                ..MessageFilter::default()
            },
        };
        let all = row(&messages(None, None), None, None);
        check(&all, None, None, true);
        check(&all, Some(&["stripe"]), None, false);
        check(&all, None, Some(&["billing"]), false);
        let one = row(&messages(Some("stripe"), Some("billing")), None, None);
        check(&one, Some(&["stripe"]), Some(&["billing", "mail"]), true);
        check(&one, Some(&["adyen"]), None, false);
        check(&one, None, Some(&["mail"]), false);
        let scoped = row(&messages(None, None), Some(&["stripe"]), Some(&["billing"]));
        check(&scoped, Some(&["stripe", "adyen"]), Some(&["billing"]), true);
        check(&scoped, Some(&["adyen"]), Some(&["billing"]), false);
        // An event is of its provider, wherever its messages go.
        let events = OperationSubject::Events { act: EventAct::Rerun, filter: EventFilter::default() };
        let events = row(&events, Some(&["stripe"]), None);
        check(&events, Some(&["stripe"]), Some(&["mail"]), true);
        check(&events, Some(&["adyen"]), None, false);
        assert_eq!(events.passed_n(), 3);
    }
}
