//! The things that the console needs of the app.

use std::sync::Arc;

use axum::Router;

use crate::config::Secret;
use crate::http::token_gate::TokenGate;
use crate::types::Clock;

/// State of the console: all that it needs of the app.
pub(crate) struct ConsoleState {
    /// The routes below `/v1`, for those who are known already.
    pub(crate) contract: Router,
    /// Judges who comes.
    pub(crate) gate: Arc<TokenGate>,
    pub(crate) clock: Clock,
    /// Path under which a proxy shows the operator side, without a slash at its end; empty for none.
    pub(crate) base: String,
    /// True when browsers reach it over TLS alone.
    pub(crate) is_secure: bool,
    /// The token that everybody has with `serve --dev`, where nobody signs in.
    pub(crate) everybodys: Option<Secret>,
}
