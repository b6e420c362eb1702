//! Old rows are pruned, a few at a time; rows in use stay, and keys go last.

use std::collections::BTreeMap;

use hooklatch_contract::MessageAct;
use hooklatch_core::types::{AttemptResult, EventState, IncomingEvent, ObjectVersion};
use hooklatch_store::{
    Cuts, LeaseWant, PRUNED_N_MAX, PruneLease, PrunePlace, PruneWalk, PrunedKind, SettleTo, Settlement, Store,
};
use sqlx::{Connection, Executor, PgConnection};

use super::{admit, candidates, decision_at, event, key, message, name, on_message, ops, settlement};
use crate::database::{Database, On, on_both};

on_both!(
    old_rows_are_pruned_and_needed_ones_stay,
    an_id_goes_after_its_own_window_and_after_all_else_of_its_event,
    a_body_is_kept_for_its_window_after_its_last_message_settles,
    attempts_stay_while_the_end_of_their_message_is_young,
    a_dry_run_counts_the_rows_that_a_round_deletes,
    a_clock_that_was_ahead_does_not_block_pruning,
    a_signal_is_forgotten_after_its_firings_alone,
    versions_go_with_their_events_and_counts_with_their_keys,
    unused_lanes_without_messages_are_pruned,
    small_tables_are_pruned_by_age,
    a_batch_that_is_cut_off_in_the_middle_deletes_nothing,
);

/// Everything before `ms` may go.
pub(crate) fn cuts(ms: i64) -> Cuts {
    Cuts {
        now_ms: ms + 20_000,
        bodies_ms: ms,
        attempts_ms: ms,
        messages_ms: ms,
        ids_ms: ms,
        ids_of: BTreeMap::new(),
        lanes_ms: ms,
        rejections_ms: ms,
        secret_uses_ms: ms,
        pairing_ms: ms,
        activity_ms: ms,
        answers_ms: ms,
        operations_ms: ms,
        audit_ms: ms,
    }
}

pub(super) fn lease(node: &str) -> PruneLease {
    PruneLease { node: node.to_owned(), for_ms: 60_000 }
}

/// One round over everything, `rows_n` at a time; the rows that went, by table.
pub(crate) async fn round(
    store: &Store,
    cuts: &Cuts,
    rows_n: u32,
    is_dry: bool,
) -> BTreeMap<&'static str, u64> {
    let mut gone = BTreeMap::new();
    for kind in PrunedKind::ALL.iter().copied() {
        let walks: Vec<i64> = match kind {
            PrunedKind::Ids => cuts.ids_of.values().copied().chain([cuts.ids_ms]).collect(),
            _ => vec![0],
        };
        for ids_cut_ms in walks {
            let walk = PruneWalk { kind, ids_cut_ms };
            let mut from = PrunePlace::default();
            loop {
                let found = store.prune_look(walk, cuts, &from, rows_n).await.unwrap();
                if !found.is_empty() {
                    let n = if is_dry {
                        store.prune_count(kind, &found, cuts).await.unwrap()
                    } else {
                        store.prune_delete(kind, &found, &lease("node-1")).await.unwrap().unwrap()
                    };
                    *gone.entry(kind.table()).or_default() += n;
                }
                let Some(next) = found.next else { break };
                from = next;
            }
        }
    }
    gone.retain(|_, n| *n > 0);
    gone
}

pub(super) fn received(event_id: &str, received_at_ms: i64) -> IncomingEvent {
    IncomingEvent { received_at_ms, ..event(event_id, event_id) }
}

/// Takes what is due for `billing`, and settles all of it.
pub(super) async fn settle(store: &Store, to: SettleTo, settled_at_ms: i64) {
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 100,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000,
    };
    let leased = store.message_lease(&[want], settled_at_ms - 1, 30_000, "node-1").await.unwrap();
    let result = if to == SettleTo::Done { AttemptResult::Done } else { AttemptResult::Refused };
    let settlements: Vec<Settlement> =
        leased.iter().map(|one| Settlement { settled_at_ms, ..settlement(one, to, result) }).collect();
    assert!(store.message_settle(&settlements).await.unwrap().iter().all(|is_ours| *is_ours));
}

pub(crate) async fn run(database: &Database, sql: &str) {
    database.run(sql).await.unwrap();
}

const PAYLOADS: &str = "SELECT COUNT(*) FROM webhook_payloads";
const CONTENTS: &str = "SELECT COUNT(*) FROM outbox_contents";
const FINISHED: &str = "SELECT COUNT(*) FROM outbox_finished";
const EVENTS: &str = "SELECT COUNT(*) FROM processed_webhook_events";

pub(super) async fn counts(database: &Database) -> [i64; 4] {
    [
        database.count(EVENTS).await,
        database.count(PAYLOADS).await,
        database.count(CONTENTS).await,
        database.count(FINISHED).await,
    ]
}

/// One of each: done, with a dead message, waiting for an operator, and young.
async fn four(store: &Store) {
    admit(store, &received("evt_done", 1_000), &[message("billing")]).await;
    settle(store, SettleTo::Done, 2_000).await;
    admit(store, &received("evt_open", 1_000), &[message("billing")]).await;
    settle(store, SettleTo::Dead, 2_000).await;
    let failed = candidates(store, &[&received("evt_failed", 1_000)], EventState::Failed).await;
    let mut tx = store.admission_begin().await.unwrap();
    tx.events_insert(&failed).await.unwrap();
    tx.commit().await.unwrap();
    admit(store, &received("evt_young", 90_000), &[]).await;
}

async fn old_rows_are_pruned_and_needed_ones_stay(database: &Database) {
    let store = database.store().await;
    four(&store).await;
    assert_eq!(counts(database).await, [4, 4, 2, 1]);
    for rows_n in [1, PRUNED_N_MAX] {
        round(&store, &cuts(50_000), rows_n, false).await;
        assert_eq!(counts(database).await, [3, 3, 1, 0], "{rows_n} at a time");
    }
    assert!(store.event_get(&key("evt_done")).await.unwrap().is_none());
    for kept in ["evt_open", "evt_failed", "evt_young"] {
        assert!(store.event_content(&key(kept)).await.unwrap().is_some(), "{kept}");
    }
    // Its attempt is listed as long as the message is open.
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_attempts").await, 1);
    let open = store.message_list_of_event(&key("evt_open")).await.unwrap().remove(0);
    let discard = on_message(open.message_id, MessageAct::Discard);
    ops(&store).decide(&discard, &decision_at("k", 3_000)).await.unwrap();
    round(&store, &cuts(50_000), 10, false).await;
    assert_eq!(counts(database).await, [2, 2, 0, 0]);
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_attempts").await, 0);
}

async fn an_id_goes_after_its_own_window_and_after_all_else_of_its_event(database: &Database) {
    let store = database.store().await;
    admit(&store, &received("evt_1", 1_000), &[message("billing")]).await;
    settle(&store, SettleTo::Done, 2_000).await;
    let late = Cuts { ids_of: BTreeMap::from([(name("stripe"), 500)]), ..cuts(50_000) };
    round(&store, &late, 10, false).await;
    assert_eq!(counts(database).await, [1, 0, 0, 0], "the key alone, with digest and outcome");
    let row = store.event_get(&key("evt_1")).await.unwrap().unwrap();
    assert_eq!((row.state, row.digest.len()), (EventState::Handled, 32));
    let again = candidates(&store, &[&received("evt_1", 60_000)], EventState::Handled).await;
    let mut tx = store.admission_begin().await.unwrap();
    let found = tx.events_insert(&again).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(found, [hooklatch_store::Latched::Duplicate]);
    round(&store, &cuts(50_000), 10, false).await;
    assert_eq!(counts(database).await, [0, 0, 0, 0]);

    admit(&store, &received("evt_2", 1_000), &[message("billing")]).await;
    settle(&store, SettleTo::Done, 2_000).await;
    round(&store, &Cuts { messages_ms: 1_500, ..cuts(50_000) }, 10, false).await;
    assert_eq!(counts(database).await, [1, 0, 0, 1], "a message that is listed has its event");
    round(&store, &Cuts { bodies_ms: 500, ..cuts(50_000) }, 10, false).await;
    assert_eq!(counts(database).await, [0, 0, 0, 0]);
}

async fn a_body_is_kept_for_its_window_after_its_last_message_settles(database: &Database) {
    let store = database.store().await;
    admit(&store, &received("evt_1", 1_000), &[message("billing")]).await;
    settle(&store, SettleTo::Done, 60_000).await;
    round(&store, &cuts(50_000), 10, false).await;
    assert_eq!(counts(database).await, [1, 1, 1, 1]);
    round(&store, &cuts(60_001), 10, false).await;
    assert_eq!(counts(database).await, [0, 0, 0, 0]);
}

async fn attempts_stay_while_the_end_of_their_message_is_young(database: &Database) {
    let store = database.store().await;
    admit(&store, &received("evt_1", 1_000), &[message("billing")]).await;
    settle(&store, SettleTo::Dead, 2_000).await;
    let dead = store.message_list_of_event(&key("evt_1")).await.unwrap().remove(0);
    // An operator decides about it long after.
    let discard = on_message(dead.message_id, MessageAct::Discard);
    ops(&store).decide(&discard, &decision_at("k", 60_000)).await.unwrap();
    let attempts = "SELECT COUNT(*) FROM outbox_attempts";
    for (cut_ms, wanted_n) in [(50_000, 1), (60_000, 1), (60_001, 0)] {
        let cuts = Cuts { attempts_ms: cut_ms, ..cuts(1_500) };
        let counted = round(&store, &cuts, 10, true).await;
        assert_eq!(round(&store, &cuts, 10, false).await, counted, "{cut_ms}");
        assert_eq!(database.count(attempts).await, wanted_n, "{cut_ms}");
    }
    assert_eq!(counts(database).await, [1, 1, 1, 1]);
}

async fn a_dry_run_counts_the_rows_that_a_round_deletes(database: &Database) {
    let store = database.store().await;
    four(&store).await;
    for n in 0..30 {
        admit(&store, &received(&format!("evt_{n}"), 1_000), &[message("billing")]).await;
    }
    settle(&store, SettleTo::Done, 2_000).await;
    let before = counts(database).await;
    let counted = round(&store, &cuts(50_000), 7, true).await;
    assert_eq!(counts(database).await, before, "nothing was touched");
    assert_eq!(counted, round(&store, &cuts(50_000), 7, false).await);
    assert_eq!(counted["webhook_payloads"], 31);
    assert!(round(&store, &cuts(50_000), 7, false).await.is_empty());
}

async fn a_clock_that_was_ahead_does_not_block_pruning(database: &Database) {
    let store = database.store().await;
    for n in 0..5 {
        admit(&store, &received(&format!("ahead_{n}"), 9_000_000), &[]).await;
    }
    for n in 0..20 {
        admit(&store, &received(&format!("evt_{n}"), 1_000), &[]).await;
    }
    round(&store, &cuts(50_000), 10, false).await;
    assert_eq!(counts(database).await, [5, 5, 0, 0]);
}

#[tokio::test]
async fn one_node_prunes_at_a_time() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let store = database.store().await;
    admit(&store, &received("evt_1", 1_000), &[]).await;
    assert!(store.prune_begin(&lease("a")).await.unwrap());
    assert!(!store.prune_begin(&lease("b")).await.unwrap());
    assert!(store.prune_begin(&lease("a")).await.unwrap(), "it may go on");
    let cuts = cuts(50_000);
    let found =
        store.prune_look(PruneWalk::of(PrunedKind::Bodies), &cuts, &PrunePlace::default(), 10).await.unwrap();
    let prune =
        async |node: &str| store.prune_delete(PrunedKind::Bodies, &found, &lease(node)).await.unwrap();
    assert_eq!(prune("b").await, None);
    assert_eq!(counts(&database).await, [1, 1, 0, 0]);
    run(&database, "UPDATE retention_lease SET until_ms = until_ms - 60001").await;
    assert_eq!(prune("b").await, Some(1), "the other one has been silent for long enough");
    assert_eq!(prune("a").await, None);
    run(&database, "UPDATE retention_lease SET until_ms = until_ms + 31536000000").await;
    assert!(store.prune_begin(&lease("a")).await.unwrap(), "a clock that was ahead reserves nothing");
}

async fn a_signal_is_forgotten_after_its_firings_alone(database: &Database) {
    let store = database.store().await;
    let signal = IncomingEvent { window_ms: Some(1_000), ..received("sig", 1_000) };
    let mut events = [signal.clone()];
    store.signals_number(&mut events).await.unwrap();
    assert_eq!(events[0].key.event_id, "sig#1");
    admit(&store, &events[0], &[]).await;
    let firings = "SELECT COUNT(*) FROM signal_firings";
    let kept = Cuts { ids_of: BTreeMap::from([(name("stripe"), 500)]), ..cuts(50_000) };
    round(&store, &kept, 10, false).await;
    assert_eq!(database.count(firings).await, 1);
    // What waits is kept, and with it the number that it has.
    run(database, "UPDATE processed_webhook_events SET state = 'failed'").await;
    round(&store, &cuts(50_000), 10, false).await;
    assert_eq!(database.count(firings).await, 1);
    run(database, "UPDATE processed_webhook_events SET state = 'handled'").await;
    round(&store, &cuts(50_000), 10, false).await;
    assert_eq!((database.count(EVENTS).await, database.count(firings).await), (0, 0));
    let mut events = [signal];
    store.signals_number(&mut events).await.unwrap();
    assert_eq!(events[0].key.event_id, "sig#1", "it begins anew");
}

async fn versions_go_with_their_events_and_counts_with_their_keys(database: &Database) {
    let store = database.store().await;
    let object = ObjectVersion { object: "in_1".to_owned(), version: 7 };
    admit(&store, &IncomingEvent { object: Some(object), ..received("evt_1", 1_000) }, &[]).await;
    run(
        database,
        "INSERT INTO object_versions (provider, object, version, event_seq)
         SELECT provider, 'in_9', 1, event_seq FROM processed_webhook_events;
         INSERT INTO conflict_counts (provider, event_id, unkept_n) VALUES ('stripe', 'evt_1', 3), ('stripe', 'gone', 1)",
    )
    .await;
    let (versions, conflicts) =
        ("SELECT COUNT(*) FROM object_versions", "SELECT COUNT(*) FROM conflict_counts");
    let before = database.count(versions).await;
    let kept = Cuts { ids_of: BTreeMap::from([(name("stripe"), 500)]), ..cuts(50_000) };
    round(&store, &kept, 1, false).await;
    assert_eq!((database.count(versions).await, database.count(conflicts).await), (before, 1));
    round(&store, &cuts(50_000), 1, false).await;
    assert_eq!((database.count(versions).await, database.count(conflicts).await), (0, 0));
}

async fn unused_lanes_without_messages_are_pruned(database: &Database) {
    let store = database.store().await;
    let in_lane =
        |lane: &str| hooklatch_store::NewMessage { lane: Some(lane.to_owned()), ..message("billing") };
    admit(&store, &received("evt_1", 1_000), &[in_lane("a")]).await;
    settle(&store, SettleTo::Done, 2_000).await;
    admit(&store, &received("evt_2", 1_000), &[in_lane("b")]).await;
    settle(&store, SettleTo::Dead, 2_000).await;
    let lanes = "SELECT COUNT(*) FROM outbox_lanes";
    assert_eq!(database.count(lanes).await, 2);
    round(&store, &cuts(500), 10, false).await;
    assert_eq!(database.count(lanes).await, 2, "they were used");
    // What is used by the database's own clock is used now.
    run(database, "UPDATE outbox_lanes SET used_at_ms = 1000").await;
    round(&store, &cuts(50_000), 10, false).await;
    assert_eq!(database.count(lanes).await, 1, "one has a message");
    admit(&store, &received("evt_3", 60_000), &[in_lane("a")]).await;
    let ready = "SELECT COUNT(*) FROM outbox_queue WHERE lane = 'a' AND state = 'ready' AND lane_seq = 1";
    assert_eq!(database.count(ready).await, 1, "it begins anew");
}

async fn small_tables_are_pruned_by_age(database: &Database) {
    let store = database.store().await;
    let fill = "INSERT INTO pairing_secrets (provider, secret, paired_at_ms) VALUES ('a', 's', 1000), ('b', 's', 90000);
        INSERT INTO secret_uses (provider, fingerprint, matched_n, last_matched_at_ms)
            VALUES ('a', 'x', 1, 1000), ('a', 'y', 1, 90000);
        INSERT INTO activity (hour_ms, subject, name, outcome, counted_n) VALUES (1000, 'provider', 'a', 'accepted', 1),
            (1000, 'provider', 'a', 'conflict', 1), (90000, 'provider', 'a', 'accepted', 1);
        INSERT INTO idempotency_keys
            (principal, idempotency_key, fingerprint, state, fence, locked_until_ms, created_at_ms, expires_at_ms)
            SELECT 'operator:ops', rejection_id, body_digest, 'processing', 1, 0, 0, received_at_ms FROM rejected_requests;
        INSERT INTO audit_log (audit_seq, at_ms, actor, action, detail)
            SELECT ROW_NUMBER() OVER (ORDER BY rejection_id), received_at_ms, 'ops', 'x', ''
            FROM rejected_requests";
    let rejection = |n: u32, received_at_ms: i64| hooklatch_store::Rejection {
        rejection_id: format!("0190-{n:08}"),
        provider: "stripe".to_owned(),
        received_at_ms,
        step: "signature".to_owned(),
        reason: "mismatch".to_owned(),
        detail: "none".to_owned(),
        headers: "{}".to_owned(),
        body_digest: "ab".repeat(32),
        body_bytes_n: 7,
        client_address: None,
    };
    let rejections: Vec<_> = (0..40).map(|n| rejection(n, if n < 30 { 1_000 } else { 90_000 })).collect();
    store.rejections_insert(&rejections).await.unwrap();
    run(database, fill).await;
    let gone = round(&store, &cuts(50_000), 7, false).await;
    let wanted = [
        ("activity", 2),
        ("audit_log", 30),
        ("idempotency_keys", 30),
        ("rejected_requests", 30),
        ("secret_uses", 1),
        ("pairing_secrets", 1),
    ];
    assert_eq!(gone, BTreeMap::from(wanted));
}

#[tokio::test]
async fn pruning_skips_events_that_an_operator_is_deciding() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let store = database.store().await;
    for n in 0..3 {
        admit(&store, &received(&format!("evt_{n}"), 1_000), &[]).await;
    }
    let mut person = PgConnection::connect(&database.url).await.unwrap();
    let lock = "BEGIN; SELECT 1 FROM webhook_payloads p JOIN processed_webhook_events e USING (event_seq)
                WHERE event_id = 'evt_1' FOR UPDATE OF p";
    person.execute(sqlx::raw_sql(lock)).await.unwrap();
    round(&store, &cuts(50_000), 10, false).await;
    assert_eq!(counts(&database).await, [1, 1, 0, 0], "and no one waited");
    person.execute("COMMIT").await.unwrap();
}

/// What goes with a batch goes with it or not at all: here the database dies, or refuses, while the attempts of messages
/// go, and then the search ids of bodies.
async fn a_batch_that_is_cut_off_in_the_middle_deletes_nothing(database: &Database) {
    let store = database.store().await;
    for n in 0..3 {
        admit(&store, &received(&format!("evt_{n}"), 1_000), &[message("billing")]).await;
        settle(&store, SettleTo::Done, 2_000).await;
    }
    let fill = "INSERT INTO event_search_ids (block, search_key, event_seq, shard)
            SELECT event_seq / 1024, 'pi_1', event_seq, 0 FROM processed_webhook_events;
        INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, shard, node, result)
            SELECT message_id, 1, 1000, 90000, 0, 'node-1', 'done' FROM outbox_finished";
    run(database, fill).await;
    let is_sqlite = database.url.starts_with("sqlite");
    let rest = "SELECT (SELECT COUNT(*) FROM event_search_ids) + (SELECT COUNT(*) FROM outbox_attempts)
        + (SELECT COUNT(*) FROM retention_lease WHERE messages_pruned_seq = -1)";
    for (kind, table, wanted) in [
        (PrunedKind::Bodies, "event_search_ids", [3, 3, 3, 3, 7]),
        (PrunedKind::Messages, "outbox_attempts", [3, 0, 3, 3, 4]),
    ] {
        let cut_off = if is_sqlite {
            format!("CREATE TRIGGER cut_off BEFORE DELETE ON {table} BEGIN SELECT RAISE(ABORT, 'no'); END")
        } else {
            format!(
                "CREATE FUNCTION cut_off() RETURNS TRIGGER LANGUAGE plpgsql AS $$ BEGIN
                     PERFORM pg_terminate_backend(pg_backend_pid()); RETURN OLD; END $$;
                 CREATE TRIGGER cut_off BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION cut_off()"
            )
        };
        run(database, &cut_off).await;
        let (walk, cuts) = (PruneWalk::of(kind), cuts(50_000));
        let found = store.prune_look(walk, &cuts, &PrunePlace::default(), 10).await.unwrap();
        store.prune_delete(kind, &found, &lease("node-1")).await.unwrap_err();
        let [events, payloads, contents, finished] = counts(database).await;
        let found_n = [events, payloads, contents, finished, database.count(rest).await];
        assert_eq!(found_n, wanted, "{kind:?}");
        let allowed = if is_sqlite {
            "DROP TRIGGER cut_off".to_owned()
        } else {
            format!("DROP TRIGGER cut_off ON {table}; DROP FUNCTION cut_off()")
        };
        run(database, &allowed).await;
        let gone = store.prune_delete(kind, &found, &lease("node-1")).await.unwrap();
        assert_eq!(gone, Some(3), "it is tried again");
    }
    assert_eq!((counts(database).await, database.count(rest).await), ([3, 0, 3, 0], 0));
}

/// However large the tables are, and however old what PostgreSQL knows of them.
#[tokio::test]
async fn a_batch_reads_no_whole_table() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let store = database.store().await;
    let fill = "INSERT INTO processed_webhook_events (provider, event_id, event_seq, shard, event_type, digest, identity,
                state, received_at_ms, attempts_n)
            SELECT 'stripe', 'evt_' || n, n, 0, 'paid', decode(md5('') || md5(''), 'hex'), 'sender/1', 'handled', 1000, 1
            FROM generate_series(1, 6000) n;
        INSERT INTO webhook_payloads (event_seq, shard, headers, body) SELECT n, 0, '{}', '' FROM generate_series(1, 6000) n;
        INSERT INTO event_search_ids (block, search_key, event_seq, shard)
            SELECT n / 1024, 'pi_' || n, n, 0 FROM generate_series(1, 6000) n;
        INSERT INTO outbox_finished (message_id, shard, generation, destination, state, attempts_n, created_at_ms,
                finished_at_ms)
            SELECT n * 1024, 0, 0, 'billing', 'done', 1, 1000, 1000 FROM generate_series(1, 6000) n;
        INSERT INTO outbox_contents (message_id, shard, method, path, headers)
            SELECT n * 1024, 0, 'POST', '/', '{}' FROM generate_series(1, 6000) n;
        INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, shard, node, result)
            SELECT n * 1024, 1, 1000, 1000, 0, 'node-1', 'refused' FROM generate_series(1, 6000) n;
        INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, shard, state, destination)
            SELECT n * 1024, 1000, 1000, 0, 'dead', 'billing' FROM generate_series(7, 12000, 7) n";
    run(&database, fill).await;
    run(&database, "ANALYZE").await;
    let cuts = cuts(50_000);
    let mut found = Vec::new();
    for kind in [
        PrunedKind::Bodies,
        PrunedKind::Contents,
        PrunedKind::Attempts,
        PrunedKind::Messages,
        PrunedKind::Ids,
    ] {
        let walk = PruneWalk { kind, ids_cut_ms: 50_000 };
        let rows = store.prune_look(walk, &cuts, &PrunePlace::default(), PRUNED_N_MAX).await.unwrap();
        found.push((kind, rows));
    }
    let scans = async |store: &Store| {
        // A session says what it read when it ends.
        store.close().await;
        let open = "SELECT COUNT(*) FROM pg_stat_activity
            WHERE datname = current_database() AND application_name = 'hooklatch'";
        while database.count(open).await > 0 {
            tokio::task::yield_now().await;
        }
        let scans = "SELECT SUM(seq_scan)::bigint FROM pg_stat_user_tables WHERE relname IN ('webhook_payloads',
            'processed_webhook_events', 'event_search_ids', 'outbox_contents', 'outbox_attempts', 'outbox_finished',
            'outbox_queue')";
        database.count(scans).await
    };
    let before_n = scans(&store).await;
    let store = database.store().await;
    for (kind, rows) in found {
        let gone_n = store.prune_delete(kind, &rows, &lease("node-1")).await.unwrap().unwrap();
        // Of every seventh event a message is open.
        assert_eq!(gone_n, 858, "{kind:?}");
    }
    assert_eq!(scans(&store).await, before_n);
}
