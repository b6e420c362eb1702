//! A person's request: its principal, and the way from there to `/v1`.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;
use maud::Markup;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::contract::{self, ContractAnswer, OrderHeaders};
use super::entrance;
use super::parts::frame::{self, Frame, Place};
use super::state::ConsoleState;
use super::trouble::PageError;
use hooklatch_core::types::{Principal, Role, UnixMs};
use hooklatch_operator::http::KnownCaller;

/// An authenticated request.
pub(super) struct Visit {
    pub state: Arc<ConsoleState>,
    pub principal: Principal,
    /// Time when it was received.
    pub now_ms: UnixMs,
}

impl FromRequestParts<Arc<ConsoleState>> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ConsoleState>) -> Result<Self, Response> {
        let principal = entrance::authenticate(parts, state).await.map_err(|answer| *answer)?;
        Ok(Self { state: Arc::clone(state), principal, now_ms: state.clock.now_ms() })
    }
}

impl Visit {
    /// True when they have this role, or a stronger one.
    pub(crate) fn may(&self, role: Role) -> bool {
        self.principal.role >= role
    }

    /// The address of one of our own paths, behind whatever proxy.
    pub(crate) fn link(&self, path: &str) -> String {
        format!("{}{path}", self.state.base)
    }

    /// Gets a path below `/v1`, as a view.
    pub(crate) async fn get<T: DeserializeOwned>(&self, target: &str) -> Result<T, PageError> {
        self.get_tagged(target).await.map(|answer| answer.view)
    }

    /// The same with its version.
    pub(super) async fn get_tagged<T: DeserializeOwned>(
        &self,
        target: &str,
    ) -> Result<ContractAnswer<T>, PageError> {
        contract::parse_answer(self.get_response(target).await).await
    }

    /// The response, unparsed.
    pub(super) async fn get_response(&self, target: &str) -> Response {
        contract::get(&self.state.contract, &self.principal, target).await
    }

    /// Posts an order, which is carried out once for each key.
    pub(crate) async fn post<T: DeserializeOwned>(
        &self,
        target: &str,
        headers: &OrderHeaders,
        order: &impl Serialize,
    ) -> Result<T, PageError> {
        let order = serde_json::to_value(order).map_err(|_| PageError::INCOMPLETE)?;
        let who = &self.principal;
        let response = contract::post(&self.state.contract, who, target, headers, &order).await;
        contract::parse_answer(response).await.map(|answer| answer.view)
    }

    /// A whole page, with its head and its list of pages.
    pub(crate) fn page(&self, place: Place, title: &str, body: &Markup) -> Response {
        let frame = Frame { state: &self.state, principal: Some(&self.principal), place };
        mark_authenticated(frame::page(&frame, title, body))
    }

    /// The page, or one with the error.
    pub(crate) fn answer(&self, place: Place, made: Result<(String, Markup), PageError>) -> Response {
        match made {
            Ok((title, body)) => self.page(place, &title, &body),
            Err(trouble) => self.trouble(place, &trouble),
        }
    }

    /// A page about what went wrong, with its status.
    pub(super) fn trouble(&self, place: Place, trouble: &PageError) -> Response {
        let frame = Frame { state: &self.state, principal: Some(&self.principal), place };
        mark_authenticated(frame::trouble(&frame, trouble))
    }
}

/// Marks a response as one to an authenticated caller.
fn mark_authenticated(mut response: Response) -> Response {
    response.extensions_mut().insert(KnownCaller);
    response
}
