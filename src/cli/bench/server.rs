//! A server for one load: this program's own `serve --dev`, on a database of its own.

use std::process::Command;

use anyhow::Context;

use super::super::shared::{Usage, find_kind};
use super::super::sign::Signer;
use super::postmaster::postmaster;
use crate::bench::{Scratch, WatchedProcesses};
use hooklatch_core::config::{DatabaseConfig, EncryptionConfig, PoolingConfig};
use hooklatch_operator::load::Kinds;
use hooklatch_operator::setup::{self, Opened};
use hooklatch_verify::DevKeys;
use hooklatch_verify::spec::Spec;

/// The server, until it is dropped.
pub(super) struct BenchServer {
    scratch: Scratch,
    kind: String,
    database: Option<u32>,
}

impl BenchServer {
    /// Starts one for `kind` on `database`: empty is SQLite in a temporary folder.
    pub(super) async fn start(kind: &str, database: &str, kinds: &Kinds) -> anyhow::Result<Self> {
        if find_kind(kinds, kind)?.spec().is_ok_and(Spec::needs_generated_keys) {
            let how = format!(
                "run `hooklatch serve --dev` here, and `hooklatch bench {kind} --url http://127.0.0.1:8080` beside it"
            );
            return Err(Usage(format!("--start: kind `{kind}` needs a key of its own: {how}")).into());
        }
        let mut scratch = Scratch::new().context("could not make a temporary folder")?;
        let url = if database.is_empty() { scratch.sqlite_url() } else { database.to_owned() };
        make_schema(&url).await?;
        let folder = kinds.folder.as_ref().map(|folder| std::path::absolute(&folder.path)).transpose()?;
        let more = folder.map_or_else(String::new, |folder| {
            format!("[kinds]\nfolder = {}\n", serde_json::Value::from(folder.display().to_string()))
        });
        let file = scratch.write_config(&scratch.config(&url, kind, &more)?)?;
        let mut command = Command::new(std::env::current_exe().context("could not find this program")?);
        // What this machine's environment configures is not for it.
        command.env_clear().args(["serve", "--dev", "--config"]).arg(file);
        scratch.start(&mut command).context("could not start a server")?;
        Ok(Self { scratch, kind: kind.to_owned(), database: postmaster(&url) })
    }

    /// Returns who signs for it, with the published secret.
    pub(super) fn signer<'a>(&self, kinds: &'a Kinds) -> anyhow::Result<Signer<'a>> {
        let kind = find_kind(kinds, &self.kind)?;
        let provider = kind.dev(&DevKeys::default()).map_err(|why| anyhow::anyhow!("{why}"))?;
        Ok(Signer { kind, provider, url: format!("http://{}/webhooks/{}", self.scratch.addr(), self.kind) })
    }

    /// Returns whose CPU time counts.
    pub(super) fn watched(&self) -> WatchedProcesses {
        WatchedProcesses { server: self.scratch.process_id(), database: self.database }
    }
}

/// Brings up the schema of an empty database; another one is somebody's.
async fn make_schema(url: &str) -> anyhow::Result<()> {
    let config = DatabaseConfig {
        url: url.to_owned(),
        create: true,
        create_source: String::new(),
        migrate: true,
        connections_n: 2,
        connect_wait_ms: 0,
        pooling: PoolingConfig::Session,
        replicated: false,
    };
    let Opened { store, applied, .. } = setup::store(&config, &EncryptionConfig::default(), true).await?;
    store.close().await;
    if applied.first() != Some(&1) {
        let how = "create an empty one for the bench, and drop it afterwards";
        return Err(Usage(format!("--start: this database has Hooklatch's tables already: {how}")).into());
    }
    Ok(())
}
