//! Several nodes on one PostgreSQL: how a batch handles rows that another node has locked.

use std::sync::Arc;
use std::time::Duration;

use hooklatch::prelude::*;
use hooklatch_core::types::{EventState, IncomingEvent};
use hooklatch_store::Latched;

use crate::admit_faults::{Invoice, execute};
use crate::app::{TestApp, stripe_kind};
use crate::database::{Database, On};
use crate::process::until;
use crate::store::{candidates, event};

/// Two nodes' admissions of equal bodies under ids of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_bodies_under_new_ids_at_two_nodes_do_not_deadlock() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let (one, other) = (database.store().await, database.store().await);
    for round in 0..40 {
        let admit = async |store: &hooklatch_store::Store, node: &str, is_reversed: bool| {
            let unsigned = |n: usize| {
                let body = format!("{round} {n}");
                let id = format!("{node}-{round}-{}", if is_reversed { 50 - n } else { n });
                let event = event(&id, &body);
                IncomingEvent { replay_key: Some(event.digest), ..event }
            };
            let events: Vec<IncomingEvent> = (0..50).map(unsigned).collect();
            let borrowed: Vec<&IncomingEvent> = events.iter().collect();
            let candidates = candidates(store, &borrowed, EventState::Handled).await;
            let mut tx = store.admission_begin().await.unwrap();
            let found = tx.events_insert(&candidates).await.unwrap();
            tx.commit().await.unwrap();
            found.iter().filter(|one| **one == Latched::New).count()
        };
        let (a, b) = tokio::join!(admit(&one, "a", false), admit(&other, "b", true));
        assert_eq!(a + b, 50, "each body once");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_event_that_waits_for_another_node_is_refused() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    for kind in [
        stripe_kind().on("x", |_: Event<Invoice>| Ok(Effects::new())),
        // Without a handler all is one statement.
        stripe_kind(),
    ] {
        // The others wait with it until it is known which one has to wait.
        let app = TestApp::start_with(&database, kind, "answer_timeout_ms = 20000", "").await;
        let app = Arc::new(app);
        let run = app.clock.now_ms();
        let other = database.store().await;
        let held = event(&format!("held_{run}"), "{}");
        let held = candidates(&other, &[&held], EventState::Handled).await;
        let mut tx = other.admission_begin().await.unwrap();
        tx.events_insert(&held).await.unwrap();
        let all = (0..40).map(|n| {
            let id = if n == 17 { format!("held_{run}") } else { format!("evt_{run}_{n}") };
            let app = Arc::clone(&app);
            tokio::spawn(async move { (n, app.event(&id, "x", 1).await) })
        });
        for one in all.collect::<Vec<_>>() {
            let (n, outcome) = one.await.unwrap();
            assert_eq!(outcome, if n == 17 { "" } else { "accepted" }, "{n}");
        }
        tx.rollback().await.unwrap();
        assert_eq!(app.event(&format!("held_{run}"), "x", 1).await, "accepted");
        app.clock.advance(1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_the_database_gave_up_for_another_is_repeated() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    database.store().await.close().await;
    // A sequence is not rolled back: the first three inserts fail as the victim of a deadlock would.
    let sql = "CREATE SEQUENCE tries;
         CREATE FUNCTION lose() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             IF nextval('tries') <= 3 THEN RAISE EXCEPTION 'lost' USING ERRCODE = '40P01'; END IF;
             RETURN NEW; END $$;
         CREATE TRIGGER lose BEFORE INSERT ON processed_webhook_events FOR EACH ROW EXECUTE FUNCTION lose()";
    execute(&database, sql).await;
    let app = TestApp::start(&database, stripe_kind(), "").await;
    assert_eq!(app.event("evt_1", "x", 1).await, "accepted");
    execute(&database, "SELECT setval('tries', 1)").await;
    app.running.stop().await;
    let kind = stripe_kind().on("x", |_: Event<Invoice>| Ok(Effects::new()));
    let app = TestApp::start(&database, kind, "").await;
    assert_eq!(app.event("evt_2", "x", 1).await, "accepted");
    app.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_committed_is_answered_so_though_the_rest_could_not_be_judged() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let more = "routes = [{ on = [\"*\"], to = \"billing\" }]";
    let app = Arc::new(TestApp::start(&database, stripe_kind(), more).await);
    assert_eq!(app.event("old", "x", 1).await, "accepted");
    execute(
        &database,
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$;
         CREATE TRIGGER refuse BEFORE INSERT ON processed_webhook_events FOR EACH ROW
             WHEN (NEW.state = 'conflict') EXECUTE FUNCTION refuse()",
    )
    .await;
    // Whichever share a batch: those that are new are accepted, the conflicting one is to come again.
    let all = (0..40).map(|n| {
        let app = Arc::clone(&app);
        let (id, amount) = if n % 10 == 3 { ("old".to_owned(), n) } else { (format!("evt_{n}"), 1) };
        tokio::spawn(async move { (n, app.event(&id, "x", amount).await) })
    });
    for one in all.collect::<Vec<_>>() {
        let (n, outcome) = one.await.unwrap();
        assert_eq!(outcome, if n % 10 == 3 { "" } else { "accepted" }, "{n}");
    }
    until("the calls of the new ones are made at once", Duration::from_secs(10), String::new, async || {
        app.destination.calls().len() == 37
    })
    .await;
}
