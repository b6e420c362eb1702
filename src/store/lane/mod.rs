//! Lanes: messages of one key, in order, one at a time (`turns.rs`; `sqlite.rs` is its twin for the writer's thread).

pub(super) mod sqlite;
mod turns;

pub(super) use turns::{Lane, STATEMENTS, lanes_advance, lanes_extend, lanes_lock};
