//! Backups, and what a restore to an older moment must not do: give a name that the destination knows to something else.

mod backup;
mod checked;
mod copied;
mod keys;
mod taken_over;
pub(crate) mod world;
