//! First-party callers: the answers to their commands by credential, idempotency key and content.

mod batch;
mod certificates;
mod killed;
mod receipt;
mod settings;
mod table;

use http::HeaderMap;
use serde_json::Value;

use crate::database::Database;
use crate::process::{Server, client, now_s};

const TOKEN: &str = "tok_newest_0123456789abcdef0123";
const OLD_TOKEN: &str = "tok_older_0123456789abcdef01234";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const CERTIFICATE: &str = "5f16f4c7f149ac4f9510d9cf8cf384038ad348b3bcdc01915f95de12df9d1b02";

/// Three callers: `shop` with two tokens, `ledger` that signs, `vault` with a certificate. Their commands go to a
/// destination that does not answer.
const CALLERS: &str = r#"
[providers.shop]
kind = "first_party"
secrets = ["tok_newest_0123456789abcdef0123", "tok_older_0123456789abcdef01234"]
settings = { auth = "bearer" }
routes = [{ on = ["order.*"], to = "billing" }]
[providers.ledger]
kind = "first_party"
secrets = ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]
settings = { auth = "hmac", accepted_status = "200", mismatch_status = "409" }
[providers.vault]
kind = "first_party"
settings = { auth = "mtls", client_certificates = ["5f16f4c7f149ac4f9510d9cf8cf384038ad348b3bcdc01915f95de12df9d1b02"] }
[destinations.billing]
url = "http://127.0.0.1:9/"
"#;

pub(super) const BODY: &str = r#"{"type":"order.placed","data":{"order":"o1"}}"#;

pub(super) async fn serve(database: &Database) -> Server {
    Server::start(&database.url, CALLERS).await
}

/// Status, headers and body of an answer.
#[derive(Debug, Clone)]
pub(super) struct CommandResponse {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl CommandResponse {
    pub(super) async fn of(request: reqwest::RequestBuilder) -> Option<Self> {
        let response = request.send().await.ok()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Some(Self { status, headers, body: response.text().await.ok()? })
    }

    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(super) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(super) fn is_replayed(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }

    pub(super) fn outcome(&self) -> &str {
        self.headers.get("hooklatch-outcome").map_or("", |value| value.to_str().unwrap())
    }
}

/// A command of the caller that has a token.
pub(super) fn by_token(server: &Server, key: Option<&str>, body: &str) -> reqwest::RequestBuilder {
    let request = client().post(server.url("/webhooks/shop")).bearer_auth(TOKEN);
    let request = request.header("content-type", "application/json").body(body.to_owned());
    match key {
        Some(key) => request.header("idempotency-key", key),
        None => request,
    }
}

/// The headers by which the caller that signs shows who it is.
pub(super) fn signature(key: &str, body: &str) -> [(&'static str, String); 3] {
    use base64::Engine;
    let base64 = base64::engine::general_purpose::STANDARD;
    let secret = base64.decode(SECRET.strip_prefix("whsec_").unwrap()).unwrap();
    let time = now_s().to_string();
    let text = format!("{key}.{time}.{body}");
    let mac =
        hooklatch::kind::prelude::hmac(hooklatch::kind::prelude::Hash::Sha256, &secret, &[text.as_bytes()]);
    [
        ("webhook-id", key.to_owned()),
        ("webhook-timestamp", time),
        ("webhook-signature", format!("v1,{}", base64.encode(mac))),
    ]
}

pub(super) fn with(
    request: reqwest::RequestBuilder,
    headers: &[(&'static str, String)],
) -> reqwest::RequestBuilder {
    headers.iter().fold(request, |request, (name, value)| request.header(*name, value))
}

/// A command of the caller that signs.
pub(super) fn by_signature(server: &Server, key: &str, body: &str) -> reqwest::RequestBuilder {
    let request = client().post(server.url("/webhooks/ledger")).header("content-type", "application/json");
    with(request.body(body.to_owned()), &signature(key, body))
}
