//! Destinations: paused, broken off, or not to be found.

use std::time::Duration;

use super::check::{DESTINATIONS, NAMES, or_well};
use hooklatch_contract::{DestinationView, FindingView};

/// Longest time that all names together may take.
const NAMES_LIMIT: Duration = Duration::from_secs(3);
/// Most names that are looked up.
const NAMES_N_MAX: usize = 64;

/// Findings about these destinations, as this node sees them.
pub fn destinations(views: &[DestinationView]) -> Vec<FindingView> {
    let found = views.iter().flat_map(standing).collect();
    or_well(found, || DESTINATIONS.well("none is paused, no breaker is open"))
}

fn standing(view: &DestinationView) -> Vec<FindingView> {
    let mut found = Vec::new();
    let name = &view.name;
    if let Some(pause) = &view.pause {
        found.push(
            DESTINATIONS
                .warning(pause.in_words())
                .about(name)
                .cure(format!("hooklatch destinations resume {name} --reason …")),
        );
    }
    if view.breaker.as_deref().is_some_and(|breaker| breaker != "closed") {
        let words = format!("its breaker is {}", view.breaker.as_deref().unwrap_or_default());
        let remedy = format!(
            "hooklatch destinations show {name}; hooklatch messages list --destination {name} has the errors"
        );
        found.push(DESTINATIONS.warning(words).about(name).cure(remedy));
    }
    if !view.is_configured && !view.backlog.is_empty() {
        let words = "messages wait for it, and it is not configured here";
        found.push(
            DESTINATIONS
                .warning(words)
                .about(name)
                .cure(format!("write [destinations.{name}] again, or decide about its messages")),
        );
    }
    found
}

/// Looks up these hosts, with the names of their destinations.
pub(crate) async fn names(hosts: Vec<(String, String, u16)>) -> Vec<FindingView> {
    let all_n = hosts.len();
    let looks = hosts.into_iter().take(NAMES_N_MAX).map(|(destination, host, port)| async move {
        let looked = tokio::time::timeout(NAMES_LIMIT, tokio::net::lookup_host((host.as_str(), port))).await;
        let why = match looked {
            Ok(Ok(mut addresses)) => addresses.next().is_none().then(|| "it has no address".to_owned())?,
            Ok(Err(error)) => error.to_string(),
            Err(_) => {
                return Some(NAMES.unknown(format!("`{host}`: no answer within 3 s")).about(destination));
            }
        };
        let found = NAMES.warning(format!("`{host}`: {why}")).about(&destination);
        Some(found.cure(format!("look at DNS (getent hosts {host}), and at destinations.{destination}.url")))
    });
    let found = futures_util::future::join_all(looks).await.into_iter().flatten().collect();
    or_well(found, || NAMES.well(format!("{all_n} looked up")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::{BacklogCount, FindingVerdict, PauseView};
    use hooklatch_core::types::MessageState;

    fn view() -> DestinationView {
        DestinationView {
            name: "billing".to_owned(),
            kind: "http".to_owned(),
            is_configured: true,
            pause: None,
            breaker: Some("closed".to_owned()),
            policy: None,
            concurrency_n: Some(1),
            rate_per_s: None,
            call_times: None,
            backlog: Vec::new(),
            oldest_due_at_ms: None,
        }
    }

    #[test]
    fn a_destination_that_gets_no_calls_is_reported() {
        let pause = PauseView {
            actor: "ann".to_owned(),
            reason: "they move".to_owned(),
            paused_at_ms: 0,
            until_ms: None,
        };
        let backlog = vec![BacklogCount {
            state: MessageState::Ready,
            messages_n: 1,
            is_more: false,
            oldest_visible_at_ms: 0,
        }];
        for (view, is_bad) in [
            (view(), false),
            (DestinationView { breaker: None, ..view() }, false),
            (DestinationView { backlog: backlog.clone(), ..view() }, false),
            (DestinationView { pause: Some(pause), ..view() }, true),
            (DestinationView { breaker: Some("open".to_owned()), ..view() }, true),
            (DestinationView { is_configured: false, backlog, ..view() }, true),
        ] {
            let found = destinations(std::slice::from_ref(&view));
            assert_eq!(found.iter().any(FindingView::is_bad), is_bad, "{view:?}");
        }
    }

    #[tokio::test]
    async fn a_name_that_does_not_resolve_is_reported() {
        let host = |name: &str, host: &str| (name.to_owned(), host.to_owned(), 80);
        let found = names(vec![host("there", "127.0.0.1"), host("gone", "nowhere.invalid")]).await;
        let reported: Vec<_> = found
            .iter()
            .map(|one| (one.subject.as_deref(), one.verdict >= FindingVerdict::Unknown))
            .collect();
        assert_eq!(reported, [(Some("gone"), true)]);
    }
}
