//! The TLS of destinations, as the node that calls them sees it.

use super::check::{Check, HANDSHAKES, or_well};
use super::node::DAYS_LEFT;
use hooklatch_contract::FindingView;
use hooklatch_core::figures::plural;
use hooklatch_core::types::UnixMs;
use hooklatch_outbox::{Handshake, HandshakeEnd, Handshakes};

const CHECK: Check = HANDSHAKES;

pub(crate) fn handshakes(looked: &Handshakes, now_ms: UnixMs) -> Vec<FindingView> {
    let found = looked.done.iter().filter_map(|one| judged(one, now_ms)).collect();
    let mut findings = or_well(found, || CHECK.well(well_words(looked)));
    if looked.left_n > 0 {
        findings.push(
            CHECK.note(format!("{} more were not looked at", plural(looked.left_n as u64, "destination"))),
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
    let found = match &one.end {
        HandshakeEnd::Well { not_after_s } => {
            let left_days = not_after_s.map(|end_s| end_s.saturating_sub(now_ms / 1_000) / 86_400);
            let days = left_days.filter(|days| *days < DAYS_LEFT)?;
            CHECK
                .warning(format!("`{host}`: {} left of its certificate", plural(days.unsigned_abs(), "day")))
                .cure("its operator has to renew it: ask them before it ends")
        }
        HandshakeEnd::Unreached(why) => CHECK
            .warning(format!("`{host}` is not reached: {why}"))
            .cure(format!("look from this node: getent hosts, the firewall, the port in destinations.{first}.url")),
        HandshakeEnd::Silent(ms) => CHECK
            .warning(format!("`{host}`: no TLS within {ms} ms"))
            .cure("it takes connections and says nothing, or is far: ask its operator; destinations.NAME.connect_timeout_ms is how long calls wait"),
        HandshakeEnd::NotBelieved(why) => CHECK.failure(format!("`{host}`: its certificate is not believed: {why}")).cure(format!(
            "its operator has to show a good one with its chain; an authority of your own is named in destinations.{first}.tls.ca; without that, \
             those of the system count (SSL_CERT_FILE, the package ca-certificates)"
        )),
        HandshakeEnd::NotTaken(why) => CHECK
            .failure(format!("`{host}` does not take our connection: {why}"))
            .cure(format!("it may want a certificate of ours, or another one: destinations.{first}.tls.certificate and .key")),
        HandshakeEnd::NoTls(why) => CHECK
            .failure(format!("`{host}` speaks no TLS that we know: {why}"))
            .cure(format!("look at scheme and port of destinations.{first}.url; TLS 1.2 and 1.3 are spoken")),
    };
    Some(found.about(one.destinations.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict::{Failure, Note, Warning, Well};

    #[test]
    fn each_result_of_a_handshake_is_reported_with_its_host_and_a_remedy() {
        const NOW_S: i64 = 1_795_356_311;
        let in_days = |days: i64| HandshakeEnd::Well { not_after_s: Some(NOW_S + days * 86_400) };
        let why = || "for a reason".to_owned();
        for (end, want) in [
            (in_days(14), Well),
            (in_days(13), Warning),
            (HandshakeEnd::Well { not_after_s: None }, Well),
            (HandshakeEnd::Unreached(why()), Warning),
            (HandshakeEnd::Silent(3_000), Warning),
            (HandshakeEnd::NotBelieved(why()), Failure),
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
