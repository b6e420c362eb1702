//! The open connections of one listener, and which one is evicted when there is no room left.
//!
//! `places.rs` counts them and picks those to evict; `slot.rs` is one connection as the others see it, as atomics that
//! its own task changes without a lock. Not here: the memory that requests take up (`admit`).

mod places;
mod slot;
#[cfg(test)]
mod tests;

pub(super) use places::{ConnectionLimiter, ConnectionPermit};
pub(crate) use slot::{ConnectionSignal, ConnectionSlot};
