//! Handlers, routes and templates see the whole event, and routes take what their `when` lets pass.

use std::future::{Ready, ready};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hooklatch::prelude::*;
use hooklatch::testing::Trial;
use hooklatch_receive::provider::{Kind, filled_sample};
use hooklatch_receive::providers::builtin;
use serde_json::{Value as Json, json};

use crate::app::{TestApp, stripe_kind};
use crate::contract::Operator;
use crate::database::{Database, on_both};
use crate::process::{client, until};
use crate::providers::{NOW_S, dev, request, sign_at};

on_both!(
    handlers_see_the_whole_event_at_every_dispatch,
    a_retry_of_a_redacted_and_sealed_event_sees_the_received_body,
    a_route_takes_what_its_condition_lets_pass_and_what_cannot_be_decided_fails,
    lanes_and_templates_read_the_envelope,
);

/// What is not about the database.
mod anywhere {
    use super::{
        a_large_event_is_filtered_and_gets_its_lane_from_the_raw_text,
        a_payload_of_the_whole_envelope_is_configured,
    };
    use crate::database::on_sqlite;
    on_sqlite!(
        a_payload_of_the_whole_envelope_is_configured,
        a_large_event_is_filtered_and_gets_its_lane_from_the_raw_text,
    );
}

const TOKEN: &str = "operator-token-0123456789";
const TOKENS: &str =
    "[[admin.tokens]]\nname = \"ops\"\nrole = \"operator\"\ntoken = \"operator-token-0123456789\"\n";

/// A Stripe event with these members beside its object.
fn body(id: &str, event_type: &str, amount: &str, more: &str) -> String {
    format!(
        r#"{{"id":"{id}","type":"{event_type}",{more}"data":{{"object":{{"id":"in_{id}","amount_paid":{amount}}}}}}}"#
    )
}

/// What handlers saw: type, number of the dispatch, `livemode` and the whole text.
type Seen = Arc<Mutex<Vec<(String, u32, bool, String)>>>;

/// Says that the function takes a transaction of any lifetime.
fn of_tx<F: Fn(&mut Tx, Event<Json>) -> Ready<Handled>>(run: F) -> F {
    run
}

/// A kind with a handler of `plain` and one of `tx`; both fail for now while `is_away`.
fn looking(seen: &Seen, is_away: &Arc<AtomicBool>) -> Provider {
    fn look(seen: &Seen, is_away: &AtomicBool, event: &Event<Json>) -> Handled {
        let livemode = event.envelope.at("/livemode")?;
        let whole: Json = event.envelope.json()?;
        assert_eq!(whole["data"]["object"], event.payload);
        let text = String::from_utf8(event.envelope.bytes().to_vec()).unwrap();
        seen.lock().unwrap().push((event.event_type.clone(), event.attempt_n, livemode, text));
        if is_away.load(Ordering::SeqCst) {
            return Err(anyhow::anyhow!("away").into());
        }
        Ok(Effects::new().call("billing", json!({ "account": event.envelope.at::<String>("/account")? })))
    }
    let (plain_seen, plain_away) = (Arc::clone(seen), Arc::clone(is_away));
    let (tx_seen, tx_away) = (Arc::clone(seen), Arc::clone(is_away));
    stripe_kind()
        .on("plain", move |event: Event<Json>| look(&plain_seen, &plain_away, &event))
        .on_tx("tx", of_tx(move |_, event| ready(look(&tx_seen, &tx_away, &event))))
}

async fn is_in_state(database: &Database, state: &str, n: i64) {
    let sql = match state {
        "retry" => "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'retry'",
        _ => "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'handled'",
    };
    until("events are in their state", Duration::from_secs(30), String::new, async || {
        database.count(sql).await == n
    })
    .await;
}

/// First dispatch and retry of both handlers; the texts that they received.
async fn fail_and_succeed(database: &Database, more: &str) -> (Seen, [String; 2]) {
    let (seen, is_away) = (Seen::default(), Arc::new(AtomicBool::new(true)));
    let app = TestApp::start(database, looking(&seen, &is_away), more).await;
    let bodies = ["plain", "tx"].map(|name| body(name, name, "7", r#""livemode":true,"account":"acct_1","#));
    for body in &bodies {
        assert_eq!(app.post(body).await.1, "accepted");
    }
    is_in_state(database, "retry", 2).await;
    is_away.store(false, Ordering::SeqCst);
    app.clock.advance(3_600_000);
    is_in_state(database, "handled", 2).await;
    until("both are called", Duration::from_secs(20), String::new, async || {
        app.destination.calls().len() == 2
    })
    .await;
    assert!(app.destination.calls().iter().all(|(_, body)| body == r#"{"account":"acct_1"}"#));
    app.running.stop().await;
    (seen, bodies)
}

/// How often each handler saw the live event, as it was received.
fn times(seen: &Seen, bodies: &[String; 2]) -> [usize; 2] {
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|(_, _, livemode, text)| *livemode && bodies.contains(text)), "{seen:?}");
    ["plain", "tx"].map(|name| seen.iter().filter(|(event_type, ..)| event_type == name).count())
}

async fn handlers_see_the_whole_event_at_every_dispatch(database: &Database) {
    let (seen, bodies) = fail_and_succeed(database, "").await;
    assert_eq!(times(&seen, &bodies), [2, 2], "at admission, and again");
    // After a restart, by what is stored alone.
    let app = TestApp::start(database, looking(&seen, &Arc::default()), TOKENS).await;
    let operator = Operator::new(app.running.admin_addr, TOKEN);
    for name in ["plain", "tx"] {
        let answer = operator.ask("POST", &format!("/events/stripe/{name}/what-if"), &[], None).await;
        assert_eq!(answer.body["items"][0]["said"], "handled", "{:#}", answer.body);
    }
    assert_eq!(times(&seen, &bodies), [3, 3], "what-if");
    for name in ["plain", "tx"] {
        let order = json!({ "act": "rerun", "reason": "r" });
        let answer = operator.post(&format!("/events/stripe/{name}/decide"), name, &order).await;
        assert_eq!(answer.status, 200, "{:#}", answer.body);
    }
    until("both ran once more", Duration::from_secs(30), String::new, async || {
        times(&seen, &bodies) == [4, 4]
    })
    .await;
    app.running.stop().await;
}

async fn a_retry_of_a_redacted_and_sealed_event_sees_the_received_body(database: &Database) {
    let key = format!("aa{}", "3c".repeat(31));
    let more =
        format!("redact = [\"/account\"]\n[encryption]\nkeys = [{{ id = \"new\", key = \"{key}\" }}]\n");
    let (seen, bodies) = fail_and_succeed(database, &more).await;
    assert_eq!(times(&seen, &bodies), [2, 2]);
}

async fn state_and_error(database: &Database, id: &str) -> (String, String) {
    let of = async |sql| database.text(sql, id).await.unwrap_or_default();
    (
        of("SELECT state FROM processed_webhook_events WHERE event_id = $1").await,
        of("SELECT COALESCE(error, '') FROM processed_webhook_events WHERE event_id = $1").await,
    )
}

async fn a_route_takes_what_its_condition_lets_pass_and_what_cannot_be_decided_fails(database: &Database) {
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"invoice.paid\"]\nto = \"billing\"\n\
         when = \"envelope.livemode and payload.amount_paid > 9007199254740992\"\n{TOKENS}"
    );
    let app = TestApp::start(database, stripe_kind(), &more).await;
    let (live, test) = (r#""livemode":true,"#, r#""livemode":false,"#);
    let filtered = "no route takes it: `when` is false";
    let of_route = |why: &str| format!("when of the route to `billing`: {why}");
    let rows = [
        ("one_more", live, "9007199254740993", "handled", String::new()),
        ("equal", live, "9007199254740992", "ignored", filtered.to_owned()),
        ("decimal", live, "9007199254740992.0000001", "handled", String::new()),
        ("test_mode", test, "9007199254740993", "ignored", filtered.to_owned()),
        ("missing", "", "1", "failed", of_route("envelope.livemode is missing")),
        (
            "odd",
            r#""livemode":"true","#,
            "1",
            "failed",
            of_route("envelope.livemode is a text, not true or false"),
        ),
        ("text", live, "\"9\"", "failed", of_route("payload.amount_paid is a text, compared with a number")),
    ];
    for (id, more, amount, ..) in &rows {
        let answer = app.post(&body(id, "invoice.paid", amount, more)).await;
        assert_eq!((answer.0, answer.1.as_str()), (200, "accepted"), "{id}");
    }
    for (id, _, _, state, error) in &rows {
        assert_eq!(state_and_error(database, id).await, ((*state).to_owned(), error.clone()), "{id}");
    }
    until("two are called", Duration::from_secs(20), String::new, async || {
        app.destination.calls().len() == 2
    })
    .await;
    let operator = Operator::new(app.running.admin_addr, TOKEN);
    for (id, _, _, state, _) in &rows {
        let answer = operator.ask("POST", &format!("/events/stripe/{id}/what-if"), &[], None).await;
        let said = if *state == "failed" { "refused" } else { state };
        assert_eq!(answer.body["items"][0]["said"], said, "{id}: {:#}", answer.body);
    }
    let url = format!("http://{}/metrics", app.running.admin_addr);
    let metrics = client().get(url).send().await.unwrap().text().await.unwrap();
    let counted =
        metrics.lines().find(|line| line.starts_with("hooklatch_ignored_total") && line.contains("filter"));
    assert!(counted.is_some_and(|line| !line.ends_with(" 0")), "{counted:?}");
    app.running.stop().await;
}

async fn lanes_and_templates_read_the_envelope(database: &Database) {
    let more = "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\nlane = \"envelope.account\"\n\
                [destinations.billing]\nbody = '{\"of\":{{ envelope.account }},\"paid\":{{ payload.amount_paid }}}'\n";
    let app = TestApp::start(database, stripe_kind(), more).await;
    assert_eq!(app.post(&body("one", "a", "7", r#""account":"acct_1","#)).await.1, "accepted");
    assert_eq!(app.post(&body("none", "a", "7", "")).await.1, "accepted");
    until("it is called", Duration::from_secs(20), String::new, async || !app.destination.calls().is_empty())
        .await;
    assert_eq!(app.destination.calls()[0].1, r#"{"of":"acct_1","paid":7}"#);
    assert_eq!(state_and_error(database, "one").await.0, "handled");
    let want = "lane of the route to `billing`: envelope.account is missing";
    assert_eq!(state_and_error(database, "none").await, ("failed".to_owned(), want.to_owned()));
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_lanes WHERE lane = 'acct_1'").await, 1);
    app.running.stop().await;
}

async fn a_payload_of_the_whole_envelope_is_configured(database: &Database) {
    let is_away = Arc::new(AtomicBool::new(true));
    let away = Arc::clone(&is_away);
    let kind = stripe_kind().on("a", move |event: Event<Json>| {
        assert_eq!(event.payload, event.envelope.json::<Json>()?);
        if away.load(Ordering::SeqCst) {
            return Err(anyhow::anyhow!("away").into());
        }
        Ok(Effects::new().call("billing", json!({ "account": event.payload["account"] })))
    });
    let more = "payload = \"\"\n[[providers.stripe.routes]]\non = [\"b\"]\nto = \"billing\"\nlane = \"/account\"\n\
                when = \"payload.data.object.amount_paid == 7\"\n";
    let app = TestApp::start(database, kind, more).await;
    for name in ["a", "b"] {
        assert_eq!(app.post(&body(name, name, "7", r#""account":"acct_1","#)).await.1, "accepted");
    }
    is_away.store(false, Ordering::SeqCst);
    app.clock.advance(3_600_000);
    is_in_state(database, "handled", 2).await;
    app.running.stop().await;
}

async fn a_large_event_is_filtered_and_gets_its_lane_from_the_raw_text(database: &Database) {
    let more = "body_bytes_max = 8388608\n[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
                lane = \"envelope.account\"\nwhen = \"envelope.livemode\"\n";
    let app = TestApp::start(database, stripe_kind(), more).await;
    for (id, livemode, state) in [("live", true, "handled"), ("test", false, "ignored")] {
        let more = format!(r#""filler":"{}","livemode":{livemode},"account":"acct_1","#, "x".repeat(5 << 20));
        assert_eq!(app.post(&body(id, "a", "7", &more)).await.1, "accepted");
        assert_eq!(state_and_error(database, id).await.0, state);
    }
    app.running.stop().await;
}

#[test]
fn what_handlers_see_of_any_kind_is_the_same_when_it_was_stored() {
    let mut headers_n = 0;
    for kind in builtin() {
        let provider = dev(&kind);
        for (event_type, sample) in kind.sample_list() {
            let at = sign_at(&provider, event_type);
            let Ok(signed) = provider.sign(filled_sample(sample, "1", NOW_S).as_bytes(), &at) else {
                continue;
            };
            let name = &provider.spec().kind;
            let verified = provider.verify(request(&signed.headers, &signed.body, &at.url, NOW_S));
            for event in provider.read(&verified.unwrap_or_else(|why| panic!("{name}: {why}"))) {
                let stored = provider.stored_content(&event.headers, &event.body).unwrap();
                assert_eq!(stored.payload, event.payload, "{name}");
                assert_eq!(*stored.envelope.bytes(), event.envelope, "{name}");
                for header in &provider.spec().headers {
                    assert!(stored.headers.get(header).is_some(), "{name}: {header}");
                    headers_n += 1;
                }
                assert_eq!(stored.headers.get("x-anything"), None);
                assert_eq!(stored.headers.get("user-agent"), None, "what is not signed is not seen");
            }
        }
    }
    assert!(headers_n > 50, "{headers_n}");
}

#[test]
fn of_a_batch_the_envelope_is_the_element_and_of_a_form_its_json() {
    let whole = |name: &str, event_type: &str| {
        let kind = kind(name);
        let event_type = if event_type.is_empty() { kind.sample_list()[0].0 } else { event_type };
        hooklatch::testing::event::<Json>(&kind, event_type).unwrap()
    };
    let adyen = whole("adyen", "AUTHORISATION");
    let envelope: Json = adyen.envelope.json().unwrap();
    assert_eq!(envelope, json!({ "NotificationRequestItem": adyen.payload }));
    let twitch = whole("twitch", "");
    assert!(twitch.envelope.at::<Json>("/subscription").is_ok());
    let id = twitch.headers.get("Twitch-Eventsub-Message-Id");
    assert_eq!(id.as_deref(), Some(twitch.id.as_str()));
    assert_eq!(twitch.headers.get("twitch-eventsub-message-type"), None, "the signature does not cover it");
}

#[test]
fn a_value_of_the_envelope_is_there_or_says_why_not() {
    let envelope = Envelope::of(json!({ "livemode": true, "n": "x" }));
    assert!(envelope.at::<bool>("/livemode").unwrap());
    for (pointer, want) in [("/nothing", "envelope: /nothing is missing"), ("/n", "invalid type")] {
        let why = envelope.at::<bool>(pointer).unwrap_err().to_string();
        assert!(why.contains(want), "{why}");
    }
    let headers = Headers::of([("X-Tenant", "t1")]);
    assert_eq!((headers.get("x-tenant").as_deref(), headers.get("x-other")), (Some("t1"), None));
}

#[tokio::test]
async fn a_trial_has_the_whole_event() {
    async fn live_alone(_: &mut Tx, event: Event<Json>) -> Handled {
        if event.envelope.at::<bool>("/livemode")? {
            refuse("live")
        } else {
            Ok(Effects::new().call("receipts", ()))
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let kinds = vec![kind("stripe").on_tx("invoice.paid", live_alone)];
    let trial = Trial::start(folder.path(), kinds, &["receipts"], |app| app).await.unwrap();
    assert_eq!(trial.send("stripe", "invoice.paid", "evt_1").await.unwrap(), "accepted");
    assert_eq!(trial.messages().await.unwrap(), ["receipts"], "Stripe's sample is of test mode");
    trial.stop().await;
}
