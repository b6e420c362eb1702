//! `hooklatch backup`: a copy of the SQLite file, made beside a running server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::output::{Screen, Shown, fields, grouped};
use super::shared::{Usage, complain, say};
use crate::config::EncryptionConfig;
use crate::load::{Kinds, loaded};
use crate::store::{FileKey, copy_file};
use crate::types::Clock;

#[derive(Args)]
#[command(after_help = "Example, daily, with one file for each day of the week:
  hooklatch --config /etc/hooklatch/hooklatch.toml backup --replace /backup/hooks-$(date +%a).db

PostgreSQL is backed up by pg_dump or pg_basebackup: docs/backup.md.")]
pub(super) struct BackupArgs {
    /// File that the copy is written to; its folder must be there.
    to: PathBuf,
    /// Put it in place of a file that is there.
    #[arg(long)]
    replace: bool,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// `hooklatch backup TO`: checked and on disk when it ends with 0; else nothing is there that was not there before.
pub(super) fn backup(args: &BackupArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let config = loaded(file, false, kinds)?.config;
    let url = config.database.url;
    if !url.starts_with("sqlite:") {
        let why = "database.url is no SQLite file: use pg_dump or pg_basebackup, as docs/backup.md says";
        return Err(Usage(why.to_owned()).into());
    }
    let (now_ms, started) = (Clock::system().now_ms(), Instant::now());
    let check = |keys: &[FileKey]| keys_fit(&config.encryption, keys);
    let copy = copy_file(&url, &args.to, args.replace, now_ms, check)?;
    let ring = config.encryption.ring();
    let is_here = |key_id: &str| ring.key_ids().any(|one| one == key_id);
    let used: Vec<&str> = copy.keys.iter().filter(|key| key.is_used).map(|key| key.key_id.as_str()).collect();
    for key_id in used.iter().filter(|key_id| !is_here(key_id)) {
        complain(format!(
            "rows of it are encrypted with the key `{key_id}`, which [encryption] keys does not have: without that key they open \
             nowhere. Find it, and keep it for as long as this backup"
        ));
    }
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if args.json {
        say(json!({
            "path": copy.path.display().to_string(), "made_at_ms": now_ms, "bytes_n": copy.bytes_n,
            "events_n": copy.events_n, "schema_version": copy.schema_version, "audit_seq": copy.audit_seq,
            "took_ms": took_ms,
            "keys": used.iter().map(|key_id| json!({ "key_id": key_id, "is_in_ring": is_here(key_id) })).collect::<Vec<_>>(),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let screen = Screen { columns_n: None, has_colours: false, is_json: false, now_ms };
    let mut rows = vec![
        ("copied to", Shown::text(copy.path.display().to_string())),
        ("bytes", Shown::text(grouped(copy.bytes_n))),
        ("events", Shown::text(grouped(copy.events_n))),
        ("took", Shown::text(format!("{took_ms} ms"))),
        ("last audit row", Shown::text(copy.audit_seq.to_string())),
    ];
    if !used.is_empty() {
        rows.push((
            "encrypted with",
            Shown::text(format!("{}: keep these keys as long as the copy", used.join(", "))),
        ));
    }
    say(fields(&screen, &rows));
    Ok(ExitCode::SUCCESS)
}

/// Refuses a file that knows another key under an id of the configuration: whoever kept that configuration with the copy
/// would not be able to open it.
fn keys_fit(encryption: &EncryptionConfig, keys: &[FileKey]) -> Result<(), String> {
    let other = encryption.keys.iter().find(|one| {
        keys.iter().any(|key| key.key_id == one.key.id() && key.check_value != one.key.check_value())
    });
    other.map_or(Ok(()), |one| Err(format!("{}. Nothing was copied", encryption.mismatch(one.key.id()))))
}
