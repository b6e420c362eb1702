//! The numbers that events get: `blocks.rs` hands them out, `draw.rs` draws more of them from the database.

mod blocks;
mod draw;

pub(super) use blocks::EventNumbers;
