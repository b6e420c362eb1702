//! PostgreSQL's settings, version and sessions against what admission wants.

use super::check::{CONNECTIONS, SETTINGS, VERSION, or_well};
use hooklatch_contract::FindingView;
use hooklatch_store::{Pooling, ServerState, broken_settings};

/// Oldest version that ends statements of clients that are gone, and the oldest that is looked at at all.
const VERSIONS: [i64; 2] = [140_000, 120_000];

/// What the configuration requires of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatabaseWants {
    /// Sessions of each node.
    pub connections_n: u32,
    /// True when a commit has to wait for a standby.
    pub is_replicated: bool,
    /// True when a pooler gives every transaction another session.
    pub(crate) is_pooled: bool,
}

/// Findings about a server that `nodes_n` nodes use.
pub(crate) fn server(state: &ServerState, wants: DatabaseWants, nodes_n: usize) -> Vec<FindingView> {
    let mut findings = settings(state, wants);
    findings.push(version(state));
    findings.push(connections(state, wants, nodes_n));
    findings
}

fn settings(state: &ServerState, wants: DatabaseWants) -> Vec<FindingView> {
    let pooling = if wants.is_pooled { Pooling::Transaction } else { Pooling::Session };
    let failure = |name: &str, value: String| SETTINGS.failure(format!("{name} = {value}")).about(name);
    let broken = broken_settings(&state.settings, pooling).into_iter();
    let mut found: Vec<FindingView> =
        broken.map(|rule| failure(rule.name, rule.value).against(rule.bound).cure(rule.remedy)).collect();
    found.extend(coming(state));
    found.extend(standbys(state, wants.is_replicated));
    if state.number("transaction_timeout") != 0 {
        let why = failure("transaction_timeout", format!("{} ms", state.number("transaction_timeout")));
        found.push(why.against("0").cure("ALTER ROLE … SET transaction_timeout = 0: when it ends a wait for the standby, the commit is confirmed all the same"));
    }
    if state.setting("idle_session_timeout").parse().is_ok_and(|ms: i64| (1..60_000).contains(&ms)) {
        let why =
            SETTINGS.warning(format!("idle_session_timeout = {} ms", state.setting("idle_session_timeout")));
        found.push(
            why.about("idle_session_timeout")
                .against("0, or a minute at least")
                .cure("ALTER ROLE … SET idle_session_timeout = 0"),
        );
    }
    if !state.is_encrypted && !state.is_local {
        let why =
            SETTINGS.warning("the session is not encrypted, and the server is another machine").about("ssl");
        found.push(why.cure("write ?sslmode=verify-full into database.url"));
    }
    let mut found = or_well(found, || {
        let commit = state.setting("synchronous_commit");
        SETTINGS.well(format!("synchronous_commit = {commit}, fsync and full_page_writes on"))
    });
    if state.is_superuser {
        let why = SETTINGS
            .note("the role is a superuser: what it may do to the audit log is not bounded")
            .about("role");
        found.push(why.cure("give Hooklatch a role that owns its own tables and nothing else"));
    }
    if state.setting("data_checksums") == "off" {
        let why =
            SETTINGS.note("pages have no checksums: a disk that errs is not noticed").about("data_checksums");
        found.push(why.cure("pg_checksums --enable, while the server is stopped"));
    }
    found
}

/// What sessions that begin now would be refused for. Ours keep what they began with, and end one after the other.
fn coming(state: &ServerState) -> Option<FindingView> {
    let get = |name: &str| state.coming.get(name).map(|value| value.trim_matches('\'').to_ascii_lowercase());
    let is_on = |value: &str| matches!(value, "on" | "true" | "yes" | "1");
    let (commit, read_only) = (get("synchronous_commit"), get("default_transaction_read_only"));
    let is_lossy = commit.as_deref().is_some_and(|value| !is_on(value) && value != "remote_apply");
    let (name, value, bound) =
        if is_lossy && state.setting("synchronous_commit") != commit.as_deref().unwrap_or("") {
            ("synchronous_commit", commit.unwrap_or_default(), "on, or remote_apply")
        } else if read_only.as_deref().is_some_and(is_on) {
            ("default_transaction_read_only", read_only.unwrap_or_default(), "off")
        } else {
            return None;
        };
    let why = SETTINGS
        .failure(format!("{name} = {value} for sessions that begin now: each of ours will be refused"))
        .about(name);
    Some(why.against(bound).cure(format!(
        "take it away where it was set: ALTER DATABASE … RESET {name}, ALTER ROLE … RESET {name}, or ALTER SYSTEM RESET {name} and \
         SELECT pg_reload_conf()"
    )))
}

fn standbys(state: &ServerState, is_replicated: bool) -> Option<FindingView> {
    let (all_n, sync_n) = (state.standbys_n, state.standbys_sync_n);
    let subject = "standbys";
    if is_replicated {
        let is_without = state.setting("synchronous_standby_names").trim().is_empty();
        let is_alone = sync_n == 0 && state.standbys_hidden_n == 0;
        return (is_without || is_alone).then(|| {
            let why = SETTINGS.failure(format!("{sync_n} of {all_n} standbys are waited for"));
            why.about(subject).against("1 at least: database.replicated = true").cure(
                "start the standby that synchronous_standby_names names; until then a commit waits, or is refused",
            )
        });
    }
    (all_n > 0).then(|| {
        let waited = if state.setting("synchronous_standby_names").trim().is_empty() {
            "no commit waits for one"
        } else {
            "commits wait as synchronous_standby_names says, and nobody notices when that is emptied"
        };
        let why = SETTINGS.warning(format!("{all_n} standbys follow, and {waited}")).about(subject);
        why.against("database.replicated = true where a standby may take over").cure(
            "name a standby in synchronous_standby_names and set database.replicated = true; leave it if none of them is \
             ever promoted",
        )
    })
}

fn version(state: &ServerState) -> FindingView {
    let number = state.number("server_version_num");
    let [warns, fails] = VERSIONS;
    let words = format!("PostgreSQL {}", state.setting("server_version"));
    VERSION.graded(
        words,
        (number < warns, number < fails),
        "update the server; its makers end support five years after a version",
    )
}

fn connections(state: &ServerState, wants: DatabaseWants, nodes_n: usize) -> FindingView {
    let reserved = state.number("superuser_reserved_connections") + state.number("reserved_connections");
    let there_n = state.number("max_connections").saturating_sub(reserved);
    let nodes = i64::try_from(nodes_n.max(1)).unwrap_or(i64::MAX);
    let wanted_n = nodes.saturating_mul(wants.connections_n.into());
    let words = format!(
        "{nodes} nodes may open {wanted_n} sessions (database.connections_n = {}); {} are open, of whomever",
        wants.connections_n, state.clients_n
    );
    let most_n = wanted_n.max(state.clients_n);
    let grade = (most_n.saturating_mul(4) > there_n.saturating_mul(3), most_n > there_n);
    if wants.is_pooled {
        return CONNECTIONS.well(format!("{words}; a pooler shares them"));
    }
    CONNECTIONS
        .graded(words, grade, "raise max_connections, or lower database.connections_n")
        .against(format!("{there_n} (max_connections without those that are reserved)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict;

    const WANTS: DatabaseWants = DatabaseWants { connections_n: 10, is_replicated: false, is_pooled: false };

    fn good() -> ServerState {
        let settings = [
            ("server_version_num", "160004"),
            ("server_version", "16.4"),
            ("fsync", "on"),
            ("full_page_writes", "on"),
            ("synchronous_commit", "on"),
            ("synchronous_standby_names", ""),
            ("client_min_messages", "warning"),
            ("default_transaction_isolation", "read committed"),
            ("max_connections", "100"),
            ("superuser_reserved_connections", "3"),
            ("lock_timeout", "2000"),
            ("idle_in_transaction_session_timeout", "30000"),
            ("statement_timeout", "0"),
            ("data_checksums", "on"),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        ServerState { settings, clients_n: 12, is_local: true, ..ServerState::default() }
    }

    #[track_caller]
    fn check(
        change: impl FnOnce(&mut ServerState, &mut DatabaseWants),
        nodes_n: usize,
        want: &[(&str, Option<&str>, FindingVerdict)],
    ) {
        let (mut state, mut wants) = (good(), WANTS);
        change(&mut state, &mut wants);
        let found = server(&state, wants, nodes_n);
        let odd: Vec<_> = found
            .iter()
            .filter(|one| one.verdict != FindingVerdict::Well)
            .map(|one| (one.check.as_str(), one.subject.as_deref(), one.verdict))
            .collect();
        assert_eq!(odd, want);
        assert!(
            found.iter().filter(|one| one.is_bad()).all(|one| one.bound.is_some() && one.remedy.is_some())
        );
    }

    #[test]
    fn settings_that_would_refuse_the_next_session_are_reported_in_advance() {
        let comes = |name: &'static str, value: &'static str| {
            move |state: &mut ServerState, _: &mut DatabaseWants| {
                state.coming.insert(name.to_owned(), value.to_owned());
            }
        };
        for (name, value, is_reported) in [
            ("synchronous_commit", "off", true),
            ("synchronous_commit", "'Local'", true),
            ("synchronous_commit", "remote_apply", false),
            ("synchronous_commit", "1", false),
            ("default_transaction_read_only", "true", true),
            ("default_transaction_read_only", "off", false),
        ] {
            let want = ("database.settings", Some(name), FindingVerdict::Failure);
            check(comes(name, value), 1, if is_reported { std::slice::from_ref(&want) } else { &[] });
        }
    }

    #[test]
    fn each_setting_that_could_lose_commits_is_reported() {
        use FindingVerdict::{Failure, Note, Warning};
        let set = |name: &'static str, value: &'static str| {
            move |state: &mut ServerState, _: &mut DatabaseWants| {
                state.settings.insert(name.to_owned(), value.to_owned());
            }
        };
        check(|_, _| {}, 3, &[]);
        for name in ["fsync", "full_page_writes"] {
            check(set(name, "off"), 1, &[("database.settings", Some(name), Failure)]);
        }
        for value in ["off", "local", "remote_write"] {
            let name = "synchronous_commit";
            check(set(name, value), 1, &[("database.settings", Some(name), Failure)]);
        }
        for (name, value) in [
            ("lock_timeout", "0"),
            ("lock_timeout", "60000"),
            ("idle_in_transaction_session_timeout", "0"),
            ("statement_timeout", "1000"),
            ("transaction_timeout", "1000"),
        ] {
            check(set(name, value), 1, &[("database.settings", Some(name), Failure)]);
        }
        check(
            set("idle_session_timeout", "500"),
            1,
            &[("database.settings", Some("idle_session_timeout"), Warning)],
        );
        check(set("data_checksums", "off"), 1, &[("database.settings", Some("data_checksums"), Note)]);
        check(set("server_version_num", "130010"), 1, &[("database.version", None, Warning)]);
        check(set("server_version_num", "110000"), 1, &[("database.version", None, Failure)]);
        check(|state, _| state.is_superuser = true, 1, &[("database.settings", Some("role"), Note)]);
        check(|state, _| state.is_local = false, 1, &[("database.settings", Some("ssl"), Warning)]);
        check(|state, _| (state.is_local, state.is_encrypted) = (false, true), 1, &[]);
    }

    #[test]
    fn asynchronous_and_missing_standbys_are_reported() {
        use FindingVerdict::{Failure, Warning};
        let finding = |verdict| [("database.settings", Some("standbys"), verdict)];
        check(|state, _| state.standbys_n = 1, 1, &finding(Warning));
        check(|_, wants| wants.is_replicated = true, 1, &finding(Failure));
        let named = |state: &mut ServerState, wants: &mut DatabaseWants| {
            wants.is_replicated = true;
            state.settings.insert("synchronous_standby_names".to_owned(), "one".to_owned());
        };
        check(named, 1, &finding(Failure));
        for hidden in [false, true] {
            let there = |state: &mut ServerState, wants: &mut DatabaseWants| {
                named(state, wants);
                (state.standbys_n, state.standbys_sync_n) = (1, i64::from(!hidden));
                state.standbys_hidden_n = i64::from(hidden);
            };
            check(there, 1, &[]);
        }
    }

    #[test]
    fn sessions_of_all_nodes_have_to_fit() {
        use FindingVerdict::{Failure, Warning};
        check(|_, _| {}, 7, &[]);
        check(|_, _| {}, 8, &[("database.connections", None, Warning)]);
        check(|_, _| {}, 10, &[("database.connections", None, Failure)]);
        check(|state, _| state.clients_n = 90, 1, &[("database.connections", None, Warning)]);
        check(|_, wants| wants.is_pooled = true, 50, &[]);
    }
}
