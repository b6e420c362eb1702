//! The command that sends a stored request once more: with `serve --dev` alone, and with published secrets alone.

use hooklatch_verify::SignAt;

use super::Browser;
use crate::process::{Server, client, now_s, stripe_header};
use crate::providers::{dev, sign_at};

/// The command on a page, as an operator copies it.
fn command(page: &str) -> String {
    let (_, rest) = page.split_once("<pre id=\"curl\"").unwrap_or_else(|| panic!("no command in {page}"));
    let text = rest.split_once('>').unwrap().1.split("</pre>").next().unwrap();
    text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
}

/// The words of a shell's command in single quotes.
fn quoted(command: &str) -> Vec<String> {
    command.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

#[tokio::test]
async fn what_is_copied_from_a_ledger_is_a_copy_that_is_believed() {
    let server = Server::dev().await;
    let github = dev(&hooklatch::kind("github"));
    let body = r#"{"action":"opened","number":12345678901234567890123,"number":1}"#;
    let mut at = sign_at(&github, "pull_request.opened");
    at.id = "72d3162e-cc78-11e3-81ab-4c9367dc0958".to_owned();
    let signed = github.sign(body.as_bytes(), &at).unwrap();
    let mut request = client().post(server.url("/webhooks/github")).body(signed.body.clone());
    for (name, value) in &signed.headers {
        request = request.header(name, value);
    }
    assert_eq!(request.send().await.unwrap().headers()["hooklatch-outcome"], "accepted");
    let person = Browser::new(server.admin);
    let page = person.get(&format!("/events/github/{}", at.id)).await.text;
    assert!(page.contains("data-copy=\"curl\""), "{page}");
    let words = quoted(&command(&page));
    let (headers, body_again) = (&words[1..words.len() - 1], words.last().unwrap());
    assert_eq!(body_again, body);
    let path = words[0].split_once("/webhooks").unwrap().1;
    let mut request = client().post(server.url(&format!("/webhooks{path}"))).body(body_again.clone());
    for (name, value) in headers.iter().map(|header| header.split_once(": ").unwrap()) {
        request = request.header(name, value);
    }
    assert_eq!(request.send().await.unwrap().headers()["hooklatch-outcome"], "duplicate");
}

/// Sends the command of a page, and says which outcome the receiver answered.
async fn outcome_of(server: &Server, command: &str) -> String {
    let words = quoted(command);
    let path = words[0].split_once("/webhooks").unwrap().1;
    let mut request =
        client().post(server.url(&format!("/webhooks{path}"))).body(words.last().unwrap().clone());
    for (name, value) in words[1..words.len() - 1].iter().map(|header| header.split_once(": ").unwrap()) {
        request = request.header(name, value);
    }
    request.send().await.unwrap().headers()["hooklatch-outcome"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_page_says_of_every_kind_whether_the_command_makes_a_new_event() {
    let server = Server::dev().await;
    let person = Browser::new(server.admin);
    let mut said = [0, 0, 0];
    for (kind, event_type) in [
        ("github", "push"),
        ("adyen", "AUTHORISATION"),
        ("gocardless", "payments-confirmed"),
        ("shopify", "orders-paid"),
    ] {
        let provider = dev(&hooklatch::kind(kind));
        let sample = std::fs::read(format!("providers/{kind}/samples/{event_type}.json")).unwrap();
        let at = SignAt { now_s: now_s(), ..sign_at(&provider, event_type) };
        let signed = provider.sign(&sample, &at).unwrap();
        let mut request = client().post(server.url(&format!("/webhooks/{kind}"))).body(signed.body.clone());
        for (name, value) in &signed.headers {
            request = request.header(name, value);
        }
        let answer = request.send().await.unwrap();
        assert!(answer.status().is_success(), "{kind}: {}", answer.status());
        let list = person.get(&format!("/events?provider={kind}")).await.text;
        let beginning = format!("href=\"/events/{kind}/");
        let id = list.split(&beginning).nth(1).unwrap_or_else(|| panic!("no event in {list}"));
        let id = id.split('"').next().unwrap();
        let page = person.get(&format!("/events/{kind}/{id}")).await.text;
        if !page.contains("<pre id=\"curl\"") {
            said[2] += 1;
            continue;
        }
        let is_duplicate = page.contains("Hooklatch identifies it as this event");
        assert_ne!(is_duplicate, page.contains("can store it as a new event"), "{kind}: {page}");
        let outcome = outcome_of(&server, &command(&page)).await;
        // A new event is possible, not certain.
        assert!(!is_duplicate || outcome == "duplicate", "{kind}: {outcome}");
        said[usize::from(is_duplicate)] += 1;
    }
    assert!(said.iter().all(|n| *n > 0), "each of the three is seen: {said:?}");
}

#[tokio::test]
async fn a_secret_of_the_operators_own_signs_nothing_on_a_page() {
    let server = Server::dev().await;
    // This provider of the test's has a secret that is not published.
    for (id, filling) in [("evt_1", "x".to_owned()), ("evt_large", "x".repeat(30_000))] {
        let body =
            format!(r#"{{"id":"{id}","type":"invoice.paid","data":{{"object":{{"t":"{filling}"}}}}}}"#);
        let request = client().post(server.url("/webhooks/stripe"));
        let request = request.header("stripe-signature", stripe_header(&body, now_s()));
        assert_eq!(request.body(body).send().await.unwrap().headers()["hooklatch-outcome"], "accepted");
    }
    let person = Browser::new(server.admin);
    let page = person.get("/events/stripe/evt_1").await.text;
    assert!(page.contains("This provider has secrets of its own") && !page.contains("v1="), "{page}");
    let page = person.get("/events/stripe/evt_large").await.text;
    assert!(page.contains("too large for a command") && !page.contains("id=\"curl\""), "{page}");
    let form = person.get("/events/stripe/evt_1").await;
    let fields = [("key", &*form.field("key")), ("act", "erase_and_discard"), ("reason", "r")];
    assert_eq!(person.post("/events/stripe/evt_1/decide", &fields).await.status, 303);
    let page = person.get("/events/stripe/evt_1").await.text;
    assert!(page.contains("The body is no longer kept, so it cannot be sent once more."), "{page}");
}
