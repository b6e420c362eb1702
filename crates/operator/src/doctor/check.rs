//! The list of checks, how a finding is made of one, and the time limit of each: a check that hangs does not hold up
//! the findings of the others. docs/doctor.md has the same list.

use std::time::Duration;

use hooklatch_contract::{FindingVerdict, FindingView};

/// Longest time of one look.
pub(crate) const LOOK_LIMIT: Duration = Duration::from_secs(4);
/// Longest time of a look at every page.
pub(super) const DEEP_LIMIT: Duration = Duration::from_secs(14);

/// One thing that the doctor looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// Name for people and programs.
    pub name: &'static str,
    /// What is looked at.
    pub looked_at: &'static str,
    /// From when on it is a warning; empty for never.
    pub(crate) warns: &'static str,
    /// From when on it is a failure; empty for never.
    pub fails: &'static str,
    /// What that means for events and money.
    pub meaning: &'static str,
}

macro_rules! checks {
    ($($constant:ident = $name:literal, $looked_at:literal, $warns:literal, $fails:literal, $meaning:literal;)*) => {
        $(pub const $constant: Check = Check {
            name: $name, looked_at: $looked_at, warns: $warns, fails: $fails, meaning: $meaning,
        };)*
        /// All checks, in the order in which their findings are listed.
        pub(crate) const CHECKS: &[Check] = &[$($constant),*];
    };
}

checks! {
    SERVER = "server", "the server", "not reached", "not ready, or every request that it could admit is refused",
        "senders must send again what is not received now";
    REACHED = "public.reached", "a probe through `server.public_url`", "", "no answer from Hooklatch",
        "senders do not reach the receiver: their events are lost when they give up";
    PLAIN = "public.tls", "scheme and certificate of `server.public_url`", "plain HTTP to another machine, or the certificate expires within 14 days", "",
        "anyone on the way can read and repeat events; senders refuse an expired certificate";
    REDIRECT = "public.redirect", "redirects", "", "a request is redirected",
        "most senders follow no redirect, or turn a POST into a GET: every event is lost";
    PATH = "public.path", "method and path as they arrive", "the query is dropped", "another method or path",
        "requests reach no provider or another one; kinds that sign the URL refuse all";
    HEADERS = "public.headers", "headers that kinds read, as they arrive", "", "one is dropped or changed",
        "signatures are in headers: events without one are refused, and lost when the sender gives up";
    BODY = "public.body", "digest of a body that JSON serialisers would rewrite", "", "the body is changed",
        "signatures cover the bytes: every event is refused with 401, and lost when the sender gives up";
    SIZE = "public.size", "bodies of 256 KiB and of `server.body_bytes_max`", "the larger one does not arrive",
        "256 KiB do not arrive", "a proxy refuses large events, and nothing here shows it";
    EXPECT = "public.expect", "a request with `Expect: 100-continue`", "not answered", "",
        "senders that wait for `100 Continue` are refused";
    TIME = "public.time", "duration of the second of two small probes", "over a fifth of the shortest time that a sender waits",
        "over all of it", "senders time out, retry accepted events, and give up after some attempts";
    CLOCK_DATABASE = "clock.database", "the node's clock against the database's", "1 s apart",
        "further apart than a start allows", "the node's clock judges signed times: good requests are refused, old ones accepted";
    CLOCK_SENDERS = "clock.senders", "signed times against the node's clock: the least delay of the newest 8",
        "received 2 s before, or 30 s after the signed time", "60 s before, or 120 s after",
        "requests with a distant signed time are refused, and lost when the sender gives up";
    SECRETS = "secrets", "which configured secrets match", "the newest never matched, although events arrive", "",
        "a leaked old secret stays valid; if the new one is wrong, everything is refused after the switch";
    OPEN = "providers.open", "providers that accept more than signatures", "unsigned requests are accepted, or pairing is open", "",
        "anyone who knows the URL can create events";
    PATHS = "receiver.paths", "POSTs to paths without a provider since the start", "one resembles a provider's path or is signed", "",
        "a sender calls the wrong URL: its events get 404, and are lost when it gives up";
    CONFIG = "config", "the configuration, with files of secrets", "a warning", "a mistake",
        "see each: valid, but probably not intended";
    CERTIFICATES = "certificates", "certificates of the listeners", "expires within 14 days", "expired",
        "senders refuse an expired certificate: nothing arrives";
    NODES = "nodes", "versions of the nodes seen in the last minute", "more than one version or schema", "",
        "an unfinished update: nodes run different code";
    FILES = "files", "open files against the limit", "70 %, or `server.connections_n_max` does not fit", "90 %",
        "without free files no connection is accepted, no call made and no row written";
    DISK = "disk", "free space on the database's disk, if it is on this machine", "under 2 GiB, or under 10 % and 20 GiB", "under 256 MiB, or under 2 % and 2.5 GiB",
        "a full disk refuses every event";
    FILE = "database.file", "SQLite's open file against its path", "", "the file was moved, deleted or replaced, or a copy was put into it",
        "nothing is received or sent until a restart, which does not find the content of a moved file";
    RETENTION = "retention", "the oldest rows that should be deleted", "a day late, or pruning is off", "a week late",
        "the database grows until it is slow or full, and bodies stay longer than promised";
    SCHEMA = "database.schema", "tables, indexes and triggers against the migrations", "an index is missing, invalid or foreign",
        "a table, trigger or unique index is missing or invalid, or a foreign index is unique",
        "a unique index latches an event once; without another one, queries read whole tables";
    SETTINGS = "database.settings", "settings on which durability depends", "a fail-over may lose commits, or the connection is not encrypted",
        "a crash loses confirmed commits", "senders do not repeat an event that was answered 200: if the database loses it, it is lost";
    CONNECTIONS = "database.connections", "sessions that all nodes may open, and open ones, against `max_connections`",
        "more than three quarters", "more than all", "a node without a session answers 503";
    VERSION = "database.version", "version of PostgreSQL", "before 14", "before 12",
        "statements of disconnected clients are not ended and keep their locks";
    VACUUM = "database.vacuum", "dead rows, age of transaction ids, what delays vacuum",
        "100,000 dead rows and more dead than live, age 500 million, a transaction of 15 minutes, 4 GiB of WAL held",
        "autovacuum is off, age 1.5 billion, 32 GiB of WAL held",
        "dead rows slow down claims; a database without ids or disk refuses every event";
    BLOAT = "database.bloat", "size of tables and files against their content", "half of 1 GiB is free, or 16 KiB for each row", "",
        "disk and caches hold unused pages";
    WAL = "database.wal", "size of SQLite's `-wal`", "256 MiB", "",
        "a long reader keeps the log from shrinking, until the disk is full";
    WITNESS = "database.witness", "the witness beside SQLite's file", "it cannot be written or read, or belongs to another installation", "the database is older than the witness",
        "an older copy reuses numbers and keys: effects without another key happen twice";
    KEYS = "encryption.keys", "keys in use against `[encryption]`", "", "one is missing",
        "what it encrypted is neither shown nor sent: messages and events wait";
    PAGES = "database.pages", "every page of SQLite's file, with `--deep`", "", "a page is damaged",
        "rows are or will be lost: restore a backup";
    PROVIDERS = "providers", "pauses of providers", "paused", "",
        "events are answered 200 and stored, but not dispatched until the provider is resumed";
    DESTINATIONS = "destinations", "pauses and breakers of this node", "paused, or the breaker is open", "",
        "messages wait until it continues";
    NAMES = "destinations.names", "names of HTTP destinations", "one does not resolve", "", "no call arrives: messages wait, then are dead";
    HANDSHAKES = "destinations.tls", "a TLS handshake with each HTTPS destination, without a request", "not reached, or its certificate expires within 14 days",
        "its certificate or ours is not trusted, or it does not speak TLS", "no call arrives: messages wait, then are dead";
}

impl Check {
    fn says(self, verdict: FindingVerdict, found: String) -> FindingView {
        let is_bad = verdict >= FindingVerdict::Warning;
        FindingView {
            check: self.name.to_owned(),
            subject: None,
            verdict,
            looked_at: self.looked_at.to_owned(),
            found,
            bound: None,
            meaning: is_bad.then(|| self.meaning.to_owned()),
            remedy: None,
        }
    }

    pub fn well(self, found: impl Into<String>) -> FindingView {
        self.says(FindingVerdict::Well, found.into())
    }

    pub fn note(self, found: impl Into<String>) -> FindingView {
        self.says(FindingVerdict::Note, found.into())
    }

    pub fn unknown(self, found: impl Into<String>) -> FindingView {
        self.says(FindingVerdict::Unknown, found.into())
    }

    pub fn warning(self, found: impl Into<String>) -> FindingView {
        FindingView { bound: bound(self.warns), ..self.says(FindingVerdict::Warning, found.into()) }
    }

    pub fn failure(self, found: impl Into<String>) -> FindingView {
        FindingView { bound: bound(self.fails), ..self.says(FindingVerdict::Failure, found.into()) }
    }

    /// A failure, a warning or neither, the worst that holds; with this remedy if it is one.
    pub(crate) fn graded(
        self,
        found: impl Into<String>,
        (is_warning, is_failure): (bool, bool),
        remedy: &str,
    ) -> FindingView {
        match (is_failure, is_warning) {
            (true, _) => self.failure(found).cure(remedy),
            (false, true) => self.warning(found).cure(remedy),
            (false, false) => self.well(found),
        }
    }
}

fn bound(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// All findings that are bad, or this one for the case that there are none.
pub(crate) fn or_well(found: Vec<FindingView>, well: impl FnOnce() -> FindingView) -> Vec<FindingView> {
    if found.is_empty() { vec![well()] } else { found }
}

/// These findings in the order of the list of checks.
pub fn in_order(mut findings: Vec<FindingView>) -> Vec<FindingView> {
    let place = |finding: &FindingView| CHECKS.iter().position(|check| check.name == finding.check);
    findings.sort_by_key(place);
    findings
}

/// The findings of a look, or that there was no answer in time, or why there is none.
pub(crate) async fn bounded<T, E: std::fmt::Display>(
    check: Check,
    limit: Duration,
    look: impl Future<Output = Result<T, E>>,
    judged: impl FnOnce(T) -> Vec<FindingView>,
) -> Vec<FindingView> {
    match tokio::time::timeout(limit, look).await {
        Ok(Ok(found)) => judged(found),
        Ok(Err(why)) => vec![check.unknown(format!("could not be asked: {why}"))],
        Err(_) => vec![check.unknown(format!("no answer within {} s", limit.as_secs()))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use hooklatch_contract::FindingVerdict;

    #[test]
    fn the_page_lists_every_check_with_its_bounds() {
        let page = include_str!("../../../../docs/doctor.md");
        let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let wanted = |check: &Check| {
            let Check { name, looked_at, warns, fails, .. } = check;
            format!("| `{name}` | {looked_at} | {warns} | {fails} |").replace("|  |", "| |")
        };
        let wanted: Vec<String> = CHECKS.iter().map(wanted).map(|row| row.replace("|  |", "| |")).collect();
        assert_eq!(rows, wanted, "the table of docs/doctor.md is to be:\n{}", wanted.join("\n"));
        let names: BTreeSet<&str> = CHECKS.iter().map(|check| check.name).collect();
        assert_eq!(names.len(), CHECKS.len(), "one name is there twice");
    }

    #[test]
    fn the_worst_verdict_is_reported_with_its_remedy() {
        for (is_warning, is_failure, want) in [
            (false, false, FindingVerdict::Well),
            (true, false, FindingVerdict::Warning),
            (true, true, FindingVerdict::Failure),
            (false, true, FindingVerdict::Failure),
        ] {
            let found = DISK.graded("x", (is_warning, is_failure), "make room");
            assert_eq!((found.verdict, found.remedy.is_some()), (want, want != FindingVerdict::Well));
            assert_eq!(found.meaning.is_some(), found.is_bad());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_or_fails_is_unknown_and_no_more() {
        let never =
            bounded(DISK, LOOK_LIMIT, std::future::pending::<Result<(), String>>(), |()| Vec::new()).await;
        let failed = bounded(DISK, LOOK_LIMIT, async { Err::<(), _>("gone") }, |()| Vec::new()).await;
        for (found, words) in [(never, "no answer within 4 s"), (failed, "could not be asked: gone")] {
            assert_eq!((found[0].verdict, found[0].found.as_str()), (FindingVerdict::Unknown, words));
        }
    }
}
