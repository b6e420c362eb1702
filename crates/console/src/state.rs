//! The things that the console needs of the app.

use std::sync::Arc;

use axum::Router;

use hooklatch_core::config::Secret;
use hooklatch_core::types::{Clock, Name};
use hooklatch_operator::http::token_gate::TokenGate;

/// State of the console: all that it needs of the app.
pub struct ConsoleState {
    /// The routes below `/v1`, for those who are known already.
    pub contract: Router,
    /// Configured providers, for filters.
    pub providers: Vec<Name>,
    /// Configured destinations, for filters.
    pub destinations: Vec<Name>,
    /// Checks the tokens and sessions of requests.
    pub gate: Arc<TokenGate>,
    pub clock: Clock,
    /// Path under which a proxy shows the operator side, without a slash at its end; empty for none.
    pub base: String,
    /// True when browsers reach it over TLS alone.
    pub is_secure: bool,
    /// Name of the installation, where it has one.
    pub server_name: Option<String>,
    /// True when it is a test server.
    pub is_test: bool,
    /// The token that `serve --dev` uses for every request, because its users do not sign in.
    pub everybodys: Option<Secret>,
    /// Signs stored requests anew with `serve --dev`, whose secrets are published.
    pub signed_again: Option<SignAgain>,
}

/// Makes the command that sends a request once more, or returns the reason why there is none.
pub type SignAgain = Box<dyn Fn(&SignedAgain<'_>) -> Result<SignedCopy, String> + Send + Sync>;

/// The command that sends a request once more.
pub struct SignedCopy {
    pub command: String,
    /// True when the receiver identifies it as the stored event; otherwise it can become a new one.
    pub is_duplicate: bool,
}

/// A stored request that is to be signed anew.
pub struct SignedAgain<'a> {
    pub provider: &'a str,
    pub event_id: &'a str,
    pub event_type: &'a str,
    pub body: &'a [u8],
    /// Time at which it is signed. Unix seconds.
    pub now_s: i64,
}
