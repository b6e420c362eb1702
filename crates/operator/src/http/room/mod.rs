//! The open connections of one listener: who has a place, and who gives its place up when there is none left.
//!
//! `places.rs` counts them and picks who goes; `slot.rs` is one connection as the others see it, as atomics that its
//! own task changes without a lock. Not here: the memory that requests take up (`admit`).

mod places;
mod slot;
#[cfg(test)]
mod tests;

pub(super) use places::{ConnectionLimiter, ConnectionPermit};
pub(crate) use slot::{ConnectionSignal, ConnectionSlot};
