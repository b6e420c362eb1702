//! The order that a POST brings, whatever it is about: its body, and the reason in it.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

use super::super::error::Problem;
use super::shape;
use crate::api::is_reason;
use crate::plain;

/// Largest body of an order, in bytes.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// Longest text about what is wrong with a body; it repeats a part of it. Characters.
const DETAIL_CHARS_MAX: usize = 300;
/// Longest time that an order's body may take.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

/// All of a body, within its bounds.
pub(super) async fn body_of(body: Body) -> Result<Bytes, Problem> {
    body_of_at_most(body, BODY_BYTES_MAX).await
}

/// The same of a body that may have so many bytes.
pub(super) async fn body_of_at_most(body: Body, bytes_max: usize) -> Result<Bytes, Problem> {
    let read = tokio::time::timeout(BODY_TIMEOUT, Limited::new(body, bytes_max).collect()).await;
    Ok(read.map_err(|_| Problem::TOO_SLOW)?.map_err(|_| Problem::TOO_LARGE)?.to_bytes())
}

/// The order in a body, which is a JSON object; a refusal names the field that is wrong.
pub(super) fn order<T: DeserializeOwned + JsonSchema>(body: &[u8]) -> Result<T, Problem> {
    let unread = |error: serde_json::Error| {
        let detail: String =
            format!("the body cannot be read: {error}").chars().take(DETAIL_CHARS_MAX).collect();
        Problem::bad_request("the body cannot be read").with_detail(plain::line(&detail))
    };
    let value = serde_json::from_slice(body).map_err(unread)?;
    if let Some(mistake) = shape::mistake::<T>(&value) {
        return Err(Problem::bad_request("the body is not as the route needs it").with_detail(mistake));
    }
    // From the text: of a name that is there twice, a `Value` keeps one.
    serde_json::from_slice(body).map_err(unread)
}

/// Refuses a reason that cannot be kept.
pub(super) fn check_reason(reason: &str) -> Result<(), Problem> {
    if is_reason(reason) { Ok(()) } else { Err(Problem::BAD_REASON) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::MessageOrder;

    #[test]
    fn an_order_is_an_act_of_its_subject_and_a_reason_and_nothing_that_is_overlooked() {
        #[track_caller]
        fn check(body: &str, want: Option<&str>) {
            let found = order::<MessageOrder>(body.as_bytes()).err().and_then(|problem| problem.detail);
            assert_eq!(found.is_some(), want.is_some(), "{body}");
            assert!(found.unwrap_or_default().contains(want.unwrap_or_default()), "{body}");
        }
        check(r#"{"act":"send","reason":"asked by Ann"}"#, None);
        check(r#"{"act":"send","reason":"x","state":"held"}"#, Some("`state` does not exist"));
        check(r#"{"act":"send"}"#, Some("`reason` is missing"));
        check(r#"{"act":"pause","reason":"x"}"#, Some("`act` must be one of"));
        check(r#"{"act":"send","act":"done","reason":"x"}"#, Some("duplicate field `act`"));
        check(r#"["send","x"]"#, Some("the body must be an object"));
        check("", Some("EOF"));
    }
}
