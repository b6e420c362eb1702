//! An unknown result is never treated as "did not happen": destinations that work on after the time-out, gateways
//! that lose answers, queries that are sent too early.

use hooklatch_core::types::{AttemptResult, SentUnder};
use std::collections::BTreeMap;
use std::time::Duration;

use hooklatch_core::config::{DestinationConfig, QueryConfig, StatusMeaning, UnknownPolicy};

use super::{AFTER_MS, Fixture, HOUR_MS, die_holding, die_until_lapse};
use crate::database::{Database, On, on_both};
use crate::process::{Server, client, post_stripe, until};
use crate::stub::{Mode, Stub};

on_both!(
    a_call_still_under_way_is_neither_queried_nor_repeated,
    a_call_of_a_dead_worker_is_queried_only_after_it_can_be_over,
    a_value_that_is_not_the_wanted_one_never_leads_to_a_second_call,
    a_gateway_that_loses_the_answer_leaves_the_outcome_unknown,
    it_is_on_record_under_which_rule_a_call_was_made_that_may_have_taken_effect,
    a_status_can_be_configured_to_leave_the_outcome_unknown,
    a_longer_wait_that_is_configured_later_holds_for_calls_made_before,
    an_uncertain_message_that_is_handed_back_unsent_costs_no_attempt,
);

/// What gateways, and destinations that fail in the middle of their work, answer.
const LOST: [u16; 11] = [408, 499, 500, 502, 504, 520, 521, 522, 523, 524, 599];

/// Time for calls that are not answered: enough for each to reach the destination.
const SHORT_MS: u64 = 2_000;

fn after_ms() -> i64 {
    i64::try_from(AFTER_MS).unwrap()
}

async fn a_call_still_under_way_is_neither_queried_nor_repeated(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::WorkUntilReleased]);
    let outbox =
        fixture.outbox(DestinationConfig { timeout_ms: SHORT_MS, ..fixture.config(fixture.query()) });
    assert_eq!(outbox.run_due().await.unwrap(), 1);
    assert_eq!(fixture.row("evt_1").await.visible_at_ms, fixture.clock.now_ms() + after_ms());
    fixture.clock.advance(after_ms() - 1);
    assert_eq!(outbox.run_due().await.unwrap(), 0);
    assert_eq!(fixture.stub.questions_n(), 0, "its answer could only be no, of what is yet to happen");
    fixture.until_called(&fixture.key("evt_1", "billing")).await;
    fixture.stub.work_ends();
    fixture.clock.advance(1);
    assert_eq!(outbox.run_due().await.unwrap(), 1);
    assert_eq!(fixture.state("evt_1").await, "done");
    assert_eq!(
        (fixture.stub.questions_n(), fixture.stub.counts(&fixture.key("evt_1", "billing"))),
        (1, (1, 1))
    );
}

async fn a_call_of_a_dead_worker_is_queried_only_after_it_can_be_over(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    die_until_lapse(&fixture).await;
    let outbox = fixture.outbox(fixture.config(fixture.query()));
    for waited_ms in [0, 10_000] {
        fixture.clock.advance(waited_ms);
        outbox.run_due().await.unwrap();
        let row = fixture.row("evt_1").await;
        let of_its_lease = super::START_MS + 30_000 + after_ms();
        assert_eq!((row.state.as_str(), row.visible_at_ms), ("ready", of_its_lease));
    }
    assert_eq!(fixture.stub.questions_n(), 0);
    fixture.clock.advance(after_ms());
    fixture.step_to_the_end(&outbox).await;
    assert_eq!(fixture.state("evt_1").await, "done");
    assert_eq!(
        (fixture.stub.questions_n(), fixture.stub.counts(&fixture.key("evt_1", "billing"))),
        (1, (1, 1))
    );
}

async fn a_value_that_is_not_the_wanted_one_never_leads_to_a_second_call(database: &Database) {
    let fixture = Fixture::new(database).await;
    for (id, pending) in [("evt_said", vec!["pending".to_owned()]), ("evt_unsaid", Vec::new())] {
        let query = UnknownPolicy::Query(QueryConfig {
            url: fixture.stub.query_url(),
            pointer: "/state".to_owned(),
            equals: Some("booked".to_owned()),
            pending,
            absent: Vec::new(),
            after_ms: AFTER_MS,
        });
        let outbox = fixture.outbox(DestinationConfig { timeout_ms: SHORT_MS, ..fixture.config(query) });
        fixture.message(id, &["billing"]).await;
        fixture.stub.next(&[Mode::WorkUntilReleased]);
        outbox.run_due().await.unwrap();
        fixture.clock.advance(after_ms());
        fixture.stub.next_question(&[Mode::Says("{\"state\":\"pending\"}")]);
        outbox.run_due().await.unwrap();
        let row = fixture.row(id).await;
        assert_eq!((row.state.as_str(), row.visible_at_ms), ("ready", fixture.clock.now_ms() + after_ms()));
        fixture.until_called(&fixture.key(id, "billing")).await;
        fixture.stub.work_ends();
        fixture.clock.advance(after_ms());
        fixture.stub.next_question(&[Mode::Says("{\"state\":\"booked\"}")]);
        outbox.run_due().await.unwrap();
        assert_eq!(fixture.state(id).await, "done");
        assert_eq!(fixture.stub.counts(&fixture.key(id, "billing")), (1, 1));
    }
}

async fn a_gateway_that_loses_the_answer_leaves_the_outcome_unknown(database: &Database) {
    let fixture = Fixture::new(database).await;
    let cases = [("hold", UnknownPolicy::Hold, "held", 0), ("query", fixture.query(), "done", 1)];
    for code in LOST {
        for (policy, unknown, state, questions_n) in &cases {
            let id = format!("evt_{code}_{policy}");
            let asked_before_n = fixture.stub.questions_n();
            fixture.message(&id, &["billing"]).await;
            fixture.stub.next(&[Mode::ActThenStatus(code)]);
            let outbox = fixture.outbox(fixture.config(unknown.clone()));
            outbox.run_due().await.unwrap();
            fixture.clock.advance(after_ms());
            outbox.run_due().await.unwrap();
            let row = fixture.row(&id).await;
            assert_eq!(row.state.as_str(), *state, "{id}");
            assert_eq!(fixture.stub.counts(&fixture.key(&id, "billing")), (1, 1), "{id}");
            assert_eq!(fixture.stub.questions_n() - asked_before_n, *questions_n, "{id}");
        }
    }
    let row = fixture.row("evt_504_hold").await;
    let last = (row.last_result.map(AttemptResult::as_str), row.last_error.as_deref());
    assert_eq!(last, (Some("unknown"), Some("outcome is unknown; answered 504")));
}

async fn it_is_on_record_under_which_rule_a_call_was_made_that_may_have_taken_effect(database: &Database) {
    let fixture = Fixture::new(database).await;
    let rules = [
        (UnknownPolicy::Retry, SentUnder::Retry),
        (fixture.query(), SentUnder::Query),
        (UnknownPolicy::Hold, SentUnder::Hold),
    ];
    for (policy, word) in rules {
        for (mode, may_have_acted) in [
            (Mode::ActThenDrop, true),
            (Mode::ActThenStatus(500), true),
            (Mode::ActThenStatus(422), true),
            (Mode::Status(503), false),
            (Mode::Status(429), false),
        ] {
            let id = format!("evt_{word}_{}", fixture.stub.requests_n());
            fixture.message(&id, &["billing"]).await;
            fixture.stub.next(&[mode]);
            fixture.outbox(fixture.config(policy.clone())).run_due().await.unwrap();
            let row = fixture.row(&id).await;
            assert_eq!(row.sent_under, may_have_acted.then_some(word), "{row:?}");
            let sql = format!("DELETE FROM outbox_queue WHERE message_id = {}", row.message_id);
            database.run(&sql).await.unwrap();
        }
    }
    // A worker that died may have sent it.
    fixture.message("evt_1", &["billing"]).await;
    die_until_lapse(&fixture).await;
    fixture.outbox(fixture.config(UnknownPolicy::Hold)).run_due().await.unwrap();
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.sent_under), ("held", Some(SentUnder::Hold)));
    // Nothing listens there, so no byte of it left.
    fixture.message("evt_2", &["billing"]).await;
    let closed =
        DestinationConfig { url: "http://127.0.0.1:1/".to_owned(), ..fixture.config(UnknownPolicy::Hold) };
    fixture.outbox(closed).run_due().await.unwrap();
    let row = fixture.row("evt_2").await;
    assert_eq!((row.last_result, row.sent_under), (Some(AttemptResult::Retry), None));
}

async fn a_status_can_be_configured_to_leave_the_outcome_unknown(database: &Database) {
    let fixture = Fixture::new(database).await;
    let cases = [
        ("hold", UnknownPolicy::Hold, "held", 1),
        ("query", fixture.query(), "done", 1),
        ("retry", UnknownPolicy::Retry, "done", 2),
    ];
    for (policy, unknown, state, requests_n) in cases {
        let id = format!("evt_{policy}");
        fixture.message(&id, &["billing"]).await;
        fixture.stub.next(&[Mode::ActThenStatus(503)]);
        let statuses = BTreeMap::from([(503, StatusMeaning::Unknown)]);
        let outbox = fixture.outbox(DestinationConfig { statuses, ..fixture.config(unknown) });
        fixture.step_to_the_end(&outbox).await;
        assert_eq!(fixture.state(&id).await, state, "{id}");
        assert_eq!(fixture.stub.counts(&fixture.key(&id, "billing")), (requests_n, 1), "{id}");
    }
}

async fn a_longer_wait_that_is_configured_later_holds_for_calls_made_before(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    fixture.stub.next(&[Mode::WorkUntilReleased]);
    let config = DestinationConfig { timeout_ms: SHORT_MS, ..fixture.config(UnknownPolicy::Retry) };
    fixture.outbox(config).run_due().await.unwrap();
    fixture.clock.advance(1_000);
    let outbox = fixture.outbox(fixture.config(fixture.query()));
    for _ in 0..3 {
        outbox.run_due().await.unwrap();
        fixture.clock.advance(9_000);
    }
    assert_eq!(fixture.stub.questions_n(), 0);
    let row = fixture.row("evt_1").await;
    assert_eq!((row.state.as_str(), row.visible_at_ms), ("ready", super::START_MS + after_ms()));
    fixture.until_called(&fixture.key("evt_1", "billing")).await;
    fixture.stub.work_ends();
    fixture.clock.advance(HOUR_MS);
    fixture.step_to_the_end(&outbox).await;
    assert_eq!(fixture.stub.counts(&fixture.key("evt_1", "billing")), (1, 1));
}

async fn an_uncertain_message_that_is_handed_back_unsent_costs_no_attempt(database: &Database) {
    let fixture = Fixture::new(database).await;
    fixture.message("evt_1", &["billing"]).await;
    die_holding(&fixture).await;
    let clock = fixture.clock.clone();
    fixture.stub.on_question(move || clock.advance(29_000));
    let outbox = fixture.outbox(fixture.config(fixture.query()));
    for _ in 0..9 {
        outbox.run_due().await.unwrap();
        assert_eq!(fixture.state("evt_1").await, "ready", "attempts_n is 3");
    }
    fixture.stub.on_question(|| {});
    outbox.run_due().await.unwrap();
    assert_eq!(fixture.state("evt_1").await, "done");
    assert_eq!(fixture.stub.counts(&fixture.key("evt_1", "billing")), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_program_calls_a_slow_destination_once() {
    let database = Database::create(On::Sqlite).await.unwrap();
    let stub = Stub::start().await;
    stub.next(&[Mode::WorkUntilReleased, Mode::ActThenStatus(504)]);
    let more = format!(
        "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"bank\"\n[outbox]\npoll_ms = 50\n\
         [destinations.bank]\nurl = \"{}\"\nunknown = \"query\"\ntimeout_ms = 1000\nconcurrency_n = 1\n\
         query = {{ url = \"{}\", pointer = \"\", after_ms = 10000 }}\n",
        stub.url(),
        stub.query_url()
    );
    let server = Server::start(&database.url, &more).await;
    for id in ["evt_slow", "evt_lost"] {
        post_stripe(&client(), &server.url("/webhooks/stripe"), id).await.unwrap();
    }
    let counted = async |sql| database.count(sql).await;
    until(
        "both outcomes are unknown",
        Duration::from_secs(20),
        || server.log(),
        async || {
            counted("SELECT COUNT(*) FROM outbox_messages WHERE state = 'ready' AND last_result = 'unknown'")
                .await
                == 2
        },
    )
    .await;
    assert_eq!(stub.questions_n(), 0);
    stub.work_ends();
    until(
        "both are done",
        Duration::from_secs(40),
        || server.log(),
        async || counted("SELECT COUNT(*) FROM outbox_messages WHERE state = 'done'").await == 2,
    )
    .await;
    assert_eq!((stub.requests_n(), stub.questions_n()), (2, 2), "asked, and not called again");
}
