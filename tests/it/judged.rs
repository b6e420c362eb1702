//! The risk of each act on a message: the page, the command and the API show the same, and none of them calls safe what
//! may happen twice.

use std::time::Duration;

use serde_json::Value;

use crate::console::Browser;
use crate::contract::Operator;
use crate::database::{Database, on_both, on_sqlite};
use crate::process::{Server, client, now_s, post_stripe, until};
use crate::stub::{Mode, Stub};

on_both!(send_is_not_recommended_where_a_destination_without_keys_may_have_acted);

mod one_database {
    use super::*;
    on_sqlite!(
        a_call_made_under_another_rule_stays_a_risk_after_the_rule_was_changed,
        a_refused_call_with_a_key_may_be_sent_while_the_destination_keeps_the_key,
        a_lane_of_a_destination_with_an_open_breaker_waits,
        a_breaker_with_nothing_left_to_send_is_not_open,
        a_page_from_before_another_run_of_the_event_sends_nothing,
    );
}

const OPERATOR: &str = "operator-token-0123456789";
const ASK_FIRST: &str = "Do not send before you have asked them";

/// A server that routes everything to `billing` with these keys.
async fn serve(database: &Database, billing: &str) -> Server {
    let more = format!(
        "[[admin.tokens]]\nname = \"ann\"\nrole = \"operator\"\ntoken = \"{OPERATOR}\"\n\
         [[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\nlane = \"/amount_paid\"\n[outbox]\npoll_ms = 50\n\
         [destinations.billing]\n{billing}\n"
    );
    Server::start(&database.url, &more).await
}

/// Sends an event and waits until its message stands so; its id.
async fn sent(server: &Server, id: &str, state: &str) -> String {
    post_stripe(&client(), &server.url("/webhooks/stripe"), id).await.unwrap();
    let ann = Operator::new(server.admin, OPERATOR);
    let mut found = String::new();
    let found_one = async || {
        let page = ann.get(&format!("/messages?state={state}")).await.body;
        let one = page["items"].as_array().unwrap().iter().find(|one| one["event_id"] == id);
        found = one.map_or_else(String::new, |one| one["message_id"].as_str().unwrap().to_owned());
        !found.is_empty()
    };
    until(state, Duration::from_secs(30), || server.log(), found_one).await;
    found
}

/// The message by `/v1`, its page, and the command's output about it.
async fn looked_at(server: &Server, id: &str) -> (Value, String, String) {
    let shown = Operator::new(server.admin, OPERATOR).get(&format!("/messages/{id}")).await.body;
    let page = Browser::signed_in(server.admin, OPERATOR).await.get(&format!("/messages/{id}")).await.text;
    (shown, page, server.command(OPERATOR, &["messages", "show", id]).1)
}

/// The text of a page, without markup.
fn prose(page: &str) -> String {
    let text: String =
        page.split('<').map(|part| part.split_once('>').map_or(part, |(_, text)| text)).collect();
    text.replace("&quot;", "\"")
}

/// What an act on a message risks, and the sentence about it.
fn act<'a>(shown: &'a Value, act: &str) -> (&'a str, &'a str) {
    let acts = shown["message"]["judgement"]["acts"].as_array().unwrap();
    let one = acts.iter().find(|one| one["act"] == act).unwrap_or_else(|| panic!("no {act}: {shown:#}"));
    (one["risk"].as_str().unwrap(), one["sentence"].as_str().unwrap())
}

/// Page, command and API warn that sending may repeat the effect.
async fn assert_send_not_recommended(server: &Server, id: &str, why: &str) {
    let (shown, page, output) = looked_at(server, id).await;
    let (risk, sentence) = act(&shown, "send");
    assert_eq!(risk, "may_repeat_effect", "{shown:#}");
    assert!(sentence.contains(why) && sentence.contains(ASK_FIRST), "{sentence}");
    let listed = Operator::new(server.admin, OPERATOR).get("/messages").await.body;
    let listed = listed["items"].as_array().unwrap().iter().find(|one| one["message_id"] == id).unwrap();
    assert_eq!(listed["judgement"], shown["message"]["judgement"], "the list says the same");
    assert!(prose(&page).contains(&sentence.replace('`', "")), "{page}");
    assert!(page.contains("value=\"send\" class=\"danger\""), "{page}");
    assert!(output.contains(sentence), "{output}");
    for text in [&page, &output, &server.command(OPERATOR, &["messages", "list"]).1] {
        assert!(!text.contains("safe to send") && !text.contains("good until"), "{text}");
        assert!(!text.contains("known until") && !text.contains("remembered until"), "{text}");
    }
}

async fn send_is_not_recommended_where_a_destination_without_keys_may_have_acted(database: &Database) {
    let stub = Stub::start().await;
    stub.next(&[Mode::ActThenHang]);
    let billing = format!("url = \"{}\"\nunknown = \"hold\"\ntimeout_ms = 1000", stub.url());
    let server = serve(database, &billing).await;
    let before_ms = now_s() * 1_000;
    let id = sent(&server, "evt_1", "held").await;
    assert_send_not_recommended(&server, &id, "It is not known whether it took effect").await;
    let (shown, page, output) = looked_at(&server, &id).await;
    // Whatever is done without asking them loses or repeats something.
    let risks = ["done", "discard", "send"].map(|one| act(&shown, one).0);
    assert_eq!(risks, ["loses_effect", "loses_effect", "may_repeat_effect"]);
    // The rule itself stands there, and since when it is held.
    assert_eq!(
        (shown["policy"]["unknown"].as_str(), shown["message"]["sent_under"].as_str()),
        (Some("hold"), Some("hold"))
    );
    assert!(
        page.contains("unknown = &quot;hold&quot;") && output.contains("hold: it neither honours keys"),
        "{output}"
    );
    let since_ms = shown["message"]["visible_at_ms"].as_i64().unwrap();
    assert!((before_ms..before_ms + 30_000).contains(&since_ms), "{since_ms}: not the end of its lease");
    assert!(output.contains("held since") && !output.contains("due "), "{output}");
    let address = stub.addr.to_string();
    let destination = server.command(OPERATOR, &["destinations", "show", "billing"]).1;
    for wanted in [
        address.as_str(),
        "hold: it neither",
        "24 h after the first call nothing is sent by itself",
        "1 s",
        "at most 20 attempts",
    ] {
        assert!(destination.contains(wanted), "{wanted}: {destination}");
    }
    // The query was answered: the destination has it.
    let ann = Operator::new(server.admin, OPERATOR);
    let order = serde_json::json!({ "act": "done", "reason": "they have it" });
    assert_eq!(ann.post(&format!("/messages/{id}/decide"), "k", &order).await.status, 200);
    let (shown, page, output) = looked_at(&server, &id).await;
    assert_eq!(shown["message"]["judgement"]["acts"], serde_json::json!([]));
    for text in [&page, &output] {
        assert!(
            text.contains("An operator recorded that it took effect") && !text.contains(ASK_FIRST),
            "{text}"
        );
    }
    // Its attempts are pruned long before it. It was sent all the same.
    database.run("DELETE FROM outbox_attempts").await.unwrap();
    let (_, page, output) = looked_at(&server, &id).await;
    for text in [&page, &output] {
        assert!(
            text.contains("Its attempts are no longer kept.") && !text.contains("not sent yet"),
            "{text}"
        );
    }
    assert_eq!(stub.requests_n(), 1);
}

async fn a_call_made_under_another_rule_stays_a_risk_after_the_rule_was_changed(database: &Database) {
    let stub = Stub::start().await;
    stub.next(&[Mode::ActThenHang]);
    let billing = format!("url = \"{}\"\nunknown = \"hold\"\ntimeout_ms = 1000", stub.url());
    let mut server = serve(database, &billing).await;
    let id = sent(&server, "evt_1", "held").await;
    let configured = std::fs::read_to_string(server.config()).unwrap();
    for (was, is, why) in [
        (
            "unknown = \"hold\"",
            "unknown = \"retry\"",
            "A call was made while the destination was set to `unknown = \"hold\"`",
        ),
        ("unknown = \"hold\"", "unknown = \"retry\"\nkey_valid_for_ms = 60000", "A call was made while"),
    ] {
        assert!(server.terminate());
        std::fs::write(server.config(), configured.replace(was, is)).unwrap();
        server.spawn().await;
        assert_send_not_recommended(&server, &id, why).await;
    }
    // A node without the destination in its configuration cannot decide.
    assert!(server.terminate());
    let other = configured
        .replace("[destinations.billing]", "[destinations.other]")
        .replace("to = \"billing\"", "to = \"other\"");
    std::fs::write(server.config(), other).unwrap();
    server.spawn().await;
    let (shown, page, output) = looked_at(&server, &id).await;
    assert_eq!((act(&shown, "send").0, &shown["policy"]), ("cannot_say", &Value::Null));
    for text in [&page, &output] {
        assert!(text.contains("This node does not have the destination in its configuration"), "{text}");
    }
}

async fn a_refused_call_with_a_key_may_be_sent_while_the_destination_keeps_the_key(database: &Database) {
    let stub = Stub::start().await;
    stub.next(&[Mode::Status(422)]);
    let server = serve(database, &format!("url = \"{}\"", stub.url())).await;
    let id = sent(&server, "evt_1", "dead").await;
    let (shown, page, output) = looked_at(&server, &id).await;
    let (risk, sentence) = act(&shown, "send");
    assert_eq!(risk, "none");
    assert!(sentence.contains("the destination recognises the key and acts once"), "{sentence}");
    assert!(page.contains("value=\"send\" aria-describedby"), "it is not red: {page}");
    assert!(output.contains("No risk. ") && output.contains("key known until"), "{output}");
    // The safest comes first.
    let acts = shown["message"]["judgement"]["acts"].as_array().unwrap();
    assert_eq!(acts[0]["act"], "send");
    database.run("UPDATE outbox_queue SET key_valid_until_ms = 1").await.unwrap();
    let (shown, ..) = looked_at(&server, &id).await;
    let (risk, sentence) = act(&shown, "send");
    assert_eq!(risk, "may_repeat_effect");
    assert!(sentence.contains("may have forgotten the key") && sentence.contains(ASK_FIRST), "{sentence}");
}

async fn a_lane_of_a_destination_with_an_open_breaker_waits(database: &Database) {
    // Nothing listens there.
    let billing = "url = \"http://127.0.0.1:9/\"\nbreaker_failures_n = 1\nbreaker_open_ms = 3600000\n\
                   retry = { first_ms = 3600000, max_ms = 3600000 }";
    let server = serve(database, billing).await;
    let ann = Operator::new(server.admin, OPERATOR);
    post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.unwrap();
    let is_open = async || ann.get("/destinations/billing").await.body["breaker"] == "open";
    until("the breaker is open", Duration::from_secs(20), || server.log(), is_open).await;
    // Another lane, whose head was not tried: it is due, and nothing goes out.
    database
        .run("UPDATE outbox_queue SET attempts_n = 0, last_result = NULL, first_sent_at_ms = NULL, visible_at_ms = 1")
        .await
        .unwrap();
    let lanes = ann.get("/lanes").await.body;
    assert_eq!(lanes["items"][0]["blocked_by"], "breaker_open", "{lanes:#}");
    let browser = Browser::signed_in(server.admin, OPERATOR).await;
    let page = browser.get("/lanes").await.text;
    assert!(
        page.contains("breaker open") && page.contains("The circuit breaker of the destination"),
        "{page}"
    );
    assert!(!page.contains("it moves"), "{page}");
    // The breaker retries by itself, so the overview lists nothing to do.
    let overview = browser.get("/").await.text;
    let (_, needs) = overview.split_once("id=\"needs\"").unwrap();
    let (needs, _) = needs.split_once("</section>").unwrap();
    assert!(!needs.contains("breaker"), "{overview}");
    let destinations = browser.get("/destinations").await.text;
    assert!(destinations.contains(">open<"), "{destinations}");
}

async fn a_breaker_with_nothing_left_to_send_is_not_open(database: &Database) {
    let stub = Stub::start().await;
    stub.next(&[Mode::ActThenDrop]);
    let billing = format!(
        "url = \"{}\"\nunknown = \"hold\"\nbreaker_failures_n = 1\nbreaker_open_ms = 1000",
        stub.url()
    );
    let server = serve(database, &billing).await;
    sent(&server, "evt_1", "held").await;
    // The only call is on hold, so no other one can show that the destination is back.
    let ann = Operator::new(server.admin, OPERATOR);
    let is_over = async || ann.get("/destinations/billing").await.body["breaker"] == "half_open";
    until("its time is over", Duration::from_secs(20), || server.log(), is_over).await;
    let browser = Browser::signed_in(server.admin, OPERATOR).await;
    for path in ["/", "/destinations", "/destinations/billing", "/lanes"] {
        let page = browser.get(path).await.text;
        assert!(!page.contains("breaker open") && !page.contains("circuit breaker"), "{path}: {page}");
    }
    let output = server.command(OPERATOR, &["destinations", "show", "billing"]).1;
    assert!(output.contains("half_open"), "{output}");
    assert_eq!(stub.requests_n(), 1);
}

async fn a_page_from_before_another_run_of_the_event_sends_nothing(database: &Database) {
    let stub = Stub::start().await;
    stub.next(&[Mode::ActThenHang]);
    let billing = format!("url = \"{}\"\nunknown = \"hold\"\ntimeout_ms = 1000", stub.url());
    let server = serve(database, &billing).await;
    let id = sent(&server, "evt_1", "held").await;
    let browser = Browser::signed_in(server.admin, OPERATOR).await;
    let page = format!("/messages/{id}");
    let shown = browser.get(&page).await;
    let (key, version) = (shown.field("key"), shown.field("if_match"));
    let ann = Operator::new(server.admin, OPERATOR);
    let rerun = serde_json::json!({ "act": "rerun", "reason": "they do not have it" });
    assert_eq!(ann.post("/events/stripe/evt_1/decide", "k", &rerun).await.status, 200);
    let has_run = async || database.count("SELECT COUNT(*) FROM outbox_queue").await == 2;
    until("the other run has its message", Duration::from_secs(20), || server.log(), has_run).await;
    let order = [("key", &*key), ("if_match", &version), ("act", "send"), ("reason", "they do not have it")];
    assert_eq!(browser.post(&format!("{page}/decide"), &order).await.status, 412);
    assert!(prose(&browser.get(&page).await.text).contains("was run again"));
    assert_eq!(stub.requests_n(), 1, "the other one waits behind it in its lane");
}
