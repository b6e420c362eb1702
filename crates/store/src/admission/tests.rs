//! Tests of what is decided of a batch without I/O: copies, order, versions, and the rows of messages.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::batch::{Batch, ExistingRows, highest, raised, stale};
use super::{Candidate, lanes_wanted, message_rows};
use crate::event::Latched;
use crate::message::{InitialLease, NewMessage};
use hooklatch_core::types::{
    BodyDigest, EventKey, EventState, IncomingEvent, MessageId, MessageState, Name, ObjectVersion,
};

fn event(event_id: &str, content: u8) -> IncomingEvent {
    let key = EventKey { provider: Name::parse("stripe").unwrap(), event_id: event_id.to_owned() };
    IncomingEvent::new(key, "invoice.paid", [content; 32], Bytes::new(), 1_000)
}

/// The events as candidates, numbered from 1.
fn candidates(events: Vec<IncomingEvent>) -> Vec<Candidate> {
    let of = |(event, event_seq): (IncomingEvent, i64)| Candidate {
        is_raising: event.object.is_some(),
        event: Arc::new(event),
        event_seq,
        state: EventState::Handled,
    };
    events.into_iter().zip(1..).map(of).collect()
}

fn holder(position: usize, digest: BodyDigest) -> ExistingRows {
    ExistingRows { position, same_key: Some((digest.to_vec(), "done".to_owned())), same_text: None }
}

#[test]
fn a_key_is_inserted_once_and_its_copies_are_found_by_their_content() {
    let all = candidates(vec![event("b", 1), event("a", 1), event("b", 1), event("b", 2)]);
    let batch = Batch::new(&all);
    let order: Vec<i64> = batch.rows().iter().map(|row| row.event_seq).collect();
    assert_eq!(order, [2, 1], "sorted by id, each key once");
    assert_eq!([0, 1, 2, 3].map(|position| batch.first_of(position)), [0, 1, 0, 0]);
    let inserted = batch.inserted(&[]);
    assert!(!inserted.is_all() && inserted.has(1) && inserted.has(2) && !inserted.has(3));
    assert_eq!(batch.lost(&inserted), [3], "other content under a key that is new");
    let (new, copy) = (Some(Latched::New), Some(Latched::Duplicate));
    assert_eq!(batch.surely(&inserted), [new.clone(), new, copy, None]);
}

#[test]
fn what_was_not_inserted_is_asked_about_with_its_copies_left_out() {
    let all = candidates(vec![event("a", 1), event("b", 1), event("b", 1)]);
    let batch = Batch::new(&all);
    let inserted = batch.inserted(&[2]);
    assert_eq!(batch.lost(&inserted), [1]);
    assert_eq!(batch.surely(&inserted), [Some(Latched::New), None, None]);
    let equal = [holder(0, [1; 32])];
    let found = [Latched::New, Latched::Duplicate, Latched::Duplicate];
    assert_eq!(batch.plainly(&inserted, &[1], &equal).as_deref(), Some(&found[..]));
    assert_eq!(
        batch.plainly(&inserted, &[1], &[holder(0, [2; 32])]),
        None,
        "other content takes a closer look"
    );
    assert_eq!(batch.plainly(&inserted, &[1], &[]), None, "deleted in between");
    let by_text =
        ExistingRows { same_key: None, same_text: Some(("x".to_owned(), vec![1; 32])), ..holder(0, [1; 32]) };
    assert_eq!(batch.plainly(&inserted, &[1], &[by_text]), None, "so does the same text under another id");
    let whole = candidates(vec![event("a", 1), event("b", 1)]);
    assert!(Batch::new(&whole).inserted(&[]).is_all());
}

#[test]
fn all_nodes_insert_in_one_order_signed_texts_first() {
    let signed = |id: &str, text: u8| IncomingEvent { replay_key: Some([text; 32]), ..event(id, 1) };
    let other = |id: &str| {
        let key = EventKey { provider: Name::parse("adyen").unwrap(), event_id: id.to_owned() };
        IncomingEvent { key, ..event(id, 1) }
    };
    let events = vec![event("a", 1), signed("z", 1), signed("b", 2), signed("y", 1), other("q")];
    let ids = |events: Vec<IncomingEvent>| -> Vec<String> {
        Batch::new(&candidates(events)).rows().iter().map(|row| row.event.key.event_id.clone()).collect()
    };
    let wanted = ["q", "y", "z", "b", "a"];
    assert_eq!(ids(events.clone()), wanted);
    assert_eq!(ids(events.into_iter().rev().collect()), wanted, "in whatever order they arrive");
}

#[test]
fn of_several_versions_of_an_object_the_highest_is_raised_and_the_others_are_stale() {
    let of = |id: &str, object: &str, version: i64| {
        let object = Some(ObjectVersion { object: object.to_owned(), version });
        IncomingEvent { object, ..event(id, 1) }
    };
    let events =
        vec![of("a", "in_2", 1), of("b", "in_1", 5), of("c", "in_1", 7), of("d", "in_1", 7), event("e", 1)];
    let all = candidates(events);
    let mut latched = vec![Latched::New; 5];
    let positions = raised(&all, &latched);
    assert_eq!(positions, [0, 1, 2, 3], "the last one is about nothing");
    let list = highest(&all, &positions);
    let found: Vec<(&str, i64, i64)> =
        list.iter().map(|one| (one.object, one.version, one.event_seq)).collect();
    assert_eq!(found, [("in_1", 7, 3), ("in_2", 1, 1)], "sorted, and of equal ones the first");
    assert_eq!(stale(&all, &positions, &[true, false]), [true, true, false, true, false]);
    latched[2] = Latched::Duplicate;
    assert_eq!(raised(&all, &latched), [0, 1, 3], "what is known already raises nothing");
}

fn message(destination: &str, lane: Option<&str>, is_leased: bool) -> NewMessage {
    let event = EventKey { provider: Name::parse("stripe").unwrap(), event_id: "evt_1".to_owned() };
    NewMessage {
        lane: lane.map(str::to_owned),
        created_at_ms: 1_000,
        lease: is_leased.then(|| InitialLease {
            node: "n".into(),
            from_ms: 1_000,
            until_ms: 2_000,
            key_valid_until_ms: 3_000,
            taken_at_ms: None,
        }),
        ..NewMessage::forward(MessageId::from_column(1), event, destination)
    }
}

#[test]
fn messages_are_leased_unless_paused_and_those_of_a_lane_wait_for_its_head() {
    let all = [
        message("billing", None, true),
        message("paused", None, true),
        message("billing", None, false),
        message("billing", Some("b"), true),
        message("billing", Some("a"), false),
        message("billing", Some("b"), false),
        message("ledger", Some("b"), false),
    ];
    let lanes = lanes_wanted(&all);
    assert_eq!(
        lanes,
        [("billing", "a", 1), ("billing", "b", 2), ("ledger", "b", 1)],
        "in the order of locks"
    );
    // Of `billing/a` the head is far back; the others begin.
    let places = [(3, 9), (1, 2), (1, 1)];
    let paused = HashSet::from(["paused".to_owned()]);
    let rows = message_rows(&all, &paused, &lanes, &places);
    let found: Vec<(MessageState, Option<i64>, bool)> =
        rows.iter().map(|row| (row.state, row.lane_seq, row.lease().is_some())).collect();
    let (ready, waiting) = (MessageState::Ready, MessageState::Waiting);
    assert_eq!(
        found,
        [
            (MessageState::Leased, None, true),
            (ready, None, false),
            (ready, None, false),
            (ready, Some(1), false),
            (waiting, Some(9), false),
            (waiting, Some(2), false),
            (ready, Some(1), false),
        ]
    );
}
