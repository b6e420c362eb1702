//! `hooklatch keys`: which keys of `[encryption]` something is sealed with, and how old values come under the newest one.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;

use super::shared::{COPY, block_on, complain, opened_alone, say};
use crate::load::{Kinds, loaded};
use crate::setup::register_keys;
use crate::store::{KeyUse, ResealPlace, SEALED_COUNTED_N, SealedTable, Store};

#[derive(Args)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    command: Option<KeysCommand>,
    /// One JSON object instead of a table.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Seal what older keys sealed anew with the newest one.
    Reseal {
        /// Also what was written in the clear; goes through all rows.
        #[arg(long)]
        clear: bool,
    },
}

/// Rows of one transaction: bodies may be large, and others want to write.
const BATCH_N: u32 = 50;
/// After how many rows a line of progress is due.
const PROGRESS_N: u64 = 10_000;

/// `hooklatch keys`: on PostgreSQL also beside running servers.
pub(super) fn keys(args: &KeysArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let config = loaded(file, false, kinds)?.config;
    block_on(async {
        let instead = match &args.command {
            None => COPY,
            Some(KeysCommand::Reseal { .. }) => "",
        };
        let opened = opened_alone(&config.database, &config.encryption, instead).await?;
        let store = opened.store;
        let done = match &args.command {
            None => list(&store, args.json).await,
            Some(KeysCommand::Reseal { clear: true }) if store.ring().refuses_clear() => {
                Err(anyhow::anyhow!(
                    "encryption.clear = \"refuse\": a row in clear may have been written by somebody else. To encrypt those rows all the \
                     same, write encryption.clear = \"accept\", run this command, and write \"refuse\" again"
                ))
            }
            Some(KeysCommand::Reseal { clear }) => match register_keys(&store, &config.encryption).await {
                Ok(()) => reseal(&store, *clear, args.json).await,
                Err(error) => Err(error),
            },
        };
        store.close().await;
        done
    })
}

async fn list(store: &Store, is_json: bool) -> anyhow::Result<ExitCode> {
    let mut used = Vec::new();
    for one in store.keys_in_use().await.context("could not look for keys")? {
        let rows_n = rows_of(store, &one).await?;
        used.push((one, rows_n));
    }
    let ring: Vec<&str> = store.ring().key_ids().collect();
    let clear = store.clear_rows().await.context("could not count what is in the clear")?;
    if is_json {
        let rows = |(one, rows_n): &(KeyUse, u64)| {
            json!({
                "key_id": one.key_id, "table": one.table.table(), "rows_n": rows_n,
                "is_in_ring": ring.contains(&one.key_id.as_str()),
            })
        };
        let clear_rows = |(table, rows_n): &(SealedTable, u32)| json!({ "table": table.table(), "rows_n": rows_n, "of_oldest_n": SEALED_COUNTED_N });
        say(json!({
            "ring": ring, "seals": store.ring().key_id(), "used": used.iter().map(rows).collect::<Vec<_>>(),
            "clear": clear.iter().map(clear_rows).collect::<Vec<_>>(),
        }));
    } else {
        say(match store.ring().key_id() {
            None => "nothing is sealed: [encryption] keys is empty".to_owned(),
            Some(id) => format!("`{id}` seals; these open: {}", ring.join(", ")),
        });
        say("key\trows\ttable\tis in [encryption] keys");
        for (one, rows_n) in &used {
            let is_there = if ring.contains(&one.key_id.as_str()) { "yes" } else { "NO" };
            say(format!("{}\t{rows_n}\t{}\t{is_there}", one.key_id, one.table.table()));
        }
        for (table, rows_n) in &clear {
            let (table, seal) = (table.table(), "`hooklatch keys reseal --clear` seals them");
            say(format!(
                "{rows_n} of the oldest {SEALED_COUNTED_N} rows of {table} are in the clear: {seal}"
            ));
        }
    }
    let is_any_missing = used.iter().any(|(one, _)| !ring.contains(&one.key_id.as_str()));
    Ok(if is_any_missing { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// All rows of a key in a table, counted a few thousand at a time.
async fn rows_of(store: &Store, one: &KeyUse) -> anyhow::Result<u64> {
    let (mut rows_n, mut from) = (0_u64, Some(ResealPlace::default()));
    let mut told_at = Instant::now();
    while let Some(place) = from {
        let (step_n, next) = store.key_rows(one, place).await.context("could not count the rows of a key")?;
        rows_n += u64::from(step_n);
        from = next;
        if told_at.elapsed() > Duration::from_secs(1) {
            told_at = Instant::now();
            complain(format!("{rows_n} rows of `{}` so far, now of {}", one.key_id, one.table.table()));
        }
    }
    Ok(rows_n)
}

async fn reseal(store: &Store, is_clear_too: bool, is_json: bool) -> anyhow::Result<ExitCode> {
    let newest = store.ring().key_id().context("there is no key to seal with: [encryption] keys is empty")?;
    let used = store.keys_in_use().await.context("could not look for keys")?;
    let older = used.into_iter().filter(|one| one.key_id != newest).map(|one| (one.table, Some(one.key_id)));
    let clear = SealedTable::ALL.into_iter().filter(|_| is_clear_too).map(|table| (table, None));
    let (mut resealed_n, mut unopened_n) = (0_u64, 0_u64);
    for (table, of) in older.chain(clear) {
        let mut from = Some(ResealPlace::default());
        while let Some(place) = from {
            let step =
                store.reseal(table, of.as_deref(), place, BATCH_N).await.context("could not seal anew")?;
            let before_n = resealed_n;
            resealed_n += u64::from(step.resealed_n);
            unopened_n += u64::from(step.unopened_n);
            if before_n / PROGRESS_N != resealed_n / PROGRESS_N {
                complain(format!("{resealed_n} rows so far, now of {}", table.table()));
            }
            from = step.next;
        }
    }
    if is_json {
        say(json!({ "key_id": newest, "resealed_n": resealed_n, "unopened_n": unopened_n }));
    } else {
        say(format!(
            "{resealed_n} rows are sealed with `{newest}` now, {unopened_n} do not open and stay as they are"
        ));
    }
    Ok(if unopened_n == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
