//! Encryption at rest: content is written encrypted and read decrypted, and what cannot be decrypted is neither lost
//! nor sent.

use bytes::Bytes;
use hooklatch_contract::{EventAct, EventTaker, LedgerWhat};
use hooklatch_core::seal::{KeyRing, SealKey};
use hooklatch_core::types::{AttemptResult, EventState, MessageState, Role};
use hooklatch_store::{
    Latched, LeaseWant, LeasedMessage, NewMessage, ResealPlace, SEALED_COUNTED_N, SealedTable, SettleTo,
    Settlement, Store,
};

use super::reads::people;
use super::retention::run;
use super::{
    admit, admit_at_once, candidates, decide, decision_at, event, key, message, name, on_event, ops,
    settlement,
};
use crate::database::{Database, on_both};

on_both!(
    content_is_encrypted_at_rest_and_decrypted_when_read,
    unencrypted_rows_work_beside_encrypted_ones,
    a_key_is_replaced_while_old_rows_still_open,
    the_rows_of_a_key_are_counted_to_the_last_in_steps,
    rows_in_the_clear_are_sealed_in_batches,
    content_with_a_missing_key_is_delayed_until_the_key_is_there,
    the_length_of_an_encrypted_body_is_known_to_every_role_and_without_its_key,
    a_sealed_value_that_was_moved_changed_or_has_another_key_is_never_sent,
    duplicates_and_conflicts_are_recognised_as_without_a_key,
    erased_content_needs_no_key,
    the_body_of_a_message_decrypts_for_its_own_event_alone,
    one_key_wins_an_id_however_many_register_at_once,
);

const SECRET: &str = "{\"email\":\"ann@example.com\"}";

fn seal_key(id: &str, byte: u8) -> SealKey {
    SealKey::parse(id, &format!("{byte:02x}{}", "7e".repeat(31))).unwrap()
}

fn ring(keys: &[(&str, u8)]) -> KeyRing {
    KeyRing::new(&keys.iter().map(|(id, byte)| seal_key(id, *byte)).collect::<Vec<_>>())
}

async fn lease(store: &Store, now_ms: i64) -> Vec<LeasedMessage> {
    let want = LeaseWant {
        destination: name("billing"),
        free_n: 10,
        free_bytes_n: u64::MAX >> 1,
        key_valid_for_ms: 10_000_000,
    };
    store.message_lease(&[want], now_ms, 30_000, "node-1").await.unwrap()
}

fn settled(message: &LeasedMessage, to: SettleTo) -> Settlement {
    Settlement {
        http_status: Some(200),
        response: Some("{\"answer\":\"ann@example.com\"}".to_owned()),
        ..settlement(message, to, AttemptResult::Done)
    }
}

/// A message with bytes of its own.
fn own(destination: &str) -> NewMessage {
    NewMessage { body: Some(Bytes::from_static(b"own ann@example.com")), ..message(destination) }
}

/// The columns that may hold what a sender sent, as hexadecimal digits or as they are.
async fn stored(database: &Database) -> String {
    let hex = if database.url.starts_with("sqlite") {
        [
            "SELECT hex(body) || headers FROM webhook_payloads",
            "SELECT COALESCE(hex(body), '') || headers FROM outbox_contents",
        ]
    } else {
        [
            "SELECT upper(encode(body, 'hex')) || headers FROM webhook_payloads",
            "SELECT COALESCE(upper(encode(body, 'hex')), '') || headers FROM outbox_contents",
        ]
    };
    let mut all = String::new();
    for sql in [hex[0], hex[1], "SELECT response FROM outbox_attempts WHERE response IS NOT NULL"] {
        all.extend(database.texts(sql).await);
    }
    all
}

fn hex_of(text: &str) -> String {
    hex::encode_upper(text)
}

async fn content_is_encrypted_at_rest_and_decrypted_when_read(database: &Database) {
    let store = database.store().await.sealed_with(ring(&[("k1", 1)]));
    // The body is longer than what fits a row's page on either database.
    let large = format!("{{\"email\":\"ann@example.com\",\"x\":\"{}\"}}", "y".repeat(100_000));
    admit(&store, &event("evt_1", SECRET), &[message("billing"), own("billing")]).await;
    admit_at_once(&store, &event("evt_2", &large), &[message("billing"), own("billing")]).await;
    let forward = NewMessage { headers: std::collections::BTreeMap::new(), ..message("billing") };
    admit_at_once(&store, &event("evt_3", SECRET), &[forward]).await;
    let all = lease(&store, 1_000).await;
    let bodies: Vec<&[u8]> = all.iter().map(|one| &one.body[..]).collect();
    let wanted = [SECRET, "own ann@example.com", &large, "own ann@example.com", SECRET];
    assert_eq!(bodies, wanted.map(str::as_bytes));
    assert_eq!(all[0].event_content_type.as_deref(), Some("application/json"));
    assert_eq!((all[0].headers["x-a"].as_str(), all[4].headers.len()), ("b", 0));
    let done: Vec<Settlement> = all.iter().map(|one| settled(one, SettleTo::Done)).collect();
    assert_eq!(store.message_settle(&done[1..]).await.unwrap(), [true; 4]);
    assert!(store.message_settle_apart(&done[0]).await.unwrap());
    for one in &all {
        let attempts = store.attempt_list(one.message_id).await.unwrap();
        assert_eq!(attempts[0].response.as_deref(), Some("{\"answer\":\"ann@example.com\"}"));
    }
    let content = store.event_content(&key("evt_2")).await.unwrap().unwrap();
    assert_eq!((content.body, content.key_id.as_deref()), (large.into_bytes(), Some("k1")));
    assert_eq!(content.headers, r#"{"content-type":"application/json"}"#);
    let stored = stored(database).await;
    // Each is so long that 200,000 random digits do not hold it by chance, as they hold `x-a` once in a hundred runs.
    for text in ["ann@example.com", "content-type", "\"x-a\":\"b\""] {
        assert!(!stored.contains(text) && !stored.contains(&hex_of(text)), "{text}");
    }
    for sql in [
        "SELECT COUNT(*) FROM webhook_payloads WHERE key_id = 'k1'",
        "SELECT COUNT(*) - 1 FROM outbox_contents WHERE key_id = 'k1'",
        "SELECT COUNT(*) - 2 FROM outbox_attempts WHERE key_id = 'k1'",
    ] {
        assert_eq!(database.count(sql).await, 3, "{sql}");
    }
}

async fn unencrypted_rows_work_beside_encrypted_ones(database: &Database) {
    let clear = database.store().await;
    admit(&clear, &event("evt_1", SECRET), &[message("billing"), own("billing")]).await;
    let sealed = clear.clone().sealed_with(ring(&[("k1", 1)]));
    admit(&sealed, &event("evt_2", SECRET), &[message("billing")]).await;
    let bodies: Vec<Bytes> = lease(&sealed, 1_000).await.into_iter().map(|one| one.body).collect();
    assert_eq!(bodies, [SECRET, "own ann@example.com", SECRET]);
    let content = sealed.event_content(&key("evt_1")).await.unwrap().unwrap();
    assert_eq!((content.body.as_slice(), content.key_id), (SECRET.as_bytes(), None));
    let stored = stored(database).await;
    for text in [&hex_of("ann@example.com"), "content-type", "\"x-a\":\"b\""] {
        assert!(stored.contains(text), "nothing is sealed behind our back: {text}");
    }
}

/// The keys in use, each with its number of rows in all tables.
async fn used(store: &Store) -> Vec<(String, u32)> {
    let mut all = std::collections::BTreeMap::<String, u32>::new();
    for one in store.keys_in_use().await.unwrap() {
        let (rows_n, more) = store.key_rows(&one, ResealPlace::default()).await.unwrap();
        assert_eq!(more, None);
        *all.entry(one.key_id).or_default() += rows_n;
    }
    all.into_iter().collect()
}

/// Seals all rows of a key (`None`: those in the clear) anew, two at a time; how many were, and how many do not open.
async fn resealed(store: &Store, of: Option<&str>) -> (u32, u32) {
    let mut all = (0, 0);
    for table in SealedTable::ALL {
        let mut from = Some(ResealPlace::default());
        while let Some(place) = from {
            let step = store.reseal(table, of, place, 2).await.unwrap();
            all = (all.0 + step.resealed_n, all.1 + step.unopened_n);
            from = step.next;
        }
    }
    all
}

async fn the_rows_of_a_key_are_counted_to_the_last_in_steps(database: &Database) {
    const N: u32 = 2 * SEALED_COUNTED_N + 7;
    let store = database.store().await;
    let empty = if database.url.starts_with("postgres") { "''" } else { "x''" };
    let numbers = format!("WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < {N})");
    for sql in [
        format!("INSERT INTO webhook_payloads (event_seq, shard, headers, body, key_id) {numbers} SELECT n, 0, '', {empty}, 'k1' FROM n"),
        // Ten attempts of each message.
        format!(
            "INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, shard, node, result, response, key_id)
             {numbers} SELECT n / 10 + 1, n % 10 + 1, 0, 0, 0, '', 'retry', '', 'k1' FROM n"
        ),
    ] {
        database.run(&sql).await.unwrap();
    }
    let used = store.keys_in_use().await.unwrap();
    assert_eq!(used.len(), 2, "{used:?}");
    for one in &used {
        let (mut steps, mut from) = (Vec::new(), Some(ResealPlace::default()));
        while let Some(place) = from {
            let (rows_n, next) = store.key_rows(one, place).await.unwrap();
            steps.push(rows_n);
            from = next;
        }
        assert_eq!(steps, [SEALED_COUNTED_N, SEALED_COUNTED_N, 7], "{one:?}");
    }
}

async fn a_key_is_replaced_while_old_rows_still_open(database: &Database) {
    let old = database.store().await.sealed_with(ring(&[("old", 1)]));
    for n in 0..5 {
        admit(&old, &event(&format!("evt_{n}"), SECRET), &[own("billing")]).await;
    }
    let first = lease(&old, 1_000).await.remove(0);
    old.message_settle(&[settled(&first, SettleTo::Ready { visible_at_ms: 9_000 })]).await.unwrap();
    let both = old.clone().sealed_with(ring(&[("new", 2), ("old", 1)]));
    admit(&both, &event("evt_5", SECRET), &[own("billing")]).await;
    assert_eq!(used(&both).await, [("new".to_owned(), 2), ("old".to_owned(), 11)]);
    // A node without the new key and one without the old one, at the same time as the rotation.
    assert_eq!(resealed(&old, Some("old")).await, (0, 0), "it is its own newest one");
    assert_eq!(resealed(&both, Some("old")).await, (11, 0));
    assert_eq!(resealed(&both, Some("old")).await, (0, 0));
    assert_eq!(used(&both).await, [("new".to_owned(), 13)]);
    let new = old.clone().sealed_with(ring(&[("new", 2)]));
    let all = lease(&new, 40_000).await;
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|one| one.body == "own ann@example.com" && one.headers["x-a"] == "b"));
    assert_eq!(new.event_content(&key("evt_1")).await.unwrap().unwrap().body, SECRET.as_bytes());
    let attempts = new.attempt_list(first.message_id).await.unwrap();
    let kept: Vec<Option<&str>> = attempts.iter().map(|one| one.response.as_deref()).collect();
    assert!(kept.contains(&Some("{\"answer\":\"ann@example.com\"}")), "{attempts:?}");
}

async fn rows_in_the_clear_are_sealed_in_batches(database: &Database) {
    let clear = database.store().await;
    for n in 0..5 {
        admit(&clear, &event(&format!("evt_{n}"), SECRET), &[own("billing")]).await;
    }
    let first = lease(&clear, 1_000).await.remove(0);
    clear.message_settle(&[settled(&first, SettleTo::Done)]).await.unwrap();
    assert_eq!(resealed(&clear, None).await, (0, 0), "there is no key to seal with");
    let sealed = clear.clone().sealed_with(ring(&[("k1", 1)]));
    admit(&sealed, &event("evt_5", SECRET), &[]).await;
    assert_eq!(resealed(&sealed, None).await, (11, 0));
    assert_eq!(resealed(&sealed, None).await, (0, 0));
    assert!(!stored(database).await.contains(&hex_of("ann@example.com")));
    assert_eq!(lease(&sealed, 40_000).await.len(), 4);
    assert_eq!(sealed.event_content(&key("evt_1")).await.unwrap().unwrap().body, SECRET.as_bytes());
}

async fn content_with_a_missing_key_is_delayed_until_the_key_is_there(database: &Database) {
    let sealed = database.store().await.sealed_with(ring(&[("gone", 1)]));
    admit(&sealed, &event("evt_1", SECRET), &[message("billing")]).await;
    let other = sealed.clone().sealed_with(ring(&[("k2", 2)]));
    let mut now_ms = 1_000;
    for _ in 0..12 {
        assert!(lease(&other, now_ms).await.is_empty());
        now_ms += 300_000;
    }
    let row = other.message_list_of_event(&key("evt_1")).await.unwrap().remove(0);
    assert_eq!(row.state, MessageState::Ready, "as often as it takes");
    assert!(row.last_error.as_deref().is_some_and(|why| why.contains("`gone`")), "{row:?}");
    let content = other.event_content(&key("evt_1")).await.unwrap().unwrap();
    assert!(content.body.is_empty() && content.unopened.is_some_and(|why| why.contains("`gone`")));
    // Admission never needs a missing key.
    admit(&other, &event("evt_2", "x"), &[]).await;
    assert_eq!(found(&other, "evt_1", SECRET).await, Latched::Duplicate);
    let again = lease(&sealed, now_ms).await.remove(0);
    assert_eq!((&again.body[..], again.attempt_n, again.attempts_before_n), (SECRET.as_bytes(), 13, 12));
    // The same of an event that waits for its handler.
    let candidates = candidates(&sealed, &[&event("evt_3", SECRET)], EventState::Retry).await;
    let mut tx = sealed.admission_begin().await.unwrap();
    tx.events_insert(&candidates).await.unwrap();
    tx.commit().await.unwrap();
    run(database, "UPDATE processed_webhook_events SET due_at_ms = 1 WHERE event_id = 'evt_3'").await;
    let due = async |store: &Store| {
        let mut tx = store.admission_begin().await.unwrap();
        let due = tx.event_take_due(10, &[name("stripe")]).await.unwrap().unwrap();
        tx.rollback().await.unwrap();
        due
    };
    let waits = due(&other).await;
    assert!(waits.broken.is_none() && waits.body.is_empty() && waits.locked.is_some(), "{waits:?}");
    let another = due(&sealed.clone().sealed_with(ring(&[("gone", 9)]))).await;
    assert!(another.broken.is_none() && another.body.is_empty() && another.locked.is_some(), "{another:?}");
    let refusing = sealed.clone().sealed_with(ring(&[("gone", 1)]).refusing_clear(true));
    assert!(due(&refusing).await.locked.is_none());
    let as_it_is = "SELECT key_id FROM webhook_payloads p JOIN processed_webhook_events e
        ON e.event_seq = p.event_seq WHERE e.event_id = 'evt_3'";
    assert_eq!(database.texts(as_it_is).await, ["gone"]);
    run(
        database,
        &format!("UPDATE webhook_payloads SET key_id = NULL WHERE event_seq = {}", waits.event_seq),
    )
    .await;
    let clear = due(&refusing).await;
    assert!(clear.broken.is_none() && clear.body.is_empty(), "{clear:?}");
    assert!(clear.locked.is_some_and(|why| why.to_string().contains("it is in clear")));
    run(
        database,
        &format!("UPDATE webhook_payloads SET key_id = 'gone' WHERE event_seq = {}", waits.event_seq),
    )
    .await;
    let opens = due(&sealed).await;
    assert_eq!((&opens.body[..], opens.broken, opens.locked), (SECRET.as_bytes(), None, None));
}

async fn the_length_of_an_encrypted_body_is_known_to_every_role_and_without_its_key(database: &Database) {
    let sealed = database.store().await.sealed_with(ring(&[("k1", 1)]));
    admit(&sealed, &event("evt_1", SECRET), &[]).await;
    let other = sealed.clone().sealed_with(ring(&[("k2", 2)]));
    for (store, role) in [(&sealed, Role::Viewer), (&sealed, Role::Reader), (&other, Role::Reader)] {
        let people = people(store, role);
        let ledger = people.event_ledger(&key("evt_1"), 5_000, |_| EventTaker::Taken).await.unwrap();
        let LedgerWhat::Received { body_bytes_n, .. } = ledger.entries[0].what else { panic!("{ledger:?}") };
        assert_eq!(body_bytes_n, Some(SECRET.len() as u64), "{role:?}");
        let shown_n = ledger.content.map(|content| content.body_bytes_n);
        assert_eq!(shown_n, (role == Role::Reader).then_some(SECRET.len() as u64), "{role:?}");
    }
}

async fn a_sealed_value_that_was_moved_changed_or_has_another_key_is_never_sent(database: &Database) {
    let store = database.store().await.sealed_with(ring(&[("k1", 1)]));
    for id in ["evt_1", "evt_2", "evt_3"] {
        admit(&store, &event(id, &format!("{{\"id\":\"{id}\"}}")), &[message("billing")]).await;
    }
    // The body of one event under the number of another one, which are of one length.
    run(
        database,
        "UPDATE webhook_payloads SET body = (SELECT p.body FROM webhook_payloads p
             JOIN processed_webhook_events e ON e.event_seq = p.event_seq WHERE e.event_id = 'evt_1')
         WHERE event_seq = (SELECT event_seq FROM processed_webhook_events WHERE event_id = 'evt_2')",
    )
    .await;
    // A row that is marked as unencrypted, and is not.
    run(
        database,
        "UPDATE outbox_contents SET key_id = NULL WHERE message_id / 1024 =
             (SELECT event_seq FROM processed_webhook_events WHERE event_id = 'evt_3')",
    )
    .await;
    let sent = lease(&store, 1_000).await;
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!(sent[0].key.event_id, "evt_1");
    for (id, state, why) in [
        ("evt_2", MessageState::Ready, "does not open with the key `k1`"),
        ("evt_3", MessageState::Held, "no JSON object"),
    ] {
        let row = store.message_list_of_event(&key(id)).await.unwrap().remove(0);
        assert_eq!(row.state, state, "{id}");
        assert!(row.last_error.as_deref().is_some_and(|said| said.contains(why)), "{row:?}");
    }
    assert!(store.event_content(&key("evt_2")).await.unwrap().unwrap().unopened.is_some());
    let other = store.clone().sealed_with(ring(&[("k1", 9)]));
    assert!(lease(&other, 40_000).await.is_empty(), "another key under the same id");
    let row = other.message_list_of_event(&key("evt_1")).await.unwrap().remove(0);
    assert_eq!(row.state, MessageState::Ready, "it goes on with the right key");
    let rest = store.clone().sealed_with(ring(&[("k2", 2), ("k1", 1)]));
    assert_eq!(resealed(&rest, Some("k1")).await, (4, 1), "what does not open stays as it is");
}

/// What admission finds for a copy.
async fn found(store: &Store, event_id: &str, body: &str) -> Latched {
    let candidates = candidates(store, &[&event(event_id, body)], EventState::Handled).await;
    let mut tx = store.admission_begin().await.unwrap();
    let latched = tx.events_insert(&candidates).await.unwrap().remove(0);
    tx.commit().await.unwrap();
    latched
}

async fn duplicates_and_conflicts_are_recognised_as_without_a_key(database: &Database) {
    let clear = database.store().await;
    let sealed = clear.clone().sealed_with(ring(&[("k1", 1)]));
    admit(&clear, &event("evt_1", "a"), &[]).await;
    admit(&sealed, &event("evt_2", "a"), &[]).await;
    for (store, id) in [(&sealed, "evt_1"), (&clear, "evt_2"), (&sealed, "evt_2")] {
        assert_eq!(found(store, id, "a").await, Latched::Duplicate, "{id}");
    }
    assert!(matches!(found(&sealed, "evt_1", "b").await, Latched::Conflict { .. }));
    let conflicts = sealed.event_conflicts(&key("evt_1")).await.unwrap();
    let (_, content) = &conflicts.kept[0];
    let content = content.as_ref().unwrap();
    assert_eq!((content.body.as_slice(), content.key_id.as_deref()), (b"b".as_slice(), Some("k1")));
    assert!(
        clear.event_conflicts(&key("evt_1")).await.unwrap().kept[0].1.as_ref().unwrap().unopened.is_some()
    );
}

async fn erased_content_needs_no_key(database: &Database) {
    let store = database.store().await.sealed_with(ring(&[("k1", 1)]));
    admit(&store, &event("evt_1", SECRET), &[own("billing")]).await;
    let one = lease(&store, 1_000).await.remove(0);
    store.message_settle(&[settled(&one, SettleTo::Done)]).await.unwrap();
    assert_eq!(used(&store).await, [("k1".to_owned(), 3)]);
    // It needs no key itself either.
    let keyless = store.clone().sealed_with(KeyRing::default());
    let erase = on_event("evt_1", EventAct::Erase);
    assert_eq!(decide(&ops(&keyless), &erase, &decision_at("k", 9_000)).await, "changed 0");
    assert_eq!(used(&store).await, []);
}

async fn the_body_of_a_message_decrypts_for_its_own_event_alone(database: &Database) {
    let store = database.store().await.sealed_with(ring(&[("old", 1)]));
    for id in ["evt_1", "evt_2"] {
        admit_at_once(&store, &event(id, SECRET), &[own("billing")]).await;
    }
    let swap = "UPDATE processed_webhook_events SET event_id = 'x' WHERE event_id = 'evt_1';
        UPDATE processed_webhook_events SET event_id = 'evt_1' WHERE event_id = 'evt_2';
        UPDATE processed_webhook_events SET event_id = 'evt_2' WHERE event_id = 'x'";
    run(database, swap).await;
    assert!(lease(&store, 1_000).await.is_empty(), "each would go out under the key of the other one");
    let row = store.message_list_of_event(&key("evt_1")).await.unwrap().remove(0);
    assert_eq!((row.state, row.attempts_n), (MessageState::Ready, 1));
    assert!(row.last_error.as_deref().is_some_and(|why| why.contains("the id of its event was changed")));
    let both = store.clone().sealed_with(ring(&[("new", 2), ("old", 1)]));
    assert_eq!(resealed(&both, Some("old")).await, (0, 4), "nor is it made genuine");
    run(database, swap).await;
    assert_eq!(resealed(&both, Some("old")).await, (4, 0));
    let sent = lease(&both, 10_000).await;
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|one| one.body == "own ann@example.com"), "{sent:?}");
    assert!(
        sent.iter().all(|one| one.attempt_n - one.attempts_before_n == 1),
        "no attempt was burned: {sent:?}"
    );
}

async fn one_key_wins_an_id_however_many_register_at_once(database: &Database) {
    let store = database.store().await;
    let stores: Vec<Store> = (1..=8).map(|byte| store.clone().sealed_with(ring(&[("k1", byte)]))).collect();
    let mismatches = futures_util::future::join_all(stores.iter().map(Store::keys_register)).await;
    let winners: Vec<&Store> = stores
        .iter()
        .zip(&mismatches)
        .filter_map(|(one, found)| found.as_ref().unwrap().is_none().then_some(one))
        .collect();
    assert_eq!(winners.len(), 1, "{mismatches:?}");
    assert_eq!(winners[0].keys_register().await.unwrap(), None, "again and again");
    // A second key beside it, and the same key under another id.
    let more = ring(&[("k2", 9), ("k1", 1), ("k3", 1)]);
    let of_first = stores[0].keys_register().await.unwrap();
    assert_eq!(store.clone().sealed_with(more).keys_register().await.unwrap(), of_first);
    assert_eq!(database.count("SELECT COUNT(*) FROM encryption_keys").await, 3);
    let kept = database.texts("SELECT key_id FROM encryption_keys ORDER BY key_id").await;
    assert_eq!(kept, ["k1", "k2", "k3"]);
    // Looking for a mismatch registers no id.
    assert_eq!(store.clone().sealed_with(ring(&[("k4", 4)])).key_mismatch().await.unwrap(), None);
    assert_eq!(
        store.clone().sealed_with(ring(&[("k2", 8)])).key_mismatch().await.unwrap().as_deref(),
        Some("k2")
    );
    assert_eq!(database.count("SELECT COUNT(*) FROM encryption_keys").await, 3);
}
