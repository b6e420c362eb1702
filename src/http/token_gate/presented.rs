//! What a request was let in by, and what became of what it presented.

use crate::types::Principal;

/// What a request was let in by, for whoever answers for a long time: it may be asked again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Credential {
    /// Digest of the token, when it was made at run time.
    pub(super) token: Option<[u8; 32]>,
    /// Digest of the token, when it is one of the configuration.
    pub(super) configured: Option<[u8; 32]>,
    /// Digest of the session, when one was presented in place of its token.
    pub(super) session: Option<[u8; 32]>,
}

/// What became of a token, or a session, that was presented.
#[derive(Debug)]
pub(crate) enum Presented {
    /// It is good, and this is who has it.
    Good(Principal, Credential),
    /// It was good until it expired.
    Expired,
    /// It was good until it was revoked.
    Revoked,
    /// A token that nobody has made, or a session that there is not, or not any more.
    Wrong,
    /// The database has not answered for so long that nobody can say.
    Away,
}
