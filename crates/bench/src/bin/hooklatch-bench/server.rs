//! A server for one load: the process `hooklatch serve --dev`, on a database of its own.

use std::path::Path;
use std::process::Command;

use anyhow::Context;

use hooklatch_bench::{Scratch, WatchedProcesses, postmaster};

/// The server, until it is dropped.
pub(crate) struct OwnServer {
    scratch: Scratch,
    url: String,
    database: Option<u32>,
}

impl OwnServer {
    /// Starts `program` for `kind` on `database`: SQLite in a temporary folder where that is none or empty.
    pub(crate) fn start(program: &Path, kind: &str, database: Option<&str>) -> anyhow::Result<Self> {
        let mut scratch = Scratch::new().context("could not create a temporary folder")?;
        let sqlite = scratch.sqlite_url();
        let database = database.filter(|url| !url.is_empty()).unwrap_or(&sqlite);
        create_schema(program, scratch.folder(), database)?;
        let file = scratch.write_config(&scratch.config(database, kind, "")?)?;
        let mut command = Command::new(program);
        // What this machine's environment configures is not for this server.
        command.env_clear().args(["serve", "--dev", "--config"]).arg(file);
        scratch.start(&mut command).context("could not start a server")?;
        let url = format!("http://{}/webhooks/{kind}", scratch.addr());
        Ok(Self { url, database: postmaster(database), scratch })
    }

    /// URL of its only provider.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    /// Returns whose CPU time counts.
    pub(crate) fn watched(&self) -> WatchedProcesses {
        WatchedProcesses { server: self.scratch.process_id(), database: self.database }
    }
}

/// Creates the tables in an empty database; refuses one that has them, because those hold data.
fn create_schema(program: &Path, folder: &Path, url: &str) -> anyhow::Result<()> {
    let mut command = Command::new(program);
    command.arg("migrate").current_dir(folder).env_clear().env("HOOKLATCH__DATABASE__URL", url);
    let output = command.output().with_context(|| format!("could not run `{}`", program.display()))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    anyhow::ensure!(output.status.success(), "could not create the tables: {}", errors.trim());
    // `applied [1, 2, 3]` lists the numbers of the migrations.
    let text = String::from_utf8_lossy(&output.stdout);
    let first = text.strip_prefix("applied [").and_then(|numbers| numbers.split([',', ']']).next());
    anyhow::ensure!(
        first == Some("1"),
        "--start: this database has Hooklatch's tables already: create an empty one for the bench, and drop it afterwards"
    );
    Ok(())
}
