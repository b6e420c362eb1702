//! A command that is given again because its answer was lost acts once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::samples::{operation, preview};
use super::server::{Heard, Says, Stand};

/// How often each key came.
type TimesByKey = Arc<Mutex<BTreeMap<String, u32>>>;

/// A server that does something once for each key, and hangs up as often as it is told before it answers.
fn forgetful(hang_ups_n: usize) -> (TimesByKey, impl FnMut(&Heard) -> Says + Send + 'static) {
    let done = TimesByKey::default();
    let of_server = Arc::clone(&done);
    let mut left_n = hang_ups_n;
    let answer = move |heard: &Heard| {
        if heard.path == "/v1/operations/preview" {
            return Says::ok(preview(7, "x"));
        }
        let mut done = of_server.lock().unwrap();
        let times = done.entry(heard.header("idempotency-key").to_owned()).or_default();
        *times += 1;
        if left_n > 0 {
            left_n -= 1;
            return Says::HangUp;
        }
        let replayed =
            if *times > 1 { vec![("idempotency-replayed", "true".to_owned())] } else { Vec::new() };
        if heard.path == "/v1/operations" {
            return Says::With(202, operation("done", "x"), replayed);
        }
        Says::With(200, json!({ "outcome": "changed", "messages_n": 1 }), replayed)
    };
    (done, answer)
}

const SEND: [&str; 5] = ["messages", "send", "5123", "--reason", "looked"];

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_under_the_same_key() {
    let (done, answer) = forgetful(2);
    let stand = Stand::start(answer).await;
    let ran = stand.run(&SEND).await;
    assert_eq!((ran.code, ran.out.as_str()), (0, "5123: will be sent\n"), "{}", ran.err);
    assert!(ran.err.contains("under the same key") && ran.err.contains("done already"), "{}", ran.err);
    assert_eq!(done.lock().unwrap().values().copied().collect::<Vec<_>>(), [3]);
    // The same words again, after an answer, are another decision.
    assert_eq!(stand.run(&SEND).await.code, 0);
    assert_eq!(done.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_command_that_ended_without_an_answer_acts_once_when_it_is_given_again() {
    let (done, answer) = forgetful(4);
    let stand = Stand::start(answer).await;
    let ran = stand.run(&SEND).await;
    assert_eq!(ran.code, 5, "{}", ran.err);
    assert!(ran.err.contains("give the same command again"), "{}", ran.err);
    let other = stand.run(&["messages", "send", "5124", "--reason", "looked"]).await;
    assert_eq!(other.code, 0, "another command has another key: {}", other.err);
    let ran = stand.run(&SEND).await;
    assert!(ran.code == 0 && ran.err.contains("had no answer before"), "{}", ran.err);
    assert_eq!(
        done.lock().unwrap().values().copied().collect::<std::collections::BTreeSet<_>>(),
        [1, 5].into()
    );
    let left = std::fs::read_dir(stand.home().join(".local/state/hooklatch/keys")).unwrap().count();
    assert_eq!(left, 0, "what was answered is forgotten");
}

#[tokio::test]
async fn an_operation_that_was_begun_without_an_answer_is_not_begun_twice() {
    let (done, mut answer) = forgetful(4);
    let counts = Arc::new(Mutex::new(7));
    let now = Arc::clone(&counts);
    let stand = Stand::start(move |heard| {
        if heard.path == "/v1/operations/preview" {
            return Says::ok(preview(*now.lock().unwrap(), "x"));
        }
        answer(heard)
    })
    .await;
    let send =
        ["messages", "send", "--state", "held", "--created-before", "1h", "--reason", "x", "--yes", "7:5e7"];
    assert_eq!(stand.run(&send).await.code, 5);
    // It runs on the server, and fewer are found now.
    *counts.lock().unwrap() = 0;
    let ran = stand.run(&send).await;
    assert!(ran.code == 0 && ran.out.contains("op-1"), "{ran:?}");
    assert_eq!(done.lock().unwrap().values().copied().collect::<Vec<_>>(), [5], "one key");
    let bodies: std::collections::BTreeSet<String> = stand
        .posts()
        .into_iter()
        .filter(|post| post.path == "/v1/operations")
        .map(|post| post.body)
        .collect();
    assert!(bodies.len() == 1 && bodies.iter().all(|body| body.contains("\"counted_n\":7")), "{bodies:?}");
}

#[tokio::test]
async fn a_key_that_a_person_names_is_the_key() {
    let (done, answer) = forgetful(0);
    let stand = Stand::start(answer).await;
    for _ in 0..2 {
        let ran = stand.run(&[&SEND[..], &["--key", "ticket-4711"]].concat()).await;
        assert_eq!(ran.code, 0, "{}", ran.err);
    }
    assert_eq!(*done.lock().unwrap(), [("ticket-4711".to_owned(), 2)].into());
}

#[tokio::test]
async fn a_refusal_ends_it_and_being_busy_is_waited_for() {
    let mut asked_n = 0;
    let stand = Stand::start(move |_| {
        asked_n += 1;
        let busy = json!({ "type": "about:blank", "status": 409, "code": "busy", "title": "Conflict", "detail": "in progress" });
        match asked_n {
            1 => Says::With(409, busy, vec![("retry-after", "0".to_owned())]),
            2 => Says::problem(409, "not_allowed", "it is done"),
            _ => Says::ok(json!({ "outcome": "changed", "messages_n": 1 })),
        }
    })
    .await;
    let ran = stand.run(&SEND).await;
    assert!(ran.code == 4 && ran.err.contains("it is done (409 not_allowed)"), "{}", ran.err);
    assert_eq!(stand.run(&SEND).await.code, 0);
    let keys: Vec<String> =
        stand.posts().iter().map(|post| post.header("idempotency-key").to_owned()).collect();
    assert!(keys[0] == keys[1] && keys[1] != keys[2], "{keys:?}");
}

#[tokio::test]
async fn a_token_that_may_not_is_an_answer_unless_an_earlier_try_may_have_been_carried_out() {
    for (hang_ups_n, is_kept) in [(0, false), (1, true)] {
        let mut asked_n = 0;
        let stand = Stand::start(move |_| {
            asked_n += 1;
            if asked_n <= hang_ups_n {
                return Says::HangUp;
            }
            Says::problem(403, "forbidden", "this token may look, but not act")
        })
        .await;
        let ran = stand.run(&SEND).await;
        assert!(ran.code == 6 && ran.err.contains("403 forbidden"), "{}", ran.err);
        let ran = stand.run(&SEND).await;
        assert_eq!(ran.err.contains("had no answer before"), is_kept, "{}", ran.err);
        let keys: std::collections::BTreeSet<String> =
            stand.posts().iter().map(|post| post.header("idempotency-key").to_owned()).collect();
        assert_eq!(keys.len(), if is_kept { 1 } else { 2 }, "{keys:?}");
    }
}

#[tokio::test]
async fn without_a_place_for_its_key_a_command_says_so_and_is_done() {
    let (_, answer) = forgetful(1);
    let stand = Stand::start(answer).await;
    let mut command = stand.command(&SEND);
    command.env("HOOKLATCH_URL", stand.url()).env("HOOKLATCH_TOKEN", "a-token-0123456789");
    command.env("XDG_STATE_HOME", "/dev/null");
    let ran = super::server::ran(command).await;
    assert!(ran.code == 0 && ran.err.contains("the key of this command is not kept"), "{ran:?}");
}

#[tokio::test]
async fn a_version_goes_with_the_decision() {
    let stand = Stand::start(|heard| match heard.header("if-match") {
        "\"5f1d\"" => Says::ok(json!({ "outcome": "changed", "messages_n": 1 })),
        _ => Says::problem(412, "changed", "it has changed since you read it"),
    })
    .await;
    for (version, code) in [("5f1d", 0), ("\"5f1d\"", 0), ("77aa", 4)] {
        let ran = stand.run(&[&SEND[..], &["--if-match", version]].concat()).await;
        assert_eq!(ran.code, code, "{version}: {}", ran.err);
    }
}
