//! The pages are correct: their commands run (`commands.rs`), their configurations are valid (`configurations.rs`),
//! and what they name exists (`names.rs`). `text.rs` parses a page.

mod commands;
mod configurations;
mod names;
pub(crate) mod text;
