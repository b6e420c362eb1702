//! Log lines: for people in a terminal, one JSON object a line otherwise.
//!
//! `install` sets up the process's log; `sampler` bounds the lines of one kind that strangers can cause, and `lines`
//! those of several kinds. `non_blocking` writes without waiting for the reader. What a line says is written
//! where it happens.

mod install;
mod lines;
mod non_blocking;
mod sampler;

pub use install::{AUDIT_TARGET, install};
pub use lines::Lines;
pub use sampler::Sampler;
