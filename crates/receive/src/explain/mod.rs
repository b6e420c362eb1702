//! Explain: a saved request is judged as a received one would be, step by step, and without any effect.
//! The command, the API and the console say what is found here.
//!
//! Reading order: `saved.rs` takes a saved request apart; `judged.rs` judges it, with the hints of `diagnose`;
//! `explainer.rs` does both with the providers as they are configured, for those who ask a running server.
//! Nothing here says what a signature should have been.

mod explainer;
mod judged;
mod saved;

pub use explainer::Explainer;
pub use judged::judged;
pub use saved::{SavedRequest, parse};
