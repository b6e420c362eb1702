//! `tail`: each event once, in the order in which it arrived, also after a failure.

use serde_json::{Value, json};

use super::samples::{event, page};
use super::server::{Says, Stand};

/// A server whose newest events are these, look by look; the last one again and again.
async fn looks(pages: &'static [&'static [&'static str]]) -> Stand {
    let mut look_n = 0;
    Stand::start(move |_| {
        let ids = pages[look_n.min(pages.len() - 1)];
        look_n += 1;
        Says::ok(page(&ids.iter().map(|id| event(id)).collect::<Vec<_>>()))
    })
    .await
}

/// The event ids of the lines of `--json`.
fn ids(out: &str) -> Vec<String> {
    let id =
        |line: &str| serde_json::from_str::<Value>(line).unwrap()["event_id"].as_str().unwrap().to_owned();
    out.lines().map(id).collect()
}

#[tokio::test]
async fn each_event_that_arrives_is_shown_once_also_one_that_appears_below_others() {
    let stand = looks(&[&["b", "a"], &["c", "b", "a"], &["e", "c", "d", "b", "a"]]).await;
    let ran = stand.run(&["tail", "--json", "--count", "3"]).await;
    assert_eq!(
        (ran.code, ids(&ran.out)),
        (0, vec!["c".to_owned(), "d".to_owned(), "e".to_owned()]),
        "{ran:?}"
    );
    assert!(ran.out.lines().all(|line| line.contains("\"received_at\":\"2026-11-22T14:05:11.500Z\"")));
}

#[tokio::test]
async fn the_newest_events_of_before_are_shown_where_they_are_wanted() {
    let stand = looks(&[&["c", "b", "a"]]).await;
    let ran = stand.run(&["tail", "--json", "--last", "2", "--count", "2", "--provider", "stripe"]).await;
    assert_eq!((ran.code, ids(&ran.out)), (0, vec!["b".to_owned(), "c".to_owned()]), "{ran:?}");
    assert_eq!(stand.received()[0].query, "provider=stripe&limit=100");
    let ran = stand.run(&["tail", "--last", "1", "--count", "1"]).await;
    assert!(ran.out.starts_with("14:05:11.500  stripe  c"), "{}", ran.out);
}

#[tokio::test]
async fn a_page_of_new_events_alone_is_read_on_until_one_was_shown_or_many_pages_were() {
    let stand = Stand::start(|received| {
        let more = |ids: &[&str], next: Value| {
            let items: Vec<Value> = ids.iter().map(|id| event(id)).collect();
            Says::ok(json!({ "items": items, "next": next }))
        };
        match received.query.split("cursor=").nth(1) {
            None if received.query.contains("quiet") => Says::ok(page(&[])),
            None => more(&["d"], json!("1")),
            Some("1") => more(&["c"], json!("2")),
            Some(_) => more(&["b", "a"], Value::Null),
        }
    })
    .await;
    // The first look is one page: what was there before is not looked for.
    let ran = stand.run(&["tail", "--json", "--last", "9", "--count", "1"]).await;
    assert_eq!((ids(&ran.out), stand.received().len()), (vec!["d".to_owned()], 1));
    let mut look_n = 0;
    let endless = Stand::start(move |_| {
        look_n += 1;
        Says::ok(json!({ "items": [event(&format!("evt_{look_n}"))], "next": "more" }))
    })
    .await;
    let ran = endless.run(&["tail", "--json", "--count", "10"]).await;
    assert_eq!((ran.code, ids(&ran.out).len(), endless.received().len()), (0, 10, 11), "{ran:?}");
    assert!(ran.err.contains("events were left out"), "{}", ran.err);
}

#[tokio::test]
async fn a_failed_look_is_repeated_and_nothing_is_missed() {
    let mut look_n = 0;
    let stand = Stand::start(move |_| {
        look_n += 1;
        match look_n {
            1 => Says::ok(page(&[event("a")])),
            2 => Says::HangUp,
            3 => Says::problem(503, "unavailable", "the database did not answer"),
            _ => Says::ok(page(&[event("c"), event("b"), event("a")])),
        }
    })
    .await;
    let ran = stand.run(&["tail", "--json", "--count", "2"]).await;
    assert_eq!((ran.code, ids(&ran.out)), (0, vec!["b".to_owned(), "c".to_owned()]), "{ran:?}");
    assert!(ran.err.contains("trying again") && ran.err.contains("connected again"), "{}", ran.err);
}

#[tokio::test]
async fn what_another_try_would_not_change_ends_it() {
    for (status, code) in [(401, 6), (403, 6), (404, 3)] {
        let stand = Stand::start(move |_| Says::problem(status, "x", "no")).await;
        assert_eq!(stand.run(&["tail"]).await.code, code);
        assert_eq!(stand.received().len(), 1);
    }
}
