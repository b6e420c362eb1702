//! Senders of whole batches, over HTTP: the responses to Salesforce and Azure Event Grid, and the state of each event.

use reqwest::Response;

use crate::database::{Database, on_both};
use crate::process::{Server, client};

on_both!(
    every_notification_of_a_salesforce_message_is_an_event_and_the_message_is_acknowledged,
    event_grid_is_answered_its_validation_code_and_each_event_of_a_batch_is_taken_in_once,
);

const PROVIDERS: &str = r#"
[providers.salesforce]
secrets = ["own-token-of-the-endpoint-0123456789"]
settings = { organization_ids = ["00D000000000001EAA"] }
[providers.azure_event_grid]
secrets = ["own-token-of-the-endpoint-0123456789"]
"#;
const TOKEN: &str = "own-token-of-the-endpoint-0123456789";
const EVENTS: &str = "SELECT COUNT(*) FROM processed_webhook_events";
const CONFLICTS: &str = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'conflict'";

/// A message of `(notification's id, name in its record)`.
fn message(organization: &str, notifications: &[(&str, &str)]) -> String {
    let one = |(id, name): &(&str, &str)| {
        format!(
            "<Notification><Id>{id}</Id><sObject xsi:type=\"sf:Contact\" \
             xmlns:sf=\"urn:sobject.enterprise.soap.sforce.com\"><sf:Name>{name}</sf:Name></sObject></Notification>"
        )
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?><soapenv:Envelope \
         xmlns:soapenv=\"http://schemas.xmlsoap.org/soap/envelope/\" \
         xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\"><soapenv:Body>\
         <notifications xmlns=\"http://soap.sforce.com/2005/09/outbound\">\
         <OrganizationId>{organization}</OrganizationId><SessionId>00D!acts.as.the.user</SessionId>{}\
         </notifications></soapenv:Body></soapenv:Envelope>",
        notifications.iter().map(one).collect::<String>()
    )
}

async fn every_notification_of_a_salesforce_message_is_an_event_and_the_message_is_acknowledged(
    database: &Database,
) {
    const OURS: &str = "00D000000000001EAA";
    let server = Server::start(&database.url, PROVIDERS).await;
    let post = async |token: &str, body: String| -> (u16, bool) {
        let url = server.url(&format!("/webhooks/salesforce?token={token}"));
        let sent = client().post(url).header("content-type", "text/xml; charset=utf-8").body(body);
        let response: Response = sent.send().await.unwrap();
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let is_ack = response.text().await.unwrap().contains("<Ack>true</Ack>");
        assert!(!is_ack || headers["content-type"].to_str().unwrap().starts_with("text/xml"));
        (status, is_ack)
    };
    let three = [("04l1", "Ann"), ("04l2", "Ben"), ("04l3", "Cem")];
    assert_eq!(post(TOKEN, message(OURS, &three)).await, (200, true));
    assert_eq!(database.count(EVENTS).await, 3);
    assert_eq!(post(TOKEN, message(OURS, &three)).await, (200, true), "sent again");
    assert_eq!(database.count(EVENTS).await, 3);
    let later = [("04l3", "Cem"), ("04l4", "Dag")];
    assert_eq!(post(TOKEN, message(OURS, &later)).await, (200, true), "bundled anew");
    assert_eq!(database.count(EVENTS).await, 4);
    let hundred: Vec<String> = (0..100).map(|n| format!("04lh{n}")).collect();
    let hundred: Vec<(&str, &str)> = hundred.iter().map(|id| (&**id, "Eve")).collect();
    assert_eq!(post(TOKEN, message(OURS, &hundred)).await, (200, true), "as many as there may be");
    assert_eq!(database.count(EVENTS).await, 104);
    assert_eq!(database.count(CONFLICTS).await, 0);
    assert_eq!(post(TOKEN, message(OURS, &[("04l4", "Dagny")])).await, (200, true), "with a newer record");
    assert_eq!(database.count(CONFLICTS).await, 1);
    // A message of another organization or token is refused, and gets no acknowledgement.
    let other = message("00D000000000002EAA", &[("04l5", "Fay")]);
    assert_eq!(post(TOKEN, other).await, (401, false));
    assert_eq!(post("another-token-0123456789", message(OURS, &[("04l5", "Fay")])).await, (401, false));
    // Nor is anything acknowledged of which nothing was taken in.
    let renamed = message(OURS, &[("04l5", "Fay")]).replace("Notification>", "note>");
    let bomb = message(OURS, &[("04l5", "&lol;")])
        .replace("?><soapenv", "?><!DOCTYPE n [<!ENTITY lol SYSTEM \"file:///etc/passwd\">]><soapenv");
    for body in [message(OURS, &[]), renamed, bomb, "no SOAP".to_owned()] {
        assert_eq!(post(TOKEN, body).await, (401, false));
    }
    assert_eq!(database.count(EVENTS).await, 105);
    // What acts as Salesforce's user is written nowhere; the record that is kept is.
    let Some(path) = database.url.strip_prefix("sqlite://") else { return };
    let folder = std::path::Path::new(path.split('?').next().unwrap()).parent().unwrap();
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let written: Vec<u8> = files.flatten().collect();
    let is_there = |text: &[u8]| written.windows(text.len()).any(|one| one == text);
    assert!(is_there(b"Dagny") && !is_there(b"acts.as.the.user"));
}

async fn event_grid_is_answered_its_validation_code_and_each_event_of_a_batch_is_taken_in_once(
    database: &Database,
) {
    let server = Server::start(&database.url, PROVIDERS).await;
    let post = async |aeg: &str, token: Option<&str>, body: String| -> (u16, String) {
        let sent = client().post(server.url("/webhooks/azure_event_grid")).header("aeg-event-type", aeg);
        let sent = token.into_iter().fold(sent, |sent, token| sent.header("x-webhook-token", token));
        let response = sent.header("content-type", "application/json").body(body).send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    };
    let event = |id: &str, of_type: &str, data: &str| {
        format!(
            "{{\"id\":\"{id}\",\"topic\":\"/t\",\"subject\":\"\",\"eventType\":\"{of_type}\",\
             \"eventTime\":\"2026-01-01T00:00:00Z\",\"data\":{data},\"metadataVersion\":\"1\",\"dataVersion\":\"1\"}}"
        )
    };
    let batch = |events: &[String]| format!("[{}]", events.join(","));
    let asked = "Microsoft.EventGrid.SubscriptionValidationEvent";
    let asked =
        batch(&[event("1", asked, "{\"validationCode\":\"512d38b6\",\"validationUrl\":\"https://x\"}")]);
    let answered = post("SubscriptionValidation", Some(TOKEN), asked.clone()).await;
    assert_eq!(answered, (200, "{\"validationResponse\":\"512d38b6\"}".to_owned()));
    for token in [None, Some("another-token-0123456789")] {
        let (status, body) = post("SubscriptionValidation", token, asked.clone()).await;
        assert!(status == 401 && !body.contains("512d38b6"), "{status} {body}");
    }
    assert_eq!(database.count(EVENTS).await, 0, "a handshake is no event");
    let blob = |id: &str| event(id, "Microsoft.Storage.BlobCreated", "{\"api\":\"PutBlob\"}");
    for (events, events_n) in [(vec![blob("1"), blob("2")], 2), (vec![blob("2"), blob("3")], 3)] {
        assert_eq!(post("Notification", Some(TOKEN), batch(&events)).await.0, 200);
        assert_eq!(database.count(EVENTS).await, events_n);
    }
    let beside = batch(&[asked.trim_matches(['[', ']']).replace("\"id\":\"1\"", "\"id\":\"v\""), blob("4")]);
    let (status, body) = post("SubscriptionValidation", Some(TOKEN), beside).await;
    assert!(status == 200 && !body.contains("validationResponse"), "{status} {body}");
    assert_eq!(database.count(EVENTS).await, 5, "what stands beside a validation is an event");
    // The publisher of a custom topic chooses the ids, and may use one twice.
    for (data, events_n) in [("{\"n\":1}", 6), ("{\"n\":2}", 7), ("{\"n\":1}", 7)] {
        let body = batch(&[event("7", "Contoso.Items.ItemReceived", data)]);
        assert_eq!(post("Notification", Some(TOKEN), body).await.0, 200);
        assert_eq!(database.count(EVENTS).await, events_n, "{data}");
    }
    assert_eq!(database.count(CONFLICTS).await, 0);
}
