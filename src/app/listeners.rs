//! The two listeners: their routes, and how many connections (which are open files) each may have.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::task::JoinHandle;
use tracing::warn;
use uuid::Uuid;

use super::App;
use super::running::spawn;
use hooklatch_console::{self as console, ConsoleState};
use hooklatch_core::config::{DEV_TOKEN, Secret};
use hooklatch_core::current::Current;
use hooklatch_core::stop::Stop;
use hooklatch_core::tls::ListenerTls;
use hooklatch_operator::doctor::ProbeKey;
use hooklatch_operator::http::api::ApiState;
use hooklatch_operator::http::guard::{self, OperatorHosts};
use hooklatch_operator::http::operator::OperatorState;
use hooklatch_operator::http::receiver::ReceiverState;
use hooklatch_operator::http::{self, Limits, Listener, OriginRule, Routes, echo};
use hooklatch_receive::Receiver;

/// Most open connections of operators and monitors, when `server.connections_n_max` is not less.
const OPERATOR_CONNECTIONS_N_MAX: usize = 256;

/// Whom a listener serves: senders, or operators and monitors.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Receiver,
    Operator,
}

impl App {
    /// The state of the receiver, also when it is mounted into another server.
    pub(super) fn receiver_state(&self, receiver: Receiver, installation_id: &Uuid) -> Arc<ReceiverState> {
        let server = &self.config.server;
        Arc::new(ReceiverState {
            receiver,
            clock: self.clock.clone(),
            public_url: server.public_url.clone(),
            body_bytes_max: server.body_bytes_max as usize,
            body_timeout: Duration::from_millis(server.body_timeout_ms),
            probes: ProbeKey::new(installation_id),
            room: self.memory.clone(),
            is_test: server.is_test,
        })
    }

    /// The router of the receiver.
    pub(super) fn receiver_routes(&self, receiver: Receiver, installation_id: &Uuid) -> Routes {
        let state = self.receiver_state(receiver, installation_id);
        Routes::receiver(state, self.has_echo.then_some(guard::without_browsers as fn(Router) -> Router))
    }

    /// Serves what this listener is for, webhooks or operators, until the stop.
    pub(super) fn serve(
        &self,
        side: Side,
        listener: Listener,
        routes: Current<Routes>,
        stop: Stop,
    ) -> anyhow::Result<JoinHandle<()>> {
        Ok(spawn(served(listener, routes, self.limits(side)?, stop)))
    }

    /// The router of the operator side.
    pub(super) fn operator_routes(&self, state: &Arc<OperatorState>, api: ApiState) -> Routes {
        let api = Arc::new(api);
        let console = console::router(self.console(&api));
        let mut router: Router = http::operator::router(Arc::clone(state), api, console);
        if self.has_echo {
            router = echo::router(self.echo.clone()).fallback_service(router);
        }
        let (admin, public) = (&self.config.admin, self.config.admin.public_url.as_ref());
        let names = admin.hosts.iter().cloned().chain(public.map(|url| url.host.clone())).collect();
        let origin = public.map(|url| url.origin.clone());
        let router = guard::operators(router, OperatorHosts::new(admin.listen, names, origin));
        Routes::from(http::below(admin.base(), router))
    }

    /// The state of the console.
    fn console(&self, api: &Arc<ApiState>) -> ConsoleState {
        let (admin, public) = (&self.config.admin, self.config.admin.public_url.as_ref());
        ConsoleState {
            contract: http::api::inner_router(Arc::clone(api)),
            providers: api.providers.iter().map(|one| one.name.clone()).collect(),
            destinations: api.destinations.keys().cloned().collect(),
            gate: Arc::clone(&api.gate),
            clock: self.clock.clone(),
            base: admin.base(),
            is_secure: public.map_or(admin.tls.is_some(), |url| url.is_secure),
            server_name: api.server_name.clone(),
            is_test: api.is_test,
            dev_token: self.has_echo.then(|| Secret::new(DEV_TOKEN)),
        }
    }

    /// Most open files besides the receiver's connections: those of operators, the database and calls.
    pub(super) fn files_n(&self) -> usize {
        let calls_n = self.config.destinations.values().map(|one| one.concurrency_n as usize).sum::<usize>();
        OPERATOR_CONNECTIONS_N_MAX + 3 * self.config.database.connections_n as usize + calls_n
    }

    /// The operator's listener serves few clients; its open files must not be missing for webhooks.
    fn limits(&self, side: Side) -> anyhow::Result<Limits> {
        let (server, edge, admin) = (&self.config.server, &self.config.server.edge, &self.config.admin);
        let wanted_n = server.connections_n_max as usize;
        let (name, tls, forwarded, proxies, connections_n_max) = match side {
            Side::Operator => {
                let connections_n_max = wanted_n.min(OPERATOR_CONNECTIONS_N_MAX);
                ("operator", &admin.tls, admin.forwarded, &admin.proxies, connections_n_max)
            }
            Side::Receiver => {
                let fit_n = http::connections_n(wanted_n, self.files_n());
                ("receiver", &server.tls, edge.forwarded, &edge.proxies, fit_n)
            }
        };
        if side == Side::Receiver && connections_n_max < wanted_n {
            warn!(
                wanted_n,
                connections_n_max,
                "the system lets us open too few files for server.connections_n_max: raise its limit (ulimit -n)"
            );
        }
        let tls = tls.clone().map(|files| ListenerTls::new(name, files)).transpose();
        let tls =
            tls.map_err(|mistake| anyhow::anyhow!("TLS of the {name}: {}: {}", mistake.key, mistake.why))?;
        Ok(Limits {
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
            tls: tls.map(Arc::new),
            origin: OriginRule::new(forwarded, proxies.clone()),
        })
    }
}

/// Serves until the stop, and reads the listener's certificate again when it changes.
async fn served(listener: Listener, routes: Current<Routes>, limits: Limits, stop: Stop) {
    let tls = limits.tls.clone();
    let watched = async {
        if let Some(tls) = tls {
            tls.watch(stop.clone()).await;
        }
    };
    tokio::join!(http::serve(listener, routes, limits, stop.clone()), watched);
}

/// Listens on `lent` where that is open already, else on `addr`. An error names the address, and `key` of the
/// configuration, which says it.
pub(super) fn opened(lent: Option<TcpListener>, addr: SocketAddr, key: &str) -> anyhow::Result<Listener> {
    let listener = lent.map_or_else(|| http::listen(addr), Listener::lent);
    listener.map_err(|error| {
        let cure = match error.kind() {
            ErrorKind::AddrInUse => {
                format!("stop the program that listens there, or give {key} another port")
            }
            ErrorKind::AddrNotAvailable => {
                format!("give {key} an address of this machine, or 0.0.0.0 for all")
            }
            ErrorKind::PermissionDenied => {
                format!("give {key} a port from 1024 on, or grant CAP_NET_BIND_SERVICE")
            }
            _ => format!("correct {key}"),
        };
        anyhow::anyhow!("could not listen on {addr}: {error}; {cure}")
    })
}
