//! Viewers of a tail without a listener: each look is made by the test.

use std::time::Duration;

use hooklatch::api::TailView;
use hooklatch::stop::{Stop, Stopper};
use hooklatch::store::Store;
use hooklatch::tail::{TailChoice, TailHub, TailStep, TailViewer, VIEWERS_N_MAX};
use hooklatch::types::Reach;
use tokio::time::Instant;

use super::add_events;
use crate::database::{Database, on_both};
use crate::process::until;
use crate::store::name;

on_both!(
    two_viewers_hear_of_every_event_once_and_one_look_does_for_both,
    a_number_that_is_committed_late_is_told_and_none_is_told_twice,
    who_comes_back_goes_on_where_they_left_off_here_and_on_another_node,
    who_is_slow_is_told_how_many_events_of_theirs_they_missed,
    there_are_so_many_viewers_and_no_more_and_nobody_looks_for_none,
);

/// A tail whose looks are made by the test, but for the first one.
fn hub(store: &Store) -> (TailHub, Stopper) {
    let (stopper, stop) = Stop::channel();
    let hub = TailHub::with_pause(store.clone(), stop, Duration::from_hours(1));
    let running = hub.clone();
    tokio::spawn(async move { running.run().await });
    (hub, stopper)
}

fn all() -> TailChoice {
    TailChoice { reach: Reach::All, provider: None }
}

async fn open(hub: &TailHub, choice: TailChoice, last_id: Option<&str>) -> TailViewer {
    hub.open(choice, last_id).await.unwrap().unwrap_or_else(|_| panic!("there is room"))
}

/// What a viewer is told now: numbers of events, negative numbers of those left out; and where to resume.
async fn told(viewer: &mut TailViewer) -> (Vec<i64>, String) {
    let mut found = Vec::new();
    loop {
        match viewer.next(Instant::now()).await {
            TailStep::Told { what, data, .. } => match serde_json::from_str(&data).unwrap() {
                TailView::Event { event } => {
                    assert_eq!(what, "event");
                    found.push(event.received_at_ms);
                }
                TailView::Skipped { skipped_n } => {
                    assert_eq!(what, "skipped");
                    found.push(-i64::try_from(skipped_n).unwrap());
                }
            },
            TailStep::Quiet { id } => return (found, id),
            TailStep::End => panic!("nobody stopped it"),
        }
    }
}

async fn two_viewers_hear_of_every_event_once_and_one_look_does_for_both(database: &Database) {
    let (hub, stopper) = hub(&database.store().await);
    add_events(database, "stripe", 1, 3).await;
    let mut first = open(&hub, all(), None).await;
    let choice = TailChoice { reach: Reach::These([name("adyen")].into()), provider: None };
    let mut scoped = open(&hub, choice, None).await;
    let mut wanted =
        open(&hub, TailChoice { reach: Reach::All, provider: Some("stripe".to_owned()) }, None).await;
    assert_eq!((hub.viewers_n(), hub.polls_n()), (3, 1), "the first look is for the first viewer");
    assert_eq!(told(&mut first).await.0, [0; 0], "what was there before is not told");
    add_events(database, "stripe", 4, 2).await;
    add_events(database, "adyen", 6, 2).await;
    hub.poll().await.unwrap();
    assert_eq!(told(&mut first).await.0, [4, 5, 6, 7]);
    assert_eq!(told(&mut scoped).await.0, [6, 7], "what is in scope");
    assert_eq!(told(&mut wanted).await.0, [4, 5], "what is wanted");
    hub.poll().await.unwrap();
    assert_eq!(told(&mut first).await.0, [0; 0]);
    assert_eq!(hub.polls_n(), 3, "however many view");
    stopper.stop();
    assert_eq!(first.next(Instant::now() + Duration::from_mins(1)).await, TailStep::End);
}

async fn a_number_that_is_committed_late_is_told_and_none_is_told_twice(database: &Database) {
    let (hub, _stopper) = hub(&database.store().await);
    add_events(database, "stripe", 4_096, 1).await;
    let mut viewer = open(&hub, all(), None).await;
    // Another node's block, then the rest of the first one, then a gap before all that was there.
    for (seq, n) in [(8_192, 2), (4_097, 3), (4_000, 1), (8_194, 1)] {
        add_events(database, "stripe", seq, n).await;
        hub.poll().await.unwrap();
        let wanted: Vec<i64> = (seq..seq + n).collect();
        assert_eq!(told(&mut viewer).await.0, wanted);
    }
    hub.poll().await.unwrap();
    assert_eq!(told(&mut viewer).await.0, [0; 0]);
}

async fn who_comes_back_goes_on_where_they_left_off_here_and_on_another_node(database: &Database) {
    let store = database.store().await;
    let (hub, _stopper) = hub(&store);
    let mut viewer = open(&hub, all(), None).await;
    let mut stays = open(&hub, all(), None).await;
    add_events(database, "stripe", 100, 1).await;
    hub.poll().await.unwrap();
    let (found, id) = told(&mut viewer).await;
    assert_eq!(found, [100]);
    drop(viewer);
    add_events(database, "stripe", 101, 2).await;
    add_events(database, "adyen", 50, 1).await;
    hub.poll().await.unwrap();
    let mut back = open(&hub, all(), Some(&id)).await;
    assert_eq!(told(&mut back).await.0, [50, 101, 102], "the late one as well");
    assert_eq!(told(&mut stays).await.0, [100, 50, 101, 102]);
    // Nobody views for a moment, and what was found is kept.
    let (_, id) = told(&mut back).await;
    drop((back, stays));
    add_events(database, "stripe", 60, 1).await;
    let reopened = tokio::spawn({
        let (hub, id) = (hub.clone(), id.clone());
        async move { open(&hub, all(), Some(&id)).await }
    });
    let mut back = reopened.await.unwrap();
    hub.poll().await.unwrap();
    assert_eq!(told(&mut back).await.0, [60]);
    // Another node knows the number alone.
    let (other, _other_stopper) = self::hub(&store);
    add_events(database, "stripe", 200, 2).await;
    let mut elsewhere = open(&other, all(), Some(&id)).await;
    add_events(database, "stripe", 202, 1).await;
    other.poll().await.unwrap();
    let (found, id) = told(&mut elsewhere).await;
    assert_eq!(found, [200, 201, 202]);
    assert_eq!(told(&mut open(&other, all(), Some(&id)).await).await.0, [0; 0], "told before");
    // Of very much the newest alone.
    add_events(database, "stripe", 1_000, 700).await;
    let (third, _third_stopper) = self::hub(&store);
    let mut late = open(&third, all(), Some(&id)).await;
    let (found, _) = told(&mut late).await;
    assert_eq!((found.len(), &found[..2], found[500]), (501, &[-200, 1_200][..], 1_699));
    for nonsense in ["", "x", "1-2", "-1--1--1", "a-b-c"] {
        assert_eq!(told(&mut open(&third, all(), Some(nonsense)).await).await.0, [0; 0], "{nonsense}");
    }
}

async fn who_is_slow_is_told_how_many_events_of_theirs_they_missed(database: &Database) {
    let (hub, _stopper) = hub(&database.store().await);
    let mut everything = open(&hub, all(), None).await;
    let mut scoped =
        open(&hub, TailChoice { reach: Reach::All, provider: Some("adyen".to_owned()) }, None).await;
    add_events(database, "adyen", 1, 3).await;
    hub.poll().await.unwrap();
    assert_eq!(told(&mut scoped).await.0, [1, 2, 3]);
    add_events(database, "stripe", 10, 600).await;
    hub.poll().await.unwrap();
    add_events(database, "adyen", 700, 600).await;
    hub.poll().await.unwrap();
    let (found, _) = told(&mut everything).await;
    assert_eq!((found.len(), found[0], found[1], found[1_000]), (1_001, -203, 210, 1_299));
    let (found, _) = told(&mut scoped).await;
    assert_eq!((found.len(), found[0]), (600, 700), "nothing of theirs was left out");
    // More in one look than is kept.
    add_events(database, "adyen", 10_000, 2_500).await;
    hub.poll().await.unwrap();
    for viewer in [&mut everything, &mut scoped] {
        let (found, _) = told(viewer).await;
        assert_eq!((found.len(), found[0], found[1_000]), (1_001, -1_500, 12_499));
    }
}

async fn there_are_so_many_viewers_and_no_more_and_nobody_looks_for_none(database: &Database) {
    let (stopper, stop) = Stop::channel();
    let store = database.store().await;
    let hub = TailHub::with_pause(store.clone(), stop, Duration::from_millis(5));
    let running = hub.clone();
    let looking = tokio::spawn(async move { running.run().await });
    assert_eq!(hub.polls_n(), 0, "nobody views");
    let mut viewers = Vec::new();
    for _ in 0..VIEWERS_N_MAX {
        viewers.push(open(&hub, all(), None).await);
    }
    assert!(hub.open(all(), None).await.unwrap().is_err());
    viewers.pop();
    viewers.push(open(&hub, all(), None).await);
    until("it looks again and again", Duration::from_secs(20), String::new, async || hub.polls_n() > 10)
        .await;
    viewers.clear();
    // The look that was under way then is the last one.
    let mut before_n = u64::MAX;
    until("it looks no more", Duration::from_secs(20), String::new, async || {
        std::mem::replace(&mut before_n, hub.polls_n()) == hub.polls_n()
    })
    .await;
    assert_eq!(hub.viewers_n(), 0);
    stopper.stop();
    looking.await.unwrap();
}
