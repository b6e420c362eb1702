//! What the take-over of a restored database changes, row by row.

use hooklatch_core::types::{Clock, EventState};
use hooklatch_store::{LeaseWant, NewMessage, RestoreState, Store, StoreSettings, TakeOver};

use crate::database::{Database, on_both};
use crate::store::{admit, candidates, event, message, name};

on_both!(
    open_messages_count_as_sent_since_the_backup_with_an_unknown_outcome,
    after_a_take_over_numbers_continue_above_all_that_may_have_been_assigned,
    sessions_end_tokens_are_revoked_and_operations_cancelled,
    a_move_changes_nothing_but_the_place,
);

const DAY_MS: i64 = 86_400_000;
/// A moment in November 2026.
const NOW_MS: i64 = 1_795_000_000_000;

fn word(from_ms: i64) -> TakeOver {
    TakeOver {
        from_ms: Some(from_ms),
        until_ms: NOW_MS,
        paused: vec!["billing".to_owned()],
        are_tokens_kept: false,
        reason: "disk lost".to_owned(),
        now_ms: NOW_MS,
    }
}

async fn lease(store: &Store, to: &str, now_ms: i64) -> Vec<hooklatch_store::LeasedMessage> {
    let want = LeaseWant {
        destination: name(to),
        free_n: 10,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: DAY_MS,
    };
    store.message_lease(&[want], now_ms, 30_000, "node-2").await.unwrap()
}

async fn open_messages_count_as_sent_since_the_backup_with_an_unknown_outcome(database: &Database) {
    let store = database.store().await;
    let lane = |lane: &str| NewMessage { lane: Some(lane.to_owned()), ..message("lanes") };
    admit(&store, &event("evt_1", "a"), &[message("new"), message("leased"), lane("x")]).await;
    admit(&store, &event("evt_2", "b"), &[lane("x"), message("held")]).await;
    database
        .run("UPDATE outbox_queue SET state = 'held', last_result = 'refused' WHERE destination = 'held'")
        .await
        .unwrap();
    // Half a day before the backup one was sent, and is under way.
    let from_ms = NOW_MS - DAY_MS / 2;
    assert_eq!(lease(&store, "leased", from_ms - DAY_MS / 2).await.len(), 1);
    let taken = store.restore_take_over(word(from_ms)).await.unwrap();
    assert_eq!((taken.messages_n, taken.paused_n, taken.from_ms), (4, 1, from_ms));

    for (to, sent_ms) in [("new", from_ms), ("leased", from_ms - DAY_MS / 2), ("lanes", from_ms)] {
        let found = lease(&store, to, NOW_MS).await;
        assert_eq!(found.len(), 1, "{to}");
        assert!(found[0].is_previous_unknown, "{to}: its outcome is unknown");
        assert_eq!(found[0].previous_ended_at_ms, Some(NOW_MS), "{to}: it is not asked about before");
        assert_eq!(
            (found[0].first_sent_at_ms, found[0].key_valid_until_ms),
            (sent_ms, sent_ms + DAY_MS),
            "{to}"
        );
    }
    let held = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'held' AND last_result = 'refused'";
    assert_eq!(database.count(held).await, 1, "what waits for a person is as it was");
    let waiting = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'waiting' AND last_result = 'unknown'";
    assert_eq!(database.count(waiting).await, 1);
    let lost = store.lost_times().await.unwrap();
    let [lost] = lost[..] else { panic!("{lost:?}") };
    assert_eq!((lost.from_ms, lost.until_ms), (from_ms, NOW_MS));
}

/// Firing of a signal that arrived at `at_ms`.
async fn firing(store: &Store, at_ms: i64) -> i64 {
    let mut one = event("sig", "a");
    one.received_at_ms = at_ms;
    one.window_ms = Some(1_000);
    let mut all = [one];
    store.signals_number(&mut all).await.unwrap();
    all[0].key.event_id.rsplit_once('#').unwrap().1.parse().unwrap()
}

/// What one life after a restore gives: a number, a firing.
async fn life(store: &Store, at_ms: i64) -> (i64, i64) {
    (store.event_numbers(1).await.unwrap()[0], firing(store, at_ms).await)
}

async fn after_a_take_over_numbers_continue_above_all_that_may_have_been_assigned(database: &Database) {
    let store = database.store().await;
    let before = life(&store, 1_000).await;
    assert_eq!(before.1, 1);
    // Two restores of one backup, a second apart: each life goes on above the other one.
    let settings = StoreSettings { url: database.url.clone(), connections_n: 8 };
    store.close().await;
    drop(store);
    let mut lives = vec![before];
    for n in 0..2 {
        let store = Store::open(&settings).await.unwrap();
        // As the backup has it.
        let back = "UPDATE installation SET restored_s = 0; UPDATE signal_firings SET firing_n = 1, counted_from_ms = 1000";
        database.run(back).await.unwrap();
        let mut word = word(NOW_MS - 1_000);
        word.now_ms += n * 1_000;
        store.restore_take_over(word).await.unwrap();
        assert_eq!(firing(&store, 1_500).await, 1, "a copy of a firing that is in the backup is still one");
        lives.push(life(&store, 10_000).await);
        store.close().await;
        drop(store);
    }
    assert!(lives.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1), "{lives:?}");
    // Numbers of messages stay what columns and other programs can hold.
    assert!(lives[2].0 < i64::MAX / 1024 / 1024, "{lives:?}");
}

async fn sessions_end_tokens_are_revoked_and_operations_cancelled(database: &Database) {
    let store = database.store().await;
    let rows = format!(
        "INSERT INTO operator_tokens (token_id, name, role, digest, created_by, idempotency_key, created_at_ms, expires_at_ms)
         VALUES ('t', 'n', 'viewer', {blob}, 'a', 'k', 1, {end});
         INSERT INTO operator_sessions (digest, token_name, token_bound, created_at_ms, expires_at_ms)
         VALUES ('d', 'n', {blob}, 1, {end});
         INSERT INTO operations (operation_id, created_at_ms, stepped_at_ms, total_n, changed_n, skipped_n, state, actor,
             reason, subject) VALUES ('o', 1, 1, 1, 0, 0, 'running', 'a', 'r', '{{}}')",
        blob = if database.url.starts_with("sqlite") { "x'00'" } else { "'\\x00'" },
        end = 9_999_999_999_999_i64,
    );
    database.run(&rows).await.unwrap();
    let facts = store.restore_facts().await.unwrap();
    assert_eq!((facts.tokens_n, facts.operations_n), (1, 1));
    let kept = TakeOver { are_tokens_kept: true, ..word(1) };
    let taken = store.restore_take_over(kept).await.unwrap();
    assert_eq!((taken.tokens_n, taken.sessions_n, taken.operations_n), (0, 1, 1));
    // An operator who reconsiders gives the command once more.
    let taken = store.restore_take_over(word(1)).await.unwrap();
    assert_eq!((taken.tokens_n, taken.sessions_n, taken.operations_n), (1, 0, 0));
    assert_eq!(database.count("SELECT COUNT(*) FROM operations WHERE state = 'cancelled'").await, 1);
    assert_eq!(database.count("SELECT COUNT(*) FROM restores").await, 1, "in one second it is one");
    let people = "SELECT COUNT(*) FROM audit_log WHERE action = 'restore_take_over'";
    assert_eq!(database.count(people).await, 2);
}

async fn a_move_changes_nothing_but_the_place(database: &Database) {
    let store = database.store().await;
    let id = event("evt_1", "a");
    let candidates = candidates(&store, &[&id], EventState::Handled).await;
    store.restore_note().await.unwrap();
    assert_eq!(store.restore_state().await.unwrap(), RestoreState::Same);
    let elsewhere = if database.url.starts_with("sqlite") {
        database.run("UPDATE installation SET backup_at_ms = 5").await.unwrap();
        RestoreState::Backup { made_at_ms: 5 }
    } else {
        database.run("UPDATE installation SET database_id = '1/1'").await.unwrap();
        RestoreState::Elsewhere
    };
    assert_eq!(store.restore_state().await.unwrap(), elsewhere);
    store.restore_is_moved("a new machine", Clock::system().now_ms()).await.unwrap();
    assert_eq!(store.restore_state().await.unwrap(), RestoreState::Same);
    assert_eq!(store.lost_times().await.unwrap(), []);
    let next = store.event_numbers(1).await.unwrap()[0];
    assert_eq!(next, candidates[0].event_seq + 1, "numbers go on as they did");
    if database.url.starts_with("postgres") {
        // As `pg_restore --clean` does it: the same server, the same database, another table.
        for sql in [
            "CREATE TABLE copy AS SELECT * FROM installation",
            "ALTER TABLE installation RENAME TO gone",
            "ALTER TABLE copy RENAME TO installation",
        ] {
            database.run(sql).await.unwrap();
        }
        assert_eq!(store.restore_state().await.unwrap(), RestoreState::Elsewhere);
        store.restore_note().await.unwrap();
        database.run("UPDATE installation SET timeline = timeline - 1").await.unwrap();
        assert_eq!(store.restore_state().await.unwrap(), RestoreState::TookOver);
    }
}
