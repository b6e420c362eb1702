//! Providers: which secrets match, which requests are accepted without one, and what their signed times show of our
//! clock.

use super::check::{CLOCK_SENDERS, OPEN, PATHS, PROVIDERS, SECRETS, or_well};
use super::clocks::senders_clock;
use hooklatch_contract::{FindingView, ProviderView, UnknownPathView};
use hooklatch_core::figures::plural;

/// Findings about these providers; `delays_ms` returns the delays of a provider's newest requests, from signing to
/// arrival.
pub fn senders(
    views: &[ProviderView],
    is_dev: bool,
    delays_ms: impl Fn(&str) -> Vec<i64>,
) -> Vec<FindingView> {
    let clocks = views.iter().filter_map(|view| senders_clock(&view.name, &delays_ms(&view.name)));
    let mut findings = or_well(clocks.collect(), || {
        CLOCK_SENDERS.well("nothing with a signed time arrived since the start")
    });
    let secrets = views.iter().flat_map(secrets).collect();
    findings.extend(or_well(secrets, || SECRETS.well("those that are configured are the ones that match")));
    let paused = views.iter().filter_map(paused).collect();
    findings.extend(or_well(paused, || PROVIDERS.well("none is paused")));
    // Only this machine reaches a first look.
    let open = if is_dev { Vec::new() } else { views.iter().flat_map(open).collect() };
    findings.extend(or_well(open, || OPEN.well("none")));
    findings
}

/// Findings about paths without a provider that were posted to.
pub fn paths(paths: &[UnknownPathView]) -> Vec<FindingView> {
    let found = paths.iter().filter_map(|one| {
        let requests = plural(one.requests_n, "request");
        let (words, remedy) = match (&one.nearest_provider, &one.signature_of_kind) {
            (Some(name), _) => (
                format!(
                    "{requests} for {}: no provider has this path; probably meant for `{name}`",
                    one.path
                ),
                format!("correct the URL at the sender: it ends in /webhooks/{name}"),
            ),
            (None, Some(kind)) => (
                format!("{requests} for {}, signed like `{kind}`: no provider has this path", one.path),
                "add the provider to the configuration, or correct the URL at the sender".to_owned(),
            ),
            (None, None) => return None,
        };
        Some(PATHS.warning(words).cure(remedy))
    });
    or_well(found.collect(), || PATHS.well("none that is like a provider's"))
}

fn secrets(view: &ProviderView) -> Vec<FindingView> {
    let mut found = Vec::new();
    let others_matched = view.secrets.iter().skip(1).any(|secret| secret.matched_n > 0);
    if let Some(newest) = view.secrets.first().filter(|newest| newest.matched_n == 0 && others_matched) {
        let words = format!(
            "the newest secret ({}) never matched, and an older one does: the sender signs with the old one",
            newest.fingerprint
        );
        found.push(SECRETS.warning(words).about(&view.name).cure(format!(
            "finish the rotation in the dashboard of {}: {}; keep the old one until this matches",
            view.sender.title, view.sender.secret_hint
        )));
    }
    for secret in view.secrets.iter().skip(1) {
        let (n, name) = (secret.position, &secret.fingerprint);
        let key = format!("providers.{}.secrets", view.name);
        if secret.is_safe_to_remove {
            let words = format!("secret {n} ({name}) no longer matches: what it signed is sent no more");
            found.push(SECRETS.note(words).about(&view.name).cure(format!("take it out of {key}")));
        } else if secret.matched_n == 0 {
            let words = format!("secret {n} ({name}) never matched here");
            let remedy = format!("take it out of {key}, unless it was just put there for a rotation");
            found.push(SECRETS.note(words).about(&view.name).cure(remedy));
        }
    }
    found
}

fn paused(view: &ProviderView) -> Option<FindingView> {
    let words = view.pause.as_ref()?.in_words();
    let remedy = format!("hooklatch providers resume {} --reason …", view.name);
    Some(PROVIDERS.warning(words).about(&view.name).cure(remedy))
}

fn open(view: &ProviderView) -> Vec<FindingView> {
    let mut found = Vec::new();
    if view.is_unverified {
        let words = "its requests are accepted although they are not signed";
        let remedy = format!("list its addresses in providers.{}.allow_from, or have it sign", view.name);
        found.push(OPEN.warning(words).about(&view.name).cure(remedy));
    }
    if view.is_pairing {
        let remedy =
            format!("providers.{0}.settings.pairing = \"closed\", after `hooklatch taught {0}`", view.name);
        found.push(
            OPEN.warning("it accepts a secret from anyone who posts one").about(&view.name).cure(remedy),
        );
    }
    if view.taught_at_ms.is_some() {
        let words = "a secret that its sender taught us waits to be read";
        found.push(OPEN.note(words).about(&view.name).cure(format!("hooklatch taught {}", view.name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict::{self, Note, Warning};
    use hooklatch_contract::{SecretView, SenderView};

    fn provider() -> ProviderView {
        let secret = |position: u32, matched_n: u64| SecretView {
            position,
            fingerprint: format!("f{position}"),
            matched_n,
            last_matched_at_ms: (matched_n > 0).then_some(1),
            is_safe_to_remove: false,
        };
        ProviderView {
            samples: Vec::new(),
            name: "stripe".to_owned(),
            kind: "stripe".to_owned(),
            pause: None,
            url: String::new(),
            identity: String::new(),
            horizon_h: 1,
            is_unverified: false,
            is_pairing: false,
            taught_at_ms: None,
            ids_days: 31,
            sender: SenderView {
                title: "Stripe".to_owned(),
                docs: String::new(),
                confidence: String::new(),
                secret_hint: "in the dashboard".to_owned(),
                signed_by: String::new(),
                weakness: None,
                identities: Vec::new(),
                answer_within_ms: 1,
            },
            secrets: vec![secret(1, 5), secret(2, 7)],
            last_event: None,
            waiting: Vec::new(),
        }
    }

    #[test]
    fn unmatched_secrets_and_open_pairing_are_reported() {
        #[track_caller]
        fn check(change: impl FnOnce(&mut ProviderView), want: &[(&str, FindingVerdict)]) {
            let mut view = provider();
            change(&mut view);
            let found = senders(&[view], false, |_| vec![10]);
            let odd = found.iter().filter(|one| one.verdict != FindingVerdict::Well);
            let odd: Vec<_> = odd.map(|one| (one.check.as_str(), one.verdict)).collect();
            assert_eq!(odd, want);
        }
        check(|_| {}, &[]);
        check(|view| view.secrets.clear(), &[]);
        check(|view| view.secrets[0].matched_n = 0, &[("secrets", Warning)]);
        check(|view| view.secrets[1].matched_n = 0, &[("secrets", Note)]);
        check(|view| view.secrets[1].is_safe_to_remove = true, &[("secrets", Note)]);
        let none_matched =
            |view: &mut ProviderView| view.secrets.iter_mut().for_each(|one| one.matched_n = 0);
        check(none_matched, &[("secrets", Note)]);
        check(|view| view.is_unverified = true, &[("providers.open", Warning)]);
        check(|view| view.is_pairing = true, &[("providers.open", Warning)]);
        check(|view| view.taught_at_ms = Some(1), &[("providers.open", Note)]);
    }
}
