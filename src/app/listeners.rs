//! What the two listeners may take: connections, and the files that those are.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpListener;
use tracing::warn;

use super::App;
use crate::http::{self, Limits};

/// Most open connections of operators and monitors, when `server.connections_n_max` is not less.
const OPERATOR_CONNECTIONS_N_MAX: usize = 256;

impl App {
    /// Files that are open at most besides the receiver's connections: operators', the database's, calls'.
    fn files_n(&self) -> usize {
        let calls_n = self.config.destinations.values().map(|one| one.concurrency_n as usize).sum::<usize>();
        OPERATOR_CONNECTIONS_N_MAX + 3 * self.config.database.connections_n as usize + calls_n
    }

    /// The operator's listener is for a few; what it has of files must not be wanting where webhooks come in.
    pub(super) fn limits(&self, name: &'static str) -> Limits {
        let (server, edge) = (&self.config.server, &self.config.server.edge);
        let wanted_n = server.connections_n_max as usize;
        let connections_n_max = if name == "operator" {
            wanted_n.min(OPERATOR_CONNECTIONS_N_MAX)
        } else {
            let fit_n = http::files::connections_n(wanted_n, self.files_n());
            if fit_n < wanted_n {
                warn!(
                    wanted_n,
                    connections_n_max = fit_n,
                    "the system lets us open too few files for server.connections_n_max: raise its limit (ulimit -n)"
                );
            }
            fit_n
        };
        Limits {
            name,
            connections_n_max,
            peer_n_max: server.peer_connections_n_max(connections_n_max),
            proxies: edge.proxies.clone(),
            header_timeout: Duration::from_millis(server.header_timeout_ms),
            write_timeout: Duration::from_millis(edge.write_timeout_ms),
            body_bytes_per_s_min: edge.body_bytes_per_s_min.into(),
            life: Duration::from_millis(edge.connection_life_ms),
            requests_n_max: edge.connection_requests_n_max,
            stop_timeout: Duration::from_millis(self.config.outbox.stop_timeout_ms),
        }
    }
}

pub(super) fn bind(addr: SocketAddr) -> anyhow::Result<TcpListener> {
    http::listen(addr).with_context(|| format!("could not listen on {addr}"))
}
