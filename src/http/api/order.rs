//! The order that a POST brings, whatever it is about: its body, and the reason in it.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use serde::de::DeserializeOwned;

use super::super::error::Problem;
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

/// The order in a body; `wanted` says what it is when it is none.
pub(super) fn order<T: DeserializeOwned>(body: &[u8], wanted: &'static str) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| {
        let detail: String = error.to_string().chars().take(DETAIL_CHARS_MAX).collect();
        Problem::bad_request(wanted).with_detail(plain::line(&detail))
    })
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
        fn check(body: &str, is_fine: bool) {
            let found = order::<MessageOrder>(body.as_bytes(), "as it should be");
            assert_eq!(found.is_ok(), is_fine, "{body}");
            assert!(found.is_ok() || found.is_err_and(|problem| problem.title == "as it should be"));
        }
        check(r#"{"act":"send","reason":"asked by Ann"}"#, true);
        check(r#"{"act":"send","reason":"x","state":"held"}"#, false);
        check(r#"{"act":"send","reason":"x","provider":"stripe"}"#, false);
        check(r#"{"act":"send"}"#, false);
        check(r#"{"act":"pause","reason":"x"}"#, false);
        check("", false);
    }
}
