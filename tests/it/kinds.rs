//! Properties of every kind that Hooklatch can sign for: a changed request is refused, and nothing panics.

use std::sync::Arc;

use hooklatch_core::config::{KindSettings, Secret};
use hooklatch_receive::provider::{ActiveProvider, Kind, Provider, filled_sample};
use hooklatch_receive::providers::builtin;
use hooklatch_verify::spec::Weakness;
use hooklatch_verify::{KeySource, SignAt, Signed};
use proptest::prelude::*;

use crate::providers::{NOW_S, dev, request, sign_at};

struct Case {
    provider: ActiveProvider,
    at: SignAt,
    signed: Signed,
}

impl Case {
    fn of(kind: &Provider) -> Self {
        let provider = dev(kind);
        let (event_type, sample) = kind.sample_list()[0];
        let at = sign_at(&provider, event_type);
        let signed = provider.sign(filled_sample(sample, "1", NOW_S).as_bytes(), &at).unwrap();
        Self { provider, at, signed }
    }

    fn name(&self) -> &str {
        &self.provider.spec().kind
    }

    fn is_authenticated(&self, headers: &[(String, String)], body: &[u8], url: &str, now_s: i64) -> bool {
        self.provider.verify(request(headers, body, url, now_s)).is_ok()
    }

    /// True when every byte of the body is signed, and signed as it is.
    fn signs_all_bytes(&self) -> bool {
        // Adyen and SNS sign fields, Trustly all but the version of its protocol, NOWPayments the JSON whatever its
        // white space, and forms may be escaped otherwise.
        const PARTS: [&str; 13] = [
            "adyen",
            "apple_app_store",
            "aws_sns",
            "nowpayments",
            "alipay",
            "billplz",
            "braintree",
            "mandrill",
            "paddle_classic",
            "payfast",
            "redsys",
            "trustly",
            "twilio",
        ];
        self.provider.spec().signature.weak.is_none() && !PARTS.contains(&self.name())
    }
}

fn cases() -> Vec<Case> {
    builtin()
        .iter()
        .map(Case::of)
        .filter(|case| case.provider.spec().signature.weak != Some(Weakness::Unsigned))
        .collect()
}

/// A public key proves who sent an event, and not for which of the sender's customers.
#[test]
fn every_kind_with_a_public_or_fetched_key_names_the_account_of_an_event() {
    for kind in builtin() {
        let provider = dev(&kind);
        let spec = provider.spec();
        assert!(spec.whose.is_some() || !spec.has_public_key(), "{}: write [whose]", spec.kind);
    }
}

#[test]
fn signed_requests_verify_and_every_changed_deciding_header_is_refused() {
    for case in cases() {
        let Signed { headers, body } = &case.signed;
        assert!(case.is_authenticated(headers, body, &case.at.url, NOW_S), "{}", case.name());
        let spec = case.provider.spec();
        for (n, (name, value)) in headers.iter().enumerate() {
            let stem =
                |known: &String| name.trim_end_matches(char::is_numeric) == known.trim_end_matches('*');
            let is_signature = spec.signature.headers.iter().any(stem)
                || name.ends_with("signature")
                || spec.signature.timestamp_header.as_ref() == Some(name);
            if !is_signature {
                continue;
            }
            for at in 0..value.len() {
                let mut changed = value.clone().into_bytes();
                changed[at] = if changed[at] == b'1' { b'2' } else { b'1' };
                // The algorithm and sender of PayU are no part of what is signed.
                let text = String::from_utf8(changed).unwrap();
                let mut others = headers.clone();
                others[n].1.clone_from(&text);
                let is_authenticated = case.is_authenticated(&others, body, &case.at.url, NOW_S);
                let is_remark = case.name() == "payu" && at < value.find("signature=").unwrap()
                    || case.name() == "payu" && at > value.find("content").unwrap() - 2;
                assert!(!is_authenticated || is_remark, "{}: {name}: {text}", case.name());
            }
            let without: Vec<_> = headers.iter().filter(|(known, _)| known != name).cloned().collect();
            assert!(
                !case.is_authenticated(&without, body, &case.at.url, NOW_S),
                "{} without {name}",
                case.name()
            );
            let twice: Vec<_> = headers.iter().cloned().chain([(name.clone(), value.clone())]).collect();
            let is_refused = !case.is_authenticated(&twice, body, &case.at.url, NOW_S);
            assert!(
                is_refused || spec.signature.repeated || name.ends_with("-1"),
                "{} with two {name}",
                case.name()
            );
        }
    }
}

#[test]
fn a_signed_time_is_bounded_where_the_kind_requires_it() {
    for case in cases() {
        let spec = &case.provider.spec().signature;
        let Signed { headers, body } = &case.signed;
        let Some(past_s) = spec.tolerance_s else { continue };
        let authenticated =
            |shift_s: i64| case.is_authenticated(headers, body, &case.at.url, NOW_S + shift_s);
        // To Contentful's SDK the last second is too late already.
        assert!(
            authenticated(i64::from(past_s) - 1) && !authenticated(i64::from(past_s) + 1),
            "{}",
            case.name()
        );
        let future_s = spec.tolerance_future_s.unwrap_or(past_s);
        if future_s <= past_s {
            assert!(
                authenticated(-i64::from(future_s)) && !authenticated(-i64::from(future_s) - 1),
                "{}",
                case.name()
            );
        }
    }
}

#[test]
fn a_signed_url_is_part_of_the_verified_text() {
    for case in cases().into_iter().filter(|case| case.provider.spec().has_signed_url()) {
        // Mercado Pago signs one value of the query alone; it is not in this URL. Alipay and Midtrans have a way that
        // signs the URL and one that does not.
        if ["alipay", "mercadopago", "midtrans"].contains(&case.name()) {
            continue;
        }
        let other = format!("{}/other", case.at.url);
        assert!(
            !case.is_authenticated(&case.signed.headers, &case.signed.body, &other, NOW_S),
            "{}",
            case.name()
        );
    }
}

/// A field that is signed, of kinds that do not sign every byte, and what stands in its place.
const FIELDS: [(&str, &str, &str); 5] = [
    ("adyen", "AUTHORISATION", "AUTHORIZATION"),
    ("aws_sns", "Hello world!", "Hello world?"),
    ("alipay", "0.01", "9.01"),
    ("midtrans", "100000.00", "900000.00"),
    ("paddle_classic", "USD", "EUR"),
];

#[test]
fn a_changed_field_is_refused_where_fields_are_signed() {
    for case in cases() {
        let Some((_, from, to)) = FIELDS.iter().find(|(kind, ..)| *kind == case.name()) else { continue };
        let Signed { headers, body } = &case.signed;
        let text = String::from_utf8(body.clone()).unwrap();
        let changed = text.replacen(from, to, 1);
        assert_ne!(changed, text, "{}", case.name());
        assert!(!case.is_authenticated(headers, changed.as_bytes(), &case.at.url, NOW_S), "{}", case.name());
    }
}

#[test]
fn a_way_of_signing_that_is_not_the_samples_is_played_too() {
    // Alipay+ and Midtrans SNAP BI sign the URL and every byte of the body.
    let bodies = [
        ("alipay", r#"{"notifyType":"PAYMENT_RESULT","paymentId":"1"}"#),
        ("midtrans", r#"{"originalPartnerReferenceNo":"1","latestTransactionStatus":"00"}"#),
    ];
    for (name, body) in bodies {
        let provider = dev(builtin().iter().find(|kind| kind.kind() == name).unwrap());
        let at = sign_at(&provider, "");
        let Signed { headers, body } = provider.sign(body.as_bytes(), &at).unwrap();
        let is_authenticated =
            |body: &[u8], url: &str| provider.verify(request(&headers, body, url, NOW_S)).is_ok();
        assert!(is_authenticated(&body, &at.url), "{name}");
        assert!(!is_authenticated(&body, &format!("{}/other", at.url)), "{name}");
        for n in 0..body.len() {
            let mut other = body.clone();
            other[n] ^= 1;
            assert!(!is_authenticated(&other, &at.url), "{name} byte {n}");
        }
    }
}

/// A source that must not be called.
struct PanickingKeySource;

impl KeySource for PanickingKeySource {
    fn key(&self, setting: &str, id: &str) -> Option<String> {
        panic!("asked for {setting} {id}")
    }
}

#[test]
fn a_configured_key_is_not_fetched_when_the_signature_does_not_match() {
    for case in cases() {
        let Signed { headers, body } = &case.signed;
        let provider = case.provider.clone().with_key_source(Arc::new(PanickingKeySource));
        let authenticated =
            |body: &[u8]| provider.verify(request(headers, body, &case.at.url, NOW_S)).is_ok();
        assert!(authenticated(body), "{}", case.name());
        assert!(
            !authenticated(b"{\"other\":1}") || case.provider.spec().signature.weak.is_some(),
            "{}",
            case.name()
        );
    }
}

#[test]
fn standard_webhooks_are_signed_by_a_private_key_as_v1a() {
    // The seed and key of RFC 8032, section 7.1, test 1.
    let private =
        "whsk_nWGxne/9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2DXWpgBgrEKt9VL/tPJZAc6DuFy89qmIyWvAhpo9wdRGg==";
    let public = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
    let kinds = builtin();
    let kind = kinds.iter().find(|kind| kind.kind() == "standard_webhooks").unwrap();
    let with = |secret: &str| kind.judge_with(&[Secret::new(secret)], &KindSettings::default()).unwrap();
    let at = sign_at(&with(private), "");
    let Signed { headers, body } = with(private).sign(b"{}", &at).unwrap();
    assert!(headers.iter().any(|(_, value)| value.starts_with("v1a,")), "{headers:?}");
    assert!(with(public).verify(request(&headers, &body, &at.url, NOW_S)).is_ok());
    assert!(with(public).verify(request(&headers, b"[]", &at.url, NOW_S)).is_err());
    assert!(dev(kind).verify(request(&headers, &body, &at.url, NOW_S)).is_err());
}

#[test]
fn any_changed_byte_is_refused() {
    for case in cases().into_iter().filter(Case::signs_all_bytes) {
        for n in 0..case.signed.body.len() {
            for bit in [0, n % 7 + 1] {
                let mut body = case.signed.body.clone();
                body[n] ^= 1 << bit;
                let authenticated = case.is_authenticated(&case.signed.headers, &body, &case.at.url, NOW_S);
                assert!(!authenticated, "{} byte {n} bit {bit}", case.name());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_bytes_make_a_reader_panic(value in "[ -~]{0,60}", query in "[ -~]{0,30}", body in any::<Vec<u8>>()) {
        for kind in builtin() {
            let provider = dev(&kind);
            let spec = provider.spec();
            let names = spec.signature.headers.iter().map(|name| name.trim_end_matches(['-', '*']).to_owned());
            let families = spec.signature.headers.iter().flat_map(|name| {
                ["id", "timestamp", "signature", "1"].map(|stem| format!("{}{stem}", name.trim_end_matches('*')))
            });
            let more = spec.signature.timestamp_header.iter().chain(&spec.signature.key_id_header).cloned();
            let headers: Vec<_> = names.chain(families).chain(more).map(|name| (name, value.clone())).collect();
            let raw = request(&headers, &body, &format!("https://a.example/x?{query}"), NOW_S);
            drop(provider.handshake(&raw));
            let is_authenticated = provider.verify(raw).is_ok();
            prop_assert!(!is_authenticated || spec.signature.weak == Some(Weakness::Unsigned), "{}", spec.kind);
            drop(provider.stored_content("{}", &body.clone().into()));
        }
    }
}

#[test]
fn the_senders_time_is_of_this_century_in_every_unit() {
    let (mut with_time_n, mut silent) = (0, Vec::new());
    for case in cases() {
        let Signed { headers, body } = &case.signed;
        let verified = case.provider.verify(request(headers, body, &case.at.url, NOW_S)).unwrap();
        for event in case.provider.read(&verified) {
            match event.created_at_ms {
                None => silent.push(case.name().to_owned()),
                Some(at_ms) => {
                    with_time_n += 1;
                    let year_ms = 365 * 86_400_000_i64;
                    let is_near = (at_ms - NOW_S * 1_000).abs() < 15 * year_ms;
                    assert!(is_near, "{}: {at_ms}", case.name());
                }
            }
        }
    }
    // Kinds whose events have no time, or one without an offset from UTC.
    assert!(with_time_n >= 60, "{with_time_n}; without one: {silent:?}");
}
