//! What the doctor needs of a node, and the row by which other nodes see that it runs.

use tokio::sync::watch;
use tracing::debug;

use super::builder::App;
use super::entries::host_of;
use hooklatch_core::config::ListenerTlsConfig;
use hooklatch_core::stop::Stop;
use hooklatch_core::types::Clock;
use hooklatch_operator::doctor::{DoctorParts, FileFacts, NodeDoctor, ProbeKey};
use hooklatch_operator::http::api::ProbeFacts;
use hooklatch_operator::http::operator::Readiness;
use hooklatch_operator::http::{OpenFiles, fit_n};
use hooklatch_outbox::NodeCalls;
use hooklatch_receive::admit::AdmitContext;
use hooklatch_store::{NODE_SEEN_EVERY, Store};

impl App {
    /// The doctor of this node.
    pub(super) fn doctor(
        &self,
        admission: &AdmitContext,
        calls: NodeCalls,
        readiness: watch::Receiver<Readiness>,
    ) -> NodeDoctor {
        let config = &self.config;
        let (wanted_n, others_n) = (config.server.connections_n_max as usize, self.files_n());
        let of_files = move || {
            let OpenFiles { n, n_max } = OpenFiles::of_process();
            let (open_n, open_n_max) = (n.unwrap_or(0), n_max.unwrap_or(u64::MAX));
            let fit_n = fit_n(wanted_n, others_n) as u64;
            FileFacts { open_n, open_n_max, wanted_n: wanted_n as u64, fit_n }
        };
        let tls = [("receiver", &config.server.tls), ("operator", &config.admin.tls)];
        let listeners: Vec<(&'static str, ListenerTlsConfig)> =
            tls.into_iter().filter_map(|(name, files)| Some((name, files.clone()?))).collect();
        let warnings = config.warnings.iter().map(ToString::to_string).chain(self.warnings.iter().cloned());
        NodeDoctor::new(DoctorParts {
            store: admission.store.clone(),
            clock: self.clock.clone(),
            calls,
            is_dev: self.has_echo,
            database: config.database.clone(),
            retention: config.retention.clone(),
            lease_ms: config.outbox.lease_ms,
            warnings: warnings.collect(),
            listeners,
            hosts: self.hosts(),
            files: Box::new(of_files),
            amiss: Box::new(move || readiness.borrow().amiss()),
        })
    }

    /// What is needed to send probes to the receiver.
    pub(super) fn probes(&self, admission: &AdmitContext) -> ProbeFacts {
        ProbeFacts {
            key: ProbeKey::new(&admission.installation_id),
            public_url: self.config.server.public_url.clone(),
            body_bytes_max: self.config.server.body_bytes_max,
        }
    }

    /// The hosts of HTTP destinations, unless a template decides them.
    fn hosts(&self) -> Vec<(String, String, u16)> {
        let host =
            |(name, config): (&hooklatch_core::types::Name, &hooklatch_core::config::DestinationConfig)| {
                let (host, port) = host_of(config)?;
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                Some((name.to_string(), host, port))
            };
        self.config.destinations.iter().filter_map(host).collect()
    }
}

/// Refreshes this node's row until the stop, then deletes it.
pub(super) async fn be_seen(store: &Store, clock: &Clock, node: &str, mut stop: Stop) {
    while !stop.is_set() {
        if let Err(error) = store.node_seen(node, env!("CARGO_PKG_VERSION"), clock.now_ms()).await {
            debug!(%error, "could not write that this node is there");
        }
        stop.pause(NODE_SEEN_EVERY).await;
    }
    if let Err(error) = store.node_gone(node).await {
        debug!(%error, "could not write that this node is gone");
    }
}
