//! `/v1/events`: what came in, what was kept beside it, and what a person decides about it.

use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use http::StatusCode;
use serde_json::{Value, json};

use super::super::error::Problem;
use super::super::reply::json_reply;
use super::messages::message_json;
use super::query::{limit, query};
use super::state::ApiState;
use crate::store::{EventRow, KeptContent};
use crate::types::{EventKey, EventState, Name};

/// Most bytes of a body that are shown.
const SHOWN_BYTES_MAX: usize = 64 * 1024;

fn event_json(row: &EventRow) -> Value {
    json!({
        "provider": row.key.provider.as_str(), "event_id": row.key.event_id, "type": row.event_type,
        "state": row.state, "attempts_n": row.attempts_n, "due_at_ms": row.due_at_ms, "error": row.error,
        "received_at_ms": row.received_at_ms, "identity": row.identity,
    })
}

/// One content, with its headers and as much of its body as people look at.
fn content_json(content: Option<&KeptContent>) -> Value {
    let Some(content) = content else { return Value::Null };
    let shown = content.body.get(..SHOWN_BYTES_MAX).unwrap_or(&content.body);
    json!({
        "headers": serde_json::from_str::<Value>(&content.headers).unwrap_or_default(),
        "body": String::from_utf8_lossy(shown), "body_bytes_n": content.body.len(),
        "encryption_key_id": content.key_id, "unopened": content.unopened, "redacted_n": content.redacted_n,
    })
}

pub(super) async fn list(
    State(state): State<Arc<ApiState>>,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["state", "limit"])?;
    let parse = |word: &String| {
        EventState::parse(word).ok_or_else(|| Problem::bad_request("no event is ever in that state"))
    };
    let wanted = values.get("state").map(parse).transpose()?;
    let rows = state.store.event_list(wanted, limit(&values)?).await?;
    Ok(json_reply(StatusCode::OK, &json!({ "events": rows.iter().map(event_json).collect::<Vec<_>>() })))
}

pub(super) async fn show(
    State(state): State<Arc<ApiState>>,
    Path((provider, event_id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let provider = Name::parse(&provider).map_err(|_| Problem::NOT_FOUND)?;
    let key = EventKey { provider, event_id };
    let row = state.store.event_get(&key).await?.ok_or(Problem::NOT_FOUND)?;
    let messages = state.store.message_list_of_event(&key).await?;
    let messages: Vec<Value> = messages.iter().map(message_json).collect();
    let content = state.store.event_content(&key).await?;
    let found = state.store.event_conflicts(&key).await?;
    let conflict = |(row, content): &(EventRow, Option<KeptContent>)| json!({ "event": event_json(row), "content": content_json(content.as_ref()) });
    Ok(json_reply(
        StatusCode::OK,
        &json!({
            "event": event_json(&row), "content": content_json(content.as_ref()), "messages": messages,
            "conflicts": found.kept.iter().map(conflict).collect::<Vec<_>>(), "conflicts_unkept_n": found.unkept_n,
        }),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_body_is_shown_in_part_and_counted_whole() {
        let content = |body: Vec<u8>, headers: &str| KeptContent {
            headers: headers.to_owned(),
            body,
            key_id: None,
            unopened: None,
            redacted_n: None,
        };
        let long = content_json(Some(&content(vec![b'x'; SHOWN_BYTES_MAX + 1], "{}")));
        assert_eq!(long["body"].as_str().map(str::len), Some(SHOWN_BYTES_MAX));
        assert_eq!(long["body_bytes_n"], SHOWN_BYTES_MAX + 1);
        let short = content_json(Some(&content(b"a\xffb".to_vec(), r#"{"x":["1"]}"#)));
        assert_eq!((&short["body"], &short["headers"]["x"][0]), (&json!("a\u{fffd}b"), &json!("1")));
        assert_eq!(content_json(Some(&content(Vec::new(), "no JSON")))["headers"], Value::Null);
        assert_eq!(content_json(None), Value::Null);
    }
}
