//! `/v1/activity`: what this node counted over time. It asks no database.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::query::{minutes_n, name, query};
use super::state::ApiState;
use crate::api::{ActivityView, DestinationActivity, ProviderActivity};
use crate::minutes::{MINUTES_N_MAX, MinuteSpan};
use crate::types::{Name, Reach};

/// The counts of every name in scope, those of destinations for tokens that reach all providers; with `provider` or `destination` those of what is named, and no others.
pub(super) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider", "destination", "minutes_n"])?;
    let minutes_n = minutes_n(&values, MINUTES_N_MAX, "`minutes_n` must be a number from 1 to 180")?;
    let (provider, destination) = (name(&values, "provider")?, name(&values, "destination")?);
    let is_narrow = provider.is_some() || destination.is_some();
    let principal = people.principal();
    let (now_ms, counted) = (state.clock.now_ms(), &state.activity);
    let span = MinuteSpan::until(now_ms, minutes_n);
    let providers = state.providers.iter().map(|facts| &facts.name);
    let providers = chosen(providers, &principal.providers, provider.as_ref(), is_narrow)?;
    let destinations = state.destinations.keys();
    let destinations = chosen(destinations, &principal.destinations, destination.as_ref(), is_narrow)?;
    let of_provider = |name: &Name| ProviderActivity {
        provider: name.to_string(),
        minutes: (counted.requests)(name, span),
    };
    let of_destination = |name: &Name| DestinationActivity {
        destination: name.to_string(),
        // They are counted of all providers together.
        minutes: if principal.providers == Reach::All { (counted.attempts)(name, span) } else { Vec::new() },
    };
    let view = ActivityView {
        node: counted.node.clone(),
        since_ms: counted.since_ms,
        from_ms: span.began_ms(),
        now_ms,
        providers: providers.into_iter().map(of_provider).collect(),
        destinations: destinations.into_iter().map(of_destination).collect(),
    };
    Ok(view_reply(StatusCode::OK, &view))
}

/// The names that are asked for and in reach; one that is asked for by name must be.
fn chosen<'a>(
    configured: impl Iterator<Item = &'a Name>,
    reach: &Reach,
    named: Option<&Name>,
    is_narrow: bool,
) -> Result<Vec<&'a Name>, Problem> {
    if let Some(name) = named.filter(|name| !reach.has(name.as_str())) {
        return Err(Problem::NOT_FOUND.with_detail(format!("this token does not reach `{name}`")));
    }
    let is_chosen =
        |name: &&Name| named.map_or(!is_narrow, |named| named == *name) && reach.has(name.as_str());
    Ok(configured.filter(is_chosen).collect())
}
