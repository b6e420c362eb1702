//! Permissions of the console: every page and every form, by every role, in scope and out of scope, and as forged
//! requests. A route that is not in the list fails.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;

use super::Browser;
use super::browser::Shown;
use crate::access::{EVENT_ID, MARK, ROLES, World, tables, token, world};
use crate::config::loaded;
use crate::contract::Operator;
use crate::database::{Database, on_sqlite};

on_sqlite!(every_page_is_shown_and_acts_only_for_the_roles_that_it_needs);

/// Weakest role for each route; empty where none is needed.
const ROUTES: [(&str, &str); 36] = [
    ("GET /", "viewer"),
    ("GET /assets/{file}", ""),
    ("GET /audit", "operator"),
    ("GET /destinations", "viewer"),
    ("GET /destinations/{name}", "viewer"),
    ("GET /events", "viewer"),
    ("GET /events/tail", "viewer"),
    ("GET /events/{provider}/{event_id}", "viewer"),
    ("GET /events/{provider}/{event_id}/body", "reader"),
    ("GET /explain", "reader"),
    ("GET /lanes", "viewer"),
    ("GET /messages", "viewer"),
    ("GET /messages/{message_id}", "viewer"),
    ("GET /operations", "viewer"),
    ("GET /operations/new", "viewer"),
    ("GET /operations/new/{act}", "viewer"),
    ("GET /operations/{operation_id}", "viewer"),
    ("GET /rejected", "viewer"),
    ("GET /search", "viewer"),
    ("GET /senders", "viewer"),
    ("GET /senders/{name}", "viewer"),
    ("GET /settings", "operator"),
    ("GET /sign-in", ""),
    ("GET /sign-out", "viewer"),
    ("POST /destinations/{name}/decide", "operator"),
    ("POST /events/{provider}/{event_id}/decide", "operator"),
    ("POST /explain", "reader"),
    ("POST /messages/{message_id}/decide", "operator"),
    ("POST /operations", "operator"),
    ("POST /operations/{operation_id}/approve", "operator"),
    ("POST /operations/{operation_id}/cancel", "operator"),
    ("POST /operations/{operation_id}/continue", "operator"),
    ("POST /senders/{name}/decide", "operator"),
    ("POST /sign-in", ""),
    ("POST /sign-out", "viewer"),
    ("POST /sign-out/everywhere", "viewer"),
];
/// Forms that change nothing, and so carry no key: what they ask is shown.
const QUESTIONS: [&str; 1] = ["/explain"];

/// The routes as the source has them: those of each file, by method.
fn routed() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders =
        vec![std::path::PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/crates/console/src"))];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = std::fs::read_to_string(path).unwrap();
                for route in text.split(".route(").skip(1) {
                    let route = route.split(".route(").next().unwrap();
                    let path = route.split('"').nth(1).unwrap();
                    let line = route.split("\n\n").next().unwrap().split(".merge").next().unwrap();
                    for (word, method) in [("get(", "GET"), ("post(", "POST")] {
                        if line.contains(word) {
                            found.insert(format!("{method} {path}"));
                        }
                    }
                }
            }
        }
    }
    found
}

#[test]
fn every_route_of_the_console_has_a_row_in_the_table_of_roles() {
    let listed: BTreeSet<String> = ROUTES.iter().map(|(route, _)| (*route).to_owned()).collect();
    let missing: Vec<String> = routed().difference(&listed).cloned().collect();
    assert!(missing.is_empty(), "say in ROUTES who may ask for {missing:?}");
    assert!(routed().len() > 20, "they are still found: {:?}", routed());
}

/// A proxy's path that begins so could not be distinguished from ours.
#[test]
fn no_path_of_a_proxy_may_begin_like_one_of_ours() {
    for route in routed() {
        let first = route.split(['/', ' ']).nth(2).unwrap_or_default();
        let config = format!("[admin]\npublic_url = \"https://ops.example.com/{first}/x\"\n");
        let problems = loaded(&config, &[]).err().unwrap_or_default();
        assert!(first.is_empty() || problems.iter().any(|one| one.key == "admin.public_url"), "{route}");
    }
}

/// Place of a role among the others; the empty one is below all.
fn rank(role: &str) -> usize {
    ROLES.iter().position(|one| *one == role).map_or(0, |place| place + 1)
}

/// A path of this route, about what there is.
fn path(world: &World, route: &str) -> String {
    let (_, path) = route.split_once(' ').unwrap();
    let name = if path.starts_with("/destinations") { "billing" } else { "stripe" };
    let query = match path {
        "/operations/new" | "/operations/new/{act}" => "?subject=messages&state=held",
        "/search" => &format!("?id={EVENT_ID}"),
        _ => "",
    };
    let filled = path
        .replace("{provider}", "stripe")
        .replace("{event_id}", EVENT_ID)
        .replace("{message_id}", &world.message_id)
        .replace("{operation_id}", &world.operation_id)
        .replace("{name}", name)
        .replace("{act}", "discard")
        .replace("{file}", "none.css");
    assert!(!filled.contains('{'), "say what to write into {path}");
    filled + query
}

/// What its form holds besides the key.
fn fields(route: &str) -> Vec<(&'static str, &'static str)> {
    let act = match route {
        "POST /destinations/{name}/decide" | "POST /senders/{name}/decide" => "pause",
        "POST /messages/{message_id}/decide" => "send",
        "POST /operations" => "discard",
        _ => "rerun",
    };
    let choice = r#"{"messages":{"state":"held"}}"#;
    let chosen = [("choice", choice), ("counted_n", "1"), ("set", "x"), ("typed_n", "1")];
    [("act", act), ("reason", "r")].into_iter().chain(chosen).collect()
}

fn is_question(route: &str) -> bool {
    route.split_once(' ').is_some_and(|(_, path)| QUESTIONS.iter().any(|one| path.ends_with(one)))
}

fn is_about_signing(route: &str) -> bool {
    route.contains("/sign-")
}

/// An answer that may have no end is not waited for.
async fn get(browser: &Browser, world: &World, route: &str) -> Shown {
    let path = path(world, route);
    if route == "GET /events/tail" {
        return browser.begin(&path).await;
    }
    browser.get(&path).await
}

async fn every_page_is_shown_and_acts_only_for_the_roles_that_it_needs(database: &Database) {
    let mut world = world(database).await;
    let operator = Operator::new(world.server.admin, &token("operator", true));
    let order = json!({
        "subject": { "messages": { "act": "discard", "filter": { "state": "dead" } } }, "counted_n": 0, "reason": "r",
    });
    let begun = operator.begin("k", &order).await;
    if let Some(operation_id) = begun.body["operation_id"].as_str() {
        world.operation_id = operation_id.to_owned();
    }
    let mut people = BTreeMap::new();
    for role in ROLES {
        for is_inside in [true, false] {
            let browser = Browser::signed_in(world.server.admin, &token(role, is_inside)).await;
            people.insert((role, is_inside), browser);
        }
    }
    let there = routed();
    let routes: Vec<(&str, &str)> = ROUTES.into_iter().filter(|(route, _)| there.contains(*route)).collect();
    for (route, needed) in routes.iter().filter(|(route, _)| route.starts_with("GET ")) {
        check_anonymous(&world, route, needed).await;
        for ((role, is_inside), browser) in &people {
            // A user with a session is redirected.
            if *route != "GET /sign-in" {
                let shown = get(browser, &world, route).await;
                check_page(&world, (route, needed), (role, *is_inside), &shown);
            }
        }
    }
    let before = tables(database).await;
    for (route, needed) in routes.iter().filter(|(route, _)| route.starts_with("POST ")) {
        if *route != "POST /sign-in" {
            forged(&world, (route, needed), &people).await;
        }
    }
    let after = tables(database).await;
    let changed = after.iter().find(|(table, rows)| before[*table] != **rows);
    assert_eq!(changed, None, "a form that was refused changed this");
    for browser in people.values() {
        assert_eq!(browser.get("/").await.status, 200, "no session ended");
    }
}

async fn check_anonymous(world: &World, route: &str, needed: &str) {
    let shown = get(&Browser::new(world.server.admin), world, route).await;
    if needed.is_empty() {
        assert!([200, 303, 404].contains(&shown.status), "{route}: {}", shown.status);
    } else {
        assert_eq!(shown.status, 303, "{route} without a session");
        assert!(shown.header("location").starts_with("/sign-in"), "{route}: {}", shown.header("location"));
    }
}

fn check_page(world: &World, (route, needed): (&str, &str), (role, is_inside): (&str, bool), shown: &Shown) {
    let who = format!("{route} by a {role}, in scope: {is_inside}");
    let is_allowed = rank(role) >= rank(needed);
    let wanted: &[u16] = match (is_allowed, is_inside) {
        _ if needed.is_empty() => &[200, 404],
        (false, true) => &[403],
        (false, false) => &[403, 404],
        (true, true) => &[200],
        // Out of scope there is nothing to choose.
        (true, false) if route.contains("{act}") => &[200],
        (true, false) if route.contains('{') => &[404],
        (true, false) => &[200, 404],
    };
    // There may have been nothing to make an operation of.
    let is_gone = shown.status == 404 && route.contains("{operation_id}");
    // Some addresses are those of a form, and lead to its page.
    let is_led_on = shown.status == 303 && is_allowed;
    assert!(wanted.contains(&shown.status) || is_gone || is_led_on, "{who}: {} {}", shown.status, shown.text);
    if route == "GET /events/tail" || needed.is_empty() {
        return;
    }
    let is_viewer = role == "viewer" && !is_about_signing(route);
    assert!(!is_viewer || !shown.text.contains("method=\"post\""), "a form: {who}: {}", shown.text);
    assert!(role != "viewer" || !shown.text.contains(MARK), "a content: {who}: {}", shown.text);
    if role == "reader" && is_inside && route.ends_with("/body") {
        assert!(shown.text.contains(MARK), "{who}: {}", shown.text);
    }
    // What says that there is no such thing repeats what was asked for.
    if !is_inside && route != "GET /search" && shown.status != 404 {
        for inside in [EVENT_ID, &world.message_id, ">stripe<", ">billing<", MARK] {
            // What was asked for may be named.
            let is_asked = inside == EVENT_ID && route.contains("{event_id}");
            assert!(
                is_asked || !shown.text.contains(inside),
                "`{inside}` is out of scope: {who}: {}",
                shown.text
            );
        }
    }
}

/// Sends a form in all ways in which it must not be taken.
async fn forged(world: &World, (route, needed): (&str, &str), people: &BTreeMap<(&str, bool), Browser>) {
    let (path, fields) = (path(world, route), fields(route));
    let with_key: Vec<(&str, &str)> = fields.iter().copied().chain([("key", "forged")]).collect();
    let admin = &people[&("admin", true)];
    let own = admin.base.clone();
    for (headers, why) in [
        (&[][..], "no page says that it sends it"),
        (&[("origin", "http://evil.example")][..], "another origin"),
        (&[("origin", "null")][..], "a page of no origin"),
        (&[("sec-fetch-site", "cross-site")][..], "another site"),
        (&[("sec-fetch-site", "none")][..], "no page"),
        (&[("origin", own.as_str()), ("sec-fetch-site", "same-site")][..], "a neighbour"),
    ] {
        let response = admin.ask("POST", &path, headers, Some(&with_key)).await;
        assert_eq!(response.status, 403, "{route}: {why}: {}", response.text);
    }
    let response = Browser::new(world.server.admin).post(&path, &with_key).await;
    assert_eq!(response.status, 401, "{route} without a session: {}", response.text);
    let response = Browser::new(world.server.admin)
        .ask(
            "POST",
            &path,
            &[("origin", &own), ("authorization", &format!("Bearer {}", token("admin", true)))],
            Some(&with_key),
        )
        .await;
    assert_eq!(response.status, 401, "{route} by a token without a session: {}", response.text);
    if is_about_signing(route) {
        return;
    }
    for ((role, is_inside), browser) in people {
        if rank(role) < rank(needed) {
            let response = browser.post(&path, &with_key).await;
            let is_refused = response.status == 403 || (!is_inside && response.status == 404);
            // A question may first say what it cannot read.
            assert!(
                is_refused || (is_question(route) && response.status == 400),
                "{route} by a {role}: {} {}",
                response.status,
                response.text
            );
        }
    }
    if !is_question(route) {
        let response = admin.post(&path, &fields).await;
        assert_eq!(response.status, 400, "{route} without a key: {}", response.text);
    }
}
