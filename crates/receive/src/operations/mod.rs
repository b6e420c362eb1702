//! Works off what people ordered to be done to many messages or events: a batch of each operation in turn, in short
//! transactions with pauses between, so that admission hardly notices. On every node: a batch belongs to whoever holds
//! the operation's row, and the next one to whoever comes first.
//!
//! `runner.rs` makes the batches, `pace.rs` says how large they are. What a batch does, and that it does it once, is the
//! store's part (`crates/store/src/operations/`).

mod pace;
mod runner;

pub use runner::OperationRunner;
