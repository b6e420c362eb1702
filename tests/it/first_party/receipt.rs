//! Receipts: the results of a command, read by the caller that sent it.

use std::time::Duration;

use super::*;
use crate::database::{Database, on_both};
use crate::process::until;
use crate::stub::{Mode, Stub};

on_both!(a_caller_reads_the_results_of_its_own_commands_alone);

async fn get_receipt(server: &Server, path: &str, token: &str) -> CommandResponse {
    CommandResponse::of(client().get(server.url(path)).bearer_auth(token)).await.unwrap()
}

async fn a_caller_reads_the_results_of_its_own_commands_alone(database: &Database) {
    let stub = Stub::start().await;
    stub.next(&[Mode::ActThenStatus(503)]);
    let more = CALLERS.replace("url = \"http://127.0.0.1:9/\"", &format!("url = \"{}\"", stub.url()));
    let more =
        format!("{more}retry = {{ first_ms = 50, max_ms = 50, attempts_n = 5, age_max_ms = 60000 }}\n");
    let server = Server::start(&database.url, &more).await;
    let key = "order/1:é".replace('é', "e");
    let first = CommandResponse::of(by_token(&server, Some(&key), BODY)).await.unwrap();
    let location = first.headers["location"].to_str().unwrap().to_owned();
    assert_eq!(location, "/webhooks/shop/order%2F1%3Ae");
    let log = || server.log();
    until("it is done", Duration::from_secs(20), log, async || {
        get_receipt(&server, &location, TOKEN).await.json()["is_open"] == false
    })
    .await;
    let response = get_receipt(&server, &location, OLD_TOKEN).await;
    let receipt = response.json();
    assert_eq!(
        (response.status, &receipt["event_id"], &receipt["type"]),
        (200, &key.into(), &"order.placed".into())
    );
    assert_eq!((&receipt["outcome"], &receipt["state"]), (&"accepted".into(), &"handled".into()));
    let known_ms = receipt["known_until_ms"].as_i64().unwrap() - receipt["received_at_ms"].as_i64().unwrap();
    assert_eq!(known_ms, 400 * 86_400_000);
    let effect = &receipt["effects"][0];
    assert_eq!((&effect["destination"], &effect["state"]), (&"billing".into(), &"done".into()));
    assert_eq!(effect["attempts_n"], 2);
    let results: Vec<&str> =
        effect["attempts"].as_array().unwrap().iter().map(|one| one["result"].as_str().unwrap()).collect();
    assert_eq!(results.last(), Some(&"retry"), "{receipt}");
    assert!(
        !response.body.contains("o1") && !response.body.contains(&stub.url()),
        "no bodies, no addresses: {}",
        response.body
    );

    CommandResponse::of(by_signature(&server, "k9", BODY)).await.unwrap();
    assert_eq!(get_receipt(&server, "/webhooks/shop/k9", TOKEN).await.status, 404, "another caller's");
    assert_eq!(get_receipt(&server, "/webhooks/shop/none", TOKEN).await.status, 404);
    assert_eq!(get_receipt(&server, &location, "tok_other_0123456789abcdef0123").await.status, 401);
    assert_eq!(
        get_receipt(&server, "/webhooks/stripe/evt_1", TOKEN).await.status,
        404,
        "it is for callers of ours"
    );
    assert_eq!(get_receipt(&server, "/webhooks/absent/k", TOKEN).await.status, 404);
    let get = |key: &str, signed: &str| {
        with(client().get(server.url(&format!("/webhooks/ledger/{key}"))), &signature(signed, ""))
    };
    assert_eq!(CommandResponse::of(get("k9", "k9")).await.unwrap().status, 200);
    CommandResponse::of(by_signature(&server, "k10", BODY)).await.unwrap();
    assert_eq!(
        CommandResponse::of(get("k10", "k9")).await.unwrap().status,
        404,
        "a signature is for its own key"
    );
    // A question that was signed is no command.
    let posted = client().post(server.url("/webhooks/ledger")).header("content-type", "application/json");
    assert_eq!(
        CommandResponse::of(with(posted, &signature("k11", ""))).await.unwrap().code(),
        "body_missing"
    );
    assert_eq!(client().post(server.url(&location)).bearer_auth(TOKEN).send().await.unwrap().status(), 405);

    // Its effects are pruned before the command. That they are not listed does not say that there were none.
    assert_eq!(receipt["effects_known"], true);
    let pruned = "DELETE FROM outbox_attempts; DELETE FROM outbox_finished;
        UPDATE retention_lease SET messages_pruned_seq = (SELECT MAX(event_seq) FROM processed_webhook_events)";
    database.run(pruned).await.unwrap();
    let receipt = get_receipt(&server, &location, TOKEN).await.json();
    assert_eq!((&receipt["effects"], &receipt["state"]), (&serde_json::json!([]), &"handled".into()));
    assert_eq!((&receipt["effects_known"], &receipt["is_open"]), (&false.into(), &false.into()));
}
