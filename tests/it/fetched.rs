//! A sender whose keys have to be fetched: what it hears when they are out of reach, or there is no such key.

use hooklatch::kind::prelude::*;

use crate::app::{TestApp, event_body};
use crate::database::{Database, on_both};

on_both!(a_sender_whose_keys_are_out_of_reach_is_told_to_come_again);

const KIND: &str = r#"
kind = "stripe"
title = "A sender with keys of its own"
confidence = "unsure"
docs = "https://sender.example"
secret_hint = "none"
horizon_h = 72
answer_within_ms = 10000
[signature]
scheme = "code"
headers = ["x-key"]
secrets_needed = false
[[setting]]
name = "public_keys"
form = "named"
hint = "its keys"
[[fetch]]
setting = "public_keys"
url = "https://keys.invalid/{id}"
hosts = ["keys.invalid"]
form = "pem"
[[event]]
type = [{ json = "/type" }]
[[event.identity]]
is = "sender"
id = [{ json = "/id" }]
signed = true
"#;

fn verify(request: &RawRequest, keys: &Keys) -> Result<Believed, VerifyError> {
    let id = deciding_header(&request.headers, "stripe-signature")?;
    keys.key_text("public_keys", id).map(|_| Believed::plain(0))
}

async fn a_sender_whose_keys_are_out_of_reach_is_told_to_come_again(database: &Database) {
    let kind = Provider::from_spec(KIND).verify_with(verify);
    let app = TestApp::start(database, kind, "").await;
    let (status, outcome, text) = app.post(&event_body("evt_1", "invoice.paid", 1)).await;
    assert_eq!((status, outcome.as_str()), (503, ""), "not 401: nobody has said that it lies: {text}");
    assert!(!text.contains("keys.invalid"), "what is out of reach is ours to know");
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 0);
    app.running.stop().await;
}
