//! An order whose answer was lost acts once, within a run of its command and under the key that the error names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::json;

use super::server::{ReceivedRequest, Says, Stand};

/// How often each key was received.
type TimesByKey = Arc<Mutex<BTreeMap<String, u32>>>;

/// A server that does something once for each key, and closes `hang_ups_n` connections before it answers.
fn forgetful(hang_ups_n: usize) -> (TimesByKey, impl FnMut(&ReceivedRequest) -> Says + Send + 'static) {
    let done = TimesByKey::default();
    let of_server = Arc::clone(&done);
    let mut left_n = hang_ups_n;
    let answer = move |received: &ReceivedRequest| {
        let mut done = of_server.lock().unwrap();
        let times = done.entry(received.header("idempotency-key").to_owned()).or_default();
        *times += 1;
        if left_n > 0 {
            left_n -= 1;
            return Says::HangUp;
        }
        let replayed =
            if *times > 1 { vec![("idempotency-replayed", "true".to_owned())] } else { Vec::new() };
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
async fn a_command_without_an_answer_names_the_key_under_which_it_acts_once() {
    let (done, answer) = forgetful(4);
    let stand = Stand::start(answer).await;
    let ran = stand.run(&SEND).await;
    assert_eq!(ran.code, 5, "{}", ran.err);
    let (_, rest) = ran.err.split_once("give the same command again with --key ").unwrap();
    let key = rest.split(',').next().unwrap();
    let ran = stand.run(&[&SEND[..], &["--key", key]].concat()).await;
    assert!(ran.code == 0 && ran.err.contains("done already"), "{}", ran.err);
    assert_eq!(*done.lock().unwrap(), [(key.to_owned(), 5)].into());
    let ran = stand.run(&SEND).await;
    assert!(ran.code == 0 && !ran.err.contains("done already"), "a new decision: {}", ran.err);
    assert_eq!(done.lock().unwrap().len(), 2);
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
    for (hang_ups_n, is_open) in [(0, false), (1, true)] {
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
        assert_eq!(ran.err.contains("with --key"), is_open, "{}", ran.err);
    }
}

#[tokio::test]
async fn a_version_goes_with_the_decision() {
    let stand = Stand::start(|received| match received.header("if-match") {
        "\"5f1d\"" => Says::ok(json!({ "outcome": "changed", "messages_n": 1 })),
        _ => Says::problem(412, "changed", "it has changed since you read it"),
    })
    .await;
    for (version, code) in [("5f1d", 0), ("\"5f1d\"", 0), ("77aa", 4)] {
        let ran = stand.run(&[&SEND[..], &["--if-match", version]].concat()).await;
        assert_eq!(ran.code, code, "{version}: {}", ran.err);
    }
}

#[tokio::test]
async fn an_unknown_outcome_says_what_to_do_for_each_command() {
    const ERASE: [&str; 7] = ["erase", "stripe", "evt_1", "evt_2", "evt_3", "--reason", "asked for"];
    const MAKE: [&str; 9] =
        ["tokens", "make", "ann", "--role", "operator", "--valid-for", "90d", "--reason", "on call"];
    for (command, advice) in [
        (&SEND[..], "give the same command again with --key "),
        (&SEND[..], "without --key it is a new order"),
        (&ERASE[..], "give the same command again, which changes nothing about what is erased already"),
        (&MAKE[..], "if `hooklatch tokens list` shows `ann`, revoke it there"),
        (&["pairing", "asana"][..], "pair once more"),
    ] {
        // The proxy gives up, and Hooklatch may have done it.
        let stand = Stand::start(|received| {
            if received.path.ends_with("/evt_1/decide") {
                return Says::ok(json!({ "outcome": "changed", "messages_n": 0 }));
            }
            Says::Page(504)
        })
        .await;
        let ran = stand.run(command).await;
        assert!(ran.code == 5 && ran.err.contains(advice), "{command:?}: {}", ran.err);
        let is_key_of_use = command == SEND;
        assert_eq!(ran.err.contains("with --key"), is_key_of_use, "{command:?}: {}", ran.err);
    }
}

#[tokio::test]
async fn a_token_that_was_made_before_is_to_be_revoked() {
    let shown = "this request has made a token before, which was shown then and is kept nowhere";
    let stand = Stand::start(move |_| Says::problem(409, "token_shown_once", shown)).await;
    let make =
        ["tokens", "make", "ann", "--role", "operator", "--valid-for", "90d", "--reason", "r", "--key", "k"];
    let ran = stand.run(&make).await;
    assert!(ran.code == 4 && ran.err.contains("`hooklatch tokens revoke`"), "{}", ran.err);
}

#[tokio::test]
async fn the_help_says_that_a_command_given_again_is_a_new_order() {
    let stand = Stand::start(|_| Says::HangUp).await;
    for command in ["messages send", "erase", "tokens make", "pairing", "test-event", "operations approve"] {
        let arguments: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = stand.run(&arguments).await.out;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains("Default: a new one for each run"), "{command}: {help}");
    }
}
