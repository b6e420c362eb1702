//! Providers: which secrets match, which requests are accepted without one, and what their signed times and the
//! database's clock show of ours.

use super::check::{CLOCK_DATABASE, CLOCK_SENDERS, OPEN, PATHS, PROVIDERS, SECRETS, or_well};
use hooklatch_contract::{FindingView, ProviderView, UnknownPathView};
use hooklatch_core::figures::plural;

/// Far enough for NTP to be at fault. Milliseconds.
const APART_MS: i64 = 1_000;
/// A request that arrives so long before its signed time is a warning, and a failure. Milliseconds.
const BEFORE_MS: [i64; 2] = [2_000, 60_000];
/// When every request arrives later than this after its signed time, that is a warning, and a failure. Milliseconds.
const AFTER_MS: [i64; 2] = [30_000, 120_000];
/// Fewest requests from which delays are judged.
const REQUESTS_N: usize = 3;

const REMEDY: &str = "chronyc tracking, or timedatectl: let NTP set the clocks";

/// The database's clock minus ours, against the distance at which a start is refused.
pub(super) fn database_clock(offset_ms: i64, max_ms: i64, dialect: &str) -> FindingView {
    if dialect == "sqlite" {
        return CLOCK_DATABASE.well("SQLite has none of its own");
    }
    let apart_ms = offset_ms.saturating_abs();
    let way = if offset_ms < 0 { "behind" } else { "ahead" };
    CLOCK_DATABASE
        .graded(
            format!("the database's is {apart_ms} ms {way}"),
            (apart_ms > APART_MS, apart_ms > max_ms),
            REMEDY,
        )
        .against(format!("{APART_MS} ms; a start is refused beyond {max_ms} ms"))
}

/// Finding about the delays between signing and arrival of a provider's newest requests; `None` without delays: it
/// signs no times, or has sent nothing.
pub(crate) fn senders_clock(provider: &str, delays_ms: &[i64]) -> Option<FindingView> {
    let least_ms = delays_ms.iter().copied().min()?;
    let requests_n = delays_ms.len();
    let finding = if least_ms < 0 {
        let words = format!(
            "a request arrived {} ms before it was signed: our clock is behind, or the sender's ahead",
            -least_ms
        );
        let [warns, fails] = BEFORE_MS;
        CLOCK_SENDERS.graded(words, (least_ms < -warns, least_ms < -fails), REMEDY)
    } else {
        let words =
            format!("of {requests_n} requests none arrived sooner than {least_ms} ms after it was signed");
        let [warns, fails] = AFTER_MS;
        // A few requests that a sender repeats long after it signed them say nothing about clocks.
        let is_many = requests_n >= REQUESTS_N;
        let remedy = "our clock is ahead (chronyc tracking), or something holds requests back on the way";
        CLOCK_SENDERS.graded(words, (is_many && least_ms > warns, is_many && least_ms > fails), remedy)
    };
    Some(finding.about(provider))
}

/// Findings about these providers; `delays_ms` returns the delays of a provider's newest requests, from signing to
/// arrival.
pub(crate) fn senders(
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
pub(crate) fn paths(paths: &[UnknownPathView]) -> Vec<FindingView> {
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
    let (mut found, name) = (Vec::new(), &view.name);
    if view.is_unverified {
        let remedy = format!("list its addresses in providers.{name}.allow_from, or have it sign");
        found.push(OPEN.warning("its requests are accepted although they are not signed").cure(remedy));
    }
    if view.is_pairing {
        let remedy =
            format!("providers.{name}.settings.pairing = \"closed\", after `hooklatch pairing {name}`");
        found.push(OPEN.warning("it accepts a secret from anyone who posts one").cure(remedy));
    }
    if view.paired_at_ms.is_some() {
        let words = "a secret that its sender sent for pairing waits to be read";
        found.push(OPEN.note(words).cure(format!("hooklatch pairing {name}")));
    }
    found.into_iter().map(|finding| finding.about(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict::{self, Failure, Note, Warning, Well};
    use hooklatch_contract::{SecretView, SenderView};

    #[test]
    fn a_wrong_clock_is_reported_with_its_offset() {
        #[track_caller]
        fn check(offset_ms: i64, want: FindingVerdict) {
            let found = database_clock(offset_ms, 30_000, "postgres");
            assert_eq!(found.verdict, want, "{offset_ms}");
            assert!(found.found.contains(&offset_ms.abs().to_string()));
        }
        check(0, Well);
        check(-1_000, Well);
        check(1_001, Warning);
        check(-1_001, Warning);
        check(30_001, Failure);
        check(-30_001, Failure);
        assert_eq!(database_clock(0, 30_000, "sqlite").verdict, Well);
    }

    #[test]
    fn the_least_delay_of_several_requests_separates_a_wrong_clock_from_a_slow_network() {
        #[track_caller]
        fn check(delays_ms: &[i64], want: Option<FindingVerdict>) {
            assert_eq!(senders_clock("stripe", delays_ms).map(|found| found.verdict), want, "{delays_ms:?}");
        }
        check(&[], None);
        check(&[120, 900_000, 5_000], Some(Well));
        check(&[-1_999], Some(Well));
        check(&[120, -2_001], Some(Warning));
        check(&[-60_001], Some(Failure));
        check(&[40_000, 90_000], Some(Well));
        check(&[40_000, 90_000, 31_000], Some(Warning));
        check(&[121_000; 8], Some(Failure));
    }

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
            paired_at_ms: None,
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
        check(|view| view.paired_at_ms = Some(1), &[("providers.open", Note)]);
    }
}
