//! A client of the operator API for tests: it validates every answer against `openapi.json` first.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Mutex, OnceLock, PoisonError};

use http::HeaderMap;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::process::client;

/// A client of the operator API with a token.
#[derive(Clone)]
pub struct Operator {
    base: String,
    token: String,
}

/// An answer that the contract allows.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// The body as JSON; `Null` when it is none.
    pub body: Value,
    pub bytes: Vec<u8>,
}

impl Operator {
    pub fn new(admin: SocketAddr, token: &str) -> Self {
        Self { base: format!("http://{admin}"), token: token.to_owned() }
    }

    /// Asks for `/v1` and this path.
    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], None).await
    }

    /// `POST /v1{path}` with a key and an order.
    pub async fn post(&self, path: &str, key: &str, order: &Value) -> Answer {
        self.ask("POST", path, &[("idempotency-key", key)], Some(order.to_string())).await
    }

    /// What an operation would act on.
    pub async fn preview(&self, subject: &Value) -> Answer {
        let choice: serde_json::Map<String, Value> = subject
            .as_object()
            .into_iter()
            .flatten()
            .map(|(list, one)| (list.clone(), one["filter"].clone()))
            .collect();
        self.ask("POST", "/operations/preview", &[], Some(Value::from(choice).to_string())).await
    }

    /// The order of an operation on the rows that its filter finds now.
    pub async fn filled(&self, order: &Value) -> Value {
        let set = self.preview(&order["subject"]).await.body["set"].as_str().unwrap_or("none").to_owned();
        let mut order = order.clone();
        order["set"] = set.into();
        order
    }

    /// Orders that operation.
    pub async fn begin(&self, key: &str, order: &Value) -> Answer {
        self.post("/operations", key, &self.filled(order).await).await
    }

    /// Any request; without a token when that is empty.
    pub async fn ask(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<String>,
    ) -> Answer {
        let method: http::Method = method.parse().unwrap();
        let mut request = client().request(method.clone(), format!("{}/v1{path}", self.base));
        if !self.token.is_empty() {
            request = request.bearer_auth(&self.token);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await.unwrap().to_vec();
        check(method.as_str(), path, status, &headers, &bytes);
        Answer { status, headers, body: serde_json::from_slice(&bytes).unwrap_or_default(), bytes }
    }
}

/// The document as it stands in the repository.
pub fn document() -> &'static Value {
    static DOCUMENT: OnceLock<Value> = OnceLock::new();
    DOCUMENT.get_or_init(|| serde_json::from_str(include_str!("../../openapi.json")).unwrap())
}

/// Fails unless the contract allows this answer to a request for `path` (below `/v1`, perhaps with a query).
pub fn check(method: &str, path: &str, status: u16, headers: &HeaderMap, body: &[u8]) {
    let path = path.split('?').next().unwrap_or_default();
    let Some((template, operation)) = operation(method, path) else {
        assert!(
            matches!(status, 401 | 404 | 405),
            "{method} {path} is not in openapi.json and answered {status}"
        );
        return;
    };
    let Some(answer) = operation["responses"].get(status.to_string()) else {
        let shown = String::from_utf8_lossy(body);
        panic!("{method} {path} answered {status}, which openapi.json does not list: {shown}");
    };
    let reference = status.to_string();
    let answer = match answer["$ref"].as_str() {
        Some(reference) => document().pointer(reference.trim_start_matches('#')).unwrap(),
        None => answer,
    };
    for name in answer["headers"].as_object().into_iter().flat_map(|headers| headers.keys()) {
        let is_always = ["ETag", "Location", "WWW-Authenticate"].contains(&name.as_str());
        assert!(!is_always || headers.contains_key(name), "{method} {path} answered {status} without {name}");
    }
    if status == 304 {
        assert!(body.is_empty(), "{method} {path} answered 304 with a body");
        return;
    }
    let content_type = headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    let allowed = answer["content"].as_object().unwrap();
    let Some(media) = allowed.get(content_type) else {
        let shown = String::from_utf8_lossy(body);
        panic!("{method} {path} answered {status} as `{content_type}`, not {:?}: {shown}", allowed.keys());
    };
    if !content_type.ends_with("json") {
        return;
    }
    let value: Value = serde_json::from_slice(body).unwrap();
    if status >= 400 {
        assert_eq!(value["status"], status, "{method} {path}: {value}");
    }
    let found = errors(&format!("{method} {template} {reference}"), &media["schema"], &value);
    assert!(found.is_empty(), "{method} {path} answered {status} {value:#}\n{}", found.join("\n"));
}

/// The path of the document that `path` is one of, and what it says of the method. A path that is written out goes
/// before one with parameters.
fn operation(method: &str, path: &str) -> Option<(&'static str, &'static Value)> {
    let parts: Vec<&str> = path.split('/').collect();
    let fits = |template: &str| {
        let wanted: Vec<&str> = template.trim_start_matches("/v1").split('/').collect();
        wanted.len() == parts.len()
            && wanted.iter().zip(&parts).all(|(wanted, part)| wanted == part || wanted.starts_with('{'))
    };
    let paths = document()["paths"].as_object().unwrap();
    let found = paths.iter().filter(|(template, _)| fits(template));
    let (template, methods) = found.min_by_key(|(template, _)| template.matches('{').count())?;
    Some((template, methods.get(method.to_ascii_lowercase())?))
}

/// What `schema`, which goes by `name`, has against `value`.
fn errors(name: &str, schema: &Value, value: &Value) -> Vec<String> {
    static VALIDATORS: OnceLock<Mutex<HashMap<String, Validator>>> = OnceLock::new();
    let mut known = VALIDATORS.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let validator = known.entry(name.to_owned()).or_insert_with(|| {
        let whole = json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema", "components": document()["components"],
            "allOf": [schema],
        });
        jsonschema::validator_for(&whole).unwrap()
    });
    validator.iter_errors(value).map(|error| format!("{} at {}", error, error.instance_path())).collect()
}
