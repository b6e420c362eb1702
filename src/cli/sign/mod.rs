//! `sign`: requests as their senders would send them, made offline.
//!
//! `command.rs` is the command; `signer.rs` finds whose secret signs, also for `send`, `bench` and `explain`; `own_vectors.rs` makes the vectors that every kind has to have.

mod command;
mod own_vectors;
mod signer;

pub(super) use command::{SignArgs, body_of_file, dev_curl, sign};
pub(super) use own_vectors::vectors as kind_vectors;
pub(super) use signer::{Signer, fresh_id, signer};
