//! Mistakes in a text that a person wrote, as data: a configuration, a kind's `provider.toml`, a handler's pattern.
//!
//! `mistake`: one mistake with its key, its flaw and its remedy. `words`: how words of others are shown and guessed.
//! Which file a mistake is in, and how it is told, is for the one who has the file: see `config::ConfigProblem`.

mod mistake;
mod words;

pub(crate) use mistake::one_of;
pub use mistake::{Flaw, Mistake};
pub(crate) use words::{nearest, shown};
