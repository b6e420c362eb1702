//! What a database says about itself, for the doctor: nothing here writes, locks or reads what is in the tables.
//!
//! `facts.rs` is what comes back; `expected.rs` is what the migrations make; `schema.rs` what is there of it; `server.rs`
//! asks PostgreSQL and `file.rs` SQLite. `nodes.rs` is the one thing that is written: which nodes there are.

mod expected;
mod facts;
mod file;
mod nodes;
mod schema;
mod server;

pub use facts::{DatabaseState, FileState, SchemaParts, ServerState, TableState};
pub use nodes::{NODE_SEEN_EVERY, NodeSeen};
