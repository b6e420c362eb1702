//! `hooklatch backup`: a copy of the SQLite file, made beside a running server.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use serde_json::json;

use super::output::{Screen, Shown, fields, grouped};
use super::shared::{Usage, say};
use crate::load::{Kinds, loaded};
use crate::store::copy_file;
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
    let url = loaded(file, false, kinds)?.config.database.url;
    if !url.starts_with("sqlite:") {
        let why = "database.url is no SQLite file: use pg_dump or pg_basebackup, as docs/backup.md says";
        return Err(Usage(why.to_owned()).into());
    }
    let (now_ms, started) = (Clock::system().now_ms(), Instant::now());
    let copy = copy_file(&url, &args.to, args.replace, now_ms)?;
    let took_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    if args.json {
        say(json!({
            "path": copy.path.display().to_string(), "made_at_ms": now_ms, "bytes_n": copy.bytes_n,
            "events_n": copy.events_n, "schema_version": copy.schema_version, "audit_head": copy.audit_head,
            "took_ms": took_ms,
        }));
        return Ok(ExitCode::SUCCESS);
    }
    let screen = Screen { columns_n: None, has_colours: false, is_json: false, now_ms };
    say(fields(
        &screen,
        &[
            ("copied to", Shown::text(copy.path.display().to_string())),
            ("bytes", Shown::text(grouped(copy.bytes_n))),
            ("events", Shown::text(grouped(copy.events_n))),
            ("took", Shown::text(format!("{took_ms} ms"))),
            ("audit head", Shown::text(&copy.audit_head)),
        ],
    ));
    Ok(ExitCode::SUCCESS)
}
