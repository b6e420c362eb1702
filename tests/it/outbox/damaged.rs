//! Texts in SQLite's file that are none: a damaged value affects its own message alone.

use hooklatch_core::config::UnknownPolicy;

use super::Fixture;
use super::isolation::{OF_EVT_1, meddle};
use crate::database::{Database, on_sqlite};

on_sqlite!(a_damaged_row_is_held_and_blocks_no_other);

async fn a_damaged_row_is_held_and_blocks_no_other(database: &Database) {
    let fixture = Fixture::new(database).await;
    let damaged = "CAST(x'7bc17d' AS TEXT)";
    let of_message = format!("message_id / 1024 = {OF_EVT_1}");
    for sql in [
        format!("UPDATE webhook_payloads SET headers = {damaged} WHERE event_seq = {OF_EVT_1}"),
        format!("UPDATE processed_webhook_events SET event_type = {damaged} WHERE event_id = 'evt_1'"),
        format!("UPDATE outbox_queue SET effect_name = {damaged} WHERE {of_message}"),
        format!("UPDATE outbox_queue SET lane = {damaged} WHERE {of_message}"),
        format!("UPDATE outbox_queue SET last_result = {damaged} WHERE {of_message}"),
        format!("UPDATE outbox_queue SET attempts_n = -1 WHERE {of_message}"),
        format!("UPDATE outbox_queue SET attempts_before_n = -1, body_bytes_n = -1 WHERE {of_message}"),
        format!("UPDATE outbox_queue SET generation = 1 << 40 WHERE {of_message}"),
    ] {
        let others = format!("evt_{}", fastrand::u64(10..));
        fixture.message("evt_1", &["billing", "ledger"]).await;
        fixture.message(&others, &["billing", "ledger"]).await;
        meddle(database, &sql).await;
        let config = || fixture.config(UnknownPolicy::Hold);
        let outbox = fixture.outbox_to([("billing", config()), ("ledger", config())]);
        outbox.run_due().await.unwrap();
        let held =
            "SELECT COUNT(*) FROM outbox_queue WHERE state = 'held' AND last_error LIKE 'it cannot be read%'";
        assert_eq!(database.count(held).await, 2, "{sql}");
        for row in fixture.store.message_list_of_event(&crate::store::key(&others)).await.unwrap() {
            assert_eq!(row.state.as_str(), "done", "{sql}");
        }
        for table in ["outbox_queue", "webhook_payloads", "processed_webhook_events"] {
            meddle(database, &format!("DELETE FROM {table}")).await;
        }
    }
}
