//! The store: everything that is kept, one module for each noun. Its unit is a whole operation.
//!
//! The hot paths (admission, claims, settlements) have a twin for each database, `NOUN/postgres.rs` and
//! `NOUN/sqlite.rs` (of lanes, the module `sqlite` in `lane.rs`). Everything else is written once, over an `Executor`
//! (`db/executor.rs`), in PostgreSQL's dialect. Only `db/`, these twins and what calls them use a driver; one
//! conformance suite (`tests/it/store/`) runs on both databases.
//!
//! Every operation runs to its end in its own task, within a time limit (`db/limit.rs`), also when its caller's future
//! is dropped. Those of [`AdmissionTx`], which is one transaction by itself, run where they are called.
//!
//! Reading order: `handle.rs` (the store as a whole) and `operation.rs` (how an operation is run), then the path of an
//! event through `numbers.rs`, `admission/` and `event/`, and that of its messages through `message/` and `lane.rs`.
//! `queries/` has the views and checks for one operator; `decision/` the decisions about one subject, `operations/` the
//! orders about many, `audit.rs` the record of both; `retention/` deletes what is old. `migrations.rs` creates the
//! tables. The store does not decide what happens to an event or a message: callers say what to write.

#[macro_use]
mod operation;

mod admission;
mod apart;
mod audit;
mod checkup;
mod damaged;
mod db;
mod decision;
mod event;
mod fetched_key;
mod handle;
mod idempotency;
mod lane;
mod look;
mod message;
mod migrations;
mod numbers;
mod operations;
mod queries;
mod receipt;
mod rejection;
mod reseal;
mod restore;
mod retention;
mod rhythm;
mod signal;
#[cfg(any(test, feature = "testing"))]
mod statements;
mod token;
mod trial;

pub use admission::{AdmissionTx, AdmittedBatch, Candidate, Decide, Plan, Queued, Writes};
#[cfg(any(test, feature = "testing"))]
pub use apart::Conflicts;
pub use apart::KeptContent;
pub use checkup::{
    DatabaseState, FileState, NODE_SEEN_EVERY, NodeSeen, SchemaParts, ServerState, TableState,
};
pub use db::{
    BrokenRule, FileKey, broken_pragmas, broken_settings, copy_file, decode_error, sqlite_path, waiting,
};
pub use db::{
    DbError, MigrationStep, Pooling, PostgresSettings, ProgramMigrationError, Row, SchemaState, StoreError,
    StoreSettings, Tx, Value,
};
pub use db::{handler_abandoned, handler_begins, handler_ended, roll_back, trial_ends, tx_dialect};
pub use decision::{Answered, Decision, Ordered, PausesEnded, ProviderPause, Refusal, Routed};
pub use event::{DueEvent, EventCount, EventRow, EventUpdate, Latched};
pub use fetched_key::{FETCHED_KEY_BYTES_MAX, FETCHED_KEYS_N_MAX, FetchedKey};
pub use handle::Store;
pub use idempotency::{KeptAnswer, KeyClaim, KeyReply, KeyRequest, KeyState, NewAnswer};
pub use look::{Look, LookedFor, Looks, NodeLooks, UNASKED_MAX};
pub use message::{
    InitialLease, LeaseWant, LeasedMessage, LostClaims, MessageCount, MessageRow, NewMessage, NextWant,
    SettleTo, Settled, Settlement,
};
pub use migrations::{FurtherStep, ProgramMigrations};
pub use operations::{BulkRules, OPERATION_ROWS_N_MAX, OperationAct, OperationStep};
pub use queries::{
    ActivityCounts, ActivityQuery, ActivitySubject, DestinationStatus, EventPlace, EventQuery, LanePlace,
    NewToken, OperatorError, OperatorQueries, OperatorStore, ProviderStatus, RejectedQuery, Surroundings,
    TokenMaking, Unsearched, WaitingEvents,
};
#[cfg(any(test, feature = "testing"))]
pub use queries::{operator_statements, read_statements};
pub use receipt::{CopyCount, EventReceipt, ReceiptAttempt};
pub use rejection::{PairingSecret, REJECTIONS_N_MAX, Rejection, SecretUse};
pub use reseal::{KeyUse, ResealPlace, ResealStep, SEALED_COUNTED_N, SealedTable};
pub use restore::{
    LostTime, OpenCount, ProviderTrace, RestoreFacts, RestoreState, TakeOver, TakenOver, WitnessFinding,
    WitnessState,
};
pub use retention::{Cuts, OldRows, PRUNED_N_MAX, PruneLease, PrunePlace, PruneWalk, PrunedKind};
pub use rhythm::AHEAD_MS_MAX;
pub use rhythm::{GAPS_N_MIN, OPEN_COUNTED_N_MAX, OpenCounts, Rhythm};
#[cfg(any(test, feature = "testing"))]
pub use statements::{meter_statements, rare_statements, statement_for_sqlite, statements};
pub use token::{OperatorSession, TokenBook, TokenRow};
pub use trial::{CameContent, CommittedCall, CommittedEffect, CommittedEvent};
