//! `hooklatch prune`: what a running server does by itself, once and at once; or how much it would be.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};

use super::shared::{block_on, complain, opened_alone, say};
use crate::current::Current;
use crate::load::{Kinds, loaded};
use crate::retention::{PruneRound, Pruner};
use crate::stop::Stop;
use crate::store::PrunedKind;
use crate::times;
use crate::types::Clock;

#[derive(Args)]
pub(super) struct PruneArgs {
    /// Only count what would go.
    #[arg(long)]
    dry_run: bool,
    /// The clock is right, although it is days beyond the last time that old rows were deleted.
    #[arg(long)]
    yes: bool,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// After how many rows a line of progress is due.
const PROGRESS_N: u64 = 100_000;

/// `hooklatch prune`: on PostgreSQL also beside running servers, one at a time.
pub(super) fn prune(args: &PruneArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let config = loaded(file, false, kinds)?.config;
    let round = block_on(async {
        let instead = "Or do nothing: a running server prunes by itself, every `retention.every_ms`.";
        let opened = opened_alone(&config.database, &config.encryption, instead).await?;
        let (_stopper, mut stop) = Stop::channel();
        let (mut rows_n, mut told_n) = (0, 0);
        let clock = Clock::system();
        let mut pruner = Pruner::new(opened.store.clone(), clock, Current::new(config.clone()), args.dry_run);
        if args.yes {
            pruner = pruner.by_a_right_clock();
        }
        let round = pruner
            .round(&mut stop, |kind, n| {
                rows_n += n;
                if rows_n >= told_n + PROGRESS_N {
                    told_n = rows_n;
                    complain(format!("{rows_n} rows so far, now of {}", kind.table()));
                }
            })
            .await;
        opened.store.close().await;
        round.context("could not prune")
    })?;
    anyhow::ensure!(!round.is_anothers, "a running server prunes at this moment");
    if let Some(ms) = round.doubted_ms {
        anyhow::bail!(
            "deleted nothing: the clock is {} beyond the last time that old rows were deleted. If it is right, give the \
             command again with --yes; what is deleted too early cannot be brought back, and its copies would be taken \
             for new events",
            times::ago(ms)
        );
    }
    if args.json {
        say(as_json(&round, args.dry_run));
    } else {
        let rows = |kind: &PrunedKind| format!("{}\t{}", round.rows_n(*kind), kind.table());
        say(if args.dry_run { "rows that would go\ttable" } else { "rows that went\ttable" });
        say(PrunedKind::ALL.iter().map(rows).collect::<Vec<_>>().join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(round: &PruneRound, is_dry: bool) -> Value {
    let rows = PrunedKind::ALL.iter().map(|kind| (kind.table().to_owned(), json!(round.rows_n(*kind))));
    json!({ "dry_run": is_dry, "rows": rows.collect::<serde_json::Map<_, _>>() })
}
