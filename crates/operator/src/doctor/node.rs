//! Examines a node that runs: its files, certificates, configuration and version, how far pruning is, and all looks of
//! the other files at once.

use std::time::Duration;

use super::check::{
    CERTIFICATES, CONFIG, Check, FILES, HANDSHAKES, LOOK_LIMIT, NODES, RETENTION, SERVER, bounded, or_well,
};
use super::database::database;
use super::destinations::{handshakes, names};
use hooklatch_contract::FindingView;
use hooklatch_core::config::{DatabaseConfig, ListenerTlsConfig, RetentionConfig};
use hooklatch_core::figures::{grouped, plural};
use hooklatch_core::times::rfc3339;
use hooklatch_core::tls;
use hooklatch_core::types::{Clock, UnixMs};
use hooklatch_outbox::NodeCalls;
use hooklatch_receive::retention::overdue;
use hooklatch_store::{NodeSeen, Store};

const DAY_MS: i64 = 86_400_000;
/// Validity that is left of a certificate. Days.
pub(super) const DAYS_LEFT: i64 = 14;
/// A node that was seen within this time is there. Milliseconds.
pub(super) const SEEN_MS: i64 = 60_000;
/// Parts of the limit of open files. Percent.
const FILES_PERCENT: [u64; 2] = [70, 90];

/// Longest time of one handshake with a destination; all are made at once.
const SHAKE_LIMIT: Duration = Duration::from_secs(3);

/// Findings about a certificate that ends then; `subject` says whose.
pub fn days_left(check: Check, subject: &str, not_after_s: i64, now_ms: UnixMs) -> FindingView {
    let left_s = not_after_s.saturating_sub(now_ms / 1_000);
    let days = left_s / 86_400;
    let words = if left_s <= 0 { "it has ended".to_owned() } else { format!("{days} days left") };
    let grade = (days < DAYS_LEFT, left_s <= 0);
    check.graded(words, grade, "renew it; files that change are read again by themselves").about(subject)
}

pub(crate) fn certificates(ends: &[(&'static str, Result<i64, String>)], now_ms: UnixMs) -> Vec<FindingView> {
    let found = ends.iter().map(|(name, end)| match end {
        Ok(not_after_s) => days_left(CERTIFICATES, name, *not_after_s, now_ms),
        Err(why) => CERTIFICATES
            .failure(why.clone())
            .about(*name)
            .cure("set its files right: what was read before is used until the next start"),
    });
    or_well(found.collect(), || {
        CERTIFICATES.well("our listeners have none: something before them ends TLS, or nothing does")
    })
}

/// Warnings about a configuration.
pub fn warnings(warnings: &[String]) -> Vec<FindingView> {
    let found =
        warnings.iter().map(|text| CONFIG.warning(text.clone()).cure("see config.default.toml for the key"));
    or_well(found.collect(), || CONFIG.well("no warnings"))
}

/// The versions of those nodes that are there; `own` is the one that answers.
pub(crate) fn nodes(seen: &[NodeSeen], own: &str) -> Vec<FindingView> {
    let there: Vec<&NodeSeen> = seen.iter().filter(|one| one.ago_ms <= SEEN_MS).collect();
    let mut versions: Vec<(&str, i64)> = there.iter().map(|one| (one.version.as_str(), one.schema)).collect();
    versions.sort_unstable();
    versions.dedup();
    let describe = |one: &&NodeSeen| format!("{} ({}, schema {})", one.node, one.version, one.schema);
    let list = there.iter().map(describe).collect::<Vec<_>>().join(", ");
    if versions.len() > 1 {
        let finding = NODES.warning(format!("{} nodes: {list}", there.len()));
        return vec![finding.cure("finish the update, or take it back: all nodes of one version")];
    }
    if !there.iter().any(|one| one.node == own) {
        return vec![NODES.unknown(format!("this node has not written its own row yet; seen: {list}"))];
    }
    vec![NODES.well(format!("{}: {list}", plural(there.len() as u64, "node")))]
}

/// Open files of this process, their limit, and how many connections were wanted and fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileFacts {
    pub open_n: u64,
    pub open_n_max: u64,
    pub wanted_n: u64,
    pub fit_n: u64,
}

pub(crate) fn files(facts: FileFacts) -> Vec<FindingView> {
    let FileFacts { open_n, open_n_max, wanted_n, fit_n } = facts;
    let percent = open_n.saturating_mul(100).checked_div(open_n_max).unwrap_or(0);
    let [warns, fails] = FILES_PERCENT;
    let most = if open_n_max == u64::MAX { "any number".to_owned() } else { grouped(open_n_max) };
    let words = format!("{} are open, {most} may be", grouped(open_n));
    let remedy = "raise the limit (ulimit -n, LimitNOFILE=), or lower server.connections_n_max";
    let mut findings = vec![FILES.graded(words, (percent > warns, percent > fails), remedy)];
    if fit_n < wanted_n {
        let words = format!(
            "{} connections fit of the {} that server.connections_n_max wants",
            grouped(fit_n),
            grouped(wanted_n)
        );
        findings.push(FILES.warning(words).about("server.connections_n_max").cure(remedy));
    }
    findings
}

/// How late the oldest rows are that should be pruned, by table; `every_ms` is 0 where pruning is off.
pub(crate) fn retention(late_ms: &[(&'static str, i64)], every_ms: u64) -> Vec<FindingView> {
    if every_ms == 0 {
        let finding = RETENTION.warning("retention.every_ms = 0: nothing is pruned by itself");
        return vec![finding.cure("set retention.every_ms, or run `hooklatch prune` every day")];
    }
    let found = late_ms.iter().filter(|(_, late_ms)| *late_ms > DAY_MS).map(|(table, late_ms)| {
        let days = late_ms / DAY_MS;
        let words = format!("rows are there that should have gone {days} days ago");
        let remedy = "look for `pruning is behind` in the log, and whether a node prunes at all; `hooklatch prune` does it at once";
        RETENTION.graded(words, (true, *late_ms > 7 * DAY_MS), remedy).about(*table)
    });
    or_well(found.collect(), || RETENTION.well("what is old goes in time"))
}

/// Whether a node that answers is ready, by what is failing in it, and takes requests: `refusing_since_ms` is 0 unless it
/// refuses all that it could admit.
pub(crate) fn ready(failing: &[&'static str], refusing_since_ms: UnixMs) -> FindingView {
    if !failing.is_empty() {
        return SERVER.failure(failing.join(", ")).cure("its log says why; /readyz is 503 until then");
    }
    if refusing_since_ms == 0 {
        return SERVER.well("ready");
    }
    let at = rfc3339(refusing_since_ms).unwrap_or_else(|| refusing_since_ms.to_string());
    SERVER
        .failure(format!("it is ready, and has answered every request with 5xx since {at}"))
        .cure("look for `could not commit` and `could not admit` in its log; with SQLite, `hooklatch doctor --deep` reads every page")
}

/// What the doctor needs of a node.
pub struct DoctorParts {
    pub store: Store,
    pub clock: Clock,
    /// The calls of the node.
    pub calls: NodeCalls,
    /// True in `serve --dev`, where what is open is meant to be.
    pub is_dev: bool,
    pub database: DatabaseConfig,
    pub retention: RetentionConfig,
    pub lease_ms: u64,
    /// Warnings of the configuration.
    pub warnings: Vec<String>,
    /// Our listeners that have certificates.
    pub listeners: Vec<(&'static str, ListenerTlsConfig)>,
    /// Destinations with the hosts and ports that they are called at.
    pub hosts: Vec<(String, String, u16)>,
    /// Counts open files.
    pub files: Box<dyn Fn() -> FileFacts + Send + Sync>,
    /// Lists what is wrong with the node.
    pub failing: Box<dyn Fn() -> Vec<&'static str> + Send + Sync>,
    /// Since when it refuses all that it could admit; 0 while that is not so.
    pub refusing_since_ms: Box<dyn Fn(UnixMs) -> UnixMs + Send + Sync>,
}

/// The doctor of one node.
pub struct NodeDoctor(DoctorParts);

impl NodeDoctor {
    pub fn new(parts: DoctorParts) -> Self {
        Self(parts)
    }

    /// Findings about the whole: the node and the database.
    pub async fn examine(&self, is_deep: bool) -> Vec<FindingView> {
        let parts = &self.0;
        let (clock, store) = (&parts.clock, &parts.store);
        let now_ms = clock.now_ms();
        let mut findings = vec![ready(&(parts.failing)(), (parts.refusing_since_ms)(now_ms))];
        findings.extend(warnings(&parts.warnings));
        let end = |(name, files): &(&'static str, ListenerTlsConfig)| {
            let end = tls::server_config(files).map(|made| made.not_after_s);
            (*name, end.map_err(|mistake| mistake.why))
        };
        findings.extend(certificates(&parts.listeners.iter().map(end).collect::<Vec<_>>(), now_ms));
        findings.extend(files((parts.files)()));
        let every_ms = parts.retention.every_ms;
        let late = overdue(store, clock, &parts.retention);
        let shaken = async { Ok::<_, std::convert::Infallible>(parts.calls.handshakes(SHAKE_LIMIT).await) };
        let (seen, late, of_database, of_names, of_tls) = tokio::join!(
            bounded(NODES, LOOK_LIMIT, store.node_list(now_ms), |seen| nodes(&seen, self.node())),
            bounded(RETENTION, LOOK_LIMIT, late, |late_ms| retention(&late_ms, every_ms)),
            database(store, &parts.database, (clock, parts.lease_ms), is_deep),
            names(parts.hosts.clone()),
            bounded(HANDSHAKES, LOOK_LIMIT, shaken, |looked| handshakes(&looked, now_ms)),
        );
        [findings, seen, late, of_database, of_names, of_tls].concat()
    }

    /// True in `serve --dev`.
    pub fn is_dev(&self) -> bool {
        self.0.is_dev
    }

    /// Name of the node.
    pub fn node(&self) -> &str {
        self.0.calls.node()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::FindingVerdict::{self, Failure, Unknown, Warning, Well};

    #[track_caller]
    fn check(found: &[FindingView], want: FindingVerdict) {
        let worst = found.iter().map(|one| one.verdict).max();
        assert_eq!(worst, Some(want), "{found:?}");
    }

    #[test]
    fn a_certificate_is_reported_before_it_expires() {
        let now_ms = 1_795_356_311_500;
        let day = |days: i64| now_ms / 1_000 + days * 86_400;
        for (not_after_s, want) in
            [(day(14), Well), (day(13), Warning), (day(0), Failure), (day(-1), Failure)]
        {
            check(&certificates(&[("receiver", Ok(not_after_s))], now_ms), want);
        }
        check(&certificates(&[], now_ms), Well);
        check(&certificates(&[("operator", Err("gone".to_owned()))], now_ms), Failure);
    }

    #[test]
    fn live_nodes_of_two_versions_are_reported() {
        let node = |node: &str, version: &str, ago_ms: i64| NodeSeen {
            node: node.to_owned(),
            version: version.to_owned(),
            schema: 1,
            ago_ms,
        };
        check(&nodes(&[node("a", "1.0.0", 0), node("b", "1.0.0", 50_000)], "a"), Well);
        check(&nodes(&[node("a", "1.0.0", 0), node("b", "1.0.1", 50_000)], "a"), Warning);
        check(&nodes(&[node("a", "1.0.0", 0), node("b", "1.0.1", 61_000)], "a"), Well);
        let newer = NodeSeen { schema: 2, ..node("b", "1.0.0", 0) };
        check(&nodes(&[node("a", "1.0.0", 0), newer], "a"), Warning);
        check(&nodes(&[], "a"), Unknown);
    }

    #[test]
    fn files_and_rows_are_held_against_their_bounds() {
        let facts = |open_n, fit_n| FileFacts { open_n, open_n_max: 1_000, wanted_n: 500, fit_n };
        check(&files(facts(700, 500)), Well);
        check(&files(facts(710, 500)), Warning);
        check(&files(facts(910, 500)), Failure);
        check(&files(facts(10, 400)), Warning);
        check(&retention(&[("webhook_payloads", DAY_MS)], 60_000), Well);
        check(&retention(&[("webhook_payloads", DAY_MS + 1)], 60_000), Warning);
        check(&retention(&[("webhook_payloads", 8 * DAY_MS)], 60_000), Failure);
        check(&retention(&[], 0), Warning);
        check(&warnings(&["x".to_owned()]), Warning);
        check(&[ready(&["the database is away"], 0)], Failure);
        check(&[ready(&[], 1_795_356_311_500)], Failure);
        check(&[ready(&[], 0)], Well);
    }
}
