//! Random bytes, from the operating system.

use ring::rand::{SecureRandom, SystemRandom};

/// As many as a token or a session has; `None` when the system gives none.
pub(crate) fn bytes() -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok().map(|()| bytes)
}
