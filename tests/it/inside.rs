//! Ids inside events: stored as configured, and found through the API.

use hooklatch_verify::SignAt;
use serde_json::Value;

use crate::console::Browser;
use crate::database::{Database, on_both};
use crate::floors::check;
use crate::process::{SECRET, Server, client, now_s, post_stripe, stripe_signed};
use crate::providers::{dev, sign_at};

on_both!(ids_inside_events_are_kept_as_each_provider_is_configured);

const TOKEN: &str = "token-of-a-reader-0123456789";

async fn search(server: &Server, id: &str) -> Value {
    let url = format!("http://{}/v1/search?id={id}", server.admin);
    let answer = client().get(url).bearer_auth(TOKEN).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200, "{id}");
    serde_json::from_str(&answer.text().await.unwrap()).unwrap()
}

/// The hits of a search, each with its match and its event: `search_id stripe evt_1`.
async fn found(server: &Server, id: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let summary = |hit: &Value| {
        format!(
            "{} {} {}",
            text(&hit["by"]),
            text(&hit["event"]["provider"]),
            text(&hit["event"]["event_id"])
        )
    };
    search(server, id).await["found"].as_array().unwrap().iter().map(summary).collect()
}

async fn ids_inside_events_are_kept_as_each_provider_is_configured(database: &Database) {
    let of = |name: &str, more: &str| {
        format!("[providers.{name}]\nkind = \"stripe\"\nsecrets = [\"{SECRET}-{name}\"]\n{more}\n")
    };
    let config = format!(
        "{}{}{}{}[[admin.tokens]]\nname = \"ann\"\nrole = \"reader\"\ntoken = \"{TOKEN}\"\n",
        of("quiet", "search = false"),
        of("veiled", "redact = [\"/data/object/id\"]"),
        of("hidden", "redact = [\"/data\"]"),
        of("open", "")
    );
    let server = Server::start(&database.url, &config).await;
    assert_eq!(
        post_stripe(&client(), &server.url("/webhooks/stripe"), "evt_1").await.as_deref(),
        Ok("accepted")
    );
    for name in ["quiet", "veiled", "hidden", "open"] {
        let body = r#"{"id":"evt_2","type":"charge.refunded","created":1,"data":{"object":{"id":"ch_evt_1","customer":"cus_NffrFe"}}}"#;
        let header = stripe_signed(body, &format!("{SECRET}-{name}"), now_s());
        let sent = client().post(server.url(&format!("/webhooks/{name}"))).header("stripe-signature", header);
        assert_eq!(sent.body(body).send().await.unwrap().status().as_u16(), 200, "{name}");
    }
    assert_eq!(found(&server, "IN_EVT_1").await, ["search_id stripe evt_1"]);
    assert_eq!(found(&server, "ch_evt_1").await, ["search_id open evt_2"]);
    assert_eq!(found(&server, "cus_nffr").await, ["search_id open evt_2", "search_id veiled evt_2"]);
    assert_eq!(
        found(&server, "https%3A%2F%2Fdashboard.stripe.com%2Fevents%2Fevt_1").await,
        ["event_id stripe evt_1"]
    );
    let notes = search(&server, "pi_nobody").await["notes"].to_string();
    assert!(notes.contains("Ids inside events of `quiet` are not kept: `search = false`."), "{notes}");
    assert_eq!(database.count("SELECT COUNT(*) FROM event_search_ids").await, 4);
}

#[tokio::test]
async fn an_event_of_any_kind_is_found_by_the_id_that_its_senders_dashboard_shows() {
    let server = Server::dev().await;
    let person = Browser::new(server.admin);
    let item = "/notificationItems/0/NotificationRequestItem";
    let (psp_reference, reference) = (format!("{item}/pspReference"), format!("{item}/merchantReference"));
    // The kind and the type of a sample, where the id stands, and how much of it is typed.
    for (kind, event_type, place, typed_n) in [
        ("adyen", "AUTHORISATION", psp_reference.as_str(), 99),
        ("adyen", "AUTHORISATION", &reference, 99),
        ("github", "push", "x-github-delivery", 99),
        ("github", "push", "/repository/full_name", 99),
        ("square", "payment.created", "/data/id", 6),
        ("shopify", "orders-paid", "/id", 99),
    ] {
        let provider = dev(&hooklatch::kind(kind));
        let sample = std::fs::read_to_string(format!("providers/{kind}/samples/{event_type}.json")).unwrap();
        let sample = sample.replace("__NUM__", "4711001").replace("__NOW__", "1767225600").into_bytes();
        let url = server.url(&format!("/webhooks/{kind}"));
        let at = SignAt { now_s: now_s(), url: url.clone(), ..sign_at(&provider, event_type) };
        let signed = provider.sign(&sample, &at).unwrap();
        let mut request = client().post(url).body(signed.body.clone());
        for (name, value) in &signed.headers {
            request = request.header(name, value);
        }
        assert_eq!(request.send().await.unwrap().status().as_u16(), 200, "{kind}");
        let id = if place.starts_with('/') {
            let body: Value = serde_json::from_slice(&signed.body).unwrap();
            let found = body.pointer(place).unwrap_or_else(|| panic!("no {place} in {body:#}")).clone();
            found.as_str().map_or_else(|| found.to_string(), str::to_owned)
        } else {
            signed.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(place)).unwrap().1.clone()
        };
        let typed: String = id.to_lowercase().chars().take(typed_n).collect();
        let typed = typed.replace('/', "%2F");
        let shown = person.get(&format!("/search?id={typed}")).await;
        // One event is gone to; of several there is a list.
        let there = format!("/events/{kind}/");
        assert!(
            shown.text.contains(&there) || shown.header("location").starts_with(&there),
            "{kind} {place} by {typed}: {}",
            shown.text
        );
        assert!(!shown.text.contains("never arrived"), "{typed}: {}", shown.text);
    }
}

#[test]
fn check_says_that_the_search_by_ids_inside_events_is_off() {
    let text = |more: &str| format!("[providers.stripe]\nsecrets = [\"{SECRET}\"]\n{more}\n");
    let (is_good, said, _) = check(&text("search = false"));
    assert!(is_good && said.contains("warning: providers.stripe.search: is off"), "{said}");
    let (is_good, said, _) = check(&text("search = true"));
    assert!(is_good && !said.contains("providers.stripe.search"), "{said}");
    let (is_good, said, _) = check(&text("search = \"yes\""));
    assert!(!is_good && said.contains("providers.stripe.search"), "{said}");
}
