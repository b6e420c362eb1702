//! Judges files of signed requests with their verdicts: a kind's tests, and anybody's evidence.
//!
//! A vector says with which secrets, at which time and under which URL a request is to be judged, so the
//! result does not depend on this machine's configuration.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::config::Secret;
use crate::provider::Provider;
use crate::verify::RawRequest;

/// One signed request with its verdict. Fields that only describe it (`note`, `origin`, …) are passed over.
#[derive(Debug, Clone, Deserialize)]
pub struct Vector {
    /// Names it in tables.
    pub id: String,
    /// The provider kind.
    pub kind: String,
    /// Newest first.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// What else the scheme needs, such as `public_key`.
    #[serde(default)]
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// As the sender called it.
    pub url: Option<String>,
    /// Names and values; a list of values is a repeated header.
    #[serde(default)]
    pub headers: serde_json::Map<String, serde_json::Value>,
    /// The body as text,
    pub body: Option<String>,
    /// or as base64.
    pub body_base64: Option<String>,
    /// Unix seconds at which it is judged.
    pub now: i64,
    /// `valid` or `invalid`.
    pub expect: String,
    /// Whether either verdict is defensible.
    #[serde(default)]
    pub optional: bool,
}

/// What became of one vector.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Judged {
    /// The vector's id.
    pub id: String,
    /// Its kind.
    pub kind: String,
    /// What it expects.
    pub expect: String,
    /// `valid`, `invalid` or `unsupported` (no such kind here).
    pub verdict: &'static str,
    /// Which step decided: `ok`, `kind`, `secret`, `header`, `timestamp` or `signature`.
    pub step: &'static str,
    /// Whether verdict and expectation differ and that matters.
    #[serde(skip)]
    pub is_wrong: bool,
    /// Why, for people.
    #[serde(skip)]
    pub why: String,
}

/// Judges every vector of a file: a JSON array, or a single object.
pub fn judge(text: &str, kinds: &[Provider]) -> Result<Vec<Judged>, String> {
    let text = text.trim_start();
    let vectors: Vec<Vector> = if text.starts_with('[') {
        serde_json::from_str(text).map_err(|error| error.to_string())?
    } else {
        vec![serde_json::from_str(text).map_err(|error| error.to_string())?]
    };
    Ok(vectors.iter().map(|vector| judge_one(vector, kinds)).collect())
}

/// Judges one vector at its own `now`.
pub fn judge_one(vector: &Vector, kinds: &[Provider]) -> Judged {
    let (verdict, step, why) = match kinds.iter().find(|kind| kind.kind() == vector.kind) {
        None => ("unsupported", "kind", format!("no provider kind is called `{}`", vector.kind)),
        Some(kind) => verdict(vector, kind),
    };
    Judged {
        id: vector.id.clone(),
        kind: vector.kind.clone(),
        expect: vector.expect.clone(),
        verdict,
        step,
        is_wrong: !vector.optional && verdict != vector.expect,
        why,
    }
}

fn verdict(vector: &Vector, kind: &Provider) -> (&'static str, &'static str, String) {
    let provider = match kind.judge_with(&secrets(vector)) {
        Ok(provider) => provider,
        Err(why) => return ("invalid", "secret", why),
    };
    let request = match vector.request() {
        Ok(request) => request,
        Err(why) => return ("invalid", "header", why),
    };
    match provider.verify(request) {
        Ok(verified) => ("valid", "ok", format!("secret {} matched", verified.secret_n() + 1)),
        Err(error) => ("invalid", error.step(), error.to_string()),
    }
}

/// The vector's secrets, and the secrets or public keys from its settings behind them.
fn secrets(vector: &Vector) -> Vec<Secret> {
    let keys = vector
        .settings
        .iter()
        .filter(|(name, _)| name.starts_with("public_key") || name.as_str() == "webhook_secret");
    let texts = keys.flat_map(|(_, value)| match value {
        serde_json::Value::Array(list) => {
            list.iter().filter_map(|one| one.get("key").unwrap_or(one).as_str()).collect::<Vec<_>>()
        }
        other => other.as_str().into_iter().collect(),
    });
    vector.secrets.iter().map(String::as_str).chain(texts).map(Secret::new).collect()
}

impl Vector {
    /// The request as it came.
    pub fn request(&self) -> Result<RawRequest, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let values = match value {
                serde_json::Value::Array(list) => list.iter().filter_map(serde_json::Value::as_str).collect(),
                other => vec![other.as_str().unwrap_or_default()],
            };
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| format!("`{name}` is not a header name"))?;
            for value in values {
                let value = HeaderValue::from_bytes(value.as_bytes());
                headers.append(
                    name.clone(),
                    value.map_err(|_| format!("header `{name}` has an impossible value"))?,
                );
            }
        }
        let body = match (&self.body, &self.body_base64) {
            (Some(text), _) => text.clone().into_bytes(),
            (None, Some(base64)) => {
                STANDARD.decode(base64).map_err(|_| "body_base64 is not base64".to_owned())?
            }
            (None, None) => Vec::new(),
        };
        Ok(RawRequest {
            url: self.url.clone().unwrap_or_default(),
            headers,
            body: Bytes::from(body),
            received_at_ms: self.now.saturating_mul(1_000),
        })
    }
}
