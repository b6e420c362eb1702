//! The person who asks, as routes take them: their token was found good before.

use axum::extract::FromRequestParts;
use http::request::Parts;

use super::super::error::Problem;
use super::state::ApiState;
use crate::store::People;
use crate::types::{Principal, TYPED_BY, TypedBy};
use std::sync::Arc;

/// The store as the caller of a route may see it.
pub(super) struct Asking(pub(super) People);

impl FromRequestParts<Arc<ApiState>> for Asking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &Arc<ApiState>) -> Result<Self, Problem> {
        let principal = parts.extensions.get::<Principal>().cloned().ok_or(Problem::NOT_FOUND)?;
        let typed_by = parts.headers.get(TYPED_BY).and_then(|text| TypedBy::parse(text.to_str().ok()?));
        Ok(Self(state.people.open(principal).typed_by(typed_by)))
    }
}
