//! State that a transactional handler leaves in its session: neither the next user of the connection sees it, nor what
//! is written afterwards.

use std::time::{Duration, Instant};

use hooklatch::prelude::*;
use hooklatch_store::{Store, StoreSettings};
use serde_json::Value as Json;

use crate::app::{TestApp, event_body, is_given_up, stripe_kind};
use crate::database::{Database, On, on_both};
use crate::process::{SECRET, client, stripe_header, until};

on_both!(
    an_event_whose_handler_commits_its_transaction_is_shown_as_failed,
    a_handler_that_commits_when_it_runs_again_is_not_run_a_third_time,
    tables_that_a_handler_makes_for_itself_are_gone_with_its_transaction,
    a_handler_statement_that_never_ends_delays_no_other_event,
    what_a_handler_calls_like_ours_hides_nothing_of_ours,
    a_transaction_that_a_handler_begins_in_place_of_its_own_is_found_out,
);

/// Runs statements by themselves, before the app does.
async fn prepared(database: &Database, statements: &[&'static str]) {
    let store = Store::open(&StoreSettings { url: database.url.clone(), connections_n: 2 }).await.unwrap();
    let mut admission = store.admission_begin().await.unwrap();
    for sql in statements {
        admission.tx().execute(sql, &[]).await.unwrap();
    }
    admission.commit().await.unwrap();
    store.close().await;
}

async fn commits(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.execute("INSERT INTO ledger (n) VALUES (1)", &[]).await.map_err(anyhow::Error::from)?;
    tx.execute("COMMIT", &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new().forward("billing"))
}

async fn an_event_whose_handler_commits_its_transaction_is_shown_as_failed(database: &Database) {
    prepared(database, &["CREATE TABLE ledger (n BIGINT)"]).await;
    let app = TestApp::start(database, stripe_kind().on_tx("broken", commits), "").await;
    let said = app.event("ended", "broken", 1).await;
    assert!(["accepted", "duplicate"].contains(&said.as_str()), "{said}");
    assert_eq!(app.event("other", "other", 1).await, "accepted");
    app.running.stop().await;
    let sql = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
    assert_eq!(database.text(sql, "ended").await.as_deref(), Some("failed"));
    let sql = "SELECT COUNT(*) FROM outbox_messages WHERE event_id = 'ended'";
    assert_eq!(database.count(sql).await, 0);
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger").await, 1, "it runs once");
}

async fn commits_later(tx: &mut Tx, event: Event<Json>) -> Handled {
    if event.attempt_n == 1 {
        return Err(anyhow::anyhow!("not yet").into());
    }
    commits(tx, event).await
}

async fn a_handler_that_commits_when_it_runs_again_is_not_run_a_third_time(database: &Database) {
    prepared(database, &["CREATE TABLE ledger (n BIGINT)"]).await;
    let app = TestApp::start(database, stripe_kind().on_tx("broken", commits_later), "").await;
    assert_eq!(app.event("ended", "broken", 1).await, "accepted");
    let sql = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
    until("it is shown", Duration::from_secs(10), String::new, async || {
        app.clock.advance(3_600_000);
        database.text(sql, "ended").await.as_deref() == Some("failed")
    })
    .await;
    app.running.stop().await;
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger").await, 1);
}

async fn scribbles(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.execute("CREATE TEMP TABLE scratch (n BIGINT)", &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new())
}

async fn tables_that_a_handler_makes_for_itself_are_gone_with_its_transaction(database: &Database) {
    let app = TestApp::start(database, stripe_kind().on_tx("scribbles", scribbles), "").await;
    for n in 0..3 {
        assert_eq!(app.event(&format!("evt_{n}"), "scribbles", 1).await, "accepted");
    }
    app.running.stop().await;
    let sql = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'handled'";
    assert_eq!(database.count(sql).await, 3);
}

async fn begins_another(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.execute("INSERT INTO ledger (n) VALUES (1)", &[]).await.map_err(anyhow::Error::from)?;
    tx.batch("COMMIT; BEGIN; SAVEPOINT hooklatch_handler").await.map_err(anyhow::Error::from)?;
    Ok(Effects::new().forward("billing"))
}

async fn a_transaction_that_a_handler_begins_in_place_of_its_own_is_found_out(database: &Database) {
    prepared(database, &["CREATE TABLE ledger (n BIGINT)"]).await;
    let app = TestApp::start(database, stripe_kind().on_tx("broken", begins_another), "").await;
    app.event("ended", "broken", 1).await;
    assert_eq!(app.event("other", "other", 1).await, "accepted");
    app.running.stop().await;
    let sql = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
    assert_eq!(database.text(sql, "ended").await.as_deref(), Some("failed"));
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger").await, 1, "it runs once");
}

async fn never_ends(tx: &mut Tx, _: Event<Json>) -> Handled {
    let sql =
        "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT 1 FROM c) SELECT COUNT(*) FROM c WHERE n > 1";
    tx.fetch_i64(sql, &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new())
}

async fn a_handler_statement_that_never_ends_delays_no_other_event(database: &Database) {
    is_given_up(database, stripe_kind().on_tx("broken", never_ends)).await;
}

/// Runs the statement that its event has, and has the event forwarded.
async fn runs(tx: &mut Tx, event: Event<Json>) -> Handled {
    let sql: &'static str = event.payload["id"].as_str().unwrap().to_owned().leak();
    tx.batch(sql.strip_prefix("in_").unwrap()).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new().forward("billing"))
}

async fn what_a_handler_calls_like_ours_hides_nothing_of_ours(database: &Database) {
    let is_postgres = database.url.starts_with("postgres");
    let on = if is_postgres { On::Postgres } else { On::Sqlite };
    let names = match on {
        On::Sqlite => {
            "SELECT group_concat(name) FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND $1 = $1"
        }
        On::Postgres => {
            "SELECT string_agg(tablename::text, ',') FROM pg_tables WHERE schemaname = 'public' AND $1::text = $1"
        }
    };
    let app = TestApp::start(database, stripe_kind().on_tx("runs", runs), "").await;
    let names = database.text(names, "").await.expect("there are tables");
    let mut statements = Vec::new();
    for name in names.split(',') {
        let (columns, own) = match on {
            On::Sqlite => (format!("AS SELECT * FROM main.{name} WHERE FALSE"), format!("main.{name}")),
            On::Postgres => (format!("(LIKE public.{name} INCLUDING ALL)"), format!("public.{name}")),
        };
        statements.push(format!("CREATE TEMP TABLE {name} {columns}"));
        statements.push(format!("CREATE TEMP VIEW {name} AS SELECT * FROM {own} WHERE FALSE"));
        match on {
            On::Sqlite => statements.push(format!(
                "CREATE TEMP TRIGGER hides AFTER INSERT ON {own} BEGIN DELETE FROM {name}; END"
            )),
            On::Postgres => statements.push(format!(
                "SET search_path = pg_temp, nowhere, public; CREATE TEMP TABLE {name} {columns} ON COMMIT DROP"
            )),
        }
    }
    if is_postgres {
        statements.push(
            "CREATE FUNCTION pg_temp.now() RETURNS timestamptz LANGUAGE sql AS 'SELECT NULL::timestamptz'"
                .to_owned(),
        );
        statements.push("CREATE DOMAIN pg_temp.bigint AS text".to_owned());
        statements.push("CREATE SCHEMA nowhere; SET search_path = nowhere".to_owned());
    }
    for (n, sql) in statements.iter().enumerate() {
        let id = format!("evt_{n}");
        let body = format!(
            r#"{{"id":"{id}","type":"runs","data":{{"object":{{"id":{}}}}}}}"#,
            Json::from(format!("in_{sql}"))
        );
        assert_eq!(app.post(&body).await.1, "accepted", "{sql}");
        let state = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
        assert_eq!(database.text(state, &id).await.as_deref(), Some("handled"), "{sql}");
        let sql_of_messages = "SELECT effect_name FROM outbox_messages WHERE event_id = $1";
        assert_eq!(database.text(sql_of_messages, &id).await.as_deref(), Some("billing"), "{sql}");
    }
    app.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pragma_of_a_handler_that_would_outlive_it_is_refused() {
    let Some(database) = Database::create(On::Sqlite).await else { return };
    let app = TestApp::start(&database, stripe_kind().on_tx("runs", runs), "").await;
    let statements = [
        ("PRAGMA wal_autocheckpoint = 0", "retry"),
        ("PRAGMA writable_schema = ON", "retry"),
        ("PRAGMA hard_heap_limit = 1000000", "retry"),
        ("PRAGMA soft_heap_limit = 1", "retry"),
        ("PRAGMA query_only = ON", "retry"),
        ("PRAGMA foreign_keys = OFF", "retry"),
        ("PRAGMA ignore_check_constraints = ON", "retry"),
        ("PRAGMA synchronous = OFF", "retry"),
        ("PRAGMA locking_mode = EXCLUSIVE", "retry"),
        ("PRAGMA temp_store_directory = '/'", "retry"),
        ("PRAGMA recursive_triggers = ON", "retry"),
        ("ATTACH ':memory:' AS other", "retry"),
        ("PRAGMA defer_foreign_keys = ON", "handled"),
        ("PRAGMA table_info(outbox_queue); SELECT * FROM pragma_table_list", "handled"),
    ];
    for (n, (sql, want)) in statements.into_iter().enumerate() {
        let id = format!("evt_{n}");
        let body = format!(r#"{{"id":"{id}","type":"runs","data":{{"object":{{"id":"in_{sql}"}}}}}}"#);
        assert_eq!(app.post(&body).await.1, "accepted", "{sql}");
        let state = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
        assert_eq!(database.text(state, &id).await.as_deref(), Some(want), "{sql}");
        assert_eq!(app.event(&format!("other_{n}"), "other", 1).await, "accepted", "after {sql}");
    }
    app.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_ignores_us_is_ended_and_its_sender_hears_200() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    prepared(&database, &["CREATE TABLE stuck (n BIGINT)", "INSERT INTO stuck VALUES (1)"]).await;
    let store = Store::open(&StoreSettings { url: database.url.clone(), connections_n: 2 }).await.unwrap();
    let mut holder = store.admission_begin().await.unwrap();
    holder.tx().execute("UPDATE stuck SET n = 2", &[]).await.unwrap();
    let app = TestApp::start(&database, stripe_kind().on_tx("runs", runs), "").await;
    let statements = [
        "SELECT pg_sleep(30)",
        "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$",
        "DO $$ BEGIN LOOP BEGIN PERFORM pg_sleep(30); EXCEPTION WHEN query_canceled THEN NULL; END; END LOOP; END $$",
        "SET lock_timeout = 0; UPDATE stuck SET n = 3",
    ];
    for (n, sql) in statements.into_iter().enumerate() {
        let since = Instant::now();
        let id = format!("evt_{n}");
        let body = format!(r#"{{"id":"{id}","type":"runs","data":{{"object":{{"id":"in_{sql}"}}}}}}"#);
        assert_eq!(app.post(&body).await.1, "accepted", "{sql}");
        let state = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
        assert_eq!(database.text(state, &id).await.as_deref(), Some("retry"), "{sql}");
        assert!(since.elapsed() < Duration::from_secs(5), "{sql}: {:?}", since.elapsed());
        let running =
            "SELECT COUNT(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%pg_sleep(30)%'
            AND pid <> pg_backend_pid()";
        until("it is ended", Duration::from_secs(5), String::new, async || {
            database.count(running).await == 0
        })
        .await;
    }
    holder.rollback().await.unwrap();
    app.running.stop().await;
    store.close().await;
}

/// State that a handler may leave, and a statement that shows that it is gone.
const LEFT: [(&str, &str); 9] = [
    ("SET synchronous_commit = off", "SELECT (current_setting('synchronous_commit') <> 'on')::int::bigint"),
    (
        "SET LOCAL synchronous_commit = off",
        "SELECT (current_setting('synchronous_commit') <> 'on')::int::bigint",
    ),
    ("SET lock_timeout = 0", "SELECT (current_setting('lock_timeout') <> '2s')::int::bigint"),
    ("SET search_path = nowhere", "SELECT (current_setting('search_path') LIKE '%nowhere%')::int::bigint"),
    ("SET statement_timeout = '10s'", "SELECT (current_setting('statement_timeout') <> '0')::int::bigint"),
    (
        "SET client_min_messages = error",
        "SELECT (current_setting('client_min_messages') = 'error')::int::bigint",
    ),
    ("SET ROLE weak", "SELECT (current_user = 'weak')::int::bigint"),
    (
        "CREATE TEMP TABLE scratch (n BIGINT)",
        "SELECT COUNT(*) FROM pg_class WHERE relname = 'scratch' AND relpersistence = 't'",
    ),
    (
        "SELECT pg_advisory_lock(77)",
        "SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 77",
    ),
];

async fn leaves(tx: &mut Tx, event: Event<Json>) -> Handled {
    let n = usize::try_from(event.payload["amount_paid"].as_i64().unwrap()).unwrap();
    tx.execute(LEFT[n].0, &[]).await.map_err(anyhow::Error::from)?;
    Ok(Effects::new().forward("billing"))
}

async fn finds(tx: &mut Tx, event: Event<Json>) -> Handled {
    let n = usize::try_from(event.payload["amount_paid"].as_i64().unwrap()).unwrap();
    let found = tx.fetch_i64(LEFT[n].1, &[]).await.map_err(anyhow::Error::from)?;
    if found == Some(0) {
        Ok(Effects::new())
    } else {
        Err(HandlerError::Refused("it is still there".to_owned()))
    }
}
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_handler_leaves_in_its_session_is_gone_with_its_transaction() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    prepared(&database, &["DO $$ BEGIN CREATE ROLE weak; EXCEPTION WHEN duplicate_object THEN NULL; END $$"])
        .await;
    let kind = stripe_kind().on_tx("leaves", leaves).on_tx("finds", finds);
    let app = TestApp::start(&database, kind, "").await;
    let mut found = Vec::new();
    for (n, (left, _)) in LEFT.iter().enumerate() {
        let said = app.event(&format!("leaves_{n}"), "leaves", i64::try_from(n).unwrap()).await;
        let sql = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
        let state = database.text(sql, &format!("leaves_{n}")).await;
        let mut finds = Vec::new();
        for m in 0..3 {
            app.event(&format!("finds_{n}_{m}"), "finds", i64::try_from(n).unwrap()).await;
            finds.push(database.text(sql, &format!("finds_{n}_{m}")).await);
        }
        if said != "accepted"
            || state.as_deref() != Some("handled")
            || finds.iter().any(|f| f.as_deref() != Some("handled"))
        {
            found.push(format!("{left}: {said} {state:?} {finds:?}"));
        }
    }
    app.running.stop().await;
    assert!(found.is_empty(), "{found:#?}");
}

async fn slow(tx: &mut Tx, _: Event<Json>) -> Handled {
    tx.execute("SELECT pg_sleep(1.5)", &[]).await.map_err(anyhow::Error::from)?;
    Err(anyhow::anyhow!("not yet").into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_handlers_of_many_providers_leave_sessions_to_everybody_else() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let more: String = ["two", "three", "four"]
        .map(|name| format!("[providers.{name}]\nkind = \"stripe\"\nsecrets = [\"{SECRET}\"]\n"))
        .concat();
    let plain = |_: Event<Json>| Ok(Effects::new().forward("billing"));
    let app = TestApp::start(&database, stripe_kind().on_tx("slow", slow).on("plain", plain), &more).await;
    let other = |name: &str, id: String| {
        let body = event_body(&id, "slow", 1);
        let header = stripe_header(&body, app.clock.now_ms() / 1_000);
        let url = format!("http://{}/webhooks/{name}", app.running.receiver_addr);
        let request = client().post(url).header("stripe-signature", header).body(body);
        async move { drop(request.send().await) }
    };
    let mut flood = tokio::task::JoinSet::new();
    for n in 0..24 {
        flood.spawn(other(["stripe", "two", "three", "four"][n % 4], format!("slow_{n}")));
    }
    let waiting = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'retry'";
    until("each provider has events to dispatch again", Duration::from_secs(30), String::new, async || {
        database.count(waiting).await >= 8
    })
    .await;
    app.clock.advance(3_600_000);
    for n in 24..48 {
        flood.spawn(other(["stripe", "two", "three", "four"][n % 4], format!("slow_{n}")));
    }
    let mut waits = Vec::new();
    for n in 0..12 {
        let since = Instant::now();
        assert_eq!(app.event(&format!("plain_{n}"), "plain", 1).await, "accepted");
        waits.push(since.elapsed());
    }
    // One may have met a stall of the disk; behind the slow ones, each would wait.
    waits.sort();
    assert!(waits[10] < Duration::from_secs(1), "they waited for {waits:?}");
    flood.abort_all();
    app.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unrelated_warnings_with_each_write_refuse_no_event() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    database.store().await.close().await;
    // What PostgreSQL says for days before it runs out of transactions; it takes writes all the same.
    let function = "CREATE FUNCTION warns() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE WARNING 'database \"x\" must be vacuumed within 39999999 transactions';
        RAISE WARNING 'stock is low'; RETURN NULL; END $$";
    prepared(
        &database,
        &[
            function,
            "CREATE TRIGGER warns AFTER INSERT ON processed_webhook_events EXECUTE FUNCTION warns()",
            "CREATE TRIGGER warns AFTER DELETE ON outbox_queue EXECUTE FUNCTION warns()",
        ],
    )
    .await;
    let app = TestApp::start(
        &database,
        stripe_kind(),
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"",
    )
    .await;
    for n in 0..5 {
        assert_eq!(app.event(&format!("evt_{n}"), "any", 1).await, "accepted");
    }
    until("they are done", Duration::from_secs(10), String::new, async || {
        database.count("SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'").await == 5
    })
    .await;
    app.running.stop().await;
}

/// Posts an event of the type `runs`, whose handler runs `sql`; returns the outcome of the answer, and the event's
/// state.
async fn posted(app: &TestApp, database: &Database, id: &str, sql: &str) -> (String, String) {
    let body = format!(
        r#"{{"id":"{id}","type":"runs","data":{{"object":{{"id":{}}}}}}}"#,
        Json::from(format!("in_{sql}"))
    );
    let said = app.post(&body).await.1;
    let state = "SELECT state FROM processed_webhook_events WHERE event_id = $1";
    (said, database.text(state, id).await.unwrap_or_default())
}

fn outcome(said: &str, state: &str) -> (String, String) {
    (said.to_owned(), state.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_deferred_rule_sets_does_not_outlive_its_handler() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    prepared(
        &database,
        &[
            "CREATE TABLE odd (said TEXT)",
            "CREATE FUNCTION odd() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE NEW.said; RETURN NULL; END $$",
            "CREATE CONSTRAINT TRIGGER odd AFTER INSERT ON odd DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION odd()",
            "CREATE FUNCTION poison() RETURNS text LANGUAGE sql AS
             $$ SELECT set_config('synchronous_commit', 'off', false) || set_config('search_path', 'nowhere', false) $$",
            "CREATE TABLE seen (said TEXT)",
            "CREATE FUNCTION seen() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             INSERT INTO public.seen SELECT current_setting('synchronous_commit') || current_setting('search_path');
             RETURN NULL; END $$",
        ],
    )
    .await;
    let app = TestApp::start(&database, stripe_kind().on_tx("runs", runs), "").await;
    // It is asked where messages are written: what is in force there is what the commit goes by.
    prepared(
        &database,
        &["CREATE CONSTRAINT TRIGGER seen AFTER INSERT ON outbox_queue DEFERRABLE INITIALLY DEFERRED
           FOR EACH ROW EXECUTE FUNCTION seen()"],
    )
    .await;
    let statements = [
        "INSERT INTO odd VALUES ('SELECT set_config(''synchronous_commit'', ''off'', false)')",
        "INSERT INTO odd VALUES ('SELECT set_config(''synchronous_commit'', ''off'', true)')",
        "INSERT INTO odd VALUES ('SET search_path = nowhere')",
        "DECLARE late CURSOR WITH HOLD FOR SELECT public.poison()",
    ];
    for (n, sql) in statements.into_iter().enumerate() {
        assert_eq!(
            posted(&app, &database, &format!("odd_{n}"), sql).await,
            outcome("accepted", "handled"),
            "{sql}"
        );
        for m in 0..3 {
            let id = format!("after_{n}_{m}");
            let found = posted(&app, &database, &id, "INSERT INTO seen SELECT 'ran'").await;
            assert_eq!(found, outcome("accepted", "handled"), "after {sql}");
        }
    }
    app.running.stop().await;
    let odd = "SELECT COUNT(*) FROM seen WHERE said NOT IN ('ran', 'on\"$user\", public')";
    assert_eq!(database.count(odd).await, 0);
    assert!(database.count("SELECT COUNT(*) FROM seen WHERE said <> 'ran'").await > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deferred_rule_that_is_broken_is_its_own_event_s_failure_and_its_warnings_are_no_failure() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    prepared(
        &database,
        &[
            "CREATE TABLE parent (n BIGINT PRIMARY KEY)",
            "CREATE TABLE child (n BIGINT REFERENCES parent (n) DEFERRABLE INITIALLY DEFERRED)",
            "CREATE FUNCTION warns() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             RAISE WARNING 'stock is low'; RETURN NULL; END $$",
            "CREATE CONSTRAINT TRIGGER warns AFTER INSERT ON child DEFERRABLE INITIALLY DEFERRED
             FOR EACH ROW EXECUTE FUNCTION warns()",
        ],
    )
    .await;
    let app = TestApp::start(&database, stripe_kind().on_tx("runs", runs), "").await;
    let whole = "INSERT INTO child VALUES (1); INSERT INTO parent VALUES (1)";
    assert_eq!(posted(&app, &database, "whole", whole).await, outcome("accepted", "handled"));
    let broken = "INSERT INTO child VALUES (2)";
    assert_eq!(posted(&app, &database, "broken", broken).await, outcome("accepted", "retry"));
    app.running.stop().await;
}

/// Writes the child before its parent.
async fn adopts(tx: &mut Tx, event: Event<Json>) -> Handled {
    let id: i64 = event.payload["id"].as_str().unwrap().parse().unwrap();
    for sql in ["INSERT INTO child VALUES ($1)", "INSERT INTO parent VALUES ($1)"] {
        tx.execute(sql, &[id.into()]).await.map_err(anyhow::Error::from)?;
    }
    Ok(Effects::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_deferred_for_each_handler_of_a_transaction() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    prepared(
        &database,
        &[
            "CREATE TABLE parent (n BIGINT PRIMARY KEY)",
            "CREATE TABLE child (n BIGINT REFERENCES parent (n) DEFERRABLE INITIALLY DEFERRED)",
        ],
    )
    .await;
    let spec = include_str!("../../providers/stripe/provider.toml");
    let spec = spec
        .replace("[[event]]", "[[event]]\neach = \"/events\"")
        .replace("payload = \"/data/object\"", "payload = \"\"");
    let app = TestApp::start(&database, Provider::from_spec(&spec).on_tx("*", adopts), "").await;
    let events = r#"{"events":[{"id":"1","type":"x"},{"id":"2","type":"x"},{"id":"3","type":"x"}]}"#;
    assert_eq!(app.post(events).await.1, "accepted");
    app.running.stop().await;
    let handled = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'handled' AND attempts_n = 1";
    assert_eq!(database.count(handled).await, 3);
    assert_eq!(database.count("SELECT COUNT(*) FROM child").await, 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_drops_prepared_statements_costs_its_session_and_not_its_event() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    let app = TestApp::start(&database, stripe_kind().on_tx("runs", runs), "").await;
    for round in 0..3 {
        for (n, sql) in ["DEALLOCATE ALL", "DEALLOCATE ALL; SELECT 1/0", "PREPARE mine AS SELECT 1"]
            .into_iter()
            .enumerate()
        {
            let (said, state) = posted(&app, &database, &format!("drops_{round}_{n}"), sql).await;
            assert_eq!(said, "accepted", "{sql}");
            assert!(["retry", "handled"].contains(&state.as_str()), "{sql}: {state}");
            let after = posted(&app, &database, &format!("after_{round}_{n}"), "SELECT 1").await;
            assert_eq!(after, outcome("accepted", "handled"), "after {sql}");
        }
    }
    app.running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_a_handler_leaves_as_it_was_is_used_again() {
    let Some(database) = Database::create(On::Postgres).await else { return };
    prepared(&database, &["CREATE TABLE who (pid BIGINT)"]).await;
    let app = TestApp::start(&database, stripe_kind().on_tx("runs", runs), "").await;
    for n in 0..6 {
        let sql = "INSERT INTO who SELECT pg_backend_pid()";
        assert_eq!(posted(&app, &database, &format!("evt_{n}"), sql).await, outcome("accepted", "handled"));
    }
    app.running.stop().await;
    assert!(database.count("SELECT COUNT(DISTINCT pid) FROM who").await < 4);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn temporary_tables_that_refer_to_each_other_are_gone_with_their_transaction() {
    let Some(database) = Database::create(On::Sqlite).await else { return };
    let app = TestApp::start(&database, stripe_kind().on_tx("runs", runs), "").await;
    let parent = "CREATE TEMP TABLE p (id INTEGER PRIMARY KEY REFERENCES c (id));";
    let child = "CREATE TEMP TABLE c (id INTEGER PRIMARY KEY REFERENCES p (id));";
    let plain = "CREATE TEMP TABLE p (id INTEGER PRIMARY KEY);";
    let rows = "INSERT INTO p VALUES (1); INSERT INTO c VALUES (1)";
    let deferred = "PRAGMA defer_foreign_keys = ON;";
    let statements = [
        format!("{plain}{child}{rows}"),
        format!("{child}{plain}{deferred}{rows}"),
        format!("{parent}{child}{deferred}{rows}"),
    ];
    for (n, sql) in statements.iter().enumerate() {
        for m in 0..2 {
            let found = posted(&app, &database, &format!("evt_{n}_{m}"), sql).await;
            assert_eq!(found, outcome("accepted", "handled"), "{sql}");
        }
    }
    app.running.stop().await;
}
