//! Destinations: paused, broken off, not to be found, or with TLS that does not work from the node that calls them.

use std::time::Duration;

use super::check::{DESTINATIONS, HANDSHAKES, NAMES, or_well};
use super::node::DAYS_LEFT;
use hooklatch_contract::{DestinationView, FindingView};
use hooklatch_core::figures::plural;
use hooklatch_core::types::UnixMs;
use hooklatch_outbox::{Handshake, HandshakeEnd, Handshakes};

/// Longest time that all names together may take.
const NAMES_LIMIT: Duration = Duration::from_secs(3);
/// Most names that are looked up.
const NAMES_N_MAX: usize = 64;

/// Findings about these destinations, as this node sees them.
pub(crate) fn destinations(views: &[DestinationView]) -> Vec<FindingView> {
    let found = views.iter().flat_map(findings).collect();
    or_well(found, || DESTINATIONS.well("none is paused, no breaker is open"))
}

fn findings(view: &DestinationView) -> Vec<FindingView> {
    let (mut found, name) = (Vec::new(), &view.name);
    let mut add = |words: String, remedy: String| {
        found.push(DESTINATIONS.warning(words).about(name).cure(remedy));
    };
    if let Some(pause) = &view.pause {
        add(pause.in_words(), format!("hooklatch destinations resume {name} --reason …"));
    }
    if let Some(breaker) = view.breaker.as_deref().filter(|breaker| *breaker != "closed") {
        let remedy = format!(
            "hooklatch destinations show {name}; hooklatch messages list --destination {name} has the errors"
        );
        add(format!("its breaker is {breaker}"), remedy);
    }
    if !view.is_configured && !view.backlog.is_empty() {
        let words = "messages wait for it, and it is not configured here".to_owned();
        add(words, format!("write [destinations.{name}] again, or decide about its messages"));
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

pub(crate) fn handshakes(looked: &Handshakes, now_ms: UnixMs) -> Vec<FindingView> {
    let found = looked.done.iter().filter_map(|one| judged(one, now_ms)).collect();
    let mut findings = or_well(found, || HANDSHAKES.well(well_words(looked)));
    if looked.left_n > 0 {
        findings.push(
            HANDSHAKES
                .note(format!("{} more were not looked at", plural(looked.left_n as u64, "destination"))),
        );
    }
    findings
}

fn well_words(looked: &Handshakes) -> String {
    let elsewhere = match looked.elsewhere_n {
        0 => String::new(),
        n => format!("; {n} not looked at: called through a proxy, or at a host that each message names"),
    };
    format!("{}{elsewhere}", plural(looked.done.len() as u64, "handshake"))
}

fn judged(one: &Handshake, now_ms: UnixMs) -> Option<FindingView> {
    let (host, first) = (&one.host, one.destinations.first().map(String::as_str).unwrap_or_default());
    let (is_failure, words, remedy) = match &one.end {
        HandshakeEnd::Trusted { not_after_s } => {
            let left_days = not_after_s.map(|end_s| end_s.saturating_sub(now_ms / 1_000) / 86_400);
            let days = left_days.filter(|days| *days < DAYS_LEFT)?;
            let words = format!(": {} left of its certificate", plural(days.unsigned_abs(), "day"));
            (false, words, "its operator has to renew it: ask them before it ends".to_owned())
        }
        HandshakeEnd::Unreached(why) => (
            false,
            format!(" is not reached: {why}"),
            format!("look from this node: getent hosts, the firewall, the port in destinations.{first}.url"),
        ),
        HandshakeEnd::Silent(ms) => (
            false,
            format!(": no TLS within {ms} ms"),
            "it takes connections and says nothing, or is far: ask its operator; destinations.NAME.connect_timeout_ms is how long \
             calls wait"
                .to_owned(),
        ),
        HandshakeEnd::Untrusted(why) => (
            true,
            format!(": its certificate is not believed: {why}"),
            format!(
                "its operator has to show a good one with its chain; an authority of your own is named in destinations.{first}.tls.ca; \
                 without that, those of the system count (SSL_CERT_FILE, the package ca-certificates)"
            ),
        ),
        HandshakeEnd::NotTaken(why) => (
            true,
            format!(" does not take our connection: {why}"),
            format!(
                "it may want a certificate of ours, or another one: destinations.{first}.tls.certificate and .key"
            ),
        ),
        HandshakeEnd::NoTls(why) => (
            true,
            format!(" speaks no TLS that we know: {why}"),
            format!("look at scheme and port of destinations.{first}.url; TLS 1.2 and 1.3 are spoken"),
        ),
    };
    let found = HANDSHAKES.graded(format!("`{host}`{words}"), (true, is_failure), &remedy);
    Some(found.about(one.destinations.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict::{Failure, Note, Warning, Well};
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

    #[test]
    fn each_result_of_a_handshake_is_reported_with_its_host_and_a_remedy() {
        const NOW_S: i64 = 1_795_356_311;
        let in_days = |days: i64| HandshakeEnd::Trusted { not_after_s: Some(NOW_S + days * 86_400) };
        let why = || "for a reason".to_owned();
        for (end, want) in [
            (in_days(14), Well),
            (in_days(13), Warning),
            (HandshakeEnd::Trusted { not_after_s: None }, Well),
            (HandshakeEnd::Unreached(why()), Warning),
            (HandshakeEnd::Silent(3_000), Warning),
            (HandshakeEnd::Untrusted(why()), Failure),
            (HandshakeEnd::NotTaken(why()), Failure),
            (HandshakeEnd::NoTls(why()), Failure),
        ] {
            let done = vec![Handshake {
                destinations: vec!["billing".to_owned()],
                host: "far:8443".to_owned(),
                end,
            }];
            let looked = Handshakes { done, ..Handshakes::default() };
            let found = handshakes(&looked, NOW_S * 1_000);
            assert_eq!((found.len(), found[0].verdict), (1, want), "{found:?}");
            let is_named =
                found[0].found.contains("far:8443") && found[0].subject.as_deref() == Some("billing");
            assert_eq!((is_named, found[0].remedy.is_some()), (want != Well, want != Well), "{found:?}");
        }
        let looked = Handshakes { elsewhere_n: 2, left_n: 1, ..Handshakes::default() };
        let found = handshakes(&looked, 0);
        assert!(found[0].found.contains("2 not looked at"), "{found:?}");
        assert_eq!(found[1].verdict, Note);
    }
}
