//! X: a match of a filtered stream is one post, and the list beside it names the rules that it matched.

use hooklatch::kind::prelude::*;

/// The kind, without handlers.
pub(super) fn provider() -> Provider {
    Provider::from_spec(include_str!("provider.toml")).open_with(open).samples(&[
        ("tweet_create_events", include_str!("samples/tweet_create_events.json")),
        ("follow_events.follow", include_str!("samples/follow_events.json")),
        ("direct_message_events.message_create", include_str!("samples/direct_message_events.json")),
        ("tweet_delete_events", include_str!("samples/tweet_delete_events.json")),
        ("user_event", include_str!("samples/user_event.json")),
        ("post.delete", include_str!("samples/post.delete.json")),
        ("filtered_stream", include_str!("samples/filtered_stream.json")),
    ])
}

/// Other lists of a body are lists of events, and this one is none: so such a body is made the only event of a list.
fn open(_: &Keys, body: &[u8]) -> Result<Vec<u8>, String> {
    if json_is_missing(body, "/matching_rules") {
        return Ok(body.to_vec());
    }
    json_raw(body, "/data").ok_or("rules that matched, and no post, or two")?;
    Ok([br#"{"filtered_stream":["#, body, b"]}"].concat())
}
