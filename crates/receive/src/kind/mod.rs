//! Kinds: how one sort of sender signs and shapes its requests.

pub mod prelude;
