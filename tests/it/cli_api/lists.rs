//! Lists, pages, counts and operations: what the commands print, and what they request.

use std::process::Stdio;

use serde_json::{Value, json};

use super::samples::{AT_MS, answer, event, message, operation, page, preview};
use super::server::{ReceivedRequest, Says, Stand};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn a_list_is_a_table_for_people_and_the_servers_page_for_programs() {
    let stand = Stand::start(|_| {
        let mut found = page(&[event("evt_1"), event("evt_22")]);
        found["next"] = json!("c-2");
        found["looked_back_to_ms"] = json!(AT_MS);
        found["of_a_newer_server"] = json!(true);
        Says::ok(found)
    })
    .await;
    let ran =
        stand.run(&["events", "list", "--state", "failed", "--provider", "stripe", "--limit", "2"]).await;
    let lines_of = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let shown = lines_of(&ran.out);
    assert_eq!(shown.len(), 3, "{}", ran.out);
    assert!(shown[0].starts_with("received (UTC)"), "{}", ran.out);
    let at = shown[0].find("event id").unwrap();
    assert!(
        shown[1].get(at..).unwrap().starts_with("evt_1   ")
            && shown[2].get(at..).unwrap().starts_with("evt_22  "),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("--cursor c-2, or --all") && ran.err.contains("looked back to"), "{}", ran.err);
    assert_eq!(stand.received()[0].query, "state=failed&provider=stripe&limit=2");
    assert_eq!(stand.received()[0].header("authorization"), "Bearer a-token-0123456789");

    let ran = stand.run(&["events", "list", "--json"]).await;
    let [found] = lines(&ran.out).try_into().unwrap();
    assert_eq!(found["items"][1]["received_at_ms"], AT_MS);
    assert_eq!(found["items"][1]["received_at"], "2026-11-22T14:05:11.500Z");
    assert_eq!((&found["next"], &found["of_a_newer_server"]), (&json!("c-2"), &json!(true)));
    assert!(ran.err.is_empty(), "a program reads it from the page: {}", ran.err);
}

#[tokio::test]
async fn all_pages_are_one_table_and_one_line_each_for_programs() {
    let answer = |received: &ReceivedRequest| {
        let mut found = page(&[event("evt_1")]);
        found["next"] = match received.query.as_str() {
            "limit=1" => json!("c-1"),
            "limit=1&cursor=c-1" => json!("c-2"),
            _ => Value::Null,
        };
        Says::ok(found)
    };
    let stand = Stand::start(answer).await;
    let all = ["events", "list", "--limit", "1", "--all"];
    let ran = stand.run(&all).await;
    assert_eq!((ran.out.lines().count(), ran.out.matches("event id").count(), ran.err.as_str()), (4, 1, ""));
    let ran = stand.run(&[&all[..], &["--json"]].concat()).await;
    assert_eq!(lines(&ran.out).len(), 3);
    assert_eq!(stand.received().len(), 6);
}

#[tokio::test]
async fn an_empty_list_says_what_was_looked_for() {
    let stand = Stand::start(|_| Says::ok(page(&[]))).await;
    for (arguments, want) in [
        (&["events", "list", "--state", "held"][..], ""),
        (
            &["events", "list", "--state", "failed", "--type", "a.b"],
            "no events with state failed, type a.b\n",
        ),
        (&["messages", "list", "--destination", "billing"], "no messages with destination billing\n"),
        (&["destinations", "list"], "no destinations\n"),
        (&["rejected", "list", "--provider", "x"], "no refused requests with provider x\n"),
    ] {
        let ran = stand.run(arguments).await;
        match want {
            "" => assert!(ran.code == 2 && ran.err.contains("possible values: handled"), "{}", ran.err),
            want => assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, "", want)),
        }
    }
}

#[tokio::test]
async fn the_ledger_is_a_timeline_with_its_days() {
    let stand = Stand::start(|received| match answer(received, "x") {
        Says::Json(status, body) => Says::With(status, body, vec![("etag", "\"5f1d\"".to_owned())]),
        other => other,
    })
    .await;
    let ran = stand.run(&["events", "show", "stripe", "evt_1"]).await;
    let want = "2026-11-22 (UTC)\n\
                14:05:11.500  received    1,234 bytes, secret 1 (x) matched\n\
                14:05:11.501  latched     by sender/1, content 5f1d00\n\
                14:05:11.502  handled     handled after 1 dispatch: x\n\
                14:05:11.503  effect      x to billing: message 5123, held\n\
                14:05:11.504  attempt     1 of x: unknown (504) in 120 ms by x: x\n\
                14:05:11.505  conflict    other content 77aa, kept as x (failed)\n\
                14:05:11.506  replayed    the same signed text as x\n\
                14:05:11.507  duplicates  1,200 more, nothing changed, the first at 2026-11-22 14:05:11.500\n\
                2026-11-23 (UTC)\n\
                14:05:11.500  decision    x: message_send: x\n";
    assert!(ran.out.contains(want), "{}", ran.out);
    assert!(
        ran.out.contains("version    5f1d") && ran.out.contains("1 message to destinations"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains("headers\n"));
    let ran = stand.run(&["events", "show", "stripe", "evt_1", "--content"]).await;
    assert!(ran.out.ends_with("headers\n  x: x\nbody\n  {\n  x\n  }\n"), "{}", ran.out);
}

#[tokio::test]
async fn several_are_counted_and_shown_first_and_nothing_is_done_without_a_word() {
    let stand = Stand::start(|received| match received.path.as_str() {
        "/v1/operations/preview" => Says::ok(preview(1_234, "x")),
        _ => Says::ok(page(&[message("evt_1", "held")])),
    })
    .await;
    let discard = ["messages", "discard", "--state", "held", "--destination", "billing", "--reason", "x"];
    let ran = stand.run(&discard).await;
    assert_eq!(ran.code, 7, "{}", ran.err);
    assert!(ran.out.ends_with("1,234 messages with state held, destination billing\n"), "{}", ran.out);
    let wants = [
        "CAREFUL: May repeat an effect. x",
        "in steps (1, 10, 100, then the rest)",
        "Operation x does the same",
        "Another person has to approve it",
        "nothing was done: --yes 1234:5e7 acts on them",
    ];
    for want in wants {
        assert!(ran.err.contains(want), "{want}: {}", ran.err);
    }
    assert!(ran.out.contains("1,234, 5 open, 2 of these never tried"), "{}", ran.out);
    let ran = stand.run(&[&discard[..], &["--json"]].concat()).await;
    assert_eq!((ran.code, lines(&ran.out)[0]["counted_n"].as_u64()), (7, Some(1_234)));
    let orders = || stand.posts().into_iter().filter(|post| post.path == "/v1/operations").count();
    assert_eq!(orders(), 0);
    for odd in [
        &["messages", "discard", "--reason", "x"][..],
        &["messages", "discard", "5", "--state", "held", "--reason", "x"],
        &["messages", "discard", "--state", "held"],
        &["messages", "send", "--state", "held", "--if-match", "x", "--reason", "x"],
        &["events", "rerun", "stripe", "--reason", "x"],
        &["events", "rerun", "--reason", "x"],
        &["events", "rerun", "stripe", "--state", "failed", "--reason", "x", "--yes", "1:5e7"],
        &[
            "events", "rerun", "stripe", "evt_1", "evt_2", "--state", "failed", "--reason", "x", "--yes",
            "1:5e7",
        ],
        &["events", "list", "--from", "soon"],
        &["messages", "discard", "--state", "held", "--reason", "x", "--yes"],
        &["messages", "discard", "--state", "held", "--reason", "x", "--yes", "all"],
        &["messages", "discard", "--state", "held", "--reason", "x", "--yes", "1"],
    ] {
        let ran = stand.run(odd).await;
        assert_eq!(ran.code, 2, "{odd:?}: {}", ran.err);
    }
    assert_eq!(orders(), 0);
}

#[tokio::test]
async fn an_operation_is_followed_to_its_end_also_past_a_server_that_is_away() {
    let mut looks_n = 0;
    let stand = Stand::start(move |received| match (received.method.as_str(), received.path.as_str()) {
        ("POST", "/v1/operations/preview") => Says::ok(preview(1_000, "x")),
        ("POST", _) => Says::Json(202, operation("running", "x")),
        _ => {
            looks_n += 1;
            match looks_n {
                1 => Says::HangUp,
                2 => Says::problem(503, "unavailable", "the database did not answer"),
                3 => Says::ok(operation("running", "x")),
                _ => Says::ok(operation("done", "x")),
            }
        }
    })
    .await;
    let rerun = [
        "events",
        "rerun",
        "--state",
        "failed",
        "--from",
        "2026-11-22",
        "--reason",
        "fixed",
        "--yes",
        "1,000:5e7",
    ];
    let ran = stand.run(&rerun).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.contains("412 of 1,000, 3 passed over") && ran.out.contains("not_allowed"),
        "{}",
        ran.out
    );
    assert!(ran.err.contains("operation op-1") && ran.err.contains("still looking"), "{}", ran.err);
    let [_, post] = stand.posts().try_into().unwrap();
    let order: Value = serde_json::from_str(&post.body).unwrap();
    let filter = json!({ "state": "failed", "received_from_ms": 1_795_305_600_000_i64 });
    let want = json!({ "subject": { "events": { "act": "rerun", "filter": filter } }, "counted_n": 1000, "set": "5e7", "reason": "fixed" });
    assert_eq!(order, want);
    let ran = stand.run(&["operations", "wait", "op-1", "--json"]).await;
    assert_eq!((ran.code, lines(&ran.out)[0]["state"].as_str()), (0, Some("done")));
}

#[tokio::test]
async fn the_exit_code_shows_an_operation_that_failed_or_has_not_ended() {
    for (state, code) in [("done", 0), ("cancelled", 1), ("running", 7), ("waiting", 7), ("stopped", 1)] {
        let stand = Stand::start(move |_| Says::ok(operation(state, "x"))).await;
        let ran = stand.run(&["operations", "wait", "op-1", "--timeout", "0"]).await;
        assert_eq!(ran.code, code, "{state}: {}", ran.err);
    }
}

#[tokio::test]
async fn who_is_to_approve_an_operation_is_shown_what_it_acts_on_and_what_that_risks() {
    let stand = Stand::start(|received| match received.path.as_str() {
        "/v1/operations/op-1/preview" => Says::ok(preview(1_234, "x")),
        _ => Says::ok(operation("waiting", "x")),
    })
    .await;
    let ran = stand.run(&["operations", "show", "op-1"]).await;
    assert_eq!(ran.code, 0, "{}", ran.err);
    for want in
        ["waiting for approval", "CAREFUL: May repeat an effect. x", "1,234, 5 open, 2 of these never tried"]
    {
        assert!(ran.out.contains(want), "{want}: {}", ran.out);
    }
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_it_quietly() {
    let stand = Stand::start(|_| {
        let mut found = page(&vec![event("evt_1"); 500]);
        found["next"] = json!("always");
        Says::ok(found)
    })
    .await;
    let mut command = stand.command(&["events", "list", "--all"]);
    command.env("HOOKLATCH_URL", stand.url()).env("HOOKLATCH_TOKEN", "a-token-0123456789");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ended = tokio::task::spawn_blocking(move || {
        use std::io::Read;
        let mut some = [0; 4096];
        child.stdout.take().unwrap().read_exact(&mut some).unwrap();
        let output = child.wait_with_output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    });
    let (code, err) = ended.await.unwrap();
    assert!(code == Some(0) && !err.contains("panic") && !err.contains("Broken"), "{code:?} {err}");
}

#[tokio::test]
async fn a_search_prints_what_it_finds_and_has_an_exit_code_for_nothing_found() {
    let stand = Stand::start(|received| answer(received, "x")).await;
    let ran = stand.run(&["search", "x"]).await;
    assert!(ran.code == 0 && ran.out.contains("an effect") && ran.out.contains("in a refusal"), "{ran:?}");
    let nothing = json!({ "query": "x", "headline": "nothing", "found": [], "notes": ["it was refused"] });
    let stand = Stand::start(move |_| Says::ok(nothing.clone())).await;
    let ran = stand.run(&["search", "x"]).await;
    assert_eq!((ran.code, ran.out.as_str()), (3, "nothing found for x\nnothing\nit was refused\n"));
}

#[tokio::test]
async fn a_body_comes_byte_for_byte() {
    let stand = Stand::start(|received| answer(received, "a\u{1b}b")).await;
    assert_eq!(stand.run(&["events", "body", "stripe", "e"]).await.out, "\"a\\u001bb\"");
    let file = stand.home().join("body");
    let ran = stand.run(&["events", "body", "stripe", "e", "--output", file.to_str().unwrap()]).await;
    assert!(ran.out.is_empty() && std::fs::read_to_string(file).unwrap() == "\"a\\u001bb\"", "{ran:?}");
}
