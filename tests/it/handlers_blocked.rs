//! Plain handlers that do not return: they cannot be cancelled, so readiness reports them until they do.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hooklatch::prelude::*;
use serde_json::Value as Json;

use crate::app::{TestApp, event_body, stripe_kind};
use crate::database::{Database, on_both};
use crate::process::{client, until};

on_both!(
    a_plain_handler_that_hangs_is_reported_until_it_returns,
    a_burst_of_events_whose_handlers_are_slow_is_admitted,
    a_plain_handler_that_blocks_when_it_runs_again_keeps_nothing_else_from_running,
);

/// Frees the thread however the test ends.
struct Release(Arc<AtomicBool>);

impl Drop for Release {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

pub(crate) async fn is_ready(app: &TestApp) -> bool {
    let answer = client().get(format!("http://{}/readyz", app.running.admin_addr)).send().await;
    answer.is_ok_and(|answer| answer.status() == 200)
}

async fn a_plain_handler_that_hangs_is_reported_until_it_returns(database: &Database) {
    let release = Release(Arc::default());
    let is_released = Arc::clone(&release.0);
    let kind = stripe_kind().on("blocks", move |_: Event<Json>| {
        while !is_released.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(Effects::new().forward("billing"))
    });
    let app = TestApp::start(database, kind, "").await;
    until("it is ready", Duration::from_secs(10), String::new, async || is_ready(&app).await).await;
    let blocked = event_body("evt_1", "blocks", 1);
    let (status, _, _) = app.post(&blocked).await;
    assert_eq!(status, 503);
    until("readiness knows", Duration::from_secs(20), String::new, async || !is_ready(&app).await).await;
    drop(release);
    until("it is ready again", Duration::from_secs(20), String::new, async || is_ready(&app).await).await;
    until("others are admitted", Duration::from_secs(20), String::new, async || {
        app.post(&event_body("evt_2", "other", 1)).await.0 == 200
    })
    .await;
    assert_eq!(app.post(&blocked).await.0, 200);
    until("it is sent", Duration::from_secs(10), String::new, async || !app.destination.calls().is_empty())
        .await;
    app.running.stop().await;
    assert_eq!(app.destination.calls().len(), 1, "once");
    assert_eq!(database.count("SELECT COUNT(*) FROM processed_webhook_events").await, 2);
}

/// Longer together than one transaction may take.
async fn a_burst_of_events_whose_handlers_are_slow_is_admitted(database: &Database) {
    const EVENTS_N: usize = 100;
    let kind = stripe_kind().on("slow", |_: Event<Json>| {
        std::thread::park_timeout(Duration::from_millis(60));
        Ok(Effects::new())
    });
    let app = Arc::new(TestApp::start(database, kind, "").await);
    // What was not answered in time is sent again, as senders do. A burst that is never admitted ends this too.
    for _ in 0..20 {
        let mut burst = tokio::task::JoinSet::new();
        for n in 0..EVENTS_N {
            let app = Arc::clone(&app);
            burst.spawn(async move { app.event(&format!("evt_{n}"), "slow", 1).await });
        }
        let outcomes = burst.join_all().await;
        if outcomes.iter().all(|outcome| ["accepted", "duplicate"].contains(&outcome.as_str())) {
            break;
        }
    }
    let done = "SELECT COUNT(*) FROM processed_webhook_events WHERE state = 'handled'";
    assert_eq!(database.count(done).await, 100);
}

async fn a_plain_handler_that_blocks_when_it_runs_again_keeps_nothing_else_from_running(database: &Database) {
    let (release, runs_n) = (Release(Arc::default()), Arc::new(AtomicUsize::new(0)));
    let (is_released, runs) = (Arc::clone(&release.0), Arc::clone(&runs_n));
    let kind = stripe_kind().on("blocks", move |_: Event<Json>| {
        if runs.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(anyhow::anyhow!("not yet").into());
        }
        while !is_released.load(Ordering::SeqCst) {
            std::thread::park_timeout(Duration::from_millis(20));
        }
        Ok(Effects::new().forward("billing"))
    });
    let app = TestApp::start(database, kind, "").await;
    assert_eq!(app.event("evt_1", "blocks", 1).await, "accepted");
    until("it runs again", Duration::from_secs(20), String::new, async || {
        app.clock.advance(3_600_000);
        runs_n.load(Ordering::SeqCst) > 1
    })
    .await;
    for n in 0..20 {
        // On SQLite its transaction has the only writer: what is asked is whether anybody answers.
        let asked = client().get(format!("http://{}/readyz", app.running.admin_addr)).send();
        let answer = tokio::time::timeout(Duration::from_secs(5), asked).await;
        assert!(matches!(answer, Ok(Ok(_))), "{n}: {answer:?}");
    }
    drop(release);
    until("it is sent", Duration::from_secs(20), String::new, async || !app.destination.calls().is_empty())
        .await;
    app.running.stop().await;
    assert_eq!(app.destination.calls().len(), 1, "once");
}
