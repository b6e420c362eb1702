//! Authentication: by a token, or by a session that was opened with one.
//!
//! `presented.rs` is the result for what was presented; `known_sessions.rs` keeps sessions in memory; `gate.rs` checks
//! tokens, `sessions.rs` checks, opens and ends sessions; `run.rs` keeps both in step with the database.

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
