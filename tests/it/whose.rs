//! A key with which a sender signs for all its customers: only events of the operator's accounts are accepted.

use hooklatch_verify::{DevKeys, PublicScheme, SigningKey, base64_text};

use crate::database::{Database, on_sqlite};
use crate::process::{Server, client};

on_sqlite!(
    a_genuine_event_of_another_account_is_refused_with_its_reason,
    every_account_is_accepted_where_a_star_is_written,
    an_event_of_a_sandbox_is_acknowledged_and_ignored,
);

const KEY_ID: &str = "879dc113-5ca4-4ff7-a6b7-54652083fcf8";

/// The key of Circle, and the configuration of a provider with these subscriptions.
pub(crate) fn circle(subscriptions: &str) -> (SigningKey, String) {
    // The second of the generated ones is on P-256.
    let pems = DevKeys::generate().unwrap();
    let at = pems.rfind("-----BEGIN").unwrap();
    let key = SigningKey::parse(pems.get(at..).unwrap()).unwrap();
    let public = key.public_text().unwrap();
    let more = format!(
        "[providers.circle.settings]\nsubscription_ids = [\"{subscriptions}\"]\n\
         public_keys_spki_b64 = [{{ id = \"{KEY_ID}\", key = \"{public}\" }}]\n"
    );
    (key, more)
}

async fn serve(database: &Database, subscriptions: &str) -> (Server, SigningKey) {
    let (key, more) = circle(subscriptions);
    (Server::start(&database.url, &more).await, key)
}

/// The status of the answer to a genuine event of this subscription.
pub(crate) async fn sent(server: &Server, key: &SigningKey, subscription: &str) -> u16 {
    let body = format!(
        r#"{{"subscriptionId":"{subscription}","notificationId":"n-{subscription}","notificationType":"payouts","notification":{{"id":"1"}}}}"#
    );
    let signature = base64_text(&key.sign(PublicScheme::P256Der, body.as_bytes()).unwrap());
    let request = client().post(server.url("/webhooks/circle"));
    let request = request.header("x-circle-key-id", KEY_ID).header("x-circle-signature", signature);
    request.body(body).send().await.unwrap().status().as_u16()
}

async fn a_genuine_event_of_another_account_is_refused_with_its_reason(database: &Database) {
    let (server, key) = serve(database, "ours").await;
    assert_eq!(sent(&server, &key, "ours").await, 200);
    assert_eq!(sent(&server, &key, "theirs").await, 401);
    let metrics = server.admin_text("/metrics").await;
    let counted = "hooklatch_rejected_total{provider=\"circle\",reason=\"foreign_account\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 1);
}

async fn every_account_is_accepted_where_a_star_is_written(database: &Database) {
    let (server, key) = serve(database, "*").await;
    assert_eq!(sent(&server, &key, "theirs").await, 200);
}

async fn an_event_of_a_sandbox_is_acknowledged_and_ignored(database: &Database) {
    let more = "[providers.revenuecat]\nsecrets = [\"revenuecat-token-0123456789\"]\n\
        [[providers.revenuecat.routes]]\non = [\"*\"]\nto = \"billing\"\n\
        [destinations.billing]\nurl = \"http://127.0.0.1:9/\"\n";
    let server = Server::start(&database.url, more).await;
    for environment in ["SANDBOX", "PRODUCTION"] {
        let body =
            format!(r#"{{"event":{{"id":"{environment}","type":"RENEWAL","environment":"{environment}"}}}}"#);
        let request = client().post(server.url("/webhooks/revenuecat"));
        let request = request.header("authorization", "revenuecat-token-0123456789").body(body);
        assert_eq!(request.send().await.unwrap().status(), 200);
    }
    let ignored = "SELECT event_id FROM processed_webhook_events WHERE state = 'ignored'";
    assert_eq!(database.texts(ignored).await, ["SANDBOX"]);
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 2);
}
