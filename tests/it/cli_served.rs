//! The commands against a real server: refusals for a viewer, and the work of an operator from start to end.

use std::time::Duration;

use crate::database::{Database, on_sqlite};
use crate::process::{Server, client, post_stripe, until};
use crate::stub::{Mode, Stub};

on_sqlite!(
    a_viewer_changes_nothing_by_any_command,
    an_operator_finds_what_is_stuck_and_acts_on_all_of_it_once,
);

const OPERATOR: &str = "operator-token-0123456789";
const VIEWER: &str = "viewer-token-0123456789";
const ADMIN: &str = "admin-token-01234567890";

/// A server that routes everything to `stub`, holding what is unknown.
async fn serve(database: &Database, stub: &Stub) -> Server {
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
         [destinations.billing]\nurl = \"{}\"\nunknown = \"hold\"\n",
        stub.url()
    );
    let mut server = Server::prepare(&database.url, &more);
    let config = std::fs::read_to_string(server.config()).unwrap();
    let token =
        |name: &str, token: &str| format!("{{ name = \"{name}\", role = \"{name}\", token = \"{token}\" }}");
    let tokens =
        [("operator", OPERATOR), ("viewer", VIEWER), ("admin", ADMIN)].map(|(name, one)| token(name, one));
    let tokens = format!("tokens = [{}]\n[database]", tokens.join(", "));
    std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
    server.spawn().await;
    server
}

/// A command with a token: its exit code, and all that it said.
fn run(server: &Server, token: &str, arguments: &[&str]) -> (i32, String) {
    server.command(token, arguments)
}

/// Sends events that end up held, and gives the id of a message.
async fn held(server: &Server, stub: &Stub, events_n: usize) -> String {
    stub.next(&vec![Mode::ActThenDrop; events_n]);
    for n in 0..events_n {
        post_stripe(&client(), &server.url("/webhooks/stripe"), &format!("evt_{n}")).await.unwrap();
    }
    let mut id = String::new();
    let listed = || run(server, VIEWER, &["messages", "list", "--state", "held", "--json"]).1;
    let log = || server.log();
    until("they are held", Duration::from_secs(20), log, async || {
        let page: serde_json::Value =
            serde_json::from_str(listed().lines().next().unwrap()).unwrap_or_default();
        let items = page["items"].as_array().cloned().unwrap_or_default();
        let found = items.first().and_then(|one| one["message_id"].as_str()).unwrap_or_default();
        found.clone_into(&mut id);
        items.len() == events_n
    })
    .await;
    id
}

async fn a_viewer_changes_nothing_by_any_command(database: &Database) {
    let stub = Stub::start().await;
    let server = serve(database, &stub).await;
    let id = held(&server, &stub, 1).await;
    let filter = ["--state", "held", "--destination", "billing", "--yes", "1:5e7"];
    let because = ["--reason", "x"];
    let (one, many) = ([id.as_str()].to_vec(), filter.to_vec());
    let event = vec!["stripe", "evt_0"];
    let commands: Vec<(Vec<&str>, Vec<&str>)> = vec![
        (vec!["messages", "send"], one.clone()),
        (vec!["messages", "done"], one.clone()),
        (vec!["messages", "discard"], one),
        (vec!["messages", "send"], many.clone()),
        (vec!["messages", "done"], many.clone()),
        (vec!["messages", "discard"], many),
        (vec!["events", "rerun"], event.clone()),
        (vec!["events", "dispatch"], event.clone()),
        (vec!["events", "dismiss"], event.clone()),
        (vec!["events", "rerun"], vec!["--state", "handled", "--yes", "1:5e7"]),
        (vec!["erase"], event.clone()),
        (vec!["erase", "--discard"], event.clone()),
        (vec!["destinations", "pause"], vec!["billing"]),
        (vec!["destinations", "resume"], vec!["billing"]),
        (vec!["operations", "cancel"], vec!["01990000-0000-7000-8000-000000000000"]),
        (vec!["operations", "approve"], vec!["01990000-0000-7000-8000-000000000000"]),
        (vec!["operations", "continue"], vec!["01990000-0000-7000-8000-000000000000"]),
        (vec!["tokens", "make"], vec!["mine", "--role", "admin", "--valid-for", "1d"]),
        (vec!["tokens", "revoke"], vec!["01990000-0000-7000-8000-000000000000"]),
    ];
    for (words, arguments) in commands {
        let (code, said) = run(&server, VIEWER, &[words.as_slice(), &arguments, &because].concat());
        assert_eq!(code, 6, "{words:?} {arguments:?}: {said}");
    }
    for looked in [
        &["pairing", "stripe"][..],
        &["events", "body", "stripe", "evt_0"],
        &["audit", "list"],
        &["tokens", "list"],
    ] {
        let (code, said) = run(&server, VIEWER, looked);
        assert_eq!(code, 6, "{looked:?}: {said}");
    }
    assert_eq!(
        database.count("SELECT COUNT(*) FROM audit_log").await,
        0,
        "nothing was decided, and no body seen"
    );
    assert_eq!(database.count("SELECT COUNT(*) FROM outbox_messages WHERE state = 'held'").await, 1);
    for (words, code) in [("whoami", 0), ("events list", 0), ("lanes list", 0), ("statistics", 0)] {
        let (ended, said) = run(&server, VIEWER, &words.split(' ').collect::<Vec<_>>());
        assert_eq!(ended, code, "{words}: {said}");
    }
    let (_, counted) = run(&server, VIEWER, &["statistics", "--hours", "2"]);
    for (what, ended) in [("requests of stripe", "accepted"), ("calls to billing", "unknown")] {
        let is_counted = |line: &str| line.contains(what) && line.contains(ended) && line.ends_with(" 1");
        assert!(counted.lines().any(is_counted), "no {what} {ended}: {counted}");
    }
    let (_, of_one) = run(&server, VIEWER, &["statistics", "--destination", "billing"]);
    assert!(!of_one.contains("requests of") && of_one.contains("calls to billing"), "{of_one}");
    let (_, of_none) = run(&server, VIEWER, &["statistics", "--provider", "nobody"]);
    assert!(of_none.contains("nothing was counted in that time"), "{of_none}");
}

async fn an_operator_finds_what_is_stuck_and_acts_on_all_of_it_once(database: &Database) {
    let stub = Stub::start().await;
    let server = serve(database, &stub).await;
    let id = held(&server, &stub, 5).await;
    let run = |arguments: &[&str]| run(&server, OPERATOR, arguments);
    let (code, said) = run(&["search", "evt_3"]);
    assert!(code == 0 && said.contains("an event") && said.contains("evt_3"), "{said}");
    let (code, said) = run(&["search", "evt_nobody"]);
    assert!(code == 3 && said.contains("nothing found for evt_nobody"), "{said}");
    let (_, said) = run(&["events", "show", "stripe", "evt_3"]);
    let order = ["received", "latched", "effect", "attempt"].map(|word| said.find(&format!("  {word}")));
    assert!(order.iter().all(Option::is_some) && order.is_sorted(), "{said}");

    // Two people look, and decide otherwise: the second one hears that it has changed.
    let (_, shown) = run(&["messages", "show", &id]);
    let version = shown.lines().find_map(|line| line.strip_prefix("version")).unwrap().trim().to_owned();
    let decide = |act: &str| run(&["messages", act, &id, "--if-match", &version, "--reason", "I looked"]);
    assert_eq!(decide("done").0, 0);
    let (code, said) = decide("discard");
    assert!(code == 4 && said.contains("412"), "{said}");

    let send =
        ["messages", "send", "--state", "held", "--destination", "billing", "--reason", "they lost it"];
    let (code, said) = run(&send);
    assert!(code == 7 && said.contains("4 messages with state held, destination billing"), "{said}");
    let four = said.split("--yes ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap().to_owned();
    assert!(said.contains("May repeat an effect") && four.starts_with("4:"), "{said}");
    assert_eq!(run(&[&send[..], &["--yes"]].concat()).0, 2, "without the number");
    let (code, said) = run(&[&send[..], &["--yes", "4:0000"]].concat());
    assert!(code == 4 && said.contains("not the same ones"), "{said}");
    let (code, said) = run(&[&send[..], &["--yes", "5:0000"]].concat());
    assert!(code == 4 && said.contains("4 are found now"), "{said}");
    assert_eq!(stub.requests_n(), 5, "nothing was sent");
    let (code, said) = run(&[&send[..], &["--yes", &four]].concat());
    assert!(code == 0 && said.contains("4 of 4"), "{said}");
    let hint = said.lines().find(|line| line.contains("operations cancel")).unwrap();
    assert!(
        hint.starts_with("  hooklatch operations cancel ") && hint.ends_with(" --reason \"…\""),
        "{hint}"
    );
    let done = "SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'";
    let log = || server.log();
    until("all are done", Duration::from_secs(20), log, async || database.count(done).await == 5).await;
    assert_eq!(stub.requests_n(), 9, "each that was held was sent once more");
    let (code, said) = run(&[&send[..], &["--yes", &four]].concat());
    assert!(code == 0 && said.contains("there is nothing to do"), "{said}");
    let (code, said) = run(&["tail", "--count", "0"]);
    assert_eq!(code, 0, "{said}");
}
