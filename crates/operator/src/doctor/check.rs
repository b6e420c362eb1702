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
    SERVER = "server", "the server that is asked", "none was reached", "it is not ready, or refuses all that it could admit",
        "what is not received now has to be sent again by its sender";
    REACHED = "public.reached", "a probe through `server.public_url`", "", "no answer of ours comes back",
        "senders do not reach the receiver: their events are lost when they give up";
    PLAIN = "public.tls", "scheme and certificate of `server.public_url`", "plain HTTP to another machine, or 14 days left of its certificate", "",
        "anyone on the way reads events, and may repeat them; senders refuse a certificate that has ended";
    REDIRECT = "public.redirect", "redirects on the way", "", "a request is redirected",
        "most senders follow no redirect, or turn a POST into a GET: every event is lost";
    PATH = "public.path", "method and path as they arrive", "the query is dropped", "another method or path",
        "requests reach no provider, or another one; kinds that sign the URL believe nothing";
    HEADERS = "public.headers", "headers that kinds read, as they arrive", "", "one is dropped or changed",
        "signatures are in headers: what lacks one is refused, and lost when its sender gives up";
    BODY = "public.body", "digest of a body that JSON writers write otherwise", "", "the body is changed",
        "signatures cover the bytes: every request is refused with 401, and lost when its sender gives up";
    SIZE = "public.size", "bodies of 256 KiB and of `server.body_bytes_max`", "the largest one does not arrive",
        "256 KiB do not arrive", "large events are refused on the way, and nothing here shows it";
    EXPECT = "public.expect", "a request with `Expect: 100-continue`", "it is not answered", "",
        "senders that ask before they send a body are refused";
    TIME = "public.time", "time of a small probe, the second of two", "over a fifth of the shortest sender's patience",
        "over all of it", "senders that wait no longer send again what was taken, and give up after a few times";
    CLOCK_DATABASE = "clock.database", "our clock against the database's", "1 s apart",
        "further apart than a start allows", "signed times are judged by our clock: good requests are refused, old ones believed";
    CLOCK_SENDERS = "clock.senders", "the times that senders sign, against our clock: the least delay of the newest 8",
        "2 s before it was signed, or 30 s after", "60 s before it was signed, or 120 s after",
        "requests whose signed time is too far away are refused, and lost when their senders give up";
    SECRETS = "secrets", "which configured secrets match", "the newest one never matched, though events come", "",
        "an old secret that leaked goes on being believed; a new one that is wrong refuses everything after the switch";
    OPEN = "providers.open", "providers that believe more than signatures", "unsigned requests are accepted, or pairing is open", "",
        "anyone who knows the URL can write events";
    PATHS = "receiver.paths", "paths without a provider that were posted to since the start", "one is like a provider's, or is signed like one", "",
        "a sender calls the wrong URL: its events are answered 404, and lost when it gives up";
    CONFIG = "config", "warnings about the configuration, files with secrets included", "any", "it is not good",
        "see each: what is allowed and most likely not meant";
    CERTIFICATES = "certificates", "certificates of our listeners", "14 days left", "none left",
        "senders refuse a certificate that has ended: nothing arrives";
    NODES = "nodes", "versions of the nodes that were seen in the last minute", "more than one version or schema", "",
        "an update that stopped half way: nodes decide by different code";
    FILES = "files", "open files against their limit", "70 % are open, or `server.connections_n_max` does not fit", "90 % are open",
        "without files no connection is taken, no call made and no row written";
    DISK = "disk", "room on the database's disk, where it is ours", "under 2 GiB, or under 10 % and 20 GiB", "under 256 MiB, or under 2 % and 2.5 GiB",
        "a full disk refuses every event";
    FILE = "database.file", "SQLite's file, and what is at its path", "", "the file was moved, deleted or replaced, or a copy was put into it",
        "nothing is received or sent until a restart, which does not find what is in the file that was moved";
    RETENTION = "retention", "the oldest rows that should have gone", "a day late, or pruning is off", "a week late",
        "the database grows until it is slow or full, and bodies stay longer than was promised";
    SCHEMA = "database.schema", "tables, indexes and triggers against the migrations", "an index is missing, not valid or not ours",
        "a table, trigger or unique index is missing or not valid, or a unique one is not ours",
        "a unique index is what latches an event once; a missing one of the others makes each look read all there is";
    SETTINGS = "database.settings", "settings that a confirmed commit stands on", "they may be lost after a fail-over, or read on the way",
        "a crash loses what was confirmed", "an event that was answered with 200 is not sent again: if the database loses it, it is lost";
    CONNECTIONS = "database.connections", "sessions that all nodes may open, and those that are open, against `max_connections`",
        "more than three quarters", "more than all", "a node that gets no session answers 503";
    VERSION = "database.version", "version of PostgreSQL", "before 14", "before 12",
        "what ends no statement of a client that is gone keeps its locks";
    VACUUM = "database.vacuum", "dead rows, the age of transaction ids, and what holds vacuum back",
        "100,000 dead rows that are more than the live ones, ids of 500 million, a transaction of 15 minutes, 4 GiB of WAL held",
        "autovacuum is off, ids of 1.5 billion, 32 GiB of WAL held",
        "dead rows make claims slower and slower; a database that runs out of ids or disk refuses every event";
    BLOAT = "database.bloat", "bytes of tables and files against what is in them", "half of 1 GiB is free, or 16 KiB for each row", "",
        "room that nothing gives back, and caches full of nothing";
    WAL = "database.wal", "length of SQLite's log beside the file", "256 MiB", "",
        "a reader that never ends keeps the log from being emptied, until the disk is full";
    WITNESS = "database.witness", "the file beside SQLite's that says how far it is", "it cannot be written or read, or is of another installation", "the database is older than it says",
        "a copy of the database that is put back gives numbers and keys a second time: what has no other key is paid twice";
    KEYS = "encryption.keys", "keys that values are encrypted with, against `[encryption]`", "", "one is missing",
        "what it encrypted is neither shown nor sent: its messages and events wait";
    PAGES = "database.pages", "every page of SQLite's file, with `--deep`", "", "a page is not whole",
        "rows are lost or will be: restore from a backup";
    PROVIDERS = "providers", "pauses of providers", "paused", "",
        "events are answered 200 and kept, and nothing follows from them until the provider is resumed";
    DESTINATIONS = "destinations", "pauses and breakers of this node", "paused, or the breaker is open", "",
        "events are kept, and nothing follows from them until it goes on";
    NAMES = "destinations.names", "names of HTTP destinations", "one is not found", "", "no call gets there: messages wait, then die";
    HANDSHAKES = "destinations.tls", "a TLS handshake with each HTTPS destination, without a request", "it is not reached, or 14 days left of its certificate",
        "its certificate is not believed, ours is not, or it speaks no TLS", "no call gets there: messages wait, then die";
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
            let Check { name, looked_at, warns, fails, meaning } = check;
            format!("| `{name}` | {looked_at} | {warns} | {fails} | {meaning} |").replace("|  |", "| |")
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
