//! Tests of what a session may be like, as tables.

use super::session::{SessionCheck, SessionSettings};
use crate::db::opening::PostgresSettings;

type Change = fn(&mut SessionSettings);

fn fit() -> SessionSettings {
    SessionSettings {
        is_standby: false,
        is_read_only: false,
        fsync: "on".to_owned(),
        full_page_writes: "on".to_owned(),
        synchronous_commit: "on".to_owned(),
        synchronous_standby_names: String::new(),
        messages: "warning".to_owned(),
        isolation: "read committed".to_owned(),
        lock_ms: 2_000,
        idle_ms: 30_000,
        statement_ms: 0,
    }
}

#[test]
fn a_session_that_could_lose_or_block_something_is_refused_by_the_settings_name() {
    let settings = |is_replicated| PostgresSettings { is_replicated, ..PostgresSettings::default() };
    assert_eq!(fit().verdict(&settings(false)), SessionCheck::Fit);
    let changed: [(Change, bool, &str); 14] = [
        (|one| one.fsync = "off".to_owned(), false, "fsync = off"),
        (|one| one.full_page_writes = "off".to_owned(), false, "full_page_writes = off"),
        (|one| one.synchronous_commit = "off".to_owned(), false, "synchronous_commit = off"),
        (|one| one.synchronous_commit = "local".to_owned(), false, "synchronous_commit = local"),
        (
            |one| one.synchronous_commit = "remote_write".to_owned(),
            false,
            "synchronous_commit = remote_write",
        ),
        (|one| one.messages = "error".to_owned(), false, "client_min_messages"),
        (|_| {}, true, "synchronous_standby_names"),
        (|one| one.synchronous_standby_names = "  ".to_owned(), true, "synchronous_standby_names"),
        (|one| one.lock_ms = 0, false, "lock_timeout"),
        (|one| one.lock_ms = 3_001, false, "lock_timeout"),
        (|one| one.isolation = "serializable".to_owned(), false, "default_transaction_isolation"),
        (|one| one.idle_ms = 0, false, "idle_in_transaction_session_timeout"),
        (|one| one.statement_ms = 5_000, false, "statement_timeout"),
        (|one| one.statement_ms = -1, false, "statement_timeout"),
    ];
    for (change, is_replicated, name) in changed {
        let mut session = fit();
        change(&mut session);
        match session.verdict(&settings(is_replicated)) {
            SessionCheck::Unfit(why) => assert!(why.contains(name), "{name}: {why}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn a_server_that_takes_no_writes_is_another_ones_turn_whatever_else_is_wrong() {
    let settings = PostgresSettings { is_replicated: true, ..PostgresSettings::default() };
    for change in [
        (|one| one.is_standby = true) as Change,
        |one| one.is_read_only = true,
        |one| (one.is_standby, one.fsync) = (true, "off".to_owned()),
    ] {
        let mut session = fit();
        change(&mut session);
        assert!(matches!(session.verdict(&settings), SessionCheck::ReadOnly(_)));
    }
    let mut replicated = fit();
    (replicated.synchronous_standby_names, replicated.synchronous_commit) =
        ("FIRST 1 (b)".to_owned(), "remote_apply".to_owned());
    assert_eq!(replicated.verdict(&settings), SessionCheck::Fit);
}
