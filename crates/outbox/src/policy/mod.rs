//! Decides what an answer means and what follows from it: pure decisions, no clock, no database, no randomness.
//!
//! [`before_send`] decides whether anything may leave at all, [`next_step`] what one attempt leads to. Both
//! keep to two rules: what is unknown is never treated as refused or as done, and past the time a destination
//! remembers a key nothing is sent by itself.
//!
//! `answer.rs` has the answer to a call, `facts.rs` what is known of a message, `rules.rs` the decisions.

mod answer;
mod facts;
mod rules;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use answer::CallAnswer;
pub(crate) use facts::Facts;
pub(crate) use rules::{NextStep, SendPlan, before_send, may_have_acted, next_step, result_of};
