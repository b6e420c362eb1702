//! Examines a node that runs, all looks at once.

use std::time::Duration;

use super::bounded::{LOOK_LIMIT, bounded};
use super::check::{HANDSHAKES, NODES, RETENTION};
use super::database::database;
use super::destinations::names;
use super::handshakes::handshakes;
use super::node::{FileFacts, certificates, files, nodes, ready, retention, warnings};
use hooklatch_contract::FindingView;
use hooklatch_core::config::{DatabaseConfig, ListenerTlsConfig, RetentionConfig};
use hooklatch_core::tls;
use hooklatch_core::types::Clock;
use hooklatch_outbox::NodeCalls;
use hooklatch_receive::retention::overdue;
use hooklatch_store::Store;

/// Longest time of one handshake with a destination; all are made at once.
const SHAKE_LIMIT: Duration = Duration::from_secs(3);

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
    pub amiss: Box<dyn Fn() -> Vec<&'static str> + Send + Sync>,
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
        let mut findings = vec![ready(&(parts.amiss)())];
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
        for more in [seen, late, of_database, of_names, of_tls] {
            findings.extend(more);
        }
        findings
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
