//! What-if: handlers that are not yet deployed, on events that are stored. Whatever they do, nothing is written.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hooklatch::prelude::*;
use serde_json::{Value as Json, json};

use crate::access::tables;
use crate::app::{TestApp, event_body, stripe_kind};
use crate::contract::Operator;
use crate::database::{Database, On, on_both};
use crate::process::{Server, client, post_stripe, until};

on_both!(
    what_would_follow_is_compared_with_what_was_committed_and_nothing_is_written,
    failed_handlers_are_ledger_entries_and_their_writes_are_rolled_back,
    what_if_uses_the_age_of_an_event_at_its_arrival,
    what_if_explains_what_it_cannot_run_and_hides_what_is_out_of_scope,
    what_if_answers_for_many_events_page_by_page_and_audits_each,
    the_command_shows_before_a_deploy_what_would_change,
);

const TOKEN: &str = "operator-token-0123456789";
const NARROW: &str = "narrow-token-0123456789";
/// Tokens behind whatever stands in `[providers.stripe]`.
const TOKENS: &str = "[[admin.tokens]]\nname = \"ops\"\nrole = \"operator\"\ntoken = \"operator-token-0123456789\"\n\
    [[admin.tokens]]\nname = \"narrow\"\nrole = \"operator\"\ntoken = \"narrow-token-0123456789\"\n\
    destinations = [\"elsewhere\"]\n";

/// Sends events of these types to the handlers of `kind`, each with its type as its id, and stops.
async fn commit(database: &Database, kind: Provider, types: &[&str], messages_n: i64) {
    let app = TestApp::start(database, kind, "").await;
    for event_type in types {
        assert_eq!(app.event(event_type, event_type, 1).await, "accepted", "{event_type}");
    }
    until("all is sent", Duration::from_secs(20), String::new, async || {
        database.count("SELECT COUNT(*) FROM outbox_finished").await == messages_n
    })
    .await;
    app.running.stop().await;
}

/// The app that would be deployed, and an operator who queries it.
async fn next(database: &Database, kind: Provider) -> (TestApp, Operator) {
    let app = TestApp::start(database, kind, TOKENS).await;
    let operator = Operator::new(app.running.admin_addr, TOKEN);
    (app, operator)
}

async fn ask(operator: &Operator, event_id: &str) -> Json {
    let answer = operator.ask("POST", &format!("/events/stripe/{event_id}/what-if"), &[], None).await;
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    answer.body["items"][0].clone()
}

/// The content of every table, except what records the reader.
async fn kept(database: &Database) -> Vec<(String, String)> {
    let all = tables(database).await.into_iter();
    // What a node records about itself from time to time.
    let own = ["nodes", "provider_rhythms"];
    all.filter(|(name, _)| !name.starts_with("audit_") && !own.contains(&name.as_str())).collect()
}

/// The numbers that admission counts by.
async fn counted(app: &TestApp) -> Vec<String> {
    let url = format!("http://{}/metrics", app.running.admin_addr);
    let text = client().get(url).send().await.unwrap().text().await.unwrap();
    let names = [
        "hooklatch_dispatch",
        "hooklatch_panics",
        "hooklatch_batch",
        "hooklatch_admit",
        "hooklatch_requests",
    ];
    let counted = text.lines().filter(|line| names.iter().any(|name| line.starts_with(name)));
    // Their order is not guaranteed.
    let mut counted: Vec<String> = counted.map(str::to_owned).collect();
    counted.sort();
    counted
}

fn call(amount: i64) -> Effects {
    Effects::new().call("billing", json!({ "amount": amount }))
}

async fn what_would_follow_is_compared_with_what_was_committed_and_nothing_is_written(database: &Database) {
    let before = stripe_kind()
        .on("same", |_: Event<Json>| Ok(call(1)))
        .on("other", |_: Event<Json>| Ok(call(1)))
        .on("gone", |_: Event<Json>| Ok(call(1)))
        .on("new", |_: Event<Json>| ignore("not yet"))
        .on("quiet", |_: Event<Json>| ignore("one reason"))
        .on("forward", |_: Event<Json>| Ok(Effects::new().forward("billing")));
    commit(database, before, &["same", "other", "gone", "new", "quiet", "forward"], 4).await;
    let after = stripe_kind()
        .on("same", |_: Event<Json>| Ok(call(1)))
        .on("other", |event: Event<Json>| {
            let message = Message::to("billing")
                .json(json!({ "amount": event.payload["amount_paid"], "n": event.attempt_n }));
            Ok(Effects::new().message(message.lane("customer")))
        })
        .on("gone", |_: Event<Json>| ignore("no longer"))
        .on("new", |_: Event<Json>| Ok(call(1).message(Message::to("billing").named("second"))))
        .on("quiet", |_: Event<Json>| ignore("another reason"))
        .on("forward", |_: Event<Json>| Ok(Effects::new().forward("billing")));
    let (app, operator) = next(database, after).await;
    let (rows, numbers) = (kept(database).await, counted(&app).await);
    for (id, verdict, said, changes) in [
        ("same", "unchanged", "handled", &["same"][..]),
        ("other", "changed", "handled", &["other"]),
        ("gone", "changed", "ignored", &["gone"]),
        ("new", "changed", "handled", &["new", "new"]),
        ("quiet", "unchanged", "ignored", &[]),
        ("forward", "unchanged", "handled", &["same"]),
    ] {
        let event = ask(&operator, id).await;
        assert_eq!((&event["verdict"], &event["said"]), (&json!(verdict), &json!(said)), "{event:#}");
        let effects = event["effects"].as_array().unwrap();
        let found: Vec<_> = effects.iter().map(|effect| effect["change"].as_str().unwrap()).collect();
        assert_eq!(found, changes, "{event:#}");
        for effect in effects.iter().filter(|effect| effect["change"] != "new") {
            let key = effect["idempotency_key"].as_str().unwrap();
            assert!(database.call_keys().await.iter().any(|one| one == key), "{event:#}");
        }
    }
    let other = &ask(&operator, "other").await["effects"][0];
    assert_eq!(other["fields"], json!(["lane", "body"]));
    assert_eq!(other["was"]["body"], r#"{"amount":1}"#);
    assert_eq!(
        (&other["now"]["body"], &other["now"]["lane"]),
        (&json!(r#"{"amount":1,"n":1}"#), &json!("customer"))
    );
    assert_eq!(ask(&operator, "gone").await["why"], "no longer");
    assert_eq!((kept(database).await, counted(&app).await), (rows, numbers), "nothing is written or counted");
    app.running.stop().await;
}

async fn books(tx: &mut Tx, event: Event<Json>) -> Handled {
    write(tx, &event.id).await?;
    Ok(Effects::new().forward("billing"))
}

async fn books_more(tx: &mut Tx, event: Event<Json>) -> Handled {
    write(tx, &format!("{} again", event.id)).await?;
    Ok(Effects::new().forward("billing"))
}

async fn commits(tx: &mut Tx, _: Event<Json>) -> Handled {
    write(tx, "before a commit").await?;
    drop(tx.execute("COMMIT", &[]).await);
    drop(write(tx, "after a commit").await);
    Ok(Effects::new())
}

async fn rolls_back(tx: &mut Tx, _: Event<Json>) -> Handled {
    drop(tx.execute("ROLLBACK", &[]).await);
    drop(write(tx, "after a rollback").await);
    drop(tx.batch("BEGIN; INSERT INTO ledger (line) VALUES ('begun'); COMMIT").await);
    Ok(Effects::new())
}

async fn never_ends(tx: &mut Tx, _: Event<Json>) -> Handled {
    write(tx, "never ended").await?;
    std::future::pending().await
}

async fn panics(tx: &mut Tx, _: Event<Json>) -> Handled {
    write(tx, "panicked").await?;
    panic!("as it may")
}

async fn write(tx: &mut Tx, line: &str) -> Result<(), HandlerError> {
    let sql = "INSERT INTO ledger (line) VALUES ($1)";
    Ok(tx.execute(sql, &[line.into()]).await.map(drop).map_err(anyhow::Error::from)?)
}

/// Frees the thread however the test ends.
struct Release(Arc<AtomicBool>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

async fn failed_handlers_are_ledger_entries_and_their_writes_are_rolled_back(database: &Database) {
    drop(database.store().await);
    database.run("CREATE TABLE ledger (line TEXT PRIMARY KEY)").await.unwrap();
    let types = [
        "books", "more", "commits", "rolls", "pending", "panics", "retry", "refuse", "payload", "plain",
        "blocks",
    ];
    let before = stripe_kind().on_tx("books", books).on_tx("more", books);
    commit(database, before, &types, 2).await;
    let release = Release(Arc::default());
    let is_released = Arc::clone(&release.0);
    let after = stripe_kind()
        .on_tx("books", books)
        .on_tx("more", books_more)
        .on_tx("commits", commits)
        .on_tx("rolls", rolls_back)
        .on_tx("pending", never_ends)
        .on_tx("panics", panics)
        .on("retry", |_: Event<Json>| Err(anyhow::anyhow!("away").into()))
        .on("refuse", |_: Event<Json>| refuse("not ours"))
        .on("payload", |_: Event<String>| Ok(Effects::new()))
        .on("plain", |_: Event<Json>| -> Handled { panic!("as it may") })
        .on("blocks", move |_: Event<Json>| {
            while !is_released.load(Ordering::SeqCst) {
                std::thread::park_timeout(Duration::from_millis(20));
            }
            Ok(Effects::new())
        });
    let (app, operator) = next(database, after).await;
    let (rows, numbers) = (kept(database).await, counted(&app).await);
    for (id, said, why) in [
        // It meets what it wrote itself.
        ("books", "retry", ""),
        ("more", "handled", ""),
        ("commits", "retry", "transaction"),
        ("rolls", "retry", "transaction"),
        ("pending", "took_too_long", "longer than 2s"),
        ("panics", "panicked", "as it may"),
        ("retry", "retry", "away"),
        ("refuse", "refused", "not ours"),
        ("payload", "refused", "payload does not fit"),
        ("plain", "panicked", "as it may"),
        ("blocks", "took_too_long", "still runs"),
    ] {
        let event = ask(&operator, id).await;
        assert_eq!(event["said"], said, "{event:#}");
        assert!(event["why"].as_str().unwrap_or_default().contains(why), "{event:#}");
    }
    let more = ask(&operator, "more").await;
    assert_eq!(
        (&more["verdict"], &more["is_transactional"]),
        (&json!("unchanged"), &json!(true)),
        "{more:#}"
    );
    let answer = operator.ask("POST", "/events/stripe/more/what-if", &[], None).await;
    assert_eq!(answer.body["not_undone"].as_array().unwrap().len(), 4);
    drop(release);
    let lines = database.texts("SELECT line FROM ledger ORDER BY line").await;
    assert_eq!(lines, ["books", "more"], "what was there before");
    assert_eq!((kept(database).await, counted(&app).await), (rows, numbers));
    // Admission goes on with the same connections.
    assert_eq!(app.event("evt_after", "more", 1).await, "accepted");
    assert_eq!(database.count("SELECT COUNT(*) FROM ledger WHERE line = 'evt_after again'").await, 1);
    app.running.stop().await;
}

fn versioned() -> Provider {
    let spec = include_str!("../../providers/stripe/provider.toml").replace(
        "payload = \"/data/object\"",
        "payload = \"/data/object\"\nobject = [{ json = \"/object\" }]\nversion = { json = \"/version\" }",
    );
    let spec: &'static str = spec.leak();
    Provider::from_spec(spec).on_latest("order.*", |_: Event<Json>| Ok(call(1)))
}

async fn what_if_uses_the_age_of_an_event_at_its_arrival(database: &Database) {
    let app = TestApp::start(database, versioned(), "").await;
    for (id, version) in [("first", 1), ("third", 3), ("second", 2)] {
        let body = format!(
            r#"{{"id":"{id}","type":"order.x","object":"o","version":{version},"data":{{"object":{{}}}}}}"#
        );
        assert_eq!(app.post(&body).await.0, 200);
    }
    app.running.stop().await;
    let (app, operator) = next(database, versioned()).await;
    for (id, state, said, taken_as) in [
        // A newer one arrived later: at its own arrival, it was the newest.
        ("first", "handled", "handled", "newest"),
        ("third", "handled", "handled", "newest"),
        ("second", "superseded", "superseded", "stale"),
    ] {
        let event = ask(&operator, id).await;
        let found =
            ["state", "said", "taken_as", "verdict"].map(|name| event[name].as_str().unwrap_or_default());
        assert_eq!(found, [state, said, taken_as, "unchanged"], "{event:#}");
    }
    app.running.stop().await;
}

async fn what_if_explains_what_it_cannot_run_and_hides_what_is_out_of_scope(database: &Database) {
    let kind = || stripe_kind().on("paid", |_: Event<Json>| Ok(call(1)));
    let app = TestApp::start(database, kind(), "").await;
    for body in [
        event_body("kept", "paid", 1),
        event_body("kept", "paid", 2),
        event_body("pruned", "paid", 1),
        "no JSON".to_owned(),
        event_body("sealed", "paid", 1),
    ] {
        app.post(&body).await;
    }
    until("all is sent", Duration::from_secs(20), String::new, async || {
        database.count("SELECT COUNT(*) FROM outbox_finished").await == 3
    })
    .await;
    app.running.stop().await;
    let of = |id: &str| format!("(SELECT event_seq FROM processed_webhook_events WHERE event_id = '{id}')");
    database.run(&format!("DELETE FROM webhook_payloads WHERE event_seq = {}", of("pruned"))).await.unwrap();
    let sealed = format!("UPDATE webhook_payloads SET key_id = 'lost' WHERE event_seq = {}", of("sealed"));
    database.run(&sealed).await.unwrap();
    let (app, operator) = next(database, kind()).await;
    let conflict =
        database.texts("SELECT event_id FROM processed_webhook_events WHERE state = 'conflict'").await;
    let unreadable =
        database.texts("SELECT event_id FROM processed_webhook_events WHERE state = 'unreadable'").await;
    for (id, why) in [
        ("pruned", "no longer kept"),
        ("sealed", "`lost`"),
        (conflict[0].as_str(), "other content"),
        (unreadable[0].as_str(), "cannot be read"),
    ] {
        let event = ask(&operator, id).await;
        assert_eq!((&event["verdict"], &event["effects"]), (&json!("not_run"), &json!([])), "{event:#}");
        assert!(event["why"].as_str().unwrap().contains(why), "{event:#}");
    }
    let narrow = Operator::new(app.running.admin_addr, NARROW);
    let event = ask(&narrow, "kept").await;
    assert_eq!((&event["effects"], &event["hidden_effects_n"]), (&json!([]), &json!(1)), "{event:#}");
    for path in ["/events/stripe/absent/what-if", "/events/acme/kept/what-if"] {
        assert_eq!(operator.ask("POST", path, &[], None).await.status, 404);
    }
    app.running.stop().await;
}

async fn what_if_answers_for_many_events_page_by_page_and_audits_each(database: &Database) {
    let types = ["a", "b", "c", "d", "e"];
    commit(database, stripe_kind().on("*", |_: Event<Json>| Ok(call(1))), &types, 5).await;
    let after = stripe_kind().on("*", |event: Event<Json>| Ok(call(i64::from(event.id == "b"))));
    let (app, operator) = next(database, after).await;
    let mut order = json!({ "filter": { "provider": "stripe" }, "limit": 2 });
    let mut seen = Vec::new();
    loop {
        let answer = operator.ask("POST", "/what-if", &[], Some(order.to_string())).await;
        assert_eq!(answer.status, 200, "{:#}", answer.body);
        for event in answer.body["items"].as_array().unwrap() {
            let verdict = event["verdict"].as_str().unwrap();
            seen.push(format!("{} {verdict}", event["event_id"].as_str().unwrap()));
        }
        let Some(next) = answer.body["next"].as_str() else { break };
        order["cursor"] = json!(next);
    }
    assert_eq!(seen, ["e changed", "d changed", "c changed", "b unchanged", "a changed"]);
    let audited =
        "SELECT event_id FROM audit_log WHERE action = 'what_if' AND actor = 'ops' ORDER BY audit_seq";
    assert_eq!(database.texts(audited).await, ["e", "d", "c", "b", "a"]);
    let filtered = json!({ "filter": { "state": "handled", "type": "c" } });
    let answer = operator.ask("POST", "/what-if", &[], Some(filtered.to_string())).await;
    assert_eq!((&answer.body["changed_n"], &answer.body["unchanged_n"]), (&json!(1), &json!(0)));
    app.running.stop().await;
}

async fn the_command_shows_before_a_deploy_what_would_change(database: &Database) {
    let database = &Database::empty(database.on()).await.unwrap();
    let routes = |lane: &str| {
        format!(
            "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n{lane}\
             [destinations.billing]\nurl = \"http://127.0.0.1:9/\"\n"
        )
    };
    let mut server = Server::prepare(&database.url, &format!("{}{TOKENS}", routes("")));
    let run = |server: &Server, arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        let output =
            command.arg("--config").arg(server.config()).arg("what-if").args(arguments).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout) + &text(output.stderr))
    };
    let (code, said) = run(&server, &[]);
    let missing = match database.on() {
        On::Sqlite => "there is no database `",
        On::Postgres => "schema of the database is",
    };
    assert!(code == Some(1) && said.contains(missing), "{said}");
    server.spawn().await;
    for id in ["evt_1", "evt_2"] {
        post_stripe(&client(), &server.url("/webhooks/stripe"), id).await.unwrap();
    }
    if database.url.starts_with("sqlite") {
        let (code, said) = run(&server, &[]);
        assert!(code == Some(1) && said.contains("`hooklatch what-if --live` asks the server"), "{said}");
    }
    // The server's own handlers, beside which the database cannot be opened.
    let (code, said) = run(&server, &["--live", "--provider", "stripe"]);
    assert!(code == Some(0) && said.contains("2 events: 2 unchanged, 0 changed"), "{said}");
    let (code, said) = run(&server, &["--live", "--json", "stripe", "evt_1"]);
    let report: Json = serde_json::from_str(said.trim()).unwrap();
    assert_eq!((code, &report["unchanged_n"]), (Some(0), &json!(1)));
    let (code, said) = run(&server, &["--live", "stripe", "absent"]);
    assert!(code == Some(3) && said.contains("there is no event `absent`"), "{said}");
    server.kill();
    let rows = tables(database).await;
    let (code, said) = run(&server, &[]);
    assert!(code == Some(0) && said.contains("2 events: 2 unchanged, 0 changed"), "{said}");
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config.replace(&routes(""), &routes("lane = \"/id\"\n"))).unwrap();
    let (code, said) = run(&server, &["stripe", "evt_1"]);
    assert!(code == Some(1) && said.contains("other") && said.contains("lane"), "{said}");
    let (code, said) = run(&server, &["--provider", "stripe", "--limit", "1", "--json"]);
    let report: Json = serde_json::from_str(said.trim()).unwrap();
    assert_eq!((code, &report["changed_n"], report["next"].is_string()), (Some(1), &json!(1), true));
    assert_eq!(run(&server, &["stripe", "absent"]).0, Some(3));
    assert_eq!(run(&server, &["stripe", "evt_1", "--type", "x"]).0, Some(2));
    assert_eq!(tables(database).await, rows, "not even the audit log");
}
