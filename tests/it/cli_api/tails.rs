//! `tail`: what is shown as it comes in, what was skipped, and a connection that is taken up again.

use serde_json::{Value, json};

use super::samples::{answer, stream};
use super::server::{Says, Stand};

#[tokio::test]
async fn a_lost_connection_is_taken_up_behind_the_last_event() {
    let mut connections_n = 0;
    let stand = Stand::start(move |_| {
        connections_n += 1;
        match connections_n {
            1 => Says::Stream(format!(
                "retry: 10\n\n{}: nothing new\nid: 2b\n\nid: 9\nevent: event\ndata: {{\"half",
                stream("evt", 1..3)
            )),
            2 => Says::HangUp,
            3 => Says::problem(503, "unavailable", "the database did not answer"),
            _ => Says::Stream(format!(": beat\n\n{}", stream("evt", 3..5))),
        }
    })
    .await;
    let ran = stand.run(&["tail", "--count", "4", "--provider", "stripe"]).await;
    assert_eq!((ran.code, ran.out.lines().count()), (0, 4), "{ran:?}");
    assert!(ran.out.starts_with("14:05:11.500  stripe  evt  evt  failed  dead 1/3  evt"), "{}", ran.out);
    assert!(ran.err.contains("connecting again") && ran.err.contains("connected again"), "{}", ran.err);
    let asked: Vec<(String, String)> =
        stand.heard().iter().map(|one| (one.query.clone(), one.header("last-event-id").to_owned())).collect();
    let one = |id: &str| ("provider=stripe".to_owned(), id.to_owned());
    assert_eq!(asked, [one(""), one("2b"), one("2b"), one("2b")]);
}

#[tokio::test]
async fn what_was_skipped_is_said_and_programs_are_told_where_to_resume() {
    let stand = Stand::start(|heard| answer(heard, "evt")).await;
    let ran = stand.run(&["tail", "--count", "2"]).await;
    assert!(ran.err.contains("5 events skipped"), "{}", ran.err);
    let ran = stand.run(&["tail", "--count", "2", "--json", "--after", "77"]).await;
    let lines: Vec<Value> = ran.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&lines[0]["what"], &lines[0]["skipped_n"]), (&json!("skipped"), &json!(5)));
    assert_eq!((&lines[1]["id"], &lines[2]["id"]), (&json!("1"), &json!("2")));
    assert_eq!(lines[2]["event"]["received_at"], "2026-11-22T14:05:11.500Z");
    assert_eq!(stand.heard()[1].header("last-event-id"), "77");
}

#[tokio::test]
async fn what_another_try_would_not_change_ends_it() {
    for (status, code) in [(401, 6), (403, 6), (404, 3)] {
        let stand = Stand::start(move |_| Says::problem(status, "x", "no")).await;
        assert_eq!(stand.run(&["tail"]).await.code, code);
        assert_eq!(stand.heard().len(), 1);
    }
}
