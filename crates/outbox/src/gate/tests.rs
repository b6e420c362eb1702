//! The gate as tables and steps, on ticks that the tests bring.

use std::time::Duration;

use crate::gate::*;
use crate::policy::tests::config;
use hooklatch_core::config::{DestinationConfig, UnknownPolicy};
use hooklatch_core::types::{AttemptResult, Name};

fn gate(rate_per_s: u32, breaker_failures_n: u32) -> CallGate {
    let config = DestinationConfig {
        rate_per_s,
        breaker_failures_n,
        breaker_open_ms: 500,
        ..config(UnknownPolicy::Retry)
    };
    CallGate::new(Name::parse("far").expect("a name"), &config)
}

fn start(gate: &CallGate, n: u32) {
    (0..n).for_each(|_| drop(gate.started()));
}

#[test]
fn a_rate_limit_lets_through_a_seconds_worth_at_most() {
    let gate = gate(10, 0);
    assert_eq!(gate.allowed_n(100, 1_000_000), 10, "after a long rest");
    start(&gate, 10);
    assert_eq!(gate.allowed_n(100, 1_000_000), 0);
    assert_eq!(gate.allowed_n(100, 1_000_099), 0);
    assert_eq!(gate.allowed_n(100, 1_000_250), 2);
    start(&gate, 2);
    assert_eq!(gate.allowed_n(100, 1_000_200), 0, "a clock that goes back gives nothing");
    assert_eq!(gate.allowed_n(3, 1_009_000), 3, "never more than slots are free");
}

#[test]
fn a_breaker_opens_after_failures_in_a_row_and_probes_with_one_call() {
    let gate = gate(0, 3);
    for result in [AttemptResult::Retry, AttemptResult::Unknown, AttemptResult::Done, AttemptResult::Retry] {
        gate.ended(result, None, Some(Duration::ZERO), 1_000);
    }
    assert_eq!(gate.allowed_n(8, 1_000), 8, "not in a row");
    gate.ended(AttemptResult::Retry, None, Some(Duration::ZERO), 1_000);
    gate.ended(AttemptResult::Unknown, None, Some(Duration::ZERO), 1_000);
    assert_eq!(gate.allowed_n(8, 1_499), 0);
    assert_eq!(gate.allowed_n(8, 1_500), 1, "one probe");
    let probe = gate.started();
    assert_eq!(gate.allowed_n(8, 1_600), 0, "and no second one");
    assert_eq!(gate.opens_in_ms(1_600), None, "its answer decides");
    gate.ended(AttemptResult::Retry, None, Some(Duration::ZERO), 1_700);
    drop(probe);
    assert_eq!(gate.opens_in_ms(1_700), Some(500));
    assert_eq!(gate.allowed_n(8, 2_199), 0, "open again");
    assert_eq!(gate.allowed_n(8, 2_200), 1);
    let probe = gate.started();
    gate.ended(AttemptResult::Unknown, None, None, 2_300);
    drop(probe);
    assert_eq!(gate.allowed_n(8, 2_300), 1, "a probe that was handed back is another one's turn");
    let probe = gate.started();
    gate.ended(AttemptResult::Refused, None, Some(Duration::ZERO), 2_400);
    drop(probe);
    assert_eq!(gate.allowed_n(8, 2_400), 8, "a refusal is an answer");
}

#[test]
fn a_breaker_that_nothing_is_left_to_probe_with_does_not_stay_open() {
    const QUIET_MS: i64 = 3_600_000;
    let gate = gate(0, 2);
    for _ in 0..2 {
        gate.ended(AttemptResult::Unknown, None, Some(Duration::ZERO), 1_000);
    }
    assert_eq!((gate.breaker(1_499), gate.breaker(1_500)), ("open", "half_open"));
    assert_eq!(gate.allowed_n(8, 1_500 + QUIET_MS - 1), 1, "a message may still be in its back-off");
    assert_eq!(gate.breaker(1_500 + QUIET_MS - 1), "half_open");
    assert_eq!(gate.allowed_n(8, 1_500 + QUIET_MS), 8);
    assert_eq!(gate.breaker(1_500 + QUIET_MS), "closed");
    gate.ended(AttemptResult::Retry, None, Some(Duration::ZERO), 1_600 + QUIET_MS);
    assert_eq!(gate.breaker(1_600 + QUIET_MS), "open", "the first failure opens it again");
}

#[test]
fn a_panic_while_probing_is_another_ones_turn() {
    let gate = gate(0, 1);
    gate.ended(AttemptResult::Retry, None, Some(Duration::ZERO), 1_000);
    assert_eq!(gate.allowed_n(8, 1_500), 1);
    let begun = gate.started();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _begun = begun;
        panic!("inside an attempt");
    }));
    assert!(panicked.is_err());
    assert_eq!(gate.allowed_n(8, 1_500), 1, "it probes again");
    // One that began before the breaker opened is not a probe, and its end is not the probe's.
    let probe = gate.started();
    drop(gate.started());
    assert_eq!(gate.allowed_n(8, 1_500), 0);
    drop(probe);
    assert_eq!(gate.allowed_n(8, 1_500), 1);
}

#[test]
fn the_gate_returns_when_more_calls_may_start() {
    let gate = gate(100, 0);
    assert_eq!(gate.opens_in_ms(1_000_000), None);
    assert_eq!(gate.allowed_n(500, 1_000_000), 100);
    start(&gate, 100);
    assert_eq!(gate.opens_in_ms(1_000_000), Some(50), "a few together");
    assert_eq!(gate.opens_in_ms(1_000_060), Some(-10));
    assert_eq!(gate.allowed_n(500, 1_000_060), 6);
    start(&gate, 6);
    assert_eq!(gate.allowed_n(0, 1_000_060), 0);
    assert_eq!(gate.opens_in_ms(1_000_060), None, "no call waits for the rate");
}

#[test]
fn no_second_look_follows_when_nothing_was_there() {
    let gate = gate(5, 1);
    assert_eq!(gate.allowed_n(8, 1_000_000), 5);
    assert_eq!(gate.opens_in_ms(1_000_000), None, "the look found nothing to use the rate for");
    start(&gate, 5);
    assert_eq!(gate.opens_in_ms(1_000_000), Some(200), "it took all that it might");
    assert_eq!(gate.allowed_n(8, 1_000_200), 1);
    assert_eq!(gate.opens_in_ms(1_000_200), None);
    gate.ended(AttemptResult::Retry, None, Some(Duration::ZERO), 1_000_200);
    assert_eq!(gate.opens_in_ms(1_000_200), Some(500));
    assert_eq!(gate.allowed_n(0, 1_000_700), 0);
    assert_eq!(gate.opens_in_ms(1_000_700), None, "no slot was free: time brings none");
    assert_eq!(gate.allowed_n(8, 1_000_700), 1);
    assert_eq!(gate.opens_in_ms(1_000_700), None, "no message to probe with");
    let probe = gate.started();
    drop(probe);
    assert_eq!(gate.opens_in_ms(1_000_700), Some(0), "it was handed back: another one's turn");
}

#[test]
fn there_are_more_slots_than_calls_only_while_calls_are_quick() {
    let gate = gate(0, 0);
    assert_eq!(gate.slots_n(), 4, "no call has ended yet");
    gate.ended(AttemptResult::Done, None, Some(Duration::from_millis(80)), 1_000);
    assert_eq!(gate.slots_n(), 4 * AHEAD);
    for _ in 0..30 {
        gate.ended(AttemptResult::Done, None, Some(Duration::from_millis(2)), 1_000);
    }
    assert_eq!(gate.slots_n(), 4 * FAR_AHEAD, "very quick");
    gate.ended(AttemptResult::Unknown, None, Some(Duration::from_secs(10)), 1_000);
    assert_eq!(gate.slots_n(), 4, "a failure ends it");
    gate.ended(AttemptResult::Done, None, Some(Duration::from_millis(200)), 1_000);
    assert_eq!(gate.slots_n(), 4, "slow");
}

fn adapting(concurrency_n: u32, unknown: UnknownPolicy) -> CallGate {
    let config = DestinationConfig { concurrency_n, adaptive: true, ..config(unknown) };
    CallGate::new(Name::parse("far").expect("a name"), &config)
}

#[tokio::test]
async fn no_more_calls_are_under_way_than_the_window_is_wide_however_it_moves() {
    let gate = adapting(64, UnknownPolicy::Retry);
    let took = Some(Duration::from_millis(200));
    let mut turns = Vec::new();
    for _ in 0..8 {
        turns.push(gate.turn().await);
    }
    assert_eq!((gate.slots_n(), gate.calls.available_permits()), (8, 0));
    gate.ended(AttemptResult::Retry, Some(503), took, 1_000);
    assert_eq!(gate.slots_n(), 4, "four of those under way are too many");
    turns.truncate(4);
    assert_eq!(gate.calls.available_permits(), 0);
    turns.truncate(3);
    assert_eq!(gate.calls.available_permits(), 1);
    turns.push(gate.turn().await);
    for n in 0..4 {
        gate.ended(AttemptResult::Done, None, took, 2_000 + n);
    }
    assert_eq!((gate.slots_n(), gate.calls.available_permits()), (5, 1));
    gate.ended(AttemptResult::Unknown, None, took, 3_000);
    assert_eq!((gate.slots_n(), gate.calls.available_permits()), (2, 0));
    // It grows while calls of before are under way: their places are taken over.
    gate.state().window.is_used_up();
    for n in 0..2 {
        gate.ended(AttemptResult::Done, None, took, 4_000 + n);
    }
    assert_eq!((gate.slots_n(), gate.calls.available_permits()), (3, 0));
    drop(turns);
    assert_eq!(gate.calls.available_permits(), gate.slots_n() as usize);
}

#[test]
fn only_signs_of_overload_make_the_window_smaller() {
    #[track_caller]
    fn check(result: AttemptResult, http_status: Option<u16>, want_n: u32) {
        let gate = adapting(64, UnknownPolicy::Retry);
        gate.ended(result, http_status, Some(Duration::from_millis(1)), 1_000);
        assert_eq!(gate.state().window.n(), want_n, "{result:?} {http_status:?}");
    }
    check(AttemptResult::Retry, Some(429), 4);
    check(AttemptResult::Retry, Some(503), 4);
    check(AttemptResult::Unknown, Some(504), 4);
    check(AttemptResult::Retry, None, 4);
    check(AttemptResult::Unknown, None, 4);
    check(AttemptResult::Unknown, Some(500), 8);
    check(AttemptResult::Retry, Some(409), 8);
    check(AttemptResult::Refused, Some(429), 8);
    check(AttemptResult::Refused, Some(400), 8);
    check(AttemptResult::Done, Some(200), 8);
    check(AttemptResult::Released, None, 8);
}

#[test]
fn with_hold_there_are_no_more_slots_than_calls_that_may_be_under_way() {
    for (unknown, want_n) in [(UnknownPolicy::Retry, FAR_AHEAD * 8), (UnknownPolicy::Hold, 8)] {
        let gate = adapting(64, unknown);
        gate.ended(AttemptResult::Done, Some(200), Some(Duration::from_millis(1)), 1_000);
        assert_eq!(gate.slots_n(), want_n);
    }
}

/// The window shrinks and the breaker opens while calls hang that have every slot.
#[test]
fn a_probe_that_waits_for_a_slot_waits_for_no_time() {
    let gate = gate(0, 1);
    gate.ended(AttemptResult::Retry, None, Some(Duration::ZERO), 1_000);
    assert_eq!(gate.opens_in_ms(1_000), Some(500));
    assert_eq!(gate.allowed_n(0, 1_400), 0);
    assert_eq!(gate.opens_in_ms(1_400), Some(100), "it was not due then");
    assert_eq!(gate.allowed_n(0, 1_500), 0, "due, and every slot is taken");
    assert_eq!(gate.opens_in_ms(1_505), None, "another look would find no slot either");
    assert_eq!(gate.allowed_n(1, 1_600), 1, "once there is one, it probes");
}
