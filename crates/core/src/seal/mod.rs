//! Encryption at rest: bodies, their headers and captured answers are sealed before they are written, and opened when
//! they are read. Pure: bytes in, bytes out. What is sealed where is the store's business.
//!
//! AES-256-GCM under a key of its own for every value, which HKDF-SHA256 makes of a key of the ring and of 32 random
//! bytes that are stored with the value. So no key is used twice, no nonce has to be counted by several nodes, and the
//! number of values that one key of the ring may seal has no bound worth naming
//! (docs/adr/0054-encryption-at-rest.md). The place of a value is part of what is authenticated: its table, column and
//! number, and provider and id of its event. A value that is copied to another row does not open there, nor in its own
//! row under the id of another event.
//!
//! A database keeps a check value for each key id, so that no other key is used under that id.
//!
//! Search ids are found by keyed digests: HMAC-SHA-256 under a key that HKDF makes of a key of the ring, so `reseal` writes
//! them again for another key.
//!
//! Reading order: `key.rs`, `place.rs`, `sealed.rs` (one value under one key), `ring.rs` (which key).

mod error;
mod key;
mod place;
mod ring;
mod sealed;

pub use error::SealError;
pub use key::{SealKey, SealKeyError};
pub use place::SealedPlace;
pub use ring::KeyRing;
pub use sealed::SEALED_MORE_BYTES;
