//! The page for what-if: a form, what came of many events, and what came of one.

use hooklatch::prelude::*;
use serde_json::{Value as Json, json};

use super::Browser;
use crate::app::{TestApp, stripe_kind};
use crate::database::{Database, on_sqlite};

on_sqlite!(what_would_follow_is_shown_beside_what_was_committed);

const TOKENS: &str = "[[admin.tokens]]\nname = \"ops\"\nrole = \"operator\"\ntoken = \"operator-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"vic\"\nrole = \"viewer\"\ntoken = \"viewer-token-0123456789\"\n";
/// What a stranger may write where people look.
const ODD: &str = "</td><script>alert(1)</script>\u{202e}";

fn call(amount: i64, note: &str) -> Effects {
    Effects::new().call("billing", json!({ "amount": amount, "note": note }))
}

async fn what_would_follow_is_shown_beside_what_was_committed(database: &Database) {
    let before = stripe_kind().on("*", |event: Event<Json>| Ok(call(1, &event.id)));
    let app = TestApp::start(database, before, "").await;
    for id in ["same", "odd"] {
        assert_eq!(app.event(id, ODD, 1).await, "accepted");
    }
    app.running.stop().await;
    let after = stripe_kind()
        .on("*", |event: Event<Json>| Ok(if event.id == "odd" { call(2, ODD) } else { call(1, &event.id) }));
    let app = TestApp::start(database, after, TOKENS).await;
    let admin = app.running.admin_addr;
    let ops = Browser::signed_in(admin, "operator-token-0123456789").await;
    let page = ops.get("/what-if").await;
    assert!(page.status == 200 && page.text.contains("Run the handlers"), "{}", page.text);
    let page = ops.post("/what-if", &[("provider", "stripe"), ("state", ""), ("limit", "20")]).await;
    for part in ["2 events", "1 changed, 1 unchanged, 0 not run", "Show the difference"] {
        assert!(page.status == 200 && page.text.contains(part), "no `{part}` in {}", page.text);
    }
    assert!(!page.text.contains("<script>alert") && !page.text.contains('\u{202e}'), "{}", page.text);
    let page = ops.post("/events/stripe/odd/what-if", &[]).await;
    for part in ["Was committed", "Would follow", "changed", "body", "&lt;script&gt;", "\\u202e"] {
        assert!(page.status == 200 && page.text.contains(part), "no `{part}` in {}", page.text);
    }
    assert!(!page.text.contains("<script>alert") && !page.text.contains('\u{202e}'), "{}", page.text);
    assert_eq!(ops.post("/events/stripe/nobody/what-if", &[]).await.status, 404);
    assert_eq!(ops.post("/what-if", &[("state", "odd")]).await.status, 400);
    let back = ops.get("/events/stripe/odd/what-if").await;
    assert_eq!((back.status, back.header("location")), (303, "/events/stripe/odd"));
    let viewer = Browser::signed_in(admin, "viewer-token-0123456789").await;
    assert!(!viewer.get("/what-if").await.text.contains("Run the handlers"));
    assert_eq!(viewer.post("/events/stripe/odd/what-if", &[]).await.status, 403);
    let forged = ops.ask("POST", "/what-if", &[("sec-fetch-site", "cross-site")], Some(&[])).await;
    assert_eq!(forged.status, 403);
    app.running.stop().await;
}
