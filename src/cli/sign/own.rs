//! `sign --vectors`: the signed requests that every kind has to own, made by its own spec.
//!
//! They show that the spec says one thing throughout; that the sender does the same only a recorded request shows.

use serde_json::json;

use super::super::send::spoil;
use super::sample;
use crate::config::{KindSettings, Secret};
use crate::provider::{Provider, dev_secret, filled_sample};
use crate::spec::Spec;
use crate::vectors::{Vector, judge_one};
use crate::verify::{SignAt, Signed};

/// When they are signed unless `--now` says otherwise. Unix seconds.
const NOW_S: i64 = 1_767_225_600;

/// One request to be: who signs, when, and what becomes of it.
struct Case {
    suffix: &'static str,
    secret: String,
    signed_at_s: i64,
    is_spoilt: bool,
    expect: &'static str,
    note: &'static str,
}

/// The list, as `vectors.json` has it: good, tampered, signed with another secret and, if a time is signed, stale.
pub(super) fn vectors(kind: &Provider, now_s: Option<i64>) -> anyhow::Result<String> {
    let now_s = now_s.unwrap_or(NOW_S);
    let spec = kind.spec().map_err(Clone::clone)?;
    let secret = dev_secret(spec);
    let other = dev_secret(&Spec { kind: "another".to_owned(), ..spec.clone() });
    let case = |suffix, expect, note| Case {
        suffix,
        secret: secret.clone(),
        signed_at_s: now_s,
        is_spoilt: false,
        expect,
        note,
    };
    let mut cases = vec![
        case("ok", "valid", "signed by the rule"),
        Case { is_spoilt: true, ..case("tampered", "invalid", "one byte changed after signing") },
        Case {
            secret: other,
            ..case("wrong-secret", "invalid", "signed with a secret that is not configured")
        },
    ];
    if let Some(tolerance_s) = spec.signature.tolerance_s {
        let signed_at_s = now_s - i64::from(tolerance_s) - 1;
        cases.push(Case { signed_at_s, ..case("stale", "invalid", "signed a second too long ago") });
    }
    let (event_type, sample) = sample(kind, None)?;
    let mut lines = Vec::new();
    for case in cases {
        let body = filled_sample(sample, "1", now_s);
        let at = SignAt {
            now_s: case.signed_at_s,
            url: format!("https://hooks.example.com/webhooks/{}", spec.kind),
            id: "1".to_owned(),
            event_type: event_type.to_owned(),
        };
        let vector = vector(kind, (&case, &secret), (body.as_bytes(), &at, now_s))?;
        lines.push(format!("  {vector}"));
    }
    Ok(format!("[\n{}\n]", lines.join(",\n")))
}

fn vector(
    kind: &Provider,
    (case, secret): (&Case, &str),
    (body, at, now_s): (&[u8], &SignAt, i64),
) -> anyhow::Result<serde_json::Value> {
    let sender = kind
        .judge_with(&[Secret::new(case.secret.as_str())], &KindSettings::default())
        .map_err(|why| anyhow::anyhow!("{why}"))?;
    let signed = sender.sign(body, at)?;
    let written = |signed: &Signed| {
        let headers: serde_json::Map<String, serde_json::Value> =
            signed.headers.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        json!({
            "id": format!("{}-own-{}", kind.kind(), case.suffix), "kind": kind.kind(), "secrets": [secret],
            "url": at.url, "headers": headers, "body": String::from_utf8_lossy(&signed.body), "now": now_s,
            "expect": case.expect, "note": case.note, "origin": "hooklatch sign --vectors",
        })
    };
    let mut variants = vec![signed.clone()];
    if case.is_spoilt {
        // Where the body is not signed, it is the signature that has to be spoilt.
        let (mut body, mut headers) = (signed.clone(), signed);
        spoil(&mut body.body);
        for (_, value) in &mut headers.headers {
            let mut bytes = value.clone().into_bytes();
            spoil(&mut bytes);
            *value = String::from_utf8_lossy(&bytes).into_owned();
        }
        variants = vec![body, headers];
    }
    let fitting = variants.iter().map(written).find(|written| {
        let vector: Result<Vector, _> = serde_json::from_value(written.clone());
        vector.is_ok_and(|vector| !judge_one(&vector, std::slice::from_ref(kind)).is_wrong)
    });
    fitting.ok_or_else(|| {
        let (kind, suffix) = (kind.kind(), case.suffix);
        anyhow::anyhow!(
            "no vector `{kind}-own-{suffix}` can be made by this spec: record one from the sender"
        )
    })
}
