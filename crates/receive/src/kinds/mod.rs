//! Kinds that are read from a folder when the program starts: `[kinds] folder`.
//!
//! What a `provider.toml` says is checked like a built-in one's; every mistake is a problem of the configuration, and
//! one broken kind hides no other. In reading order: `folder` reads every kind of the folder; `files` has the files
//! with their bounds; `samples`, `vectors` and `pairs` judge what lies beside a `provider.toml`. What a spec may say is
//! `spec`.

mod files;
mod folder;
mod pairs;
mod samples;
mod vectors;

pub use folder::{TakenNames, read};
pub use pairs::{judge_pairs, without_pairs};
pub use samples::sample_events;
pub use vectors::judge_vectors;
