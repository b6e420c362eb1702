//! Judges files of signed requests with their verdicts: the tests of a kind, and recorded requests.
//!
//! A vector says with which secrets, at which time and under which URL a request is to be judged, so the
//! result does not depend on this machine's configuration.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;

use crate::provider::{ActiveProvider, Kind, Provider, dev_secret};
use hooklatch_core::config::{KindSettings, Secret};
use hooklatch_verify::spec::AnswerSpec;
use hooklatch_verify::{RawRequest, Reply, failed_at};

/// One signed request with its verdict. Fields that only describe it (`note`, `origin`, …) are passed over.
#[derive(Debug, Clone, Deserialize)]
pub struct Vector {
    /// Name of the vector in tables.
    pub id: String,
    /// Name of the provider kind.
    pub kind: String,
    /// Secrets of the provider, newest first.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Settings of the provider, such as `public_key`.
    #[serde(default)]
    pub settings: serde_json::Map<String, serde_json::Value>,
    /// Method of the request; POST unless it says so.
    pub method: Option<String>,
    /// The answer that is wanted: the body, or an object of `status`, `body`, `json`, `content_type`, `headers`.
    pub response: Option<serde_json::Value>,
    /// URL as the sender called it.
    pub url: Option<String>,
    /// Names and values; a list of values is a repeated header.
    #[serde(default)]
    pub headers: serde_json::Map<String, serde_json::Value>,
    /// The body, when it is text.
    pub body: Option<String>,
    /// The body as base64, when it is not text.
    pub(crate) body_base64: Option<String>,
    /// Unix seconds at which it is judged.
    pub now: i64,
    /// The right verdict: `valid` or `invalid`.
    pub expect: String,
    /// True when either verdict is defensible.
    #[serde(default)]
    pub optional: bool,
}

/// The verdict on one vector.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Judged {
    /// Name of the vector in tables.
    pub id: String,
    /// Name of its provider kind.
    pub kind: String,
    /// The verdict that it expects.
    pub expect: String,
    /// `valid`, `invalid` or `unsupported` (no such kind here).
    pub verdict: &'static str,
    /// Step that decided: `ok`, `kind`, `secret`, `header`, `timestamp`, `signature` or `answer`.
    pub step: &'static str,
    /// True when verdict and expectation differ and that matters.
    #[serde(skip)]
    pub is_wrong: bool,
    /// Reason of the verdict, for people.
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
    let provider = match vector.provider(kind) {
        Ok(provider) => provider,
        Err(why) => return ("invalid", "secret", why),
    };
    let request = match vector.request() {
        Ok(request) => request,
        Err(why) => return ("invalid", "header", why),
    };
    if let Some(reply) = provider.handshake(&request) {
        return answered(vector, "a handshake", &reply);
    }
    match provider.verify(request) {
        Ok(verified) => {
            let why = format!("secret {} matched", verified.secret_n() + 1);
            match (provider.challenge(&verified), provider.answer(&verified)) {
                (Some(reply), _) => answered(vector, &why, &reply),
                (None, Some(own)) => {
                    let AnswerSpec { status, body, content_type, .. } = own.into_owned();
                    let reply =
                        Reply { status, headers: Vec::new(), body, content_type, pairing_secret: None };
                    answered(vector, &why, &reply)
                }
                (None, None) => ("valid", "ok", why),
            }
        }
        Err(error) => ("invalid", failed_at(&error).step, error.to_string()),
    }
}

/// Believed; the answer has to be the one that the vector names, where it names one.
fn answered(vector: &Vector, why: &str, reply: &Reply) -> (&'static str, &'static str, String) {
    let Some(wanted) = &vector.response else { return ("valid", "ok", why.to_owned()) };
    let is_wanted = |key: &str, value: &serde_json::Value| match key {
        "status" => value.as_u64() == Some(u64::from(reply.status)),
        "body" => value.as_str() == Some(reply.body.as_str()),
        "content_type" => value.as_str().is_some_and(|start| reply.content_type.starts_with(start)),
        "json" => serde_json::from_str::<serde_json::Value>(&reply.body).ok().as_ref() == Some(value),
        "headers" => value.as_object().into_iter().flatten().all(|(name, value)| {
            reply.headers.iter().any(|(known, text)| known == name && value.as_str() == Some(text))
        }),
        _ => true,
    };
    let is_right = match wanted {
        serde_json::Value::String(body) => *body == reply.body,
        serde_json::Value::Object(parts) => parts.iter().all(|(key, value)| is_wanted(key, value)),
        _ => true,
    };
    if is_right {
        ("valid", "ok", why.to_owned())
    } else {
        ("invalid", "answer", format!("{why}, but the answer would be {} `{}`", reply.status, reply.body))
    }
}

/// Names that mean secrets in the settings of every vector.
const SECRET_NAMES: [&str; 4] = ["webhook_secret", "signing_secret", "secret_key", "public_keys"];

/// One value of a vector's setting: a text, `{ id, key }` as in the configuration, or an object with an id under
/// another name, as collectors of vectors write it.
fn setting_of(value: &serde_json::Value) -> Option<(Option<String>, String)> {
    let text = |names: &[&str]| {
        names.iter().find_map(|name| value.get(name)).and_then(|one| Some(one.as_str()?.to_owned()))
    };
    if let Some(text) = value.as_str() {
        return Some((None, text.to_owned()));
    }
    if value.get("kty").is_some() {
        return Some((text(&["kid"]), value.to_string()));
    }
    let id = text(&["id", "key_id", "kid", "cert_url", "name"]);
    match (value.get("key"), text(&["secret"]), text(&["secret_base64"])) {
        (Some(serde_json::Value::String(key)), ..) => Some((id, key.clone())),
        (Some(jwk), ..) => {
            Some((jwk.get("kid").and_then(|kid| Some(kid.as_str()?.to_owned())).or(id), jwk.to_string()))
        }
        (_, Some(secret), _) => Some((id, secret)),
        (_, _, Some(base64)) => Some((id, format!("base64:{base64}"))),
        _ => None,
    }
}

impl Vector {
    /// The kind with the vector's secrets and settings. A setting that the kind does not know is a secret when
    /// its name says so; else it only describes. A vector that names no secret is judged with the published one.
    pub fn provider(&self, kind: &Provider) -> Result<ActiveProvider, String> {
        let spec = kind.spec().map_err(ToString::to_string)?;
        let mut secrets: Vec<Secret> = self.secrets.iter().map(Secret::new).collect();
        let mut settings = KindSettings::default();
        for (name, value) in &self.settings {
            let pairs: Vec<(Option<String>, String)> = match value {
                serde_json::Value::Array(list) => list.iter().filter_map(setting_of).collect(),
                // Ids and their keys; the only one of a list may stand without its brackets.
                serde_json::Value::Object(map)
                    if value.get("kty").is_none() && setting_of(value).is_none() =>
                {
                    map.iter()
                        .filter_map(|(id, one)| Some((Some(id.clone()), one.as_str()?.to_owned())))
                        .collect()
                }
                other => setting_of(other).into_iter().collect(),
            };
            let known =
                spec.setting.iter().find(|known| known.name == *name).map(|known| known.name.as_str());
            // A key under another name than the kind's is a key all the same.
            let is_key = name.contains("public_key") || name.contains("certificate");
            let known = known.or(spec.signature.keys.as_deref().filter(|_| is_key));
            // Judged without it, the request would only seem to be signed with another key.
            if pairs.is_empty() && known.is_some() && value.as_array().is_none_or(|list| !list.is_empty()) {
                return Err(format!("setting `{name}` is neither a text nor a list of {{ id, key }}"));
            }
            for (id, text) in pairs {
                if let Some(known) = known {
                    settings.push(known, id.as_deref(), text);
                } else if SECRET_NAMES.contains(&name.as_str()) {
                    secrets.push(Secret::new(text));
                }
            }
        }
        // A vector that names the answer to a handshake is judged while the operator pairs.
        for armed_by in spec.handshake.iter().filter_map(|handshake| handshake.armed_by.as_ref()) {
            if self.response.is_some() && !settings.has(armed_by) {
                settings.push(armed_by, None, "open");
            }
        }
        // Published vectors of a handshake have one secret, and that is its token; an operator's secret never is.
        for token in spec.handshake.iter().filter_map(|handshake| handshake.token.as_ref()) {
            if let (false, Some(secret)) = (settings.has(&token.setting), secrets.first()) {
                settings.push(&token.setting, None, secret.reveal());
            }
        }
        if secrets.is_empty() && spec.needs_secrets() {
            secrets.push(Secret::new(dev_secret(spec)));
        }
        kind.judge_with(&secrets, &settings)
    }

    /// The request as received.
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
        let method = self.method.as_deref().unwrap_or("POST").parse();
        Ok(RawRequest {
            method: method.map_err(|_| "the method is none".to_owned())?,
            url: self.url.clone().unwrap_or_default(),
            headers,
            body: Bytes::from(body),
            received_at_ms: self.now.saturating_mul(1_000),
        })
    }
}
