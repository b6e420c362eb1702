//! SIGHUP: the configuration is read again, as a whole or not at all, without effect on unchanged parts.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use crate::database::{Database, On, on_both};
use crate::process::{SECRET, Server, client, now_s, post_stripe, stripe_signed, until};
use crate::stub::{Mode, Stub};

on_both!(
    a_reload_puts_secrets_routes_destinations_and_tokens_in_force,
    a_reload_that_fails_changes_nothing_and_says_why,
    a_provider_or_destination_that_something_waits_for_is_not_removed,
    activity_counts_are_kept_over_a_reload_that_removes_a_provider,
    reloads_under_load_refuse_no_event_and_make_each_call_once,
);

const NEW_SECRET: &str = "whsec_the_next_one_0123456789";
const TOKENS: [&str; 2] = ["ann-0123456789abcdef", "bob-0123456789abcdef"];

/// A server whose secret stands in a file, with two tokens, and `more`.
async fn started(database: &Database, more: &str) -> Server {
    let mut server = Server::prepare(&database.url, more);
    put(&server, "secret", SECRET);
    let token =
        |name: &str, text: &str| format!("{{ name = \"{name}\", role = \"admin\", token = \"{text}\" }}");
    let tokens = format!("tokens = [{}, {}]\n[database]", token("ann", TOKENS[0]), token("bob", TOKENS[1]));
    edit(&server, "[database]", &tokens);
    edit(&server, "filter = \"warn\"", "filter = \"info\"");
    edit(&server, &format!("[\"{SECRET}\"]"), "[{ file = \"secret\" }]");
    server.start_after("export FROM_ENV=whsec_from_a_variable_0123456789");
    server.spawn().await;
    server
}

/// Writes a file beside the configuration.
fn put(server: &Server, name: &str, text: &str) {
    std::fs::write(server.config().with_file_name(name), text).unwrap();
}

/// Changes the configuration file.
fn edit(server: &Server, from: &str, to: &str) {
    let config = std::fs::read_to_string(server.config()).unwrap();
    assert!(config.contains(from), "{from}: {config}");
    std::fs::write(server.config(), config.replace(from, to)).unwrap();
}

fn hang_up(process_id: u32) {
    assert!(Command::new("kill").args(["-HUP", &process_id.to_string()]).status().unwrap().success());
}

/// Lines about reloads.
fn lines(server: &Server) -> Vec<String> {
    let log = server.log();
    let is_one = |line: &&str| {
        line.contains("reloaded the configuration") || line.contains("did not reload the configuration")
    };
    log.lines().filter(is_one).map(str::to_owned).collect()
}

/// Reloads; the line about it.
async fn reload(server: &Server) -> String {
    let before_n = lines(server).len();
    hang_up(server.process_id());
    until("a line", Duration::from_secs(20), || server.log(), async || lines(server).len() > before_n).await;
    lines(server).pop().unwrap()
}

/// Sends one event; the status of the answer.
async fn sent(server: &Server, provider: &str, id: &str, secret: &str) -> u16 {
    let body = format!(r#"{{"id":"{id}","type":"invoice.paid"}}"#);
    let request = client().post(server.url(&format!("/webhooks/{provider}")));
    let signed = request.header("stripe-signature", stripe_signed(&body, secret, now_s()));
    signed.body(body).send().await.unwrap().status().as_u16()
}

/// The answer of the operators' API to a token.
async fn asked(server: &Server, path: &str, token: &str) -> (u16, String) {
    let request = client().get(format!("http://{}{path}", server.admin)).bearer_auth(token);
    let response = request.send().await.unwrap();
    (response.status().as_u16(), response.text().await.unwrap())
}

async fn a_reload_puts_secrets_routes_destinations_and_tokens_in_force(database: &Database) {
    let (first, second) = (Stub::start().await, Stub::start().await);
    let more = format!(
        "routes = [{{ on = [\"invoice.paid\"], to = \"billing\" }}]\n\
         [destinations.billing]\nurl = \"{}\"\nunknown = \"retry\"\nsign_secret = {{ env = \"FROM_ENV\" }}\n",
        first.url()
    );
    let mut server = started(database, &more).await;
    let called = async |stub: &Stub, n: u32| {
        let log = || server.log();
        until("it is called", Duration::from_secs(10), log, async || stub.requests_n() == n).await;
    };
    assert_eq!(sent(&server, "stripe", "evt_1", SECRET).await, 200);
    called(&first, 1).await;
    let nothing = reload(&server).await;
    assert!(nothing.contains("nothing has changed"), "{nothing}");

    put(&server, "secret", NEW_SECRET);
    let line = reload(&server).await;
    assert!(line.contains("INFO") && line.contains("providers.stripe.secrets[0]"), "{line}");
    assert!(line.contains("destinations.billing.sign_secret (variable FROM_ENV)"), "not read again: {line}");
    assert!(!line.contains("whsec"), "{line}");
    assert_eq!(sent(&server, "stripe", "evt_2", SECRET).await, 401);
    assert_eq!(sent(&server, "stripe", "evt_2", NEW_SECRET).await, 200);
    called(&first, 2).await;

    edit(&server, &first.url(), &second.url());
    let line = reload(&server).await;
    assert!(line.contains("\"changed\":\"destinations.billing.url\""), "{line}");
    assert_eq!(sent(&server, "stripe", "evt_3", NEW_SECRET).await, 200);
    called(&second, 1).await;
    assert_eq!(first.requests_n(), 2);

    // A new destination with a new route to it, and a new provider.
    edit(
        &server,
        "[destinations.billing]",
        &format!(
            "[providers.shop]\nkind = \"stripe\"\nsecrets = [{{ file = \"secret\" }}]\n\
             routes = [{{ on = [\"*\"], to = \"ledger\" }}]\n\
             [destinations.ledger]\nurl = \"{}\"\nunknown = \"retry\"\n[destinations.billing]",
            first.url()
        ),
    );
    assert_eq!(sent(&server, "shop", "evt_4", NEW_SECRET).await, 404);
    reload(&server).await;
    assert_eq!(sent(&server, "shop", "evt_4", NEW_SECRET).await, 200);
    called(&first, 3).await;
    let (status, providers) = asked(&server, "/v1/providers", TOKENS[0]).await;
    assert!(status == 200 && providers.contains("\"shop\""), "{providers}");

    // Bob leaves.
    let (status, _) = asked(&server, "/v1/providers", TOKENS[1]).await;
    assert_eq!(status, 200);
    edit(&server, &format!(", {{ name = \"bob\", role = \"admin\", token = \"{}\" }}", TOKENS[1]), "");
    reload(&server).await;
    assert_eq!(asked(&server, "/v1/providers", TOKENS[1]).await.0, 401);
    assert_eq!(asked(&server, "/v1/providers", TOKENS[0]).await.0, 200);

    // What nothing waits for may go, and what was counted of the others is counted on.
    edit(
        &server,
        "[providers.shop]\nkind = \"stripe\"\nsecrets = [{ file = \"secret\" }]\n",
        "[providers.till]\nkind = \"stripe\"\nsecrets = [{ file = \"secret\" }]\n",
    );
    reload(&server).await;
    assert_eq!(sent(&server, "shop", "evt_5", NEW_SECRET).await, 404);
    let metrics = server.admin_text("/metrics").await;
    assert!(
        metrics.contains("hooklatch_requests_total{provider=\"stripe\",outcome=\"accepted\"} 3"),
        "{metrics}"
    );
    assert!(metrics.contains("hooklatch_reload_failed 0"), "{metrics}");
    assert!(server.terminate(), "in order");
}

async fn a_reload_that_fails_changes_nothing_and_says_why(database: &Database) {
    let mut server = started(database, "").await;
    let good = std::fs::read_to_string(server.config()).unwrap();
    for (from, to, wants) in [
        ("[providers.stripe]", "[providers.stripe]\nkindd = \"stripe\"", &["kindd", "hooklatch.toml"][..]),
        ("file = \"secret\"", "file = \"nowhere\"", &["providers.stripe.secrets[0]", "nowhere"]),
        ("header_timeout_ms = 2000", "header_timeout_ms = 3000", &["server.header_timeout_ms", "restart"]),
        ("[providers.stripe]", "[providers.stripe", &["hooklatch.toml"]),
    ] {
        // A change that would do stands beside it.
        std::fs::write(server.config(), &good).unwrap();
        edit(&server, from, to);
        edit(&server, TOKENS[1], "bobs-next-0123456789abcdef");
        let line = reload(&server).await;
        let is_complete = wants.iter().all(|want| line.contains(want));
        assert!(
            is_complete && line.contains("ERROR") && line.contains("everything goes on as before"),
            "{line}"
        );
        assert_eq!(asked(&server, "/v1/providers", TOKENS[1]).await.0, 200, "whole or not at all");
        assert_eq!(sent(&server, "stripe", &format!("evt_{}", wants[0]), SECRET).await, 200);
        assert!(server.admin_text("/metrics").await.contains("hooklatch_reload_failed 1"));
    }
    std::fs::write(server.config(), &good).unwrap();
    assert!(reload(&server).await.contains("nothing has changed"));
    assert!(server.admin_text("/metrics").await.contains("hooklatch_reload_failed 0"));
    assert!(server.terminate(), "in order");
}

async fn a_provider_or_destination_that_something_waits_for_is_not_removed(database: &Database) {
    database.store().await.close().await;
    let paused = "INSERT INTO provider_pauses (provider, actor, reason, paused_at_ms)
        VALUES ('till', 'ann', 'a bad deploy', 1)";
    database.run(paused).await.unwrap();
    let stub = Stub::start().await;
    // The wait before the next attempt is drawn, and may be short.
    stub.next(&vec![Mode::Status(503); 64]);
    let till = "[providers.till]\nkind = \"stripe\"\nsecrets = [{ file = \"secret\" }]\nroutes = [{ on = [\"*\"], to = \"ledger\" }]\n";
    let route = "routes = [{ on = [\"*\"], to = \"billing\" }]\n";
    let billing = format!(
        "[destinations.billing]\nurl = \"{}\"\nunknown = \"retry\"\nretry = {{ first_ms = 60000 }}\n",
        stub.url()
    );
    let ledger = format!("[destinations.ledger]\nurl = \"{}\"\nunknown = \"retry\"\n", stub.url());
    let mut server = started(database, &format!("{route}{till}{billing}{ledger}")).await;
    for provider in ["stripe", "till"] {
        assert_eq!(sent(&server, provider, "evt_1", SECRET).await, 200);
    }
    let waits = "SELECT COUNT(*) FROM outbox_queue WHERE state = 'ready' AND attempts_n > 0";
    let log = || server.log();
    until("the message waits", Duration::from_secs(10), log, async || database.count(waits).await == 1).await;
    let good = std::fs::read_to_string(server.config()).unwrap();
    for (gone, wants) in [
        (vec![till], "providers.till was removed and has 1 waiting event"),
        (vec![route, &billing], "destinations.billing was removed and has 1 open message"),
    ] {
        std::fs::write(server.config(), &good).unwrap();
        for gone in gone {
            edit(&server, gone, "");
        }
        let line = reload(&server).await;
        assert!(line.contains("ERROR") && line.contains(wants), "{line}");
        assert_eq!(sent(&server, "till", &format!("evt_{}", fastrand::u32(..)), SECRET).await, 200);
        database
            .run("DELETE FROM processed_webhook_events WHERE provider = 'till' AND event_id <> 'evt_1'")
            .await
            .unwrap();
    }
    assert!(server.terminate(), "in order");
}

async fn activity_counts_are_kept_over_a_reload_that_removes_a_provider(database: &Database) {
    let shop = "[providers.shop]\nkind = \"stripe\"\nsecrets = [{ file = \"secret\" }]\n";
    let mut server = started(database, shop).await;
    let counted = async |want: [u64; 2]| {
        let (status, text) = asked(&server, "/v1/activity", TOKENS[0]).await;
        assert_eq!(status, 200, "{text}");
        let view: serde_json::Value = serde_json::from_str(&text).unwrap();
        let sum = |name: &str| -> u64 {
            let is_it = |one: &&serde_json::Value| one["name"] == name && one["outcome"] == "accepted";
            let counts = view["requests"].as_array().unwrap().iter().filter(is_it);
            counts.map(|one| one["counted_n"].as_u64().unwrap()).sum()
        };
        assert_eq!(["stripe", "shop"].map(sum), want, "{text}");
    };
    for provider in ["stripe", "shop"] {
        assert_eq!(sent(&server, provider, "evt_1", SECRET).await, 200);
    }
    counted([1, 1]).await;
    edit(&server, shop, "");
    let line = reload(&server).await;
    assert!(line.contains("reloaded the configuration"), "{line}");
    assert_eq!(sent(&server, "shop", "evt_2", SECRET).await, 404);
    assert_eq!(sent(&server, "stripe", "evt_2", SECRET).await, 200);
    counted([2, 1]).await;
    // When it comes back, it counts on from there.
    let config = std::fs::read_to_string(server.config()).unwrap();
    std::fs::write(server.config(), config + shop).unwrap();
    reload(&server).await;
    assert_eq!(sent(&server, "shop", "evt_2", SECRET).await, 200);
    counted([2, 2]).await;
    assert!(server.terminate(), "in order");
}

async fn reloads_under_load_refuse_no_event_and_make_each_call_once(database: &Database) {
    let stub = Stub::start().await;
    let more = format!(
        "routes = [{{ on = [\"*\"], to = \"billing\" }}]\n\
         [destinations.billing]\nurl = \"{}\"\nunknown = \"retry\"\nconcurrency_n = 7\n",
        stub.url()
    );
    let mut server = started(database, &more).await;
    let (is_over, mut senders) = (Arc::new(AtomicBool::new(false)), JoinSet::new());
    for sender in 0..6 {
        let (url, is_over) = (server.url("/webhooks/stripe"), Arc::clone(&is_over));
        senders.spawn(async move {
            let (client, mut results) = (client(), Vec::new());
            while !is_over.load(Ordering::Relaxed) {
                let id = format!("evt_{sender}_{}", results.len());
                results.push(post_stripe(&client, &url, &id).await);
            }
            results
        });
    }
    // Each changes the destination, and every other one the routes as well.
    for n in 0..20 {
        let (from, to) = if n % 2 == 0 { (7, 9) } else { (9, 7) };
        edit(&server, &format!("concurrency_n = {from}"), &format!("concurrency_n = {to}"));
        let (from, to) =
            if n % 4 < 2 { ("[\"*\"]", "[\"invoice.*\"]") } else { ("[\"invoice.*\"]", "[\"*\"]") };
        if n % 2 == 0 {
            edit(&server, from, to);
        }
        let line = reload(&server).await;
        assert!(line.contains("INFO") && line.contains("destinations.billing.concurrency_n"), "{line}");
    }
    is_over.store(true, Ordering::Relaxed);
    let results = senders.join_all().await.concat();
    let failed: Vec<_> = results.iter().filter(|result| result.as_deref() != Ok("accepted")).collect();
    assert!(failed.is_empty(), "{failed:?}");
    let log = || server.log();
    until("all are called", Duration::from_mins(1), log, async || stub.calls().len() == results.len()).await;
    assert!(stub.calls().iter().all(|call| call.requests_n == 1), "each call is made once");
    let rows_n = database.count("SELECT COUNT(*) FROM processed_webhook_events").await;
    assert_eq!(usize::try_from(rows_n).unwrap(), results.len());
    assert!(server.terminate(), "in order");
}

#[tokio::test]
async fn sighup_kills_neither_a_start_nor_a_stop() {
    // A start that waits for a database that is not there.
    let folder = tempfile::tempdir().unwrap();
    let config = "[server]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
        [database]\nurl = \"postgres://absent@127.0.0.1:1/none\"\nconnect_wait_ms = 60000\n";
    std::fs::write(folder.path().join("hooklatch.toml"), config).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
        .arg("serve")
        .current_dir(folder.path())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let id = child.id();
    let handles = |signal: u32| {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & (1 << (signal - 1)) != 0)
    };
    until("it listens for SIGHUP", Duration::from_secs(20), String::new, async || handles(1)).await;
    hang_up(id);
    until("it listens for SIGTERM", Duration::from_secs(20), String::new, async || handles(15)).await;
    hang_up(id);
    assert!(Command::new("kill").args(["-TERM", &id.to_string()]).status().unwrap().success());
    assert!(child.wait().unwrap().success(), "ended by SIGTERM, in order");

    // A stop that waits for late requests.
    let database = Database::create(On::Sqlite).await.unwrap();
    let mut server = Server::prepare(&database.url, "");
    server.server_keys("stop_delay_ms = 1000");
    server.spawn().await;
    server.signal();
    for _ in 0..3 {
        hang_up(server.process_id());
    }
    assert!(server.wait(), "in order");
}
