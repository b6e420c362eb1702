//! The allowed age of a signed time, by default or as configured, for every kind that checks one.

use hooklatch_core::config::{AgeConfig, KindSettings, OnHandlerError, ProviderConfig, RetryConfig, Secret};
use hooklatch_core::types::{Name, TypePattern};
use hooklatch_receive::provider::{ActiveProvider, Kind, filled_sample};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::spec::Spec;
use hooklatch_verify::{RawRequest, VerifyError};

use crate::providers::{NOW_S, dev, request, sign_at};

/// Kinds whose development secret signs no time, although another of their schemes does.
const UNTIMED_IN_DEVELOPMENT: [&str; 1] = ["gitlab"];

/// A request as the kind's sender signs it at [`NOW_S`].
fn signed(provider: &ActiveProvider, sample: (&str, &str)) -> RawRequest {
    let body = filled_sample(sample.1, "4711", NOW_S);
    let at = sign_at(provider, sample.0);
    let signed = provider.sign(body.as_bytes(), &at).unwrap();
    request(&signed.headers, &signed.body, &at.url, NOW_S)
}

fn judged(provider: &ActiveProvider, request: &RawRequest, after_s: i64) -> Result<(), VerifyError> {
    let received_at_ms = (NOW_S + after_s) * 1_000;
    provider.verify(RawRequest { received_at_ms, ..request.clone() }).map(drop)
}

/// Every kind for which `bound` gives something, with a request of its first sample.
fn each(bound: impl Fn(&Spec) -> Option<u32>, check: impl Fn(ActiveProvider, &RawRequest, u32)) -> usize {
    let mut kinds_n = 0;
    for kind in builtin() {
        let Some(bound) = bound(kind.spec().unwrap()) else { continue };
        if UNTIMED_IN_DEVELOPMENT.contains(&kind.kind()) {
            continue;
        }
        let provider = dev(&kind);
        let request = signed(&provider, kind.sample_list()[0]);
        check(provider, &request, bound);
        kinds_n += 1;
    }
    kinds_n
}

#[test]
fn a_tolerance_is_widened_and_narrowed_for_every_kind_that_has_one() {
    let kinds_n = each(
        |spec| spec.signature.tolerance_s,
        |provider, request, own_s| {
            let kind = provider.spec().kind.clone();
            let own = i64::from(own_s);
            let is_stale = |provider: &ActiveProvider, after_s, by_s: u32| {
                let found = judged(provider, request, after_s);
                matches!(found, Err(VerifyError::Stale { tolerance_s, .. }) if tolerance_s == by_s)
            };
            assert_eq!(judged(&provider, request, own - 1), Ok(()), "{kind}");
            assert!(is_stale(&provider, own + 2, own_s), "{kind}");
            let with =
                |s: u32| provider.clone().with_age(AgeConfig { tolerance_s: Some(s), max_age_s: None });
            let wide = with(own_s + 100);
            assert_eq!(judged(&wide, request, own + 99), Ok(()), "{kind}");
            assert!(is_stale(&wide, own + 102, own_s + 100), "{kind}");
            let narrow = with(1);
            assert!(judged(&narrow, request, 0).is_ok() && is_stale(&narrow, 3, 1), "{kind}");
            // How far ahead a time may be is another question.
            let (_, ahead_s) = provider.spec().signature.tolerances_s();
            if ahead_s < u32::MAX {
                for one in [&provider, &wide, &narrow] {
                    let found = judged(one, request, -i64::from(ahead_s) - 2);
                    assert!(matches!(found, Err(VerifyError::Future { .. })), "{kind}: {found:?}");
                }
            }
        },
    );
    assert!(kinds_n > 30, "{kinds_n}");
}

/// The time within which a sender may repeat an attempt: where its documents name none, all that the file allows for. Seconds.
fn repeats_for_s(spec: &Spec) -> u32 {
    spec.retry_span_s.unwrap_or(spec.horizon_h * 3_600)
}

#[test]
fn the_last_attempt_is_believed_unless_a_source_says_that_each_is_signed_anew() {
    let mut short = Vec::new();
    for kind in builtin() {
        let spec = kind.spec().unwrap();
        for signature in spec.signatures().filter(|one| one.attempts_signed_anew.is_none()) {
            if let Some(tolerance_s) = signature.tolerance_s.filter(|s| *s < repeats_for_s(spec)) {
                short.push(format!(
                    "{}: {tolerance_s} s, and {} s of attempts",
                    spec.kind,
                    repeats_for_s(spec)
                ));
            }
        }
    }
    assert!(
        short.is_empty(),
        "widen tolerance_s, or name the source in attempts_signed_anew:\n{}",
        short.join("\n")
    );
}

#[test]
fn what_is_still_believed_is_still_known() {
    for kind in builtin() {
        let spec = kind.spec().unwrap();
        let Some(tolerance_s) = spec.tolerance_s() else { continue };
        assert!(
            spec.horizon_h * 3_600 >= tolerance_s,
            "{}: horizon_h is shorter than tolerance_s",
            spec.kind
        );
        // A window forgets before the time does, so what was signed has to tell a copy from another signal.
        let forgets = spec.event.iter().flat_map(|event| &event.identity).any(|one| one.window_s.is_some());
        assert!(!forgets || spec.needs_signed_text(), "{}", spec.kind);
    }
}

#[test]
fn an_age_that_the_sender_bounds_nowhere_is_bounded_by_the_operator() {
    let year_s = 365 * 86_400;
    let kinds_n = each(
        |spec| spec.signature.age_unchecked.then_some(0),
        |provider, request, _| {
            let kind = provider.spec().kind.clone();
            let bounded = provider.clone().with_age(AgeConfig { tolerance_s: None, max_age_s: Some(3_600) });
            assert_eq!(judged(&provider, request, year_s), Ok(()), "{kind}");
            assert_eq!(judged(&bounded, request, 3_599), Ok(()), "{kind}");
            let found = judged(&bounded, request, 3_602);
            assert!(matches!(found, Err(VerifyError::Stale { tolerance_s: 3_600, .. })), "{kind}: {found:?}");
            assert_eq!(judged(&bounded, request, -year_s), judged(&provider, request, -year_s), "{kind}");
        },
    );
    assert_eq!(kinds_n, 16, "the manual names them");
}

#[test]
fn no_kind_checks_an_age_that_its_file_does_not_state() {
    for kind in builtin() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("providers").join(kind.kind());
        let Ok(code) = std::fs::read_to_string(folder.join("mod.rs")) else { continue };
        let checks = code.contains("check_timestamp(") || code.contains("standard_webhooks(");
        let spec = kind.spec().unwrap();
        let states = spec.has_signed_time() || spec.signature.age_unchecked;
        assert!(!checks || states, "{}: say tolerance_s or age_unchecked in provider.toml", kind.kind());
        assert!(!checks || !code.contains("TOLERANCE_S"), "{}: ask keys.tolerance_s()", kind.kind());
    }
}

#[test]
fn what_an_operator_says_of_age_and_types_holds_for_the_provider_alone() {
    let kinds = builtin();
    let kind = |name: &str| kinds.iter().find(|kind| kind.kind() == name).unwrap();
    let secret = Secret::new("a-secret-of-two-parties-0123");
    let config = |kind: &str, age, types: &[&str]| ProviderConfig {
        kind: Name::parse(kind).unwrap(),
        secrets: vec![secret.clone()],
        settings: KindSettings::default(),
        is_unverified_accepted: false,
        on_handler_error: OnHandlerError::Keep,
        age,
        on_conflict: None,
        types: types.iter().map(|one| TypePattern::parse(one).unwrap()).collect(),
        redact: Vec::new(),
        has_search: true,
        is_payload_whole: false,
        allow_from: Vec::new(),
        is_first_party: false,
        body_bytes_max: 1 << 20,
        routes: Vec::new(),
        retry: RetryConfig { first_ms: 1, max_ms: 1, attempts_n: 1, age_max_ms: 1 },
    };
    let ready = |name: &str, config: &ProviderConfig| {
        kind(name).activate(&Name::parse(name).unwrap(), config, "https://hooks.example.com").unwrap()
    };
    let wide = AgeConfig { tolerance_s: Some(3_600), max_age_s: None };
    let (own, wide) = (
        ready("stripe", &config("stripe", AgeConfig::default(), &[])),
        ready("stripe", &config("stripe", wide, &[])),
    );
    let request = signed(&own, kind("stripe").sample_list()[0]);
    assert!(judged(&own, &request, 3_000).is_err() && judged(&wide, &request, 3_000).is_ok());
    let types = |types: &[&str]| {
        let provider = ready("github", &config("github", AgeConfig::default(), types));
        let request = signed(&provider, ("pull_request", "{\"action\":\"opened\"}"));
        let events = provider.read(&provider.verify(request).unwrap());
        events[0].event_type.clone()
    };
    let all = types(&[]);
    assert!(all.starts_with("pull_request"), "{all}");
    assert_eq!((types(&["push", "pull_*"]), types(&[&all]), types(&["*"])), (all.clone(), all.clone(), all));
    assert_eq!(types(&["push", "pull"]), "unknown");
}
