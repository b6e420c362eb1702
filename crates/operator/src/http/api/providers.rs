//! `/v1/providers`, `/v1/destinations`, `/v1/doctor` and `/v1/probes`: what is configured, how it is used, and what a
//! live system shows.

use std::collections::BTreeSet;

use axum::extract::Path;
use http::StatusCode;
use tracing::info;

use super::super::error::{Problem, no_store, tagged_reply, view_reply};
use super::query::Query;
use super::{Answer, Caller, ProviderFacts, path_name};
use crate::doctor;
use hooklatch_contract::{
    DestinationView, DoctorView, FindingView, Page, ProbePath, ProbeView, ProviderView, SecretView,
};
use hooklatch_core::types::{Name, UnixMs};
use hooklatch_store::{DestinationStatus, ProviderStatus};

/// The secret that a sender sent during pairing, to operators alone, and once.
pub(super) async fn show_pairing(caller: Caller, Path(name): Path<String>) -> Answer {
    let (name, people) = (path_name(&name)?, &caller.people);
    let pairing = people.take_pairing_secret(&name, caller.now_ms()).await?;
    info!(provider.name = %name, actor = %people.principal().name, "showed a secret that its sender sent for pairing");
    Ok(no_store(view_reply(StatusCode::OK, &pairing)))
}

pub(super) async fn list_providers(caller: Caller) -> Answer {
    Ok(view_reply(StatusCode::OK, &Page::whole(all_provider_views(&caller).await?)))
}

pub(super) async fn show_provider(caller: Caller, Path(name): Path<String>) -> Answer {
    let views = provider_views(&caller, BTreeSet::from([path_name(&name)?])).await?;
    views.first().map(|view| tagged_reply(view, view)).ok_or(Problem::NOT_FOUND)
}

async fn all_provider_views(caller: &Caller) -> Result<Vec<ProviderView>, Problem> {
    provider_views(caller, caller.state.providers.iter().map(|facts| facts.name.clone()).collect()).await
}

/// Those of these providers that are configured and in scope.
async fn provider_views(caller: &Caller, names: BTreeSet<Name>) -> Result<Vec<ProviderView>, Problem> {
    let (now_ms, found) = (caller.now_ms(), caller.people.providers(names).await?);
    let of = |(name, status): (Name, ProviderStatus)| {
        Some(provider_view(caller.provider(name.as_str())?, status, now_ms))
    };
    Ok(found.into_iter().filter_map(of).collect())
}

/// A provider from the tables, with its configuration.
fn provider_view(facts: &ProviderFacts, status: ProviderStatus, now_ms: UnixMs) -> ProviderView {
    let secrets = facts.fingerprints.iter().zip(1_u32..).map(|(fingerprint, position)| {
        let used = status.uses.iter().find(|one| one.fingerprint == *fingerprint);
        let last_ms = used.map(|one| one.last_matched_at_ms);
        let horizon_ms = i64::from(facts.horizon_h) * 3_600_000;
        // A secret that never matched here is not idle: its use is unknown. The newest one is the one to keep.
        let is_idle = last_ms.is_some_and(|last_ms| now_ms.saturating_sub(last_ms) > horizon_ms);
        SecretView {
            position,
            fingerprint: fingerprint.clone(),
            matched_n: used.map_or(0, |one| one.matched_n.unsigned_abs()),
            last_matched_at_ms: last_ms,
            is_safe_to_remove: position > 1 && is_idle,
        }
    });
    ProviderView {
        name: facts.name.to_string(),
        kind: facts.kind.clone(),
        pause: status.pause,
        url: facts.url.clone(),
        identity: facts.identity.clone(),
        horizon_h: facts.horizon_h,
        is_unverified: facts.is_unverified,
        is_pairing: facts.is_pairing,
        paired_at_ms: status.paired_at_ms,
        ids_days: facts.ids_days,
        samples: facts.samples.clone(),
        sender: facts.sender.clone(),
        secrets: secrets.collect(),
        last_event: status.last_event,
        waiting: status.waiting,
    }
}

pub(super) async fn list_destinations(caller: Caller) -> Answer {
    Ok(view_reply(StatusCode::OK, &Page::<DestinationView>::whole(destination_views(&caller).await?)))
}

/// Those destinations that are in scope.
async fn destination_views(caller: &Caller) -> Result<Vec<DestinationView>, Problem> {
    let found = caller.people.destinations(caller.state.destinations.keys(), caller.now_ms()).await?;
    Ok(found.into_iter().map(|status| destination_view(caller, status)).collect())
}

pub(super) async fn show_destination(caller: Caller, Path(name): Path<String>) -> Answer {
    let name = path_name(&name)?;
    let is_configured = caller.state.destinations.contains_key(&name);
    let status = caller.people.destination(&name, is_configured, caller.now_ms()).await?;
    let view = destination_view(&caller, status);
    Ok(tagged_reply(&view, &view))
}

/// A destination from the tables, with this node's configuration and state.
fn destination_view(Caller { state, .. }: &Caller, status: DestinationStatus) -> DestinationView {
    let facts = state.destinations.get(status.name.as_str());
    DestinationView {
        kind: facts.map_or_else(|| "unknown".to_owned(), |facts| facts.kind.to_owned()),
        is_configured: facts.is_some(),
        pause: status.pause,
        breaker: (state.breaker)(&status.name).map(str::to_owned),
        policy: facts.map(|facts| facts.policy.clone()),
        concurrency_n: facts.map(|facts| facts.concurrency_n),
        rate_per_s: facts.map(|facts| facts.rate_per_s).filter(|n| *n > 0).map(f64::from),
        call_times: (state.call_times)(&status.name),
        backlog: status.backlog,
        oldest_due_at_ms: status.oldest_due_at_ms,
        name: status.name,
    }
}

/// Findings; a token with a limited scope gets those of its names alone.
pub(super) async fn doctor(caller: Caller, query: Query) -> Answer {
    let is_deep = match query.get("deep") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return Err(Problem::bad_request("`deep` must be true or false")),
    };
    let (state, is_whole) = (&caller.state, caller.people.principal().is_everywhere());
    let whole = async { if is_whole { Box::pin(state.doctor.examine(is_deep)).await } else { Vec::new() } };
    let providers = async { all_provider_views(&caller).await.map_err(|problem| problem.sentence) };
    let judged =
        |views: Vec<_>| doctor::senders(&views, state.doctor.is_dev(), |name| (state.delays_ms)(name));
    let of_senders = doctor::bounded(doctor::SECRETS, doctor::LOOK_LIMIT, providers, judged);
    let destinations = async { destination_views(&caller).await.map_err(|problem| problem.sentence) };
    let judged = |views: Vec<_>| doctor::destinations(&views);
    let of_destinations = doctor::bounded(doctor::DESTINATIONS, doctor::LOOK_LIMIT, destinations, judged);
    let (whole, of_senders, of_destinations) = tokio::join!(whole, of_senders, of_destinations);
    let of_paths = if is_whole { doctor::paths(&(state.unknown_paths)()) } else { Vec::new() };
    let findings: Vec<FindingView> = [whole, of_senders, of_destinations, of_paths].concat();
    let view = DoctorView {
        node: state.doctor.node().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        at_ms: caller.now_ms(),
        is_deep,
        is_whole,
        findings: doctor::in_order(findings),
    };
    Ok(view_reply(StatusCode::OK, &view))
}

/// A token for probes, for operators, with the paths of the providers that they reach.
pub(super) async fn make_probe(caller: Caller) -> Answer {
    let (state, reach) = (&caller.state, &caller.people.principal().providers);
    let seen: Vec<_> = state.providers.iter().filter(|facts| reach.has(facts.name.as_str())).collect();
    let path = |facts: &&ProviderFacts| ProbePath {
        path: format!("/webhooks/{}", facts.name),
        headers: facts.headers.clone(),
    };
    let made = state.probes.key.make(caller.now_ms());
    let view = ProbeView {
        token: made.token,
        answer_key: made.answer_key.text(),
        good_until_ms: made.good_until_ms,
        public_url: state.probes.public_url.clone(),
        paths: seen.iter().map(path).collect(),
        body_bytes_max: state.probes.body_bytes_max,
        answer_within_ms: seen.iter().map(|facts| facts.sender.answer_within_ms).min().unwrap_or(5_000),
    };
    Ok(no_store(view_reply(StatusCode::OK, &view)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::SenderView;
    use hooklatch_store::SecretUse;

    #[test]
    fn a_secret_may_go_when_it_is_not_the_newest_and_its_sender_sends_nothing_signed_with_it() {
        let facts = ProviderFacts {
            name: Name::parse("stripe").expect("a name"),
            kind: "stripe".to_owned(),
            url: "https://hooks.test/webhooks/stripe".to_owned(),
            identity: "sender/1".to_owned(),
            horizon_h: 1,
            is_unverified: false,
            is_pairing: false,
            ids_days: 31,
            sender: SenderView {
                title: "Stripe".to_owned(),
                docs: "https://docs.test/".to_owned(),
                confidence: "official".to_owned(),
                secret_hint: "in the dashboard".to_owned(),
                signed_by: "HMAC-SHA-256".to_owned(),
                weakness: None,
                identities: Vec::new(),
                answer_within_ms: 1_000,
            },
            has_search: None,
            headers: Vec::new(),
            samples: Vec::new(),
            fingerprints: ["new", "old", "never"].map(str::to_owned).to_vec(),
        };
        let used = |fingerprint: &str| SecretUse {
            provider: "stripe".to_owned(),
            fingerprint: fingerprint.to_owned(),
            matched_n: 2,
            last_matched_at_ms: 1_000,
        };
        let status = ProviderStatus { uses: vec![used("new"), used("old")], ..ProviderStatus::default() };
        for (now_ms, want) in [(3_601_000, [false; 3]), (3_601_001, [false, true, false])] {
            let view = provider_view(&facts, status.clone(), now_ms);
            let found: Vec<bool> = view.secrets.iter().map(|one| one.is_safe_to_remove).collect();
            assert_eq!(found, want, "{now_ms}");
            assert_eq!((view.secrets[1].position, view.secrets[2].matched_n), (2, 0));
        }
    }
}
