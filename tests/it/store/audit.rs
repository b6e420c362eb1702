//! The chain of the audit log: each way of tampering with it shows, and pruning breaks nothing.

use std::collections::BTreeSet;

use hooklatch::store::{
    AuditPlace, AuditVerdict, NewToken, People, PeopleDoor, PeopleError, PrunePlace, PruneWalk, PrunedKind,
    Store, TokenMaking,
};
use hooklatch::types::{Principal, Role};
use sqlx::{Connection, Executor, PgConnection};

use super::name;
use super::retention::{cuts, round, run};
use crate::database::{Database, On, on_both};

on_both!(
    each_way_of_tampering_with_the_log_shows,
    what_cannot_be_read_is_told_as_tampering_and_where,
    an_end_that_is_written_anew_shows_by_what_was_noted_elsewhere,
    what_is_pruned_leaves_a_chain_that_holds,
    the_database_itself_refuses_to_change_the_log,
    the_log_is_followed_a_few_rows_at_a_time,
    rows_that_many_add_at_once_are_one_chain,
    nobody_but_an_admin_follows_it,
);

fn people(store: &Store, role: Role) -> People {
    PeopleDoor::new(store.clone()).open(Principal::everywhere(name("ann"), role))
}

/// Adds a row to the log at this time.
async fn add(people: &People, n: u32, now_ms: i64) {
    let new = NewToken {
        principal: Principal::everywhere(name(&format!("t{n}")), Role::Viewer),
        digest: {
            let mut digest = [0; 32];
            digest[..4].copy_from_slice(&n.to_be_bytes());
            digest
        },
        expires_at_ms: now_ms + 60_000,
        idempotency_key: format!("k{n}"),
        reason: "for a dashboard".to_owned(),
        now_ms,
    };
    let made = people.token_make(new, &BTreeSet::new()).await.unwrap();
    assert!(matches!(made, TokenMaking::Made(_)), "{made:?}");
}

async fn ten(database: &Database) -> (Store, People) {
    let store = database.store().await;
    let people = people(&store, Role::Admin);
    for n in 1..=10 {
        add(&people, n, 1_000 * i64::from(n)).await;
    }
    (store, people)
}

async fn follow(people: &People, from: &AuditPlace) -> AuditVerdict {
    people.audit_verify(from, 100).await.unwrap()
}

/// Lets whoever owns the tables do what he likes, and keeps what is there for [`UNDO`].
fn without_triggers(database: &Database) -> String {
    let off = if database.url.starts_with("sqlite") {
        "DROP TRIGGER audit_log_update; DROP TRIGGER audit_log_delete; DROP TRIGGER audit_log_insert;
         DROP TRIGGER audit_head_update; DROP TRIGGER audit_head_delete; DROP TRIGGER audit_head_insert;"
    } else {
        "ALTER TABLE audit_log DISABLE TRIGGER USER; ALTER TABLE audit_head DISABLE TRIGGER USER;"
    };
    format!(
        "{off} CREATE TABLE kept AS SELECT * FROM audit_log; CREATE TABLE kept_head AS SELECT * FROM audit_head"
    )
}
const UNDO: &str = "DELETE FROM audit_log; INSERT INTO audit_log SELECT * FROM kept;
    DELETE FROM audit_head; INSERT INTO audit_head SELECT * FROM kept_head";
/// A row that somebody wrote by hand.
const FORGED: &str = "INSERT INTO audit_log (audit_seq, at_ms, actor, action, detail, hash)
    SELECT NEW_SEQ, 5000, 'eve', 'token_make', 'x', hash FROM kept WHERE audit_seq = 5";

async fn each_way_of_tampering_with_the_log_shows(database: &Database) {
    let (_store, people) = ten(database).await;
    let whole = follow(&people, &AuditPlace::start()).await;
    assert_eq!((whole.rows_n, whole.first_seq, whole.last.audit_seq), (10, 1, 10));
    assert_eq!((whole.broken, whole.has_more), (None, false));
    run(database, &without_triggers(database)).await;
    let other_hash = format!("UPDATE audit_log SET hash = '{}' WHERE audit_seq = 10", "f".repeat(64));
    let forged = |audit_seq: i64| FORGED.replace("NEW_SEQ", &audit_seq.to_string());
    for (what, sql, broken_at, why) in [
        ("a reason", "UPDATE audit_log SET detail = 'x' WHERE audit_seq = 5", 5, "as it was written"),
        ("a name", "UPDATE audit_log SET actor = 'bob' WHERE audit_seq = 1", 1, "as it was written"),
        ("an act", "UPDATE audit_log SET action = 'token_revoke' WHERE audit_seq = 9", 9, "as it was written"),
        ("a time", "UPDATE audit_log SET at_ms = at_ms + 1 WHERE audit_seq = 10", 10, "as it was written"),
        ("nothing to empty", "UPDATE audit_log SET provider = '' WHERE audit_seq = 5", 5, "as it was written"),
        ("nothing to 0", "UPDATE audit_log SET message_id = 0 WHERE audit_seq = 5", 5, "as it was written"),
        ("the last hash", other_hash.as_str(), 10, "as it was written"),
        ("one removed", "DELETE FROM audit_log WHERE audit_seq = 5", 5, "missing"),
        ("the first removed", "DELETE FROM audit_log WHERE audit_seq = 1", 1, "missing"),
        ("the end removed", "DELETE FROM audit_log WHERE audit_seq > 8", 9, "missing"),
        ("all removed", "DELETE FROM audit_log", 1, "missing"),
        (
            "one removed and the gap closed",
            "DELETE FROM audit_log WHERE audit_seq = 5;
             UPDATE audit_log SET audit_seq = 5 WHERE audit_seq = 6; UPDATE audit_log SET audit_seq = 6 WHERE audit_seq = 7;
             UPDATE audit_log SET audit_seq = 7 WHERE audit_seq = 8; UPDATE audit_log SET audit_seq = 8 WHERE audit_seq = 9;
             UPDATE audit_log SET audit_seq = 9 WHERE audit_seq = 10",
            5,
            "as it was written",
        ),
        (
            "two in another order",
            "UPDATE audit_log SET audit_seq = 99 WHERE audit_seq = 5; UPDATE audit_log SET audit_seq = 5 WHERE audit_seq = 6;
             UPDATE audit_log SET audit_seq = 6 WHERE audit_seq = 99",
            5,
            "as it was written",
        ),
        (
            "one put in between",
            &format!(
                "UPDATE audit_log SET audit_seq = audit_seq + 100 WHERE audit_seq > 5;
                 UPDATE audit_log SET audit_seq = audit_seq - 99 WHERE audit_seq > 100; {}",
                forged(6)
            ),
            6,
            "as it was written",
        ),
        ("one put behind", &forged(11), 11, "as it was written"),
        ("one put far behind", &forged(1_000), 10, "nobody appended"),
        ("one put before", &forged(0), 10, "nobody appended"),
        ("the head moved back", "UPDATE audit_head SET audit_seq = 9", 10, "written last"),
        ("the anchor moved", "UPDATE audit_head SET anchor_seq = 3", 4, "as it was written"),
        (
            "the anchor moved well",
            "UPDATE audit_head SET anchor_seq = 3, anchor_hash = (SELECT hash FROM audit_log WHERE audit_seq = 3)",
            10,
            "nobody appended",
        ),
    ] {
        run(database, sql).await;
        let found = follow(&people, &AuditPlace::start()).await;
        let (at, said) = found.broken.unwrap_or_else(|| panic!("{what} was not found: {found:?}"));
        assert!(at == broken_at && said.contains(why), "{what}: {at} {said}");
        run(database, UNDO).await;
        assert_eq!(follow(&people, &AuditPlace::start()).await, whole, "after {what}");
    }
}

async fn what_cannot_be_read_is_told_as_tampering_and_where(database: &Database) {
    let (_store, people) = ten(database).await;
    let noted = people.audit_verify(&AuditPlace::start(), 5).await.unwrap().last;
    run(database, &without_triggers(database)).await;
    if database.url.starts_with("sqlite") {
        for column in ["detail", "actor", "hash"] {
            let sql = format!("UPDATE audit_log SET {column} = CAST(x'ff41' AS TEXT) WHERE audit_seq = 5");
            run(database, &sql).await;
            let found = follow(&people, &AuditPlace::start()).await;
            assert_eq!((found.rows_n, found.broken.map(|(at, _)| at)), (4, Some(5)), "{column}");
            run(database, UNDO).await;
        }
        run(database, "UPDATE audit_log SET hash = CAST(x'ff41' AS TEXT) WHERE audit_seq = 5").await;
    } else {
        let sql = "ALTER TABLE audit_log ALTER detail DROP NOT NULL; ALTER TABLE audit_log ALTER hash DROP NOT NULL;
            UPDATE audit_log SET detail = NULL WHERE audit_seq = 5";
        run(database, sql).await;
        let found = follow(&people, &AuditPlace::start()).await;
        assert_eq!((found.rows_n, found.broken.map(|(at, _)| at)), (4, Some(5)));
        run(database, "UPDATE audit_log SET hash = NULL WHERE audit_seq = 5").await;
    }
    assert_eq!(follow(&people, &noted).await.broken.map(|(at, _)| at), Some(5), "the row that was noted");
    run(database, "DELETE FROM audit_head").await;
    for from in [AuditPlace::start(), noted] {
        let (at, why) = follow(&people, &from).await.broken.expect("broken");
        assert!(at == from.audit_seq && why.contains("audit_head"), "{at} {why}");
    }
}

async fn an_end_that_is_written_anew_shows_by_what_was_noted_elsewhere(database: &Database) {
    let (_store, people) = ten(database).await;
    let noted = follow(&people, &AuditPlace::start()).await.last;
    assert_eq!(AuditPlace::parse(&noted.to_string()), Some(noted.clone()));
    add(&people, 11, 11_000).await;
    let later = follow(&people, &noted).await;
    assert_eq!((later.broken, later.first_seq, later.rows_n), (None, 11, 1));
    run(database, &without_triggers(database)).await;
    let cut = "DELETE FROM audit_log WHERE audit_seq > 8;
        UPDATE audit_head SET audit_seq = 8, hash = (SELECT hash FROM audit_log WHERE audit_seq = 8)";
    run(database, cut).await;
    let found = follow(&people, &AuditPlace::start()).await;
    assert_eq!((found.broken, found.rows_n), (None, 8), "nothing here tells it");
    let (at, why) = follow(&people, &noted).await.broken.unwrap();
    assert!(at == 9 && why.contains("missing at the end"), "{at} {why}");
    // Whoever can write as we do makes a chain that holds, of other rows.
    for n in 12..=14 {
        add(&people, n, 20_000).await;
    }
    assert_eq!(follow(&people, &AuditPlace::start()).await.broken, None);
    let (at, why) = follow(&people, &noted).await.broken.unwrap();
    assert!(at == 10 && why.contains("not the one that was noted"), "{at} {why}");
    run(database, "DELETE FROM audit_log; DELETE FROM audit_head").await;
    let zeros = "0".repeat(64);
    let sql = format!(
        "INSERT INTO audit_head (one, audit_seq, hash, anchor_seq, anchor_hash) VALUES (1, 0, '{zeros}', 0, '{zeros}')"
    );
    run(database, &sql).await;
    assert_eq!(follow(&people, &AuditPlace::start()).await.broken, None, "as if nothing had ever been");
    assert!(follow(&people, &noted).await.broken.is_some());
}

async fn what_is_pruned_leaves_a_chain_that_holds(database: &Database) {
    let (store, people) = ten(database).await;
    let (start, noted) = (AuditPlace::start(), follow(&people, &AuditPlace::start()).await.last);
    let third = people.audit_verify(&start, 3).await.unwrap().last;
    // One whose clock was ahead, and one after it.
    add(&people, 11, 1_000_000).await;
    add(&people, 12, 1_000).await;
    let gone = round(&store, &cuts(5_500), 2, true).await;
    assert_eq!(gone.get("audit_log"), Some(&5), "counted");
    let gone = round(&store, &cuts(5_500), 2, false).await;
    assert_eq!(gone.get("audit_log"), Some(&5));
    let found = follow(&people, &start).await;
    assert_eq!((found.broken, found.first_seq, found.rows_n, found.pruned_to), (None, 6, 7, None));
    let found = follow(&people, &third).await;
    assert_eq!((found.broken, found.first_seq, found.pruned_to), (None, 6, Some(5)), "it cannot be compared");
    assert_eq!(follow(&people, &noted).await.rows_n, 2);
    round(&store, &cuts(50_000), 100, false).await;
    let found = follow(&people, &start).await;
    assert_eq!(
        (found.broken, found.first_seq, found.rows_n),
        (None, 11, 2),
        "what was ahead keeps what is after"
    );
    assert_eq!(follow(&people, &noted).await.rows_n, 2, "what was noted is the anchor now");
    round(&store, &cuts(2_000_000), 100, false).await;
    let found = follow(&people, &start).await;
    assert_eq!((found.broken, found.rows_n, found.last.audit_seq), (None, 0, 12));
    add(&people, 13, 3_000_000).await;
    let found = follow(&people, &start).await;
    assert_eq!((found.broken, found.rows_n, found.last.audit_seq), (None, 1, 13));
    // A walk that found rows which are no longer the oldest deletes nothing.
    let old = store
        .prune_look(PruneWalk::of(PrunedKind::Audit), &cuts(9_000_000), &PrunePlace::default(), 10)
        .await;
    add(&people, 14, 3_000_000).await;
    let old = old.unwrap();
    for wanted in [1, 0] {
        let lease = super::retention::lease("node-1");
        assert_eq!(store.prune_delete(PrunedKind::Audit, &old, &lease).await.unwrap(), Some(wanted));
    }
    assert_eq!(follow(&people, &start).await.rows_n, 1);
}

async fn the_database_itself_refuses_to_change_the_log(database: &Database) {
    let (_store, people) = ten(database).await;
    let refused = async |sql: &str| {
        let said = database.run(sql).await.expect_err(sql).to_string();
        assert!(said.contains("only appended to"), "{sql}: {said}");
    };
    for sql in [
        "UPDATE audit_log SET detail = 'x' WHERE audit_seq = 5",
        "UPDATE audit_log SET detail = detail",
        "DELETE FROM audit_log WHERE audit_seq = 1",
        "DELETE FROM audit_log",
        "DELETE FROM audit_head",
        "UPDATE audit_head SET audit_seq = 5",
        "UPDATE audit_head SET anchor_seq = 11",
        "UPDATE audit_head SET anchor_seq = -1",
    ] {
        refused(sql).await;
    }
    if database.url.starts_with("sqlite") {
        // It fires no trigger for updates or deletions.
        let columns = "audit_seq, at_ms, actor, action, detail, hash";
        refused(&format!(
            "INSERT OR REPLACE INTO audit_log ({columns}) SELECT audit_seq, at_ms, 'eve', action, detail, hash
             FROM audit_log WHERE audit_seq = 5"
        ))
        .await;
        let columns = "one, audit_seq, hash, anchor_seq, anchor_hash";
        refused(&format!("INSERT OR REPLACE INTO audit_head ({columns}) VALUES (1, 0, 'x', 0, 'x')")).await;
        refused("UPDATE OR REPLACE audit_log SET audit_seq = 4 WHERE audit_seq = 5").await;
    } else {
        refused("TRUNCATE audit_log").await;
        refused("TRUNCATE audit_head").await;
        let columns = "audit_seq, at_ms, actor, action, detail, hash";
        refused(&format!(
            "INSERT INTO audit_log ({columns}) SELECT {columns} FROM audit_log WHERE audit_seq = 5
             ON CONFLICT (audit_seq) DO UPDATE SET detail = 'x'"
        ))
        .await;
    }
    assert_eq!(follow(&people, &AuditPlace::start()).await.rows_n, 10);
}

async fn the_log_is_followed_a_few_rows_at_a_time(database: &Database) {
    let (_store, people) = ten(database).await;
    let (mut from, mut seen) = (AuditPlace::start(), Vec::new());
    loop {
        let found = people.audit_verify(&from, 4).await.unwrap();
        assert_eq!(found.broken, None);
        seen.push((found.first_seq, found.rows_n));
        from = found.last;
        if !found.has_more {
            break;
        }
    }
    assert_eq!(seen, [(1, 4), (5, 4), (9, 2)]);
    assert_eq!(follow(&people, &from).await.rows_n, 0, "nothing came since");
    let nobodys = AuditPlace { hash: "ab".repeat(32), ..from };
    assert!(follow(&people, &nobodys).await.broken.is_some());
}

async fn rows_that_many_add_at_once_are_one_chain(database: &Database) {
    let stores = if database.url.starts_with("sqlite") {
        vec![database.store().await]
    } else {
        vec![database.store().await, database.store().await]
    };
    let mut adding = tokio::task::JoinSet::new();
    for n in 0..60 {
        let people = people(&stores[n as usize % stores.len()], Role::Admin);
        adding.spawn(async move { add(&people, n, 1_000).await });
    }
    while let Some(added) = adding.join_next().await {
        added.unwrap();
    }
    let found = follow(&people(&stores[0], Role::Admin), &AuditPlace::start()).await;
    assert_eq!((found.broken, found.rows_n, found.last.audit_seq), (None, 60, 60));
}

async fn nobody_but_an_admin_follows_it(database: &Database) {
    let store = database.store().await;
    for role in Role::ALL {
        let found = people(&store, role).audit_verify(&AuditPlace::start(), 10).await;
        match role {
            Role::Admin => assert_eq!(found.unwrap().rows_n, 0),
            _ => assert!(matches!(found, Err(PeopleError::Denied(Role::Admin)))),
        }
    }
}

/// A node that dies with the head locked leaves it to the others.
#[tokio::test]
async fn who_waits_for_the_head_gets_it_when_its_holder_is_gone() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let store = database.store().await;
    let people = people(&store, Role::Admin);
    let mut holder = PgConnection::connect(&database.url).await.unwrap();
    holder.execute(sqlx::raw_sql("BEGIN; SELECT 1 FROM audit_head FOR UPDATE")).await.unwrap();
    let waiting = tokio::spawn({
        let people = people.clone();
        async move { add(&people, 1, 1_000).await }
    });
    drop(holder);
    waiting.await.unwrap();
    assert_eq!(follow(&people, &AuditPlace::start()).await.rows_n, 1);
}
