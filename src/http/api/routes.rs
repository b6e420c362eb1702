//! The routes of the API, each behind a token.

use std::convert::Infallible;
use std::sync::Arc;

use axum::handler::Handler;
use axum::routing::{self, MethodRouter};
use axum::{Router, middleware};

use super::super::auth::authenticated;
use super::super::error::Problem;
use super::keys::once;
use super::state::ApiState;
use super::{
    audit, backlog, chain, decisions, destinations, events, lanes, me, messages, operations, providers,
    requests, search, statistics, tail, tokens,
};

/// The routes as they are built, and the list of them.
#[derive(Default)]
struct Routes {
    router: Router<Arc<ApiState>>,
    built: Vec<(&'static str, &'static str)>,
}

/// A method, and what answers it.
type Answered = (&'static str, MethodRouter<Arc<ApiState>, Infallible>);

impl Routes {
    fn route(mut self, path: &'static str, (method, answered): Answered) -> Self {
        self.router = self.router.route(path, answered);
        self.built.push((method, path));
        self
    }
}

fn get<H: Handler<T, Arc<ApiState>>, T: 'static>(handler: H) -> Answered {
    ("GET", routing::get(handler))
}

fn post<H: Handler<T, Arc<ApiState>>, T: 'static>(handler: H) -> Answered {
    ("POST", routing::post(handler))
}

/// Every route. `api::ROUTES` says of each who may ask, and a test below that none is missing on either side.
/// `keyed` puts the layer of keys around a POST that is no decision.
fn routes(keyed: impl Fn(Answered) -> Answered) -> Routes {
    Routes::default()
        .route("/me", get(me::show))
        .route("/events", get(events::list))
        .route("/events/count", get(events::count))
        .route("/events/{provider}/{event_id}", get(events::show))
        .route("/events/{provider}/{event_id}/body", get(events::body))
        .route("/events/{provider}/{event_id}/decide", post(decisions::decide_event))
        .route("/messages", get(messages::list))
        .route("/messages/count", get(messages::count))
        .route("/messages/{id}", get(messages::show))
        .route("/messages/{id}/decide", post(decisions::decide_message))
        .route("/lanes", get(lanes::list))
        .route("/destinations", get(destinations::list))
        .route("/destinations/{name}", get(destinations::show))
        .route("/destinations/{name}/decide", post(decisions::decide_destination))
        .route("/rejected", get(requests::list_rejected))
        .route("/providers", get(providers::list))
        .route("/providers/{name}", get(providers::show))
        .route("/providers/{name}/taught", keyed(post(providers::show_taught)))
        .route("/backlog", get(backlog::show))
        .route("/search", get(search::show))
        .route("/statistics", get(statistics::show))
        .route("/operations", get(operations::list))
        .route("/operations", post(operations::begin))
        .route("/operations/{operation_id}", get(operations::show))
        .route("/operations/{operation_id}/cancel", post(operations::cancel))
        .route("/tail", get(tail::show))
        .route("/audit", get(audit::list))
        .route("/audit/verify", get(chain::verify))
        .route("/tokens", get(tokens::list))
        .route("/tokens", post(tokens::make))
        .route("/tokens/{token_id}/revoke", post(tokens::revoke))
}

/// The routes, to be nested under `/v1`.
pub(crate) fn router(state: Arc<ApiState>) -> Router {
    let layer = once(&state);
    routes(|(method, answered)| (method, answered.layer(layer.clone())))
        .router
        .method_not_allowed_fallback(|| async { Problem::OTHER_METHOD })
        .fallback(|| async { Problem::NOT_FOUND })
        .layer(middleware::from_fn_with_state(Arc::clone(&state.gate), authenticated))
        .with_state(state)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::api::ROUTES;

    /// Routes of the contract that nothing answers yet.
    const NOT_BUILT: &[&str] = &[];
    /// Routes that are answered and are not in the contract.
    const NOT_SAID: &[&str] = &[];

    /// `GET /messages/{}`: whatever its parameters are called.
    fn shape(method: &str, path: &str) -> String {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "{}" } else { part });
        format!("{method} {}", parts.collect::<Vec<_>>().join("/"))
    }

    #[test]
    fn every_route_is_in_the_contract_and_everything_in_the_contract_is_a_route() {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        let built: BTreeSet<String> =
            routes(|answered| answered).built.iter().map(|(method, path)| shape(method, path)).collect();
        let said: BTreeSet<String> = ROUTES.iter().map(|route| shape(route.method, route.path)).collect();
        assert_eq!(built.len(), routes(|answered| answered).built.len(), "one is there twice");
        assert_eq!(said.difference(&built).cloned().collect::<BTreeSet<_>>(), list(NOT_BUILT));
        assert_eq!(built.difference(&said).cloned().collect::<BTreeSet<_>>(), list(NOT_SAID));
    }
}
