//! An answer as it was heard.

use reqwest::Response;

/// An answer as bytes, with the headers that count.
pub(super) struct Heard {
    pub(super) status: u16,
    pub(super) etag: Option<String>,
    pub(super) retry_after_s: Option<u64>,
    pub(super) is_replayed: bool,
    pub(super) body: Vec<u8>,
}

impl Heard {
    /// Everything but the body.
    pub(super) fn of(response: &Response) -> Self {
        let header = |name: &str| Some(response.headers().get(name)?.to_str().ok()?.to_owned());
        Self {
            status: response.status().as_u16(),
            etag: header("etag"),
            retry_after_s: header("retry-after").and_then(|text| text.parse().ok()),
            is_replayed: header("idempotency-replayed").as_deref() == Some("true"),
            body: Vec::new(),
        }
    }
}
