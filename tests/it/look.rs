//! What people look at besides events: messages, lanes, destinations, providers, refusals, the backlog. Each route with
//! rows in every state, for every role, and within a token's scope. Every answer is held against the contract.

use std::collections::BTreeSet;

use hooklatch::api::MessageFilter;
use hooklatch::store::{PeopleDoor, PeopleError, Rejection, Store};
use hooklatch::types::{MessageId, MessageState, Name, Principal, Reach, Role};
use serde_json::{Value, json};

use crate::contract::{Answer, Operator};
use crate::database::{Database, on_both};
use crate::process::Server;
use crate::store::name;

on_both!(
    messages_are_listed_by_whatever_they_are_asked_by,
    a_list_of_messages_holds_still_while_rows_arrive,
    one_message_shows_its_answers_to_readers_and_says_so_in_the_audit_log,
    lanes_show_their_heads_and_why_they_do_not_move,
    destinations_are_shown_with_what_waits_whether_they_are_configured_or_not,
    providers_are_shown_with_what_their_senders_need_and_did,
    refused_requests_are_listed_page_by_page_and_their_headers_are_for_readers,
    nothing_out_of_scope_is_there,
);

const TOKENS: [(&str, &str); 2] =
    [("viewer", "viewer-token-0123456789"), ("operator", "operator-token-0123456789")];
/// A configuration that calls nobody: what tests write stays as it is.
const QUIET: &str = "[outbox]\npoll_ms = 60000\n[retention]\nevery_ms = 0\n\
    [destinations.billing]\nurl = \"http://127.0.0.1:9/\"\nconcurrency_n = 3\nrate_per_s = 7\n";

async fn serve(database: &Database) -> Server {
    let mut server = Server::prepare(&database.url, QUIET);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let token = |(role, token): (&str, &str)| {
        format!("{{ name = \"{role}\", role = \"{role}\", token = \"{token}\" }}")
    };
    let tokens = format!("tokens = [{}]\n[database]", TOKENS.map(token).join(", "));
    std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
    server.spawn().await;
    server
}

fn with(server: &Server, role: &str) -> Operator {
    Operator::new(server.admin, TOKENS.iter().find(|(name, _)| *name == role).unwrap().1)
}

async fn run(database: &Database, sql: String) {
    use sqlx::{AssertSqlSafe, Connection, PgConnection, SqliteConnection};
    if database.url.starts_with("sqlite") {
        let mut db = SqliteConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
    } else {
        let mut db = PgConnection::connect(&database.url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut db).await.unwrap();
    }
}

/// An event of `provider` with the number `seq`, received at `seq` seconds, without messages.
async fn add_event(database: &Database, provider: &str, seq: i64, state: &str) {
    let blob = if database.url.starts_with("sqlite") { "zeroblob(32)" } else { "sha256('')" };
    let due = if state == "retry" { "1" } else { "NULL" };
    run(
        database,
        format!(
            "INSERT INTO processed_webhook_events (provider, event_id, event_seq, received_at_ms, attempts_n, shard,
                 event_type, digest, identity, state, due_at_ms)
             VALUES ('{provider}', 'evt_{seq}', {seq}, {seq}000, 1, 0, 'paid', {blob}, 'sender/1', '{state}', {due})"
        ),
    )
    .await;
}

/// The message of the event with this number, in this state; `lane` may be empty.
async fn add_message(database: &Database, seq: i64, state: &str, destination: &str, lane: &str) {
    let id = seq * 1_024;
    let sql = if matches!(state, "done" | "discarded") {
        format!(
            "INSERT INTO outbox_finished (message_id, created_at_ms, first_sent_at_ms, finished_at_ms, attempts_n,
                 generation, shard, state, destination, lane, last_result)
             VALUES ({id}, {seq}000, {seq}001, {seq}002, 2, 0, 0, '{state}', '{destination}', NULLIF('{lane}', ''), 'done')"
        )
    } else {
        let result = if state == "ready" || state == "waiting" { "NULL" } else { "'retry'" };
        format!(
            "INSERT INTO outbox_queue (message_id, visible_at_ms, created_at_ms, leased_at_ms, attempts_n, shard, state,
                 destination, lane, lane_seq, node, last_result)
             VALUES ({id}, {seq}500, {seq}000, {seq}001, 1, 0, '{state}', '{destination}', NULLIF('{lane}', ''),
                 CASE WHEN '{lane}' = '' THEN NULL ELSE {seq} END, 'n', {result})"
        )
    };
    run(database, sql).await;
}

/// Events 1 to 7 of `stripe`, a message to `billing` of each, one in every state; 8 and 9 are of `adyen` and go to
/// `ledger`, which nobody has configured, 9 to `billing` as well.
async fn fill(database: &Database) {
    drop(database.store().await);
    for (seq, state) in (1_i64..).zip(MessageState::ALL) {
        add_event(database, "stripe", seq, "done").await;
        let lane = if *state == MessageState::Waiting { "in_1" } else { "" };
        add_message(database, seq, state.as_str(), "billing", lane).await;
    }
    add_event(database, "adyen", 8, "done").await;
    add_message(database, 8, "dead", "ledger", "").await;
    add_event(database, "adyen", 9, "retry").await;
    add_message(database, 9, "held", "billing", "in_1").await;
}

fn ids(answer: &Answer) -> Vec<i64> {
    assert_eq!(answer.status, 200, "{:#}", answer.body);
    let items = answer.body["items"].as_array().unwrap();
    let id = |one: &Value| one["message_id"].as_str().unwrap().parse::<i64>().unwrap();
    items.iter().map(|one| id(one) / 1_024).collect()
}

async fn messages_are_listed_by_whatever_they_are_asked_by(database: &Database) {
    fill(database).await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let mut cases: Vec<(String, Vec<i64>)> = vec![
        (String::new(), vec![9, 8, 7, 6, 5, 4, 3, 2, 1]),
        ("?limit=2".to_owned(), vec![9, 8]),
        ("?destination=ledger".to_owned(), vec![8]),
        ("?destination=nowhere".to_owned(), vec![]),
        ("?provider=adyen".to_owned(), vec![9, 8]),
        ("?provider=adyen&destination=billing&state=held".to_owned(), vec![9]),
        ("?provider=stripe&state=held".to_owned(), vec![6]),
        ("?lane=in_1".to_owned(), vec![9, 2]),
        ("?lane=in_1&state=waiting".to_owned(), vec![2]),
        ("?lane=in_1&destination=billing&state=held".to_owned(), vec![9]),
        ("?lane=nobody".to_owned(), vec![]),
        ("?created_before_ms=3000".to_owned(), vec![2, 1]),
        ("?created_before_ms=0".to_owned(), vec![]),
        (format!("?created_before_ms=7000&cursor={}", 4 * 1_024), vec![3, 2, 1]),
    ];
    for (seq, state) in (1_i64..).zip(MessageState::ALL) {
        let mut wanted = vec![seq];
        match state {
            MessageState::Held => wanted.insert(0, 9),
            MessageState::Dead => wanted.insert(0, 8),
            _ => {}
        }
        cases.push((format!("?state={state}"), wanted));
    }
    for (query, wanted) in cases {
        let found = viewer.get(&format!("/messages{query}")).await;
        assert_eq!(ids(&found), wanted, "{query}");
        if query.contains("state=") {
            let counted = viewer.get(&format!("/messages/count{query}")).await;
            let want = json!({ "counted_n": wanted.len(), "is_more": false });
            assert_eq!((counted.status, counted.body), (200, want), "{query}");
        }
    }
    let first = viewer.get("/messages?state=done").await.body["items"][0].clone();
    assert_eq!((&first["attempts_n"], &first["finished_at_ms"]), (&json!(2), &json!(4_002)));
    assert_eq!(first["idempotency_key"].as_str().map(str::len), Some(36));
    for wrong in [
        "?state=lost",
        "?limit=0",
        "?destination=A%20B",
        "?cursor=x",
        "?cursor=-1",
        "?created_before_ms=now",
        "?lane=",
        "?before=1",
        "?state=held&state=dead",
        "/count",
        "/count?state=held&limit=1",
        "/count?state=x",
    ] {
        assert_eq!(viewer.get(&format!("/messages{wrong}")).await.status, 400, "{wrong}");
    }
}

async fn a_list_of_messages_holds_still_while_rows_arrive(database: &Database) {
    drop(database.store().await);
    for seq in 1..=20 {
        add_event(database, "stripe", seq, "done").await;
        add_message(database, seq, if seq % 2 == 0 { "held" } else { "done" }, "billing", "").await;
    }
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let mut found = Vec::new();
    let mut query = "/messages?limit=3".to_owned();
    for n in 0.. {
        let page = viewer.get(&query).await;
        found.extend(ids(&page));
        // One more arrives, and one that was held is done.
        add_event(database, "stripe", 100 + n, "done").await;
        add_message(database, 100 + n, "held", "billing", "").await;
        run(database, format!("DELETE FROM outbox_queue WHERE message_id = {}", (20 - 2 * n) * 1_024)).await;
        if n < 10 {
            add_message(database, 20 - 2 * n, "done", "billing", "").await;
        }
        let Some(next) = page.body["next"].as_str() else { break };
        query = format!("/messages?limit=3&cursor={next}");
    }
    assert_eq!(found, (1..=20).rev().collect::<Vec<i64>>(), "each once, in order");
}

async fn one_message_shows_its_answers_to_readers_and_says_so_in_the_audit_log(database: &Database) {
    fill(database).await;
    run(
        database,
        "INSERT INTO outbox_attempts (message_id, attempt_n, started_at_ms, finished_at_ms, http_status, shard, node,
             result, error, response)
         VALUES (4096, 1, 4001, 4002, 503, 0, 'n', 'retry', 'status 503', NULL),
                (4096, 2, 4003, 4004, 200, 0, 'n', 'done', NULL, 'the balance is 5')"
            .to_owned(),
    )
    .await;
    let server = serve(database).await;
    let looked = "SELECT COUNT(*) FROM audit_log WHERE action = 'answer_read'";
    let shown = with(&server, "viewer").get("/messages/4096").await;
    assert_eq!((shown.status, &shown.body["message"]["state"]), (200, &json!("done")));
    let attempts = shown.body["attempts"].as_array().unwrap();
    assert_eq!(attempts.len(), 2);
    assert_eq!((&attempts[0]["attempt_n"], &attempts[0]["http_status"]), (&json!(2), &json!(200)));
    assert_eq!((&attempts[0]["response"], &attempts[1]["error"]), (&Value::Null, &json!("status 503")));
    assert_eq!(database.count(looked).await, 0, "nothing was shown");
    let tag = shown.headers["etag"].to_str().unwrap().to_owned();
    let shown = with(&server, "operator").get("/messages/4096").await;
    assert_eq!(shown.headers["etag"], tag.as_str(), "as long as nothing has changed");
    assert_eq!(shown.body["attempts"][0]["response"], "the balance is 5");
    assert_eq!(shown.body["decisions"][0]["action"], "answer_read", "{:#}", shown.body);
    assert_eq!(shown.body["decisions"][0]["actor"], "operator");
    let held = with(&server, "operator").get("/messages/6144").await;
    assert_ne!(held.headers["etag"], tag.as_str());
    assert_eq!(database.count(looked).await, 1, "a message without kept answers tells nothing");
    for nobody in ["1", "0", "x", "99999999999999999999", "-1024"] {
        assert_eq!(with(&server, "viewer").get(&format!("/messages/{nobody}")).await.status, 404, "{nobody}");
    }
}

async fn lanes_show_their_heads_and_why_they_do_not_move(database: &Database) {
    drop(database.store().await);
    for (seq, state, lane) in [
        (1, "held", "a"),
        (2, "waiting", "a"),
        (3, "dead", "b/ü"),
        (4, "leased", "c"),
        (5, "ready", "d"),
        (6, "waiting", "d"),
        (7, "ready", "e"),
    ] {
        add_event(database, "stripe", seq, "done").await;
        add_message(database, seq, state, "billing", lane).await;
    }
    add_event(database, "stripe", 8, "done").await;
    add_message(database, 8, "ready", "ledger", "a").await;
    run(
        database,
        "UPDATE outbox_queue SET visible_at_ms = 9999999999999 WHERE lane = 'e';
         INSERT INTO destination_pauses (destination, actor, reason, paused_at_ms) VALUES ('ledger', 'ops', 'r', 5)"
            .to_owned(),
    )
    .await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let mut found = Vec::new();
    let mut query = "/lanes?limit=2".to_owned();
    loop {
        let page = viewer.get(&query).await;
        for lane in page.body["items"].as_array().unwrap() {
            let word = |key: &str| lane[key].as_str().unwrap_or("-").to_owned();
            found.push(format!(
                "{} {} {} {}",
                word("destination"),
                word("lane"),
                lane["depth_n"],
                word("blocked_by")
            ));
        }
        let Some(next) = page.body["next"].as_str() else { break };
        query = format!("/lanes?limit=2&cursor={next}");
    }
    let wanted = [
        "billing a 2 held",
        "billing b/ü 1 dead",
        "billing c 1 -",
        "billing d 2 -",
        "billing e 1 backing_off",
        "ledger a 1 paused",
    ];
    assert_eq!(found, wanted);
    let of_one = viewer.get("/lanes?destination=ledger").await.body;
    assert_eq!(of_one["items"][0]["head"]["message_id"], "8192");
    assert_eq!(of_one["items"][0]["since_ms"], 8_000);
    assert_eq!(viewer.get("/lanes?destination=nowhere").await.body["items"], json!([]));
    for wrong in ["?cursor=x", "?destination=A%20B", "?limit=501", "?lane=a"] {
        assert_eq!(viewer.get(&format!("/lanes{wrong}")).await.status, 400, "{wrong}");
    }
}

async fn destinations_are_shown_with_what_waits_whether_they_are_configured_or_not(database: &Database) {
    fill(database).await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let listed = viewer.get("/destinations").await;
    let names: Vec<&str> =
        listed.body["items"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["billing", "ledger"]);
    let shown = viewer.get("/destinations/billing").await;
    let (before, billing) = (shown.headers["etag"].clone(), shown.body);
    assert_eq!(billing, listed.body["items"][0]);
    assert_eq!((&billing["kind"], &billing["breaker"]), (&json!("http"), &json!("closed")));
    assert_eq!((&billing["concurrency_n"], &billing["rate_per_s"]), (&json!(3), &json!(7.0)));
    let backlog: BTreeSet<String> = billing["backlog"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| format!("{} {} {}", one["state"].as_str().unwrap(), one["messages_n"], one["is_more"]))
        .collect();
    let wanted = ["dead 1 false", "held 2 false", "leased 1 false", "ready 1 false", "waiting 1 false"];
    assert_eq!(backlog, wanted.map(str::to_owned).into());
    assert_eq!(billing["oldest_due_at_ms"], 1_500);
    let ledger = viewer.get("/destinations/ledger").await.body;
    assert_eq!((&ledger["is_configured"], &ledger["breaker"]), (&json!(false), &Value::Null));
    assert_eq!(ledger["backlog"][0]["state"], "dead");
    assert_eq!(viewer.get("/destinations/nowhere").await.status, 404);
    assert_eq!(viewer.get("/destinations/A%20B").await.status, 404);
    let pause = json!({ "act": "pause", "reason": "they migrate" });
    let paused = with(&server, "operator").post("/destinations/billing/decide", "k1", &pause).await;
    assert_eq!(paused.status, 200, "{:#}", paused.body);
    let shown = viewer.get("/destinations/billing").await;
    assert_eq!(
        (&shown.body["pause"]["actor"], &shown.body["pause"]["reason"]),
        (&json!("operator"), &json!("they migrate"))
    );
    assert_ne!(shown.headers["etag"], before, "it has changed");

    let waiting = viewer.get("/backlog").await.body;
    assert_eq!(waiting["events"][0]["provider"], "adyen");
    assert_eq!(
        (&waiting["events"][0]["state"], &waiting["events"][0]["is_configured"]),
        (&json!("retry"), &json!(false))
    );
    let messages = waiting["messages"].as_array().unwrap();
    assert_eq!(messages.len(), 6, "{waiting:#}");
    assert_eq!(
        (&messages[5]["destination"], &messages[5]["is_configured"]),
        (&json!("ledger"), &json!(false))
    );
}

async fn providers_are_shown_with_what_their_senders_need_and_did(database: &Database) {
    fill(database).await;
    add_event(database, "stripe", 20, "failed").await;
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    let listed = viewer.get("/providers").await.body;
    let shown = viewer.get("/providers/stripe").await.body;
    assert_eq!(listed["items"], json!([shown]), "configured ones alone");
    assert!(shown["url"].as_str().unwrap().ends_with("/webhooks/stripe"), "{shown}");
    assert_eq!((&shown["kind"], &shown["identity"]), (&json!("stripe"), &json!("sender/1")));
    assert_eq!(shown["last_event"]["event_id"], "evt_20");
    assert_eq!(shown["waiting"][0]["state"], "failed");
    assert_eq!(
        (&shown["waiting"][0]["events_n"], &shown["waiting"][0]["oldest_received_at_ms"]),
        (&json!(1), &json!(20_000))
    );
    assert_eq!((&shown["secrets"][0]["position"], &shown["secrets"][0]["matched_n"]), (&json!(1), &json!(0)));
    for nobody in ["adyen", "nobody", "A%20B"] {
        assert_eq!(viewer.get(&format!("/providers/{nobody}")).await.status, 404, "{nobody}");
    }
    run(
        database,
        "INSERT INTO taught_secrets (provider, secret, taught_at_ms) VALUES ('stripe', 'taught', 5)"
            .to_owned(),
    )
    .await;
    let taught = |role: &'static str| {
        let asking = with(&server, role);
        async move { asking.post("/providers/stripe/taught", "k1", &json!({})).await }
    };
    assert_eq!(taught("viewer").await.status, 403);
    let answer = taught("operator").await;
    assert_eq!((answer.status, &answer.body["secret"]), (200, &json!("taught")));
    assert_eq!(database.count("SELECT COUNT(*) FROM taught_secrets").await, 0);
    assert_eq!(database.count("SELECT COUNT(*) FROM audit_log WHERE action = 'taught_read'").await, 1);
}

fn refusal(n: u32, provider: &str) -> Rejection {
    Rejection {
        rejection_id: format!("0190{n:04}"),
        provider: provider.to_owned(),
        received_at_ms: i64::from(n),
        step: "signature".to_owned(),
        reason: "mismatch".to_owned(),
        detail: "signature matches none of the 1 configured secrets".to_owned(),
        headers: r#"{"user-agent":["Stripe/1.0"]}"#.to_owned(),
        body_digest: "ab".repeat(32),
        body_bytes_n: 7,
    }
}

async fn refused_requests_are_listed_page_by_page_and_their_headers_are_for_readers(database: &Database) {
    let store = database.store().await;
    let all: Vec<Rejection> =
        (0..7).map(|n| refusal(n, if n % 2 == 0 { "stripe" } else { "adyen" })).collect();
    store.rejections_insert(&all).await.unwrap();
    let server = serve(database).await;
    let viewer = with(&server, "viewer");
    for (query, wanted) in
        [("", vec![6, 5, 4, 3, 2, 1, 0]), ("provider=adyen&", vec![5, 3, 1]), ("provider=x&", vec![])]
    {
        let (mut found, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = viewer.get(&format!("/rejected?{query}limit=2{cursor}")).await.body;
            let items = page["items"].as_array().unwrap().clone();
            found.extend(items.iter().map(|one| one["received_at_ms"].as_i64().unwrap()));
            assert!(items.iter().all(|one| one["headers"] == json!({})), "{page:#}");
            let Some(next) = page["next"].as_str() else { break };
            cursor = format!("&cursor={next}");
        }
        assert_eq!(found, wanted, "{query}");
    }
    let told = with(&server, "operator").get("/rejected?limit=1").await.body;
    assert_eq!(told["items"][0]["headers"]["user-agent"], json!(["Stripe/1.0"]));
    assert_eq!(told["items"][0]["body_digest"], "ab".repeat(32));
    for wrong in ["?cursor=", "?cursor=%00", "?provider=A", "?limit=x"] {
        assert_eq!(viewer.get(&format!("/rejected{wrong}")).await.status, 400, "{wrong}");
    }
}

/// Somebody whose word reaches these alone.
fn somebody(role: Role, providers: &[&str], destinations: &[&str]) -> Principal {
    let reach = |names: &[&str]| {
        if names.is_empty() {
            Reach::All
        } else {
            Reach::These(names.iter().map(|text| name(text)).collect())
        }
    };
    Principal { name: name("somebody"), role, providers: reach(providers), destinations: reach(destinations) }
}

async fn seen(store: &Store, principal: &Principal, filter: MessageFilter) -> Vec<i64> {
    let people = PeopleDoor::new(store.clone()).open(principal.clone());
    let page = people.messages(filter.clone(), None, 50).await.unwrap();
    if filter.state.is_some() {
        let counted = people.messages_count(filter).await.unwrap();
        assert_eq!(counted.counted_n, page.items.len() as u64);
    }
    page.items.iter().map(|one| one.message_id.event_seq()).collect()
}

async fn nothing_out_of_scope_is_there(database: &Database) {
    fill(database).await;
    let store = database.store().await;
    store.rejections_insert(&[refusal(1, "stripe"), refusal(2, "adyen")]).await.unwrap();
    let held = MessageFilter { state: Some(MessageState::Held), ..MessageFilter::default() };
    let to = |destination: &str| MessageFilter {
        destination: Some(destination.to_owned()),
        ..MessageFilter::default()
    };
    let all = MessageFilter::default;
    for (providers, destinations, filter, wanted) in [
        (&["adyen"][..], &[][..], all(), vec![9, 8]),
        (&[], &["ledger"], all(), vec![8]),
        (&["stripe"], &["ledger"], all(), vec![]),
        (&["adyen"], &[], held.clone(), vec![9]),
        (&[], &["ledger"], held.clone(), vec![]),
        (&[], &["ledger"], to("billing"), vec![]),
        (&["adyen"], &["billing"], to("billing"), vec![9]),
    ] {
        let principal = somebody(Role::Admin, providers, destinations);
        assert_eq!(seen(&store, &principal, filter).await, wanted, "{principal:?}");
    }
    let open = |providers: &[&str], destinations: &[&str]| {
        PeopleDoor::new(store.clone()).open(somebody(Role::Operator, providers, destinations))
    };
    let is_gone = |answer: Result<(), PeopleError>| matches!(answer, Err(PeopleError::NotFound));
    let id = MessageId::from_column(9 * 1_024);
    assert!(open(&["adyen"], &["billing"]).message(id, 1).await.is_ok());
    assert!(is_gone(open(&["stripe"], &[]).message(id, 1).await.map(drop)));
    assert!(is_gone(open(&[], &["ledger"]).message(id, 1).await.map(drop)));
    assert!(is_gone(open(&[], &["ledger"]).destination(&name("billing"), true, 1).await.map(drop)));
    assert!(is_gone(open(&["adyen"], &[]).take_taught(&name("stripe"), 1).await.map(drop)));
    let configured = BTreeSet::from([name("billing")]);
    let standings = open(&[], &["ledger"]).destinations(&configured, 1).await.unwrap();
    assert_eq!(standings.iter().map(|one| one.name.as_str()).collect::<Vec<_>>(), ["ledger"]);
    let stripe = open(&["stripe"], &[]);
    assert!(stripe.waiting_events().await.unwrap().is_empty());
    let both: BTreeSet<Name> = ["adyen", "stripe"].map(name).into();
    let shown = stripe.providers(both).await.unwrap();
    assert_eq!(shown.into_keys().collect::<Vec<_>>(), [name("stripe")]);
    let refused =
        async |provider: Option<&Name>| stripe.rejected(provider, None, 9).await.unwrap().items.len();
    assert_eq!((refused(None).await, refused(Some(&name("adyen"))).await), (1, 0));
    let lanes = async |providers: &[&str], destinations: &[&str]| {
        open(providers, destinations).lanes(None, None, 9, 1).await.unwrap().0.items.len()
    };
    // The head of the only lane is of stripe.
    assert_eq!((lanes(&["stripe"], &[]).await, lanes(&["adyen"], &[]).await), (1, 0));
    assert_eq!((lanes(&[], &["billing"]).await, lanes(&[], &["ledger"]).await), (1, 0));
    let viewer = PeopleDoor::new(store.clone()).open(somebody(Role::Viewer, &[], &[]));
    let denied = viewer.take_taught(&name("stripe"), 1).await.map(drop);
    assert!(matches!(denied, Err(PeopleError::Denied(Role::Operator))), "{denied:?}");
}
