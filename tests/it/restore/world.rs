//! A server with two destinations, a destination that remembers every call, and the database's own way to be restored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use http::{HeaderMap, StatusCode, Uri};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

use crate::database::Database;
use crate::process::{Server, client, now_s, stripe_header};

pub(super) const OPERATOR: &str = "operator-token-0123456789";

/// One call as the destination saw it.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    pub destination: String,
    pub key: String,
    pub message_id: String,
    pub event_id: String,
    pub body: Bytes,
}

/// A destination that answers 200 and forgets nothing.
#[derive(Clone, Default)]
pub(super) struct Callee(Arc<Mutex<Vec<Seen>>>);

impl Callee {
    async fn serve(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(call).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    }

    pub(super) fn seen(&self) -> Vec<Seen> {
        self.0.lock().unwrap().clone()
    }

    /// The calls for one event at one destination.
    pub(super) fn of(&self, destination: &str, event_id: &str) -> Vec<Seen> {
        let is_its = |one: &Seen| one.destination == destination && one.event_id == event_id;
        self.seen().into_iter().filter(is_its).collect()
    }

    /// Fails where one key was sent with other bytes or for another event, and where a number named two messages.
    #[track_caller]
    pub(super) fn check_names(&self) {
        let (mut by_key, mut by_number) = (BTreeMap::new(), BTreeMap::new());
        for one in self.seen() {
            let content = (one.destination.clone(), one.event_id.clone(), one.body.clone());
            let first = by_key.entry(one.key.clone()).or_insert_with(|| content.clone());
            assert_eq!(*first, content, "key {} has another content", one.key);
            by_number.entry(one.message_id.clone()).or_insert_with(BTreeSet::new).insert(one.key);
        }
        for (number, keys) in by_number {
            assert_eq!(keys.len(), 1, "message {number} is two: {keys:?}");
        }
    }
}

async fn call(State(far): State<Callee>, uri: Uri, headers: HeaderMap, body: Bytes) -> StatusCode {
    let text = |name: &str| headers[name].to_str().unwrap().to_owned();
    far.0.lock().unwrap().push(Seen {
        destination: uri.path().trim_matches('/').to_owned(),
        key: text("idempotency-key"),
        message_id: text("hooklatch-message-id"),
        event_id: text("hooklatch-event-id"),
        body,
    });
    StatusCode::OK
}

/// A server whose events go to `billing`, which knows keys for a day, and to `ledger`, which knows none.
pub(super) struct World {
    pub server: Server,
    pub far: Callee,
}

impl World {
    pub(super) async fn start(database: &Database) -> Self {
        let far = Callee::default();
        let url = far.serve().await;
        let more = format!(
            "[[providers.stripe.routes]]\non = [\"*\"]\nto = \"billing\"\n\
             [[providers.stripe.routes]]\non = [\"*\"]\nto = \"ledger\"\n[outbox]\npoll_ms = 50\n\
             [destinations.billing]\nurl = \"{url}/billing\"\nkey_valid_for_ms = 86400000\n\
             [destinations.ledger]\nurl = \"{url}/ledger\"\nunknown = \"hold\"\n"
        );
        let mut server = Server::prepare(&database.url, &more);
        let config = std::fs::read_to_string(server.config()).unwrap();
        let tokens = format!(
            "tokens = [{{ name = \"ops\", role = \"operator\", token = \"{OPERATOR}\" }}]\n[database]"
        );
        std::fs::write(server.config(), config.replace("[database]", &tokens)).unwrap();
        server.spawn().await;
        Self { server, far }
    }

    /// Sends an event that happened at `created_s`; the outcome.
    pub(super) async fn post(&self, id: &str, created_s: i64) -> String {
        let body = format!(
            r#"{{"id":"{id}","type":"invoice.paid","created":{created_s},"data":{{"object":{{"id":"in_{id}"}}}}}}"#
        );
        let header = stripe_header(&body, now_s());
        let url = self.server.url("/webhooks/stripe");
        let sent = client().post(url).header("stripe-signature", header).body(body).send().await.unwrap();
        assert_eq!(sent.status(), 200);
        sent.headers()["hooklatch-outcome"].to_str().unwrap().to_owned()
    }

    /// Runs a command with this server's configuration: exit code, stdout, stderr.
    pub(super) fn run(&self, arguments: &[&str]) -> (i32, String, String) {
        let ran = Command::new(env!("CARGO_BIN_EXE_hooklatch"))
            .args(arguments)
            .arg("--config")
            .arg(self.server.config())
            .env("HOOKLATCH_TOKEN", OPERATOR)
            .env("HOME", self.server.config().parent().unwrap())
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (ran.status.code().unwrap(), text(ran.stdout), text(ran.stderr))
    }
}

/// A backup by the database's own means.
pub(crate) struct Saved {
    folder: TempDir,
}

impl Saved {
    fn file(&self) -> PathBuf {
        self.folder.path().join("saved")
    }

    /// Made while a server runs.
    pub(crate) fn of(database: &Database, server: &Server) -> Self {
        let saved = Self { folder: tempfile::tempdir().unwrap() };
        let to = saved.file();
        if database.url.starts_with("sqlite") {
            let (code, said) = server.command(OPERATOR, &["backup", to.to_str().unwrap()]);
            assert_eq!(code, 0, "{said}");
        } else {
            ran(Command::new(pg_program("pg_dump")).args(["-Fc", "-f"]).arg(&to).arg(&database.url));
        }
        saved
    }

    /// Restores it over the current database, on which no server runs.
    pub(crate) async fn restore(&self, database: &Database) {
        if let Some(path) = database.url.strip_prefix("sqlite://") {
            for ending in ["-wal", "-shm"] {
                drop(std::fs::remove_file(format!("{path}{ending}")));
            }
            std::fs::copy(self.file(), path).unwrap();
            return;
        }
        let (base, name) = database.url.rsplit_once('/').unwrap();
        let mut admin = PgConnection::connect(&format!("{base}/postgres")).await.unwrap();
        for sql in [format!("DROP DATABASE {name} WITH (FORCE)"), format!("CREATE DATABASE {name}")] {
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut admin).await.unwrap();
        }
        let restore = pg_program("pg_restore");
        ran(Command::new(restore).args(["--exit-on-error", "-d"]).arg(&database.url).arg(self.file()));
    }
}

fn ran(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// One of PostgreSQL's programs: beside the server's, else wherever it is.
fn pg_program(name: &str) -> PathBuf {
    let configured = std::env::var("HOOKLATCH_TEST_PG_BIN").ok().map(PathBuf::from);
    let installed = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut places: Vec<PathBuf> = installed.map(|one| one.path().join("bin")).collect();
    places.sort();
    configured
        .into_iter()
        .chain(places.pop())
        .map(|bin| bin.join(name))
        .find(|path| path.exists())
        .unwrap_or(name.into())
}
