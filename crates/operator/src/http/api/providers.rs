//! `/v1/providers`: how each is registered, its last event, which of its secrets still match, and a secret that its
//! sender posted.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::Response;
use http::{HeaderValue, StatusCode, header};
use tracing::info;

use super::super::error::Problem;
use super::super::reply::{tagged_reply, view_reply};
use super::state::{ApiState, Asking, ProviderFacts};
use hooklatch_contract::{Page, ProviderView, SecretView};
use hooklatch_core::types::{Name, UnixMs};
use hooklatch_store::{OperatorQueries, ProviderStatus};

/// The secret that a sender taught us, to operators alone, and once.
pub(super) async fn show_taught(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let name = Name::parse(&name).map_err(|_| Problem::NOT_FOUND)?;
    let taught = people.take_pairing_secret(&name, state.clock.now_ms()).await?;
    info!(provider.name = %name, actor = %people.principal().name, "showed a secret that its sender taught us");
    let mut reply = view_reply(StatusCode::OK, &taught);
    reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

pub(crate) async fn list(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
) -> Result<Response, Problem> {
    let names = state.providers.iter().map(|facts| facts.name.clone()).collect();
    let items = views(&state, &people, names).await?;
    Ok(view_reply(StatusCode::OK, &Page::whole(items)))
}

pub(crate) async fn show(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    Path(name): Path<String>,
) -> Result<Response, Problem> {
    let name = Name::parse(&name).map_err(|_| Problem::NOT_FOUND)?;
    let views = views(&state, &people, BTreeSet::from([name])).await?;
    views.first().map(|view| tagged_reply(view, view)).ok_or(Problem::NOT_FOUND)
}

/// Those of these providers that are configured and in scope.
pub(crate) async fn views(
    state: &ApiState,
    people: &OperatorQueries,
    names: BTreeSet<Name>,
) -> Result<Vec<ProviderView>, Problem> {
    let (now_ms, found) = (state.clock.now_ms(), people.providers(names).await?);
    let of = |(name, standing): (Name, ProviderStatus)| {
        let facts = state.providers.iter().find(|facts| facts.name == name)?;
        Some(view(facts, standing, now_ms))
    };
    Ok(found.into_iter().filter_map(of).collect())
}

/// A provider from the tables, with its configuration.
fn view(facts: &ProviderFacts, standing: ProviderStatus, now_ms: UnixMs) -> ProviderView {
    let secrets = facts.fingerprints.iter().zip(1_u32..).map(|(fingerprint, position)| {
        let used = standing.uses.iter().find(|one| one.fingerprint == *fingerprint);
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
        pause: standing.pause,
        url: facts.url.clone(),
        identity: facts.identity.clone(),
        horizon_h: facts.horizon_h,
        is_unverified: facts.is_unverified,
        is_pairing: facts.is_pairing,
        taught_at_ms: standing.taught_at_ms,
        ids_days: facts.ids_days,
        samples: facts.samples.clone(),
        sender: facts.sender.clone(),
        secrets: secrets.collect(),
        last_event: standing.last_event,
        waiting: standing.waiting,
    }
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
        let standing = ProviderStatus { uses: vec![used("new"), used("old")], ..ProviderStatus::default() };
        for (now_ms, want) in [(3_601_000, [false; 3]), (3_601_001, [false, true, false])] {
            let view = view(&facts, standing.clone(), now_ms);
            let found: Vec<bool> = view.secrets.iter().map(|one| one.is_safe_to_remove).collect();
            assert_eq!(found, want, "{now_ms}");
            assert_eq!((view.secrets[1].position, view.secrets[2].matched_n), (2, 0));
        }
    }
}
