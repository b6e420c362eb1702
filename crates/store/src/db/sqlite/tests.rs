//! Connections that are given up, panic, or are left in the middle of something.

use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use tokio::time::timeout;

use super::{Sqlite, opened};
use crate::db::error::{DbResult, StoreError};
use crate::db::pool::Session;
use crate::db::value::Value;

/// Writes first, and then never ends.
const ENDLESS: &str = "INSERT INTO t (n)
    WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT COUNT(*) FROM c WHERE n > 1";

async fn with_table(folder: &tempfile::TempDir) -> Sqlite {
    let db = opened(folder).await;
    let mut held = db.writer.take().await.unwrap();
    held.executor().unwrap().batch("CREATE TABLE t (n BIGINT, s TEXT, b BLOB)").await.unwrap();
    held.give_back();
    db
}

async fn rows_n(db: &Sqlite) -> i64 {
    let mut held = db.reader.take().await.unwrap();
    let row = held.executor().unwrap().fetch_one("SELECT COUNT(*) AS n FROM t", &[]).await;
    held.give_back_after(row).unwrap().int("n").unwrap()
}

/// Asserts that the only writer is free at once.
async fn assert_writes(db: &Sqlite) {
    let since = Instant::now();
    let mut held = db.writer.begin().await.unwrap();
    held.executor().unwrap().execute("INSERT INTO t (n) VALUES ($1)", &[7.into()]).await.unwrap();
    let answer = held.commit().await;
    held.end(answer).unwrap();
    assert!(since.elapsed() < Duration::from_secs(20), "took {:?}", since.elapsed());
}

#[tokio::test]
async fn connections_are_replaced_to_give_back_memory_and_the_log_stays() {
    use std::os::unix::fs::MetadataExt;
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    assert_eq!(rows_n(&db).await, 0);
    let log = || std::fs::metadata(folder.path().join("x.db-wal")).unwrap().ino();
    let temporary = async |sql: &str| {
        let mut held = db.writer.take().await.unwrap();
        let answer = held.executor().unwrap().batch(sql).await;
        held.give_back_after(answer)
    };
    temporary("CREATE TEMP TABLE mine (n)").await.unwrap();
    let before = log();
    for n in 1..=3 {
        db.give_back_pages().await;
        assert!(temporary("DELETE FROM mine").await.is_err(), "it is another connection");
        assert_writes(&db).await;
        assert_eq!((rows_n(&db).await, log()), (n, before), "the last connection was closed");
    }
}

#[tokio::test]
async fn what_goes_in_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let mut held = db.writer.take().await.unwrap();
    let mut executor = held.executor().unwrap();
    // The placeholders are out of order, and two are there twice.
    let sql = "INSERT INTO t (b, s, n) VALUES ($3, $2, $1), ($3, NULL, LEAST($1, 0))";
    let values = [i64::MAX.into(), "a".into(), vec![0_u8, 255].into()];
    assert_eq!(executor.execute(sql, &values).await.unwrap(), 2);
    let sql = "SELECT n, s, b FROM t WHERE n = ANY($1) AND (s IS NULL OR s = ANY($2)) ORDER BY n FOR UPDATE";
    let values = [vec![0_i64, i64::MAX].into(), vec!["a".to_owned()].into()];
    let rows = executor.fetch(sql, &values).await.unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[0].int("n").unwrap(), rows[0].text_or_null("s").unwrap()), (0, None));
    assert_eq!((rows[1].int("n").unwrap(), rows[1].text("s").unwrap()), (i64::MAX, "a".to_owned()));
    assert_eq!(rows[1].bytes("b").unwrap(), [0, 255]);
    assert_eq!(executor.execute("UPDATE t SET n = 1 WHERE n = 5", &[]).await.unwrap(), 0);
    assert!(executor.fetch_optional("SELECT n FROM t WHERE n = 5", &[]).await.unwrap().is_none());
    let none = Value::Int(None);
    assert_eq!(executor.execute("UPDATE t SET n = $1", &[none]).await.unwrap(), 2);
    let few = executor.execute("UPDATE t SET n = $2", &[1.into()]).await.unwrap_err();
    assert!(few.to_string().contains("$2"), "{few}");
    held.give_back();
}

#[tokio::test]
async fn a_statement_that_is_given_up_frees_the_writer() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let mut held = db.writer.begin().await.unwrap();
    let mut executor = held.executor().unwrap();
    executor.execute("INSERT INTO t (n) VALUES (1)", &[]).await.unwrap();
    let endless = timeout(Duration::from_millis(50), executor.execute(ENDLESS, &[])).await;
    assert!(endless.is_err());
    executor.execute("INSERT INTO t (n) VALUES (2)", &[]).await.unwrap_err();
    drop(held);
    assert_writes(&db).await;
    assert_eq!(rows_n(&db).await, 1);
}

#[tokio::test]
async fn a_rollback_after_a_statement_that_was_given_up_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let mut held = db.writer.begin().await.unwrap();
    let mut executor = held.executor().unwrap();
    assert!(timeout(Duration::from_millis(50), executor.execute(ENDLESS, &[])).await.is_err());
    // A transaction that the interrupt itself has rolled back is reported as rolled back.
    drop(held.roll_back_and_close().await);
    assert_writes(&db).await;
    assert_eq!(rows_n(&db).await, 1);
}

#[tokio::test]
async fn a_transaction_whose_caller_is_gone_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let mut held = db.writer.take().await.unwrap();
    let (go, gone) = channel::<()>();
    let work = held.session().unwrap().transact("test", move |db| {
        db.execute("INSERT INTO t (n) VALUES (1)", ())?;
        assert!(gone.recv().is_err());
        Ok(())
    });
    assert!(timeout(Duration::from_millis(50), work).await.is_err());
    drop(go);
    drop(held);
    assert_writes(&db).await;
    assert_eq!(rows_n(&db).await, 1);
}

#[tokio::test]
async fn a_transaction_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let mut held = db.writer.take().await.unwrap();
    let session = held.session().unwrap();
    let done = session.transact("test", |db| Ok(db.execute("INSERT INTO t (n) VALUES (1)", ())?)).await;
    assert_eq!(done.unwrap(), 1);
    let refused = session
        .transact("test", |db| {
            db.execute("INSERT INTO t (n) VALUES (2)", ())?;
            Ok(db.execute("INSERT INTO nowhere (n) VALUES (2)", ())?)
        })
        .await;
    assert!(matches!(&refused, Err(StoreError::Query { op: "test", .. })), "{refused:?}");
    assert!(!session.is_in_transaction());
    held.give_back_after_all(refused).unwrap_err();
    assert_eq!(rows_n(&db).await, 1);
}

#[tokio::test]
async fn a_panic_in_a_transaction_is_the_fault_of_its_work_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let mut held = db.writer.take().await.unwrap();
    let session = held.session().unwrap();
    let refused = session
        .transact("test", |db| -> DbResult<()> {
            db.execute("INSERT INTO t (n) VALUES (1)", ())?;
            panic!("as it may")
        })
        .await;
    assert!(matches!(&refused, Err(StoreError::Query { op: "test", .. })), "{refused:?}");
    assert!(!session.is_in_transaction());
    held.give_back_after_all(refused).unwrap_err();
    assert_eq!(rows_n(&db).await, 0);
    assert_writes(&db).await;
}

#[tokio::test]
async fn a_panic_closes_its_connection_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let mut held = db.writer.begin().await.unwrap();
    held.executor().unwrap().execute("INSERT INTO t (n) VALUES (1)", &[]).await.unwrap();
    let session = held.session().unwrap();
    let answer = session.run(|_| -> DbResult<()> { panic!("as it may") }).await;
    assert!(!answer.unwrap_err().is_server_error());
    session.run(|_| Ok(())).await.unwrap_err();
    drop(held);
    assert_writes(&db).await;
    assert_eq!(rows_n(&db).await, 1);
}

#[tokio::test]
async fn a_connection_given_back_in_a_transaction_is_not_used_again() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let mut held = db.writer.begin().await.unwrap();
    held.executor().unwrap().execute("INSERT INTO t (n) VALUES (1)", &[]).await.unwrap();
    assert!(held.is_in_transaction());
    held.give_back();
    assert_writes(&db).await;
    assert_eq!(rows_n(&db).await, 1);
}

#[tokio::test]
async fn a_reader_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let mut held = db.reader.take().await.unwrap();
    held.executor().unwrap().execute("INSERT INTO t (n) VALUES (1)", &[]).await.unwrap_err();
    drop(held);
    assert_eq!(rows_n(&db).await, 0);
}

#[tokio::test]
async fn who_has_a_sender_waiting_waits_for_one_of_the_others_at_most() {
    let folder = tempfile::tempdir().unwrap();
    let db = with_table(&folder).await;
    let held = db.writer.take().await.unwrap();
    let order = std::cell::RefCell::new(Vec::new());
    let (writer, order) = (&db.writer, &order);
    let in_turn = async |name| {
        let _turn = writer.turn().await.unwrap();
        let held = writer.take().await.unwrap();
        order.borrow_mut().push(name);
        held.give_back();
    };
    let admission = async {
        let held = writer.take().await.unwrap();
        order.borrow_mut().push("admission");
        held.give_back();
    };
    // Each of them asks in this order, before the connection is free.
    tokio::join!(in_turn("lease"), in_turn("settle"), in_turn("prune"), admission, async {
        held.give_back();
    });
    assert_eq!(*order.borrow(), ["lease", "admission", "settle", "prune"]);
}
