//! A server with a Prometheus that watches it.

use std::net::SocketAddr;
use std::process::Command;

use crate::database::Database;
use crate::ops::prometheus::{PastMetrics, Prometheus};
use crate::process::{SECRET, Server, client, now_s, stripe_signed};

/// A server, and a Prometheus that scrapes it with the numbers of its configuration.
pub(super) struct Watched {
    pub(super) prometheus: Prometheus,
    pub(super) server: Server,
}

/// A token with every right.
pub(super) const TOKEN: &str = "admin-token-01234567890";

impl Watched {
    /// `None`, with a printed reason, where Prometheus is not installed.
    pub(super) async fn start(database: &Database, more: &str) -> Option<Self> {
        Self::of(Self::prepared(database, more)).await
    }

    /// A server that does not run yet.
    pub(super) fn prepared(database: &Database, more: &str) -> Server {
        let server = Server::prepare(&database.url, more);
        let tokens =
            format!("tokens = [{{ name = \"admin\", role = \"admin\", token = \"{TOKEN}\" }}]\n[database]");
        reworded(&server, "[database]", &tokens);
        server
    }

    /// Starts the server and looks at it.
    pub(super) async fn of(mut server: Server) -> Option<Self> {
        server.spawn().await;
        Self::look(server, &[], &[]).await
    }

    /// Watches a running server, and these nodes beside it; `past` are its earlier metrics.
    pub(super) async fn look(server: Server, beside: &[SocketAddr], past: &[PastMetrics]) -> Option<Self> {
        let prometheus = Prometheus::start(&[&[server.admin], beside].concat(), past)?;
        prometheus.has_looked().await;
        Some(Self { prometheus, server })
    }

    /// Sends this body of Stripe, signed with this secret; the status.
    pub(super) async fn post(&self, body: &str, secret: &str) -> u16 {
        post(&self.server, body, secret).await
    }

    /// Sends an event of this id and type with our secret; the status.
    pub(super) async fn event(&self, id: &str, kind: &str) -> u16 {
        self.post(&body(id, kind), SECRET).await
    }

    /// A command of an operator.
    pub(super) fn order(&self, arguments: &[&str]) -> String {
        let home = self.server.config().parent().unwrap().to_owned();
        let mut command = Command::new(env!("CARGO_BIN_EXE_hooklatch"));
        command.args(arguments).arg("--config").arg(self.server.config());
        command.env("HOOKLATCH_TOKEN", TOKEN).env("HOME", &home);
        let ran = command.output().unwrap();
        let said = String::from_utf8([ran.stdout, ran.stderr].concat()).unwrap();
        // Shown, and not done yet.
        let is_shown = ran.status.code() == Some(7);
        assert!(ran.status.success() || is_shown, "{arguments:?}: {said}");
        said
    }

    /// An act on all that a filter finds: shown first, and then done.
    pub(super) fn order_all(&self, arguments: &[&str]) {
        let shown = self.order(arguments);
        let seen = shown.split("--yes ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        self.order(&[arguments, &["--yes", seen]].concat());
    }
}

/// Sends this body of Stripe, signed with this secret; the status, or 0 when there was no answer.
pub(super) async fn post(server: &Server, body: &str, secret: &str) -> u16 {
    let header = stripe_signed(body, secret, now_s());
    let request = client().post(server.url("/webhooks/stripe")).header("stripe-signature", header);
    request.body(body.to_owned()).send().await.map_or(0, |answer| answer.status().as_u16())
}

/// An event of this id and type.
pub(super) fn body(id: &str, kind: &str) -> String {
    let object = format!(r#"{{"id":"in_{id}","customer":"c_1"}}"#);
    format!(r#"{{"id":"{id}","type":"{kind}","created":1767225600,"data":{{"object":{object}}}}}"#)
}

/// Puts something in the place of a text of the configuration, before the start.
pub(super) fn reworded(server: &Server, from: &str, to: &str) {
    let config = std::fs::read_to_string(server.config()).unwrap();
    assert_eq!(config.matches(from).count(), 1, "{config}");
    std::fs::write(server.config(), config.replace(from, to)).unwrap();
}
