//! A process that is killed around the commit: the caller repeats its command and gets the first answer, from any
//! process.

use std::time::Duration;

use super::*;
use crate::database::{Database, on_both};
use crate::needs::kills_n;
use crate::process::until;

on_both!(a_command_that_is_repeated_after_a_kill_is_carried_out_once_and_answered_the_same);

async fn a_command_that_is_repeated_after_a_kill_is_carried_out_once_and_answered_the_same(
    database: &Database,
) {
    let mut server = serve(database).await;
    for n in 0..kills_n() {
        let key = format!("k{n}");
        let asked = tokio::spawn(CommandResponse::of(by_token(&server, Some(&key), BODY)));
        // A moment drawn at random, somewhere before, in and after the commit.
        tokio::time::sleep(Duration::from_micros(fastrand::u64(0..9_000))).await;
        server.kill();
        let first = asked.await.unwrap();
        server.spawn().await;
        let want = format!("{{\"event_id\":\"{key}\",\"outcome\":\"accepted\"}}");
        let log = || server.log();
        until("it is answered", Duration::from_secs(20), log, async || {
            let response = CommandResponse::of(by_token(&server, Some(&key), BODY)).await;
            response.is_some_and(|response| (response.status, response.body) == (202, want.clone()))
        })
        .await;
        if let Some(first) = first {
            assert_eq!((first.status, first.body), (202, want));
        }
    }
    server.kill();
    // Another node, of which the first one knows nothing.
    let other = serve(database).await;
    for n in 0..kills_n() {
        let response = CommandResponse::of(by_token(&other, Some(&format!("k{n}")), BODY)).await.unwrap();
        assert_eq!((response.status, response.is_replayed(), response.outcome()), (202, true, "duplicate"));
    }
    let (commands_n, sql) = (i64::from(kills_n()), "SELECT COUNT(*) FROM outbox_messages");
    assert_eq!(database.count(sql).await, commands_n);
}
