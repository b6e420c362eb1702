//! The things that the console needs of the app.

use std::sync::Arc;

use axum::Router;

use crate::config::Secret;
use crate::http::token_gate::TokenGate;
use crate::types::{Clock, Name};

/// State of the console: all that it needs of the app.
pub(crate) struct ConsoleState {
    /// The routes below `/v1`, for those who are known already.
    pub(crate) contract: Router,
    /// Configured providers, for filters.
    pub(crate) providers: Vec<Name>,
    /// Configured destinations, for filters.
    pub(crate) destinations: Vec<Name>,
    /// Judges the tokens and sessions of those who come.
    pub(crate) gate: Arc<TokenGate>,
    pub(crate) clock: Clock,
    /// Path under which a proxy shows the operator side, without a slash at its end; empty for none.
    pub(crate) base: String,
    /// True when browsers reach it over TLS alone.
    pub(crate) is_secure: bool,
    /// Name of the installation, where it has one.
    pub(crate) server_name: Option<String>,
    /// True when it is a test server.
    pub(crate) is_test: bool,
    /// The token that everybody has with `serve --dev`, where nobody signs in.
    pub(crate) everybodys: Option<Secret>,
    /// Signs stored requests anew with `serve --dev`, whose secrets are published.
    pub(crate) signed_again: Option<SignAgain>,
}

/// Makes the command that sends a request once more, or says why there is none.
pub(crate) type SignAgain = Box<dyn Fn(&SignedAgain<'_>) -> Result<SignedCopy, String> + Send + Sync>;

/// The command that sends a request once more.
pub(crate) struct SignedCopy {
    pub(crate) command: String,
    /// True when the receiver identifies it as the stored event; otherwise it can become a new one.
    pub(crate) is_duplicate: bool,
}

/// A stored request that is to be signed anew.
pub(crate) struct SignedAgain<'a> {
    pub(crate) provider: &'a str,
    pub(crate) event_id: &'a str,
    pub(crate) event_type: &'a str,
    pub(crate) body: &'a [u8],
    /// Time at which it is signed. Unix seconds.
    pub(crate) now_s: i64,
}
