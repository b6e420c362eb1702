//! Deletes old rows that are no longer needed, a few at a time: a look finds them on a connection that only reads, then
//! they are deleted in a short transaction that checks again whether they are needed (`steps.rs`). Nothing that an open
//! message or a waiting event needs is ever deleted, and an event's key is deleted last.
//!
//! Numbers are in the order of time to within seconds, so a walk by number from the low end may stop at the first
//! recent row. When rounds run, and how large their steps are, is decided in `crates/receive/src/retention.rs`.

mod batch;
mod steps;

use std::collections::BTreeMap;

use hooklatch_core::types::{Name, UnixMs};

/// Most rows of one batch.
pub const PRUNED_N_MAX: u32 = 1_000;

/// The kinds of things that are pruned, in the order of a round: a body goes before what is known of its
/// messages, and that before its event's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PrunedKind {
    /// Bodies of requests, as they were received.
    Bodies,
    /// Bodies of messages that were made to be sent.
    Contents,
    /// Attempts of messages that are finished.
    Attempts,
    /// Messages that are finished.
    Messages,
    /// Events: key, digest and outcome.
    Ids,
    /// Counts of further contents that arrived under an event's key.
    ConflictCounts,
    /// Counts of further copies of events.
    EventCopies,
    /// Numbers of the firings of signals.
    SignalFirings,
    /// The newest versions of objects.
    ObjectVersions,
    /// Lanes in which no message is left.
    Lanes,
    /// Requests that failed verification.
    Rejections,
    /// Counts of the requests that secrets matched.
    SecretUses,
    /// Secrets received from senders in pairings.
    Pairing,
    /// Counts of requests and attempts by the hour.
    Activity,
    /// Answers that were kept under the keys of requests.
    Answers,
    /// Operations that are over, with their sets.
    Operations,
    /// Records of what operators decided.
    Audit,
}

impl PrunedKind {
    /// All, in the order of a round.
    pub const ALL: &'static [Self] = &[
        Self::Bodies,
        Self::Contents,
        Self::Attempts,
        Self::Messages,
        Self::Ids,
        Self::ConflictCounts,
        Self::EventCopies,
        Self::SignalFirings,
        Self::ObjectVersions,
        Self::Lanes,
        Self::Rejections,
        Self::SecretUses,
        Self::Pairing,
        Self::Activity,
        Self::Answers,
        Self::Operations,
        Self::Audit,
    ];

    /// Its table, for metrics and operators.
    pub fn table(self) -> &'static str {
        match self {
            Self::Bodies => "webhook_payloads",
            Self::Contents => "outbox_contents",
            Self::Attempts => "outbox_attempts",
            Self::Messages => "outbox_finished",
            Self::Ids => "processed_webhook_events",
            Self::ConflictCounts => "conflict_counts",
            Self::EventCopies => "event_copies",
            Self::SignalFirings => "signal_firings",
            Self::ObjectVersions => "object_versions",
            Self::Lanes => "outbox_lanes",
            Self::Rejections => "rejected_requests",
            Self::SecretUses => "secret_uses",
            Self::Pairing => "pairing_secrets",
            Self::Activity => "activity",
            Self::Answers => "idempotency_keys",
            Self::Operations => "operations",
            Self::Audit => "audit_log",
        }
    }

    /// The two columns of its key, where that is two texts, and the time by which its rows go.
    fn texts(self) -> Option<(&'static str, &'static str, &'static str)> {
        /// They go with their event, whatever their age.
        const ANY_AGE: &str = "CAST(0 AS BIGINT)";
        match self {
            Self::ConflictCounts | Self::EventCopies => Some(("provider", "event_id", ANY_AGE)),
            Self::SignalFirings => Some(("provider", "signal", "counted_from_ms")),
            Self::ObjectVersions => Some(("provider", "object", ANY_AGE)),
            Self::Lanes => Some(("destination", "lane", "used_at_ms")),
            Self::Rejections => Some(("provider", "rejection_id", "received_at_ms")),
            Self::SecretUses => Some(("provider", "fingerprint", "last_matched_at_ms")),
            Self::Pairing => Some(("provider", "provider", "paired_at_ms")),
            Self::Activity => Some(("subject", "name", "hour_ms")),
            Self::Answers => Some(("principal", "idempotency_key", "expires_at_ms")),
            Self::Operations => Some(("operation_id", "operation_id", "finished_at_ms")),
            Self::Bodies | Self::Contents | Self::Attempts | Self::Messages | Self::Ids | Self::Audit => None,
        }
    }

    /// True when it is walked by numbers, which are in the order of time.
    fn is_numbered(self) -> bool {
        self.texts().is_none()
    }

    /// True when there is a row of it, or several, for most events.
    fn is_mass(self) -> bool {
        (Self::Bodies..=Self::Ids).contains(&self)
    }

    /// True when its numbers are those of messages.
    fn is_of_messages(self) -> bool {
        (Self::Contents..=Self::Messages).contains(&self)
    }

    /// True when its rows are few, and found by their age.
    pub fn is_small(self) -> bool {
        (Self::Rejections..=Self::Operations).contains(&self)
    }

    /// True when all of the table has to be looked through to find what is old.
    pub fn is_looked_through(self) -> bool {
        (Self::ConflictCounts..=Self::Lanes).contains(&self)
    }
}

/// Times before which things may go, one for each kind of thing. Unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cuts {
    /// Now: a row with a later time was written by a clock that was ahead.
    pub now_ms: UnixMs,
    /// Bodies, and what was made of them.
    pub bodies_ms: UnixMs,
    /// Attempts of messages that are finished.
    pub attempts_ms: UnixMs,
    /// Messages that are finished.
    pub messages_ms: UnixMs,
    /// Ids of the providers that are not in `ids_of`.
    pub ids_ms: UnixMs,
    /// Ids of the providers that have a time of their own.
    pub ids_of: BTreeMap<Name, UnixMs>,
    /// Lanes in which no message is left.
    pub lanes_ms: UnixMs,
    /// Requests that failed verification.
    pub rejections_ms: UnixMs,
    /// Time when secrets matched last.
    pub secret_uses_ms: UnixMs,
    /// Secrets received from senders in pairings.
    pub pairing_ms: UnixMs,
    /// Counts of requests and attempts.
    pub activity_ms: UnixMs,
    /// Answers under the keys of requests, whose windows end.
    pub answers_ms: UnixMs,
    /// Operations that are over.
    pub operations_ms: UnixMs,
    /// Records of what operators decided.
    pub audit_ms: UnixMs,
}

impl Cuts {
    fn ids_of(&self, provider: &str) -> UnixMs {
        let known = self.ids_of.iter().find(|(name, _)| name.as_str() == provider);
        known.map_or(self.ids_ms, |(_, cut_ms)| *cut_ms)
    }

    /// Returns the cut of one kind of thing; ids have one for each provider.
    fn of(&self, kind: PrunedKind) -> UnixMs {
        match kind {
            PrunedKind::Bodies | PrunedKind::Contents => self.bodies_ms,
            PrunedKind::Attempts => self.attempts_ms,
            PrunedKind::Messages => self.messages_ms,
            PrunedKind::Ids
            | PrunedKind::ConflictCounts
            | PrunedKind::EventCopies
            | PrunedKind::SignalFirings
            | PrunedKind::ObjectVersions => self.ids_ms,
            PrunedKind::Lanes => self.lanes_ms,
            PrunedKind::Rejections => self.rejections_ms,
            PrunedKind::SecretUses => self.secret_uses_ms,
            PrunedKind::Pairing => self.pairing_ms,
            PrunedKind::Activity => self.activity_ms,
            PrunedKind::Answers => self.answers_ms,
            PrunedKind::Operations => self.operations_ms,
            PrunedKind::Audit => self.audit_ms,
        }
    }
}

/// The rows that one walk goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PruneWalk {
    /// All of one kind of thing.
    pub kind: PrunedKind,
    /// Cut of the ids that are walked: those that are kept equally long are walked together.
    pub ids_cut_ms: UnixMs,
}

impl PruneWalk {
    /// All of one kind of thing but ids.
    pub fn of(kind: PrunedKind) -> Self {
        Self { kind, ids_cut_ms: 0 }
    }

    /// The ids that have this cut.
    pub fn of_ids(ids_cut_ms: UnixMs) -> Self {
        Self { kind: PrunedKind::Ids, ids_cut_ms }
    }
}

/// A node's claim to be the only one that prunes, from now on for `for_ms`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PruneLease {
    /// Name of the node that prunes.
    pub node: String,
    /// Time until the lease expires unless this node renews it; until then no other node prunes. Milliseconds.
    pub for_ms: i64,
}

/// A key to go on from; the first of all is [`PrunePlace::default`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PrunePlace {
    number: i64,
    texts: (String, String),
    /// Time of receipt of the newest row passed so far, where the walk is by number.
    newest_ms: UnixMs,
}

impl PrunePlace {
    /// The place right behind this number.
    pub fn after(number: i64) -> Self {
        Self { number, ..Self::default() }
    }

    /// The number to go on from.
    pub fn number(&self) -> i64 {
        self.number
    }
}

/// A row that is old enough to go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct OldRow {
    key: PrunePlace,
    at_ms: UnixMs,
    cut_ms: UnixMs,
    /// Time before which it should be gone: later than `cut_ms` where something else goes first.
    due_ms: UnixMs,
}

/// Rows that a look found to be old enough.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OldRows {
    old: Vec<OldRow>,
    /// Place to go on from; `None`: there is nothing behind it, or all of it is young.
    pub next: Option<PrunePlace>,
}

impl OldRows {
    /// True when nothing of it may go.
    pub fn is_empty(&self) -> bool {
        self.old.is_empty()
    }

    /// Returns the time for which all of them should have been gone; not that of the oldest, which something may have
    /// needed. Milliseconds.
    pub fn overdue_ms(&self) -> i64 {
        self.old.iter().map(|one| one.due_ms.saturating_sub(one.at_ms)).min().unwrap_or_default().max(0)
    }
}

#[cfg(test)]
mod types_tests {
    use super::*;

    #[test]
    fn every_kind_has_one_table_that_is_there_and_one_way_of_being_found() {
        let sql = include_str!("../../../../migrations/sqlite/0001_hooklatch.sql");
        let mut tables = std::collections::BTreeSet::new();
        for kind in PrunedKind::ALL.iter().copied() {
            assert!(sql.contains(&format!("CREATE TABLE {} (", kind.table())), "{kind:?}");
            assert!(tables.insert(kind.table()), "{kind:?} shares its table");
            let ways = [kind.is_numbered(), kind.is_small(), kind.is_looked_through()];
            assert_eq!(ways.iter().filter(|is_one| **is_one).count(), 1, "{kind:?}");
        }
        assert!(
            PrunedKind::ALL.is_sorted(),
            "a round goes in the order of the enum: a key last of its event"
        );
    }

    #[test]
    fn each_kind_goes_by_its_own_time() {
        let cuts = Cuts {
            now_ms: 0,
            bodies_ms: 1,
            attempts_ms: 2,
            messages_ms: 3,
            ids_ms: 4,
            ids_of: BTreeMap::from([(Name::parse("stripe").unwrap(), 40)]),
            lanes_ms: 5,
            rejections_ms: 6,
            secret_uses_ms: 7,
            pairing_ms: 8,
            activity_ms: 9,
            answers_ms: 10,
            operations_ms: 11,
            audit_ms: 12,
        };
        let found: Vec<UnixMs> = PrunedKind::ALL.iter().map(|kind| cuts.of(*kind)).collect();
        assert_eq!(found, [1, 1, 2, 3, 4, 4, 4, 4, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!((cuts.ids_of("stripe"), cuts.ids_of("gone")), (40, 4));
    }

    #[test]
    fn what_goes_is_overdue_by_the_least_of_all() {
        let old = |at_ms, due_ms| OldRow { key: PrunePlace::after(1), at_ms, cut_ms: 1_000, due_ms };
        let overdue = |old: Vec<OldRow>| OldRows { old, next: None }.overdue_ms();
        assert_eq!(overdue(Vec::new()), 0);
        assert_eq!(overdue(vec![old(100, 1_000), old(900, 1_000)]), 100);
        assert_eq!(overdue(vec![old(100, 1_000), old(900, 500)]), 0, "it waits for something else");
    }
}
