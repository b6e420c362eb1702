//! The policy as tables: answers and ages in, decisions out.

use std::collections::BTreeMap;

use super::*;
use hooklatch_core::config::{
    DestinationConfig, Format, HttpConfig, QueryConfig, RetryConfig, StatusMeaning, Target, UnknownPolicy,
};
use hooklatch_core::types::{AttemptResult, EventKey, MessageId, Name, UnixMs};
use hooklatch_store::LeasedMessage;

const NOW: UnixMs = 1_700_000_000_000;
const HOUR: i64 = 3_600_000;

pub(crate) fn config(unknown: UnknownPolicy) -> DestinationConfig {
    DestinationConfig {
        url: "http://far.test".to_owned(),
        headers: BTreeMap::new(),
        unknown,
        timeout_ms: 10_000,
        concurrency_n: 4,
        adaptive: false,
        retry: RetryConfig { first_ms: 1_000, max_ms: 3_600_000, attempts_n: 20, age_max_ms: 79_200_000 },
        retry_after_max_ms: 3_600_000,
        key_valid_for_ms: 86_400_000,
        rate_per_s: 0,
        breaker_failures_n: 0,
        breaker_open_ms: 1_000,
        target: Target::http(),
        format: Format::Raw,
        statuses: BTreeMap::new(),
        sign_secrets: Vec::new(),
        heartbeat: false,
        http: HttpConfig::default(),
    }
}

/// The first attempt of a message.
pub(crate) fn first_attempt() -> LeasedMessage {
    LeasedMessage {
        message_id: MessageId::from_column(7),
        key: EventKey { provider: Name::parse("stripe").unwrap(), event_id: "evt_1".to_owned() },
        event_type: "invoice.paid".to_owned(),
        generation: 0,
        effect_name: "billing".to_owned(),
        idempotency_key: "key-1".to_owned(),
        destination: Name::parse("billing").unwrap(),
        method: "POST".to_owned(),
        path: String::new(),
        headers: BTreeMap::new(),
        body: bytes::Bytes::from_static(b"{}"),
        event_content_type: None,
        traceparent: None,
        lane: None,
        attempt_n: 1,
        is_previous_unsettled: false,
        is_previous_unknown: false,
        previous_ended_at_ms: None,
        attempts_before_n: 0,
        created_at_ms: NOW,
        first_sent_at_ms: NOW,
        key_valid_until_ms: NOW + 24 * HOUR,
        lease_until_ms: NOW + 30_000,
    }
}

fn query() -> UnknownPolicy {
    UnknownPolicy::Query(QueryConfig {
        url: String::new(),
        pointer: String::new(),
        equals: None,
        pending: Vec::new(),
        absent: Vec::new(),
        after_ms: 30_000,
    })
}

fn facts(attempt_n: u32) -> Facts {
    Facts {
        attempt_n,
        first_sent_at_ms: NOW,
        key_valid_until_ms: NOW + 24 * HOUR,
        is_uncertain: false,
        was_uncertain: false,
        previous_ended_at_ms: None,
    }
}

fn status(code: u16) -> CallAnswer {
    CallAnswer::Status { code, retry_after: None }
}

fn unknown() -> CallAnswer {
    CallAnswer::Unknown("no answer".to_owned())
}

fn not_sent() -> CallAnswer {
    CallAnswer::NotSent("connection refused".to_owned())
}

/// A step without its words and relative to now.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ShortStep {
    Done,
    Retry(i64),
    Ask(i64),
    Dead,
    Hold,
}

fn short(step: &NextStep) -> ShortStep {
    match step {
        NextStep::Done => ShortStep::Done,
        NextStep::RetryAt { at_ms } => ShortStep::Retry(at_ms - NOW),
        NextStep::AskFirst { at_ms } => ShortStep::Ask(at_ms - NOW),
        NextStep::Dead(_) => ShortStep::Dead,
        NextStep::Hold(_) => ShortStep::Hold,
    }
}

#[test]
fn each_answer_has_one_meaning() {
    #[track_caller]
    fn check(answer: &CallAnswer, unknown: UnknownPolicy, want: ShortStep) {
        assert_eq!(short(&next_step(answer, &facts(1), &config(unknown), NOW, 1.0)), want, "{answer:?}");
    }
    for code in [200, 201, 202, 204, 299] {
        check(&status(code), UnknownPolicy::Hold, ShortStep::Done);
    }
    for code in [425, 429, 503] {
        check(&status(code), UnknownPolicy::Hold, ShortStep::Retry(1_000));
        check(&status(code), query(), ShortStep::Retry(1_000));
    }
    // Gateways say these of work that was done.
    for code in [408, 499, 500, 502, 504, 507, 520, 521, 522, 523, 524, 598, 599] {
        check(&status(code), UnknownPolicy::Retry, ShortStep::Retry(1_000));
        check(&status(code), query(), ShortStep::Ask(30_000));
        check(&status(code), UnknownPolicy::Hold, ShortStep::Hold);
    }
    for code in [100, 101, 300, 301, 302, 307, 308, 400, 401, 404, 409, 410, 422] {
        for policy in [UnknownPolicy::Retry, query(), UnknownPolicy::Hold] {
            check(&status(code), policy, ShortStep::Dead);
        }
    }
    for code in [600, 999] {
        check(&status(code), UnknownPolicy::Retry, ShortStep::Dead);
        check(&status(code), UnknownPolicy::Hold, ShortStep::Hold);
    }
    for policy in [UnknownPolicy::Retry, query(), UnknownPolicy::Hold] {
        check(&not_sent(), policy.clone(), ShortStep::Retry(1_000));
        check(&CallAnswer::NotNow("full".to_owned()), policy.clone(), ShortStep::Retry(1_000));
        check(&CallAnswer::Refused("too large".to_owned()), policy.clone(), ShortStep::Dead);
        check(&CallAnswer::Done, policy, ShortStep::Done);
    }
    check(&unknown(), UnknownPolicy::Retry, ShortStep::Retry(1_000));
    check(&unknown(), query(), ShortStep::Ask(30_000));
    check(&unknown(), UnknownPolicy::Hold, ShortStep::Hold);
}

#[test]
fn attempts_and_age_run_out_and_the_old_key_is_never_sent_again() {
    #[track_caller]
    fn check(answer: &CallAnswer, policy: UnknownPolicy, attempt_n: u32, age_ms: i64, want: ShortStep) {
        let facts = Facts {
            first_sent_at_ms: NOW - age_ms,
            key_valid_until_ms: NOW - age_ms + 24 * HOUR,
            ..facts(attempt_n)
        };
        assert_eq!(short(&next_step(answer, &facts, &config(policy), NOW, 1.0)), want, "{answer:?}");
    }
    // Messages that were given up for one reason have one text, by which operators see them counted together.
    let texts = [22, 23].map(|hours_n| {
        let facts = Facts { first_sent_at_ms: NOW - hours_n * HOUR, ..facts(3) };
        next_step(&status(500), &facts, &config(UnknownPolicy::Retry), NOW, 1.0)
    });
    assert_eq!(texts[0], NextStep::Dead("given up after 3 attempts".to_owned()));
    assert_eq!(texts[0], texts[1]);
    check(&status(500), UnknownPolicy::Retry, 19, 0, ShortStep::Retry(HOUR));
    check(&status(500), UnknownPolicy::Retry, 20, 0, ShortStep::Dead);
    check(&status(500), UnknownPolicy::Retry, u32::MAX, 0, ShortStep::Dead);
    check(&status(500), UnknownPolicy::Retry, 1, 22 * HOUR, ShortStep::Dead);
    check(&not_sent(), UnknownPolicy::Hold, 20, 0, ShortStep::Dead);
    check(&unknown(), UnknownPolicy::Retry, 20, 0, ShortStep::Dead);
    check(&unknown(), query(), 20, 0, ShortStep::Hold);
    check(&status(200), UnknownPolicy::Retry, u32::MAX, 100 * HOUR, ShortStep::Done);
    let mut patient = config(UnknownPolicy::Retry);
    patient.retry.age_max_ms = u64::MAX;
    let late = Facts { key_valid_until_ms: NOW + 999, ..facts(1) };
    assert_eq!(short(&next_step(&status(500), &late, &patient, NOW, 1.0)), ShortStep::Hold);
    assert_eq!(short(&next_step(&status(500), &late, &patient, NOW, 0.5)), ShortStep::Retry(500));
}

#[test]
fn extremes_saturate() {
    let mut wild = config(UnknownPolicy::Retry);
    wild.retry =
        RetryConfig { first_ms: u64::MAX, max_ms: u64::MAX, attempts_n: u32::MAX, age_max_ms: u64::MAX };
    wild.retry_after_max_ms = u64::MAX;
    let wild_facts = Facts { first_sent_at_ms: i64::MIN, key_valid_until_ms: i64::MAX, ..facts(7) };
    let forever = CallAnswer::Status { code: 429, retry_after: Some("9".repeat(60)) };
    for (answer, now_ms) in
        [(&forever, i64::MAX), (&forever, i64::MIN), (&unknown(), i64::MAX), (&unknown(), 0)]
    {
        for jitter in [0.0, 1.0, f64::NAN, -1.0, 2.0] {
            drop(next_step(answer, &wild_facts, &wild, now_ms, jitter));
        }
    }
    assert_eq!(
        short(&next_step(&status(500), &facts(1), &config(UnknownPolicy::Retry), NOW, 0.0)),
        ShortStep::Retry(1)
    );
}

#[test]
fn retry_after_is_a_floor_between_one_second_and_the_cap() {
    #[track_caller]
    fn check(text: &str, attempt_n: u32, want_ms: i64) {
        let answer = CallAnswer::Status { code: 429, retry_after: Some(text.to_owned()) };
        let step = next_step(&answer, &facts(attempt_n), &config(UnknownPolicy::Retry), NOW, 0.5);
        assert_eq!(short(&step), ShortStep::Retry(want_ms), "{text:?}");
    }
    check("120", 1, 120_000);
    check(" 120 ", 1, 120_000);
    check("0", 1, 1_000);
    check("1", 6, 16_000); // the back-off is longer
    check("315360000", 1, HOUR); // ten years
    check("99999999999999999999999999", 1, HOUR);
    check("Tue, 14 Nov 2023 22:15:20 GMT", 1, 120_000);
    check("Tuesday, 14-Nov-23 22:15:20 GMT", 1, 120_000);
    check("Tue Nov 14 22:15:20 2023", 1, 120_000);
    for ignored in
        ["", "soon", "-5", "1.5", "+3", "Tue, 14 Nov 2023 22:10:00 GMT", "Tue, 99 Nov 2023 22:15:20 GMT"]
    {
        check(ignored, 1, 500);
    }
}

#[test]
fn nothing_leaves_while_the_outcome_or_the_key_is_in_doubt() {
    #[track_caller]
    fn check(policy: UnknownPolicy, facts: Facts, now_ms: UnixMs, want: &str) {
        let plan = before_send(&facts, &config(policy), now_ms);
        let word = match &plan {
            SendPlan::Send => "send",
            SendPlan::Ask => "ask",
            SendPlan::Wait { .. } => "wait",
            SendPlan::Hold(_) => "hold",
            SendPlan::Dead(_) => "dead",
        };
        assert_eq!(word, want, "{facts:?}");
    }
    let over = Some(NOW - 30_000);
    let unknown = Facts { is_uncertain: true, was_uncertain: true, previous_ended_at_ms: over, ..facts(2) };
    let expired = NOW + 24 * HOUR;
    for policy in [UnknownPolicy::Retry, query(), UnknownPolicy::Hold] {
        check(policy.clone(), facts(1), NOW, "send");
        check(policy.clone(), facts(1), expired - 1, "send");
        check(policy.clone(), facts(1), expired, "hold");
        check(policy.clone(), facts(21), NOW, "send"); // revived by an operator
    }
    for doubt in [unknown, Facts { attempt_n: 20, ..unknown }] {
        check(UnknownPolicy::Retry, doubt, NOW, "send");
        check(UnknownPolicy::Retry, doubt, expired, "hold");
        check(UnknownPolicy::Hold, doubt, NOW, "hold");
        check(query(), doubt, NOW, "ask");
        check(query(), doubt, expired, "ask");
        check(query(), doubt.certain(), NOW, "send");
        check(query(), doubt.certain(), expired, "hold");
    }
    check(UnknownPolicy::Retry, Facts { attempt_n: 21, ..unknown }, NOW, "dead");
    check(query(), Facts { attempt_n: 21, ..unknown }.certain(), NOW, "dead"); // died before it waited to ask
    for ended_at_ms in [None, Some(NOW - 29_999), Some(NOW), Some(NOW + HOUR)] {
        check(query(), Facts { previous_ended_at_ms: ended_at_ms, ..unknown }, NOW, "wait");
    }
}

#[test]
fn every_status_has_a_word() {
    for code in 100..1_000 {
        let want = match code {
            200..=299 => AttemptResult::Done,
            408 | 425 | 429 | 499..=599 => AttemptResult::Retry,
            _ => AttemptResult::Refused,
        };
        assert_eq!(result_of(&status(code), &config(UnknownPolicy::Retry)), want, "{code}");
    }
    assert_eq!(result_of(&unknown(), &config(UnknownPolicy::Retry)), AttemptResult::Unknown);
    assert_eq!(result_of(&not_sent(), &config(UnknownPolicy::Retry)), AttemptResult::Retry);
    for (answer, want) in [
        (CallAnswer::Done, AttemptResult::Done),
        (CallAnswer::NotNow(String::new()), AttemptResult::Retry),
        (CallAnswer::Refused(String::new()), AttemptResult::Refused),
    ] {
        assert_eq!(result_of(&answer, &config(UnknownPolicy::Hold)), want);
    }
}

#[test]
fn a_destinations_own_word_on_a_status_stands() {
    #[track_caller]
    fn check(config: &DestinationConfig, code: u16, want: AttemptResult) {
        assert_eq!(result_of(&status(code), config), want, "{code}");
        let is_done = next_step(&status(code), &facts(1), config, NOW, 0.5) == NextStep::Done;
        assert_eq!(is_done, want == AttemptResult::Done, "{code}");
    }
    let statuses = BTreeMap::from([
        (409, StatusMeaning::Done),
        (404, StatusMeaning::Retry),
        (200, StatusMeaning::Retry),
        (503, StatusMeaning::Dead),
        (502, StatusMeaning::Unknown),
    ]);
    let config = DestinationConfig { statuses, ..config(UnknownPolicy::Retry) };
    check(&config, 409, AttemptResult::Done);
    check(&config, 404, AttemptResult::Retry);
    check(&config, 200, AttemptResult::Retry);
    check(&config, 503, AttemptResult::Refused);
    check(&config, 502, AttemptResult::Unknown);
    check(&config, 201, AttemptResult::Done);
    check(&config, 400, AttemptResult::Refused);
}

#[test]
fn a_body_that_refuses_overrides_a_success_status() {
    #[track_caller]
    fn check(meaning: StatusMeaning, unknown: UnknownPolicy, want: ShortStep, word: AttemptResult) {
        let answer = CallAnswer::Body { code: 200, meaning, why: "no such account".to_owned() };
        let config = config(unknown);
        assert_eq!(short(&next_step(&answer, &facts(1), &config, NOW, 1.0)), want, "{answer:?}");
        assert_eq!(result_of(&answer, &config), word, "{answer:?}");
    }
    for policy in [UnknownPolicy::Retry, query(), UnknownPolicy::Hold] {
        check(StatusMeaning::Dead, policy.clone(), ShortStep::Dead, AttemptResult::Refused);
        check(StatusMeaning::Retry, policy.clone(), ShortStep::Retry(1_000), AttemptResult::Retry);
        check(StatusMeaning::Done, policy, ShortStep::Done, AttemptResult::Done);
    }
    check(StatusMeaning::Unknown, UnknownPolicy::Retry, ShortStep::Retry(1_000), AttemptResult::Unknown);
    check(StatusMeaning::Unknown, query(), ShortStep::Ask(30_000), AttemptResult::Unknown);
    check(StatusMeaning::Unknown, UnknownPolicy::Hold, ShortStep::Hold, AttemptResult::Unknown);
}

#[test]
fn what_may_not_be_called_is_dead_at_once_and_no_failure_of_the_destination() {
    let forbidden = CallAnswer::Forbidden("private address".to_owned());
    for policy in [UnknownPolicy::Retry, query(), UnknownPolicy::Hold] {
        let config = config(policy);
        assert_eq!(short(&next_step(&forbidden, &facts(1), &config, NOW, 1.0)), ShortStep::Dead);
        assert_eq!(result_of(&forbidden, &config), AttemptResult::Refused, "the breaker does not count it");
    }
}

#[test]
fn a_destination_that_asks_for_time_gets_it_also_before_it_is_asked_again() {
    let asked = CallAnswer::Status { code: 504, retry_after: Some("120".to_owned()) };
    let step = |policy| short(&next_step(&asked, &facts(1), &config(policy), NOW, 0.5));
    assert_eq!(step(query()), ShortStep::Ask(120_000), "longer than its calls may be under way");
    assert_eq!(step(UnknownPolicy::Retry), ShortStep::Retry(120_000));
    assert_eq!(step(UnknownPolicy::Hold), ShortStep::Hold);
    // Past the time that the destination remembers the key nothing is sent, however politely it asks.
    let old = Facts { key_valid_until_ms: NOW + 120_000, ..facts(1) };
    let step = next_step(&asked, &old, &config(UnknownPolicy::Retry), NOW, 0.5);
    assert_eq!(short(&step), ShortStep::Hold);
}

#[test]
fn what_may_have_taken_effect_does_not_depend_on_the_rule() {
    let body = |meaning| CallAnswer::Body { code: 200, meaning, why: String::new() };
    for policy in [UnknownPolicy::Retry, query(), UnknownPolicy::Hold] {
        let config = config(policy);
        for (answer, want) in [
            (status(408), true),
            (status(500), true),
            (status(504), true),
            (status(422), true),
            (status(301), true),
            (status(503), false),
            (status(429), false),
            (status(425), false),
            (unknown(), true),
            (CallAnswer::Refused(String::new()), true),
            (body(StatusMeaning::Dead), true),
            (body(StatusMeaning::Unknown), true),
            (body(StatusMeaning::Retry), false),
            (CallAnswer::NotNow(String::new()), false),
            (CallAnswer::Forbidden(String::new()), false),
            (not_sent(), false),
        ] {
            assert_eq!(may_have_acted(&answer, &config), want, "{answer:?}");
        }
        let statuses = BTreeMap::from([(500, StatusMeaning::Retry), (503, StatusMeaning::Unknown)]);
        let config = DestinationConfig { statuses, ..config };
        assert!(!may_have_acted(&status(500), &config) && may_have_acted(&status(503), &config));
    }
}

#[test]
fn attempts_count_from_the_last_decision_of_an_operator_and_either_side_causes_doubt() {
    let facts = |change: fn(&mut LeasedMessage)| {
        let mut message = LeasedMessage { attempt_n: 23, attempts_before_n: 20, ..first_attempt() };
        change(&mut message);
        Facts::from(&message)
    };
    assert_eq!(facts(|_| {}).attempt_n, 3);
    assert_eq!(facts(|message| message.attempts_before_n = 99).attempt_n, 0, "never below none");
    assert!(!facts(|_| {}).is_uncertain);
    for change in [(|message| message.is_previous_unsettled = true) as fn(&mut LeasedMessage), |message| {
        message.is_previous_unknown = true;
    }] {
        let doubtful = facts(change);
        assert!(doubtful.is_uncertain && doubtful.was_uncertain);
        assert!(!doubtful.certain().is_uncertain && doubtful.certain().was_uncertain, "the past stays");
    }
}
