//! Who is let in: by a token, or by a session that was opened with one.
//!
//! `presented.rs` is what became of what was presented; `known_sessions.rs` is what this node knows of sessions;
//! `gate.rs` judges tokens, `sessions.rs` judges, opens and ends sessions; `run.rs` keeps all that is known as the
//! database has it.

mod gate;
mod known_sessions;
mod presented;
mod run;
mod sessions;
#[cfg(test)]
mod tests;

pub use gate::TokenGate;
pub use presented::Presented;
pub use sessions::SESSION_MS;
