//! One look at the database finds all that a node waits for, and what has changed.

use std::time::Duration;

use hooklatch_core::types::Clock;
use hooklatch_store::{Look, LookedFor, Store};
use tokio::time::Instant;

use super::{admit, event, message};
use crate::database::{Database, on_both};

on_both!(a_look_finds_when_work_is_due, a_look_shows_that_pauses_or_tokens_have_changed);

const NOW_MS: i64 = 100_000;

async fn look(store: &Store) -> Look {
    let of = LookedFor { destinations: vec!["billing".to_owned()], providers: vec!["stripe".to_owned()] };
    store.look(&Clock::manual(NOW_MS), &of).await.unwrap()
}

/// Seconds from a look on, as whole as its time lets them be; `None`: nothing is due.
fn in_s(look: &Look, due: Option<Instant>) -> Option<u64> {
    due.map(|due| due.saturating_duration_since(look.at + Duration::from_millis(look.took_ms.unsigned_abs())))
        .map(|wait| (wait + Duration::from_millis(500)).as_secs())
}

async fn a_look_finds_when_work_is_due(database: &Database) {
    let store = database.store().await;
    let run = async |sql: &str| database.run(sql).await.unwrap();
    let quiet = look(&store).await;
    assert_eq!(
        (quiet.message_due, quiet.event_due, quiet.operation_due, quiet.pause_ends),
        (None, None, None, None)
    );

    admit(&store, &event("evt_1", "a"), &[message("billing"), message("elsewhere")]).await;
    run("UPDATE outbox_queue SET visible_at_ms = CASE destination WHEN 'billing' THEN 140000 ELSE 1 END")
        .await;
    let found = look(&store).await;
    assert_eq!(in_s(&found, found.message_due), Some(40), "of a destination that is configured");
    run("UPDATE outbox_queue SET visible_at_ms = 90000").await;
    let found = look(&store).await;
    assert_eq!(in_s(&found, found.message_due), Some(0), "it is due");
    run("INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms, until_ms)
         VALUES ('billing', 'ann', 'x', 1, NULL)")
    .await;
    assert_eq!(look(&store).await.message_due, None, "its destination is paused");
    run("UPDATE destination_pauses SET until_ms = 9000000000000").await;
    let found = look(&store).await;
    assert!(in_s(&found, found.pause_ends).is_some_and(|s| s >= 3_600), "far ahead: {found:?}");
    run("UPDATE outbox_queue SET state = 'held'").await;
    run("DELETE FROM destination_pauses").await;
    assert_eq!(look(&store).await.message_due, None, "it waits for an operator");

    run("UPDATE processed_webhook_events SET state = 'retry', due_at_ms = 130000").await;
    let found = look(&store).await;
    assert_eq!(in_s(&found, found.event_due), Some(30));
    run("INSERT INTO provider_pauses (provider, actor, reason, paused_at_ms) VALUES ('stripe', 'ann', 'x', 1)").await;
    assert_eq!(look(&store).await.event_due, None, "its provider is paused");
    run("UPDATE provider_pauses SET ended_at_ms = 5").await;
    assert!(look(&store).await.event_due.is_some());

    let operation = |state: &str, finished: &str| {
        format!(
            "INSERT INTO operations (operation_id, created_at_ms, finished_at_ms, stepped_at_ms, total_n, changed_n,
                 skipped_n, state, actor, reason, subject, expires_at_ms)
             VALUES ('{state}', 1, {finished}, 1, 1, 0, 0, '{state}', 'ann', 'x', '{{}}', 120000)"
        )
    };
    run(&operation("done", "1")).await;
    run(&operation("stopped", "NULL")).await;
    assert_eq!(look(&store).await.operation_due, None, "it waits for an operator");
    run(&operation("waiting", "NULL")).await;
    let found = look(&store).await;
    assert_eq!(in_s(&found, found.operation_due), Some(20), "it expires");
    run(&operation("running", "NULL")).await;
    let found = look(&store).await;
    assert_eq!(in_s(&found, found.operation_due), Some(0));
}

async fn a_look_shows_that_pauses_or_tokens_have_changed(database: &Database) {
    let store = database.store().await;
    let (mut pauses, mut tokens) = (vec![look(&store).await.pauses], vec![look(&store).await.tokens]);
    for sql in [
        "INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms) VALUES ('billing', 'ann', 'x', 10)",
        "UPDATE destination_pauses SET until_ms = 9000000000000",
        "INSERT INTO provider_pauses (provider, actor, reason, paused_at_ms) VALUES ('stripe', 'ann', 'x', 20)",
        "UPDATE provider_pauses SET until_ms = 9000000000001",
        "UPDATE provider_pauses SET ended_at_ms = 30",
        "UPDATE provider_pauses SET paused_at_ms = 40, until_ms = NULL, ended_at_ms = NULL",
        "DELETE FROM destination_pauses",
    ] {
        database.run(sql).await.unwrap();
        let found = look(&store).await;
        assert!(!pauses.contains(&found.pauses), "{sql}: {} after {pauses:?}", found.pauses);
        assert_eq!(found.tokens, tokens[0]);
        pauses.push(found.pauses);
    }
    let digest = if database.url.starts_with("sqlite") { "zeroblob(32)" } else { "sha256('')" };
    let made = format!(
        "INSERT INTO operator_tokens (token_id, name, role, digest, created_by, idempotency_key, created_at_ms, expires_at_ms)
         VALUES ('t', 'ann', 'viewer', {digest}, 'bob', 'k', 10, 9000000000000)"
    );
    for sql in [&*made, "UPDATE operator_tokens SET revoked_at_ms = 20", "DELETE FROM operator_tokens"] {
        database.run(sql).await.unwrap();
        let found = look(&store).await;
        assert_ne!(Some(&found.tokens), tokens.last(), "{sql}");
        tokens.push(found.tokens);
    }
}
