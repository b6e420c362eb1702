//! Works off what people ordered to be done to many messages or events: a batch of each operation in turn, in short
//! transactions with pauses between, so that admission hardly notices. On every node: the node that locks the
//! operation's row makes a batch, and the first to lock it again makes the next one.
//!
//! `runner.rs` makes the batches, `pace.rs` says how large they are. What a batch does, and that it does it once, is the
//! store's part (`crates/store/src/operations/`).

mod pace;
mod runner;

pub use runner::OperationRunner;
