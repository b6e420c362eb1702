//! Handlers in the trace of their event: at admission, in a transaction of their own, tried again, and run once more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hooklatch::prelude::{Effects, Event};

use super::collector::{Collector, ReceivedSpan};
use crate::app::{TestApp, stripe_kind};
use crate::database::{Database, on_sqlite};
use crate::process::until;

on_sqlite!(
    a_handler_that_fails_and_works_later_is_in_the_trace_of_its_event,
    an_event_that_people_have_run_again_begins_a_trace_that_follows_from_the_first,
    a_transactional_handler_is_in_the_trace_of_its_event,
);

#[derive(serde::Deserialize)]
struct Invoice {}

/// Handles everything, unless `fails` is set.
fn kind(fails: &Arc<AtomicBool>) -> hooklatch::Provider {
    let fails = Arc::clone(fails);
    stripe_kind().on("*", move |_: Event<Invoice>| {
        if fails.load(Ordering::SeqCst) {
            return Err(anyhow::anyhow!("not now, said ann@example.com").into());
        }
        Ok(Effects::new().call("billing", serde_json::json!({})))
    })
}

async fn start(database: &Database, kind: hooklatch::Provider, collector: &Collector) -> TestApp {
    TestApp::start(database, kind, &format!("[tracing]\nendpoint = \"{}\"\n", collector.url())).await
}

/// Waits for so many spans of this name.
async fn exported(collector: &Collector, name: &str, n: usize) -> Vec<ReceivedSpan> {
    let all = || format!("{:?}", collector.spans());
    until(name, Duration::from_secs(20), all, async || collector.named(name).len() >= n).await;
    let spans = collector.named(name);
    assert_eq!(spans.len(), n, "{spans:?}");
    spans
}

async fn a_handler_that_fails_and_works_later_is_in_the_trace_of_its_event(database: &Database) {
    let (fails, collector) = (Arc::new(AtomicBool::new(true)), Collector::start().await);
    let app = start(database, kind(&fails), &collector).await;
    assert_eq!(app.event("evt_1", "invoice.paid", 5).await, "accepted");
    let first = exported(&collector, "handle stripe", 1).await.remove(0);
    fails.store(false, Ordering::SeqCst);
    app.clock.advance(3_600_000);
    let both = exported(&collector, "handle stripe", 2).await;
    let sent = exported(&collector, "send billing", 1).await;
    let admission = &exported(&collector, "admit stripe", 1).await[0];
    for span in both.iter().chain(&sent) {
        assert_eq!((&span.trace_id, &span.parent_id), (&admission.trace_id, &admission.span_id), "{span:?}");
    }
    let said: Vec<(&str, bool)> =
        both.iter().map(|one| (one.get("hooklatch.dispatch_n"), one.is_error)).collect();
    assert_eq!(said, [("1", true), ("2", false)]);
    assert_eq!(first.span_id, both[0].span_id);
    assert_ne!(both[0].span_id, both[1].span_id);
    assert!(!format!("{:?}", collector.spans()).contains("ann@example.com"), "no text of an error");
    app.running.stop().await;
}

async fn an_event_that_people_have_run_again_begins_a_trace_that_follows_from_the_first(database: &Database) {
    let (fails, collector) = (Arc::default(), Collector::start().await);
    let app = start(database, kind(&fails), &collector).await;
    assert_eq!(app.event("evt_1", "invoice.paid", 5).await, "accepted");
    let first = exported(&collector, "send billing", 1).await.remove(0);
    // As `hooklatch events rerun` does.
    let again = "UPDATE processed_webhook_events
         SET state = 'retry', due_at_ms = 1, attempts_n = 0, generation = generation + 1";
    database.run(again).await.unwrap();
    let second = exported(&collector, "send billing", 2).await.remove(1);
    let runs = exported(&collector, "handle stripe", 2).await;
    let (admission, root) = (&exported(&collector, "admit stripe", 1).await[0], &runs[1]);
    assert_ne!(first.trace_id, second.trace_id);
    assert_eq!((&root.trace_id, root.parent_id.as_str()), (&second.trace_id, ""));
    assert_eq!(second.parent_id, root.span_id);
    assert_eq!(root.links, [(admission.trace_id.clone(), admission.span_id.clone())]);
    assert_eq!(root.get("hooklatch.generation"), "1");
    app.running.stop().await;
}

async fn a_transactional_handler_is_in_the_trace_of_its_event(database: &Database) {
    let collector = Collector::start().await;
    let kind = stripe_kind()
        .on_tx("*", async |_: &mut hooklatch::handler::Tx, _: Event<Invoice>| Ok(Effects::new()));
    let app = start(database, kind, &collector).await;
    assert_eq!(app.event("evt_1", "invoice.paid", 5).await, "accepted");
    let admission = &exported(&collector, "admit stripe", 1).await[0];
    let run = &exported(&collector, "handle stripe", 1).await[0];
    let commit = &exported(&collector, "commit", 1).await[0];
    assert_eq!((&run.trace_id, &run.parent_id), (&admission.trace_id, &admission.span_id));
    assert_eq!((&commit.trace_id, &commit.parent_id), (&admission.trace_id, &admission.span_id));
    app.running.stop().await;
}
