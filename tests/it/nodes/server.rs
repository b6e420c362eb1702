//! A test's own PostgreSQL, which can be stopped, killed, replicated to a standby and replaced by it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tempfile::TempDir;

use crate::needs;
use crate::process::{free_port, until};

/// A server, running or not.
pub(super) struct Postgres {
    pub port: u16,
    folder: TempDir,
    bin: PathBuf,
    child: Option<Child>,
}

/// A command that runs as the user of PostgreSQL and its companions: never as root.
pub(super) fn command(program: impl AsRef<Path>, folder: &Path) -> Command {
    let mut command = Command::new(program.as_ref());
    if let Some((user, group)) = owner() {
        command.uid(user).gid(group);
    }
    command.current_dir(folder).env("HOME", folder).stdin(Stdio::null());
    command
}

/// A folder for such a command.
pub(super) fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    if let Some((user, group)) = owner() {
        std::os::unix::fs::chown(folder.path(), Some(user), Some(group)).unwrap();
    }
    folder
}

/// User and group, when we are root ourselves.
fn owner() -> Option<(u32, u32)> {
    let name = std::env::var("HOOKLATCH_TEST_PG_USER").ok().filter(|name| !name.is_empty())?;
    let users = std::fs::read_to_string("/etc/passwd").unwrap();
    let line = users.lines().find(|line| line.starts_with(&format!("{name}:"))).unwrap();
    let fields: Vec<&str> = line.split(':').collect();
    Some((fields[2].parse().unwrap(), fields[3].parse().unwrap()))
}

/// Sends a signal by its name.
pub(super) fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), child.id().to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name}");
}

fn ran(command: &mut Command) {
    let output = command.stdout(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Postgres {
    /// A new one, started with these settings besides its own.
    pub async fn start(settings: &[&str]) -> Option<Self> {
        let bin = PathBuf::from(needs::place("HOOKLATCH_TEST_PG_BIN")?);
        let folder = folder();
        let data = folder.path().join("data");
        ran(command(bin.join("initdb"), folder.path())
            .args(["--no-locale", "--no-sync", "-E", "UTF8", "-A", "trust", "-U", "postgres", "-D"])
            .arg(&data));
        let hba =
            "local all all trust\nhost all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n";
        std::fs::write(data.join("pg_hba.conf"), hba).unwrap();
        let mut server = Self { port: free_port().port(), folder, bin, child: None };
        server.run(settings).await;
        Some(server)
    }

    /// A standby of this one, by the name of `name`, started with these settings.
    pub async fn standby(&self, name: &str, settings: &[&str]) -> Self {
        let folder = folder();
        ran(command(self.bin.join("pg_basebackup"), folder.path())
            .args(["--no-sync", "-c", "fast", "-X", "stream", "-R", "-D"])
            .arg(folder.path().join("data"))
            .arg("-d")
            .arg(format!(
                "host=127.0.0.1 port={} user=postgres application_name={name} dbname=postgres",
                self.port
            )));
        let mut server = Self { port: free_port().port(), folder, bin: self.bin.clone(), child: None };
        server.run(settings).await;
        server
    }

    /// A copy of this one as `pg_basebackup` makes it, which does not run and is no standby.
    pub fn base(&self) -> Self {
        let folder = folder();
        ran(command(self.bin.join("pg_basebackup"), folder.path())
            .args(["--no-sync", "-c", "fast", "-X", "stream", "-D"])
            .arg(folder.path().join("data"))
            .arg("-d")
            .arg(format!("host=127.0.0.1 port={} user=postgres dbname=postgres", self.port)));
        Self { port: free_port().port(), folder, bin: self.bin.clone(), child: None }
    }

    /// Has its next start recover from an archive, as far as the settings of that start say.
    pub fn recovers(&self) {
        let signal = self.folder.path().join("data/recovery.signal");
        ran(command("touch", self.folder.path()).arg(signal));
    }

    /// Starts the process and waits until it answers.
    pub async fn run(&mut self, settings: &[&str]) {
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut start = command(self.bin.join("postgres"), self.folder.path());
        start.arg("-D").arg(self.folder.path().join("data")).arg("-k").arg(self.folder.path());
        start.args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        start.args(["-c", "wal_keep_size=64MB", "-c", "max_connections=200"]);
        for setting in settings {
            start.args(["-c", setting]);
        }
        self.child = Some(start.stdout(Stdio::null()).stderr(log).spawn().unwrap());
        let url = self.url();
        let log = || std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        until("PostgreSQL answers", Duration::from_mins(1), log, async || {
            PgConnection::connect(&url).await.is_ok()
        })
        .await;
    }

    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// SIGKILL of the postmaster: the backends follow when they see that it is gone.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Stops it at once but in order: all connections are closed with a message, nothing is written any more.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            signal(&child, "QUIT");
            child.wait().unwrap();
        }
    }

    /// Makes a standby the primary, and waits until it is.
    pub async fn promote(&self) {
        let is_promoted: bool = self.scalar("SELECT pg_promote(true, 30)").await;
        assert!(is_promoted);
    }

    /// Runs statements on a connection that is made for them.
    pub async fn execute(&self, sql: &str) {
        let mut db = PgConnection::connect(&self.url()).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut db).await.unwrap();
    }

    /// Asks for one value.
    pub async fn scalar<T>(&self, sql: &'static str) -> T
    where
        T: for<'r> sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres> + Send + Unpin,
    {
        let mut db = PgConnection::connect(&self.url()).await.unwrap();
        sqlx::query_scalar(sql).fetch_one(&mut db).await.unwrap()
    }

    /// The ids of all events that are there.
    pub async fn event_ids(&self) -> Vec<String> {
        event_ids(&self.url()).await
    }
}

/// The ids of all events in that database.
pub(super) async fn event_ids(url: &str) -> Vec<String> {
    let mut db = PgConnection::connect(url).await.unwrap();
    sqlx::query_scalar("SELECT event_id FROM processed_webhook_events").fetch_all(&mut db).await.unwrap()
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}
