//! What settings of the database must be: a start refuses a database that breaks one of these rules, and the doctor
//! reports it. `docs/postgres.md` lists those of PostgreSQL.

use std::collections::BTreeMap;

use super::opening::Pooling;

/// Longest wait for a lock. Ours is 2 s: below any sender's patience, so a wait for another node's uncommitted twin
/// ends in 503. Milliseconds.
const LOCK_TIMEOUT_MS_MAX: i64 = 3_000;
/// Longest idle time inside a transaction. Ours is 30 s. Milliseconds.
const IDLE_TIMEOUT_MS_MAX: i64 = 60_000;

/// What to do about a setting of PostgreSQL that breaks its rule.
enum Remedy {
    /// Confirmed events could be lost: what the administrator has to do.
    Commits(&'static str),
    /// A session sets it to this value, or its role does.
    Session(&'static str),
}
use Remedy::{Commits, Session};

/// Name of the setting, allowed values, the same as a function, and the remedy.
type SettingRule = (&'static str, &'static str, fn(&str) -> bool, Remedy);

const ON: fn(&str) -> bool = |value| value == "on";
const FSYNC: Remedy = Commits("turn it on: ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf()");
const PAGES: Remedy = Commits("turn it on: ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf()");
const COMMIT: Remedy =
    Commits("set it to on, or remote_apply, for the server, the database and the role: docs/postgres.md");
const MESSAGES: Remedy =
    Commits("a warning reports a commit that no standby has: set it to warning or notice for the role");

const POSTGRES: [SettingRule; 8] = [
    ("fsync", "on", ON, FSYNC),
    ("full_page_writes", "on", ON, PAGES),
    ("synchronous_commit", "on, or remote_apply", |value| matches!(value, "on" | "remote_apply"), COMMIT),
    ("client_min_messages", "warning, or notice", |value| value != "error", MESSAGES),
    ("lock_timeout", "1 to 3000 ms", |value| is_within(value, LOCK_TIMEOUT_MS_MAX), Session("2s")),
    (
        "default_transaction_isolation",
        "read committed",
        |value| value == "read committed",
        Session("read committed"),
    ),
    (
        "idle_in_transaction_session_timeout",
        "1 to 60000 ms",
        |value| is_within(value, IDLE_TIMEOUT_MS_MAX),
        Session("30s"),
    ),
    // It would end the wait for a synchronous standby, and the commit would be confirmed all the same.
    ("statement_timeout", "0 ms", |value| value == "0", Session("0")),
];

fn is_within(value: &str, max_ms: i64) -> bool {
    value.parse().is_ok_and(|ms| (1..=max_ms).contains(&ms))
}

pub(super) const NOT_KEPT: &str = "something between us and PostgreSQL does not keep what a session sets: give us a pool in session \
    mode or none at all, or set database.pooling = \"transaction\" and read docs/postgres.md";

/// A setting that breaks its rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokenRule {
    /// Name of the setting.
    pub name: &'static str,
    /// Its value, with its unit.
    pub value: String,
    /// Values that are allowed.
    pub bound: &'static str,
    /// What to do about it.
    pub remedy: String,
    /// True when a confirmed commit could be lost.
    pub(super) is_of_commits: bool,
}

/// The rules that a session of PostgreSQL breaks, by its settings as `pg_settings` has them.
pub fn broken_settings(settings: &BTreeMap<String, String>, pooling: Pooling) -> Vec<BrokenRule> {
    let broken = |(name, bound, is_met, remedy): &SettingRule| {
        let value = settings.get(*name).map_or("", String::as_str);
        if is_met(value) {
            return None;
        }
        let unit = if name.ends_with("_timeout") { " ms" } else { "" };
        let (remedy, is_of_commits) = match (remedy, pooling) {
            (Commits(remedy), _) => ((*remedy).to_owned(), true),
            (Session(_), Pooling::Session) => (NOT_KEPT.to_owned(), false),
            (Session(wanted), Pooling::Transaction) => {
                let role = format!("the role brings it: ALTER ROLE … SET {name} = '{wanted}'");
                (format!("with database.pooling = \"transaction\" {role}"), false)
            }
        };
        Some(BrokenRule { name, value: format!("{value}{unit}"), bound, remedy, is_of_commits })
    };
    POSTGRES.iter().filter_map(broken).collect()
}

/// The rules that SQLite breaks on this file, by two of its pragmas.
pub fn broken_pragmas(journal_mode: &str, synchronous: i64) -> Vec<BrokenRule> {
    const WAL: &str = "stop Hooklatch and whatever else opens the file, then start it: it sets wal by itself";
    const FULL: &str = "this is a fault of Hooklatch: please tell us";
    let rules = [
        (journal_mode != "wal", "journal_mode", journal_mode.to_owned(), "wal", WAL),
        (synchronous < 2, "synchronous", synchronous.to_string(), "2 (FULL)", FULL),
    ];
    let broken = rules.into_iter().filter(|(is_broken, ..)| *is_broken);
    let rule = |(_, name, value, bound, remedy): (bool, _, _, _, &str)| BrokenRule {
        name,
        value,
        bound,
        remedy: remedy.to_owned(),
        is_of_commits: true,
    };
    broken.map(rule).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(name: &str, value: &str) -> Vec<&'static str> {
        let met = [
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "remote_apply"),
            ("client_min_messages", "warning"),
            ("lock_timeout", "2000"),
            ("default_transaction_isolation", "read committed"),
            ("idle_in_transaction_session_timeout", "30000"),
            ("statement_timeout", "0"),
        ];
        let mut settings: BTreeMap<_, _> =
            met.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        settings.insert(name.to_owned(), value.to_owned());
        broken_settings(&settings, Pooling::Session).iter().map(|one| one.name).collect()
    }

    #[test]
    fn each_setting_that_could_lose_or_block_something_breaks_its_own_rule() {
        assert_eq!(broken("synchronous_commit", "on"), [""; 0]);
        for (name, value) in [
            ("fsync", "off"),
            ("full_page_writes", "off"),
            ("synchronous_commit", "off"),
            ("synchronous_commit", "local"),
            ("synchronous_commit", "remote_write"),
            ("client_min_messages", "error"),
            ("lock_timeout", "0"),
            ("lock_timeout", "3001"),
            ("default_transaction_isolation", "serializable"),
            ("idle_in_transaction_session_timeout", "0"),
            ("statement_timeout", "5000"),
            ("statement_timeout", ""),
        ] {
            assert_eq!(broken(name, value), [name], "{value}");
        }
    }
}
