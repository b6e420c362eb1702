//! The pages keep their word: their commands run (`commands.rs`), their configurations are good (`configurations.rs`),
//! and what they name is there (`names.rs`). `text.rs` takes a page apart.

mod commands;
mod configurations;
mod names;
pub(crate) mod text;
