//! Tests of what messages and their settlements say of themselves, and what becomes of a claimed row that cannot be
//! read.

use uuid::Uuid;

use super::claimed::{Claimed, ClaimedContent, ClaimedEvent, ClaimedPayload, ClaimedRow};
use super::postgres::is_one_statement;
use super::types::{NewMessage, SettleTo, Settlement, lanes_of};
use hooklatch_core::seal::KeyRing;
use hooklatch_core::types::{AttemptResult, EventKey, MessageId, MessageState, Name};

fn settlement(id: i64, lane: Option<&str>) -> Settlement {
    Settlement { lane: lane.map(str::to_owned), ..Settlement::done(id, 1) }
}

#[test]
fn settlements_are_one_statement_unless_a_lane_is_locked_first_or_a_message_is_there_twice() {
    for (all, wanted) in [
        (vec![settlement(1, None), settlement(2, None)], true),
        (vec![settlement(1, None), settlement(1, None)], false),
        (vec![settlement(1, None), settlement(2, Some("a"))], false),
    ] {
        assert_eq!(is_one_statement(&all), wanted, "{all:?}");
    }
}

#[test]
fn lanes_are_locked_once_each_in_one_order() {
    let to = |destination: &str, lane| Settlement {
        destination: Name::parse(destination).unwrap(),
        ..settlement(1, lane)
    };
    let all = [to("b", Some("x")), to("a", Some("z")), to("b", Some("x")), to("a", None), to("a", Some("y"))];
    let lanes = lanes_of(&all);
    let found: Vec<(&str, &str)> = lanes.iter().map(|(to, lane)| (to.as_str(), lane.as_str())).collect();
    assert_eq!(found, [("a", "y"), ("a", "z"), ("b", "x")]);
}

#[test]
fn a_successful_first_attempt_is_in_the_message_history_and_every_other_has_its_own_row() {
    let plain = settlement(1, None);
    let second = Settlement { attempt_n: 2, ..plain.clone() };
    let answered = Settlement { response: Some("ok".to_owned()), ..plain.clone() };
    let late = Settlement {
        to: SettleTo::Ready { visible_at_ms: 5 },
        result: AttemptResult::Retry,
        error: Some("503".to_owned()),
        ..plain.clone()
    };
    let rows = [&plain, &second, &answered, &late].map(|one| (one.is_plainly_done(), one.has_own_row()));
    assert_eq!(rows, [(true, false), (false, true), (false, true), (false, true)]);
    let states = [plain.to, late.to, SettleTo::Dead, SettleTo::Held]
        .map(|to| (to.state(), Settlement { to, ..plain.clone() }.visible_at_ms()));
    assert_eq!(
        states,
        [
            (MessageState::Done, None),
            (MessageState::Ready, Some(5)),
            (MessageState::Dead, Some(1_000)),
            (MessageState::Held, Some(1_000)),
        ]
    );
}

#[test]
fn nothing_is_kept_of_a_message_that_forwards_the_events_own_bytes() {
    let event = EventKey { provider: Name::parse("stripe").expect("a name"), event_id: "evt_1".to_owned() };
    let forward = NewMessage::forward(MessageId::from_column(1), event, "billing");
    assert!(forward.is_forward());
    assert_eq!((forward.effect_name_column(), forward.headers_json().as_str()), (None, "{}"));
    let changed: [fn(&mut NewMessage); 4] = [
        |one| one.method = "PUT".to_owned(),
        |one| one.path = "/x".to_owned(),
        |one| one.body = Some(bytes::Bytes::new()),
        |one| drop(one.headers.insert("x-a".to_owned(), "\"b\"".to_owned())),
    ];
    for change in changed {
        let mut message = forward.clone();
        change(&mut message);
        assert!(!message.is_forward(), "{message:?}");
    }
    let named = NewMessage { effect_name: "first".to_owned(), ..forward };
    assert_eq!(named.effect_name_column(), Some("first"));
}

fn claimed() -> ClaimedRow {
    let event = ClaimedEvent {
        provider: "stripe".to_owned(),
        event_id: "evt_1".to_owned(),
        event_type: "invoice.paid".to_owned(),
    };
    ClaimedRow {
        misread: None,
        message_id: MessageId::from_column(1_024),
        generation: 0,
        effect_name: None,
        destination: Name::parse("billing").unwrap(),
        lane: Some("a".to_owned()),
        attempt_n: 3,
        attempts_before_n: 1,
        is_lapsed: false,
        last_result: None,
        created_at_ms: 0,
        lease_until_ms: 30_000,
        first_sent_at_ms: 0,
        key_valid_until_ms: 90_000,
        last_ended_at_ms: None,
        event: Some(event),
        content: None,
        payload: Some(ClaimedPayload {
            headers: r#"{"content-type":"text/xml"}"#.to_owned(),
            body: b"<a/>".to_vec(),
            key_id: None,
            is_redacted: false,
            is_whole: false,
        }),
    }
}

#[test]
fn a_claimed_row_without_content_of_its_own_is_a_post_of_the_events_bytes() {
    let taken = Claimed::of(vec![claimed()], &Uuid::nil(), 1_000, &KeyRing::default());
    let [message] = &taken.messages[..] else { panic!("{taken:?}") };
    assert_eq!(
        (message.method.as_str(), message.path.as_str(), &message.body[..]),
        ("POST", "", &b"<a/>"[..])
    );
    assert_eq!(message.event_content_type.as_deref(), Some("text/xml"));
    assert_eq!((message.effect_name.as_str(), message.attempt_n), ("billing", 3));
    assert!(!message.is_previous_unknown && taken.unreadable.is_empty());
}

#[test]
fn a_claimed_row_that_cannot_be_read_is_held_with_the_reason_and_keeps_what_was_unknown() {
    let content = |headers: &str, body: Option<&[u8]>| {
        Some(ClaimedContent {
            method: "PUT".to_owned(),
            path: "/x".to_owned(),
            headers: headers.to_owned(),
            body: body.map(<[u8]>::to_vec),
            key_id: None,
        })
    };
    let mut eventless = claimed();
    eventless.event = None;
    let mut nameless = claimed();
    nameless.event.as_mut().unwrap().provider = "No Name".to_owned();
    let (mut empty, mut odd) = (claimed(), claimed());
    (empty.content, empty.payload) = (content("{}", None), None);
    let mut redacted = claimed();
    redacted.payload.as_mut().unwrap().is_redacted = true;
    odd.content = content("[1]", Some(b"x"));
    for (row, reason) in [
        (eventless, "its event is no longer kept"),
        (nameless, "its provider is called `No Name`"),
        (empty, "its body is no longer kept"),
        (redacted, "its body was redacted"),
        (odd, "its headers are no JSON object of texts"),
    ] {
        for last_result in [None, Some("unknown".to_owned())] {
            let was_unknown = last_result.is_some();
            let row = ClaimedRow {
                last_result,
                event: row.event.as_ref().map(|event| ClaimedEvent {
                    provider: event.provider.clone(),
                    event_id: event.event_id.clone(),
                    event_type: event.event_type.clone(),
                }),
                content: row.content.as_ref().and_then(|one| content(&one.headers, one.body.as_deref())),
                payload: row.payload.clone(),
                ..claimed()
            };
            let taken = Claimed::of(vec![row, claimed()], &Uuid::nil(), 1_000, &KeyRing::default());
            assert_eq!(taken.messages.len(), 1, "it blocks no other message");
            let [held] = &taken.unreadable[..] else { panic!("{taken:?}") };
            assert!(held.error.as_ref().is_some_and(|why| why.contains(reason)), "{held:?}");
            let result = if was_unknown { AttemptResult::Unknown } else { AttemptResult::Released };
            assert_eq!((held.to, held.result, held.attempt_n), (SettleTo::Held, result, 3));
            assert_eq!((held.lane.as_deref(), held.is_unsent), (Some("a"), true), "its lane goes on");
        }
    }
}
