//! The result of checking a token, or a session, that a request presented.

use hooklatch_core::types::Principal;

/// The result of checking a token, or a session.
#[derive(Debug)]
pub enum Presented {
    /// It is valid, and belongs to this principal.
    Good(Principal),
    /// It was good until it expired.
    Expired,
    /// It was good until it was revoked.
    Revoked,
    /// A token that does not exist, or a session that does not exist any more, or never did.
    Wrong,
    /// The database has not answered for so long that this is unknown.
    Away,
}
