//! `/v1/doctor` and `/v1/probes`: what a live system shows, and what it takes to look at the receiver from outside.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::query::query;
use super::state::{ApiState, Asking, ProviderFacts};
use super::{destinations, providers};
use crate::doctor;
use hooklatch_contract::{DoctorView, FindingView, ProbePath, ProbeView};
use hooklatch_core::types::Role;
use hooklatch_store::OperatorQueries;

/// Findings; a token with a limited scope gets those of its names alone.
pub(crate) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    people.needs(Role::Operator)?;
    let values = query(raw.as_deref(), ["deep"])?;
    let is_deep = match values.get("deep").map(String::as_str) {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::bad_request("`deep` must be true or false")),
    };
    let is_whole = people.principal().is_everywhere();
    let whole = async { if is_whole { Box::pin(state.doctor.examine(is_deep)).await } else { Vec::new() } };
    let (whole, of_senders, of_destinations) =
        tokio::join!(whole, senders(&state, &people), where_to(&state, &people));
    let mut findings = whole;
    findings.extend(of_senders);
    findings.extend(of_destinations);
    if is_whole {
        findings.extend(doctor::paths(&(state.unknown_paths)()));
    }
    let view = DoctorView {
        node: state.doctor.node().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at_ms: state.clock.now_ms(),
        is_deep,
        is_whole,
        findings: doctor::in_order(findings),
    };
    Ok(view_reply(StatusCode::OK, &view))
}

async fn senders(state: &ApiState, people: &OperatorQueries) -> Vec<FindingView> {
    let names = state.providers.iter().map(|facts| facts.name.clone()).collect();
    let asked = async { providers::views(state, people, names).await.map_err(|problem| problem.sentence) };
    let judged =
        |views: Vec<_>| doctor::senders(&views, state.doctor.is_dev(), |name| (state.delays_ms)(name));
    doctor::bounded(doctor::SECRETS, doctor::LOOK_LIMIT, asked, judged).await
}

async fn where_to(state: &ApiState, people: &OperatorQueries) -> Vec<FindingView> {
    let asked = async { destinations::views(state, people).await.map_err(|problem| problem.sentence) };
    let judged = |views: Vec<_>| doctor::destinations(&views);
    doctor::bounded(doctor::DESTINATIONS, doctor::LOOK_LIMIT, asked, judged).await
}

/// A token for probes, for operators, with the paths of the providers that they reach.
pub(super) async fn make_probe(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
) -> Result<Response, Problem> {
    people.needs(Role::Operator)?;
    let reach = &people.principal().providers;
    let seen: Vec<_> = state.providers.iter().filter(|facts| reach.has(facts.name.as_str())).collect();
    let path = |facts: &&ProviderFacts| ProbePath {
        path: format!("/webhooks/{}", facts.name),
        headers: facts.headers.clone(),
    };
    let made = state.probes.key.make(state.clock.now_ms());
    let view = ProbeView {
        token: made.token,
        answer_key: made.answer_key.text(),
        good_until_ms: made.good_until_ms,
        public_url: state.probes.public_url.clone(),
        paths: seen.iter().map(path).collect(),
        body_bytes_max: state.probes.body_bytes_max,
        answer_within_ms: seen.iter().map(|facts| facts.sender.answer_within_ms).min().unwrap_or(5_000),
    };
    let mut reply = view_reply(StatusCode::OK, &view);
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}
