//! `restore-check`: what a restored database may lack and may send twice, and how it is taken over. The command prints
//! a report, and acts only with `--yes`; `report.rs` is the report, as JSON and in words.

mod report;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;

use self::report::{Moments, RestoreReport, done_in_words, in_words};
use super::shared::{Ending, Usage, block_on, complain, opened_alone, say};
use hooklatch_core::config::Config;
use hooklatch_core::times::parse_time;
use hooklatch_core::types::{Clock, UnixMs};
use hooklatch_operator::load::{Kinds, loaded};
use hooklatch_operator::setup::refuse_without_keys;
use hooklatch_store::{NODE_SEEN_EVERY, RestoreState, Store, TakeOver};

#[derive(Args)]
#[command(after_help = "Examples:
  hooklatch restore-check                                    what it found; changes nothing
  hooklatch restore-check --backed-up-at 2026-11-22T03:00Z --acknowledged-until 2026-11-22T14:02:11Z
  hooklatch restore-check --yes --pause --reason \"disk of db1 lost\"   takes the database over, destinations paused

Ends with 0 when nothing is to be done or it was done, with 7 when the database waits to be taken over.")]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
pub(super) struct RestoreArgs {
    /// The moment of the backup, or the point in time that was recovered to; by default as the database records it.
    #[arg(long, value_name = "TIME")]
    backed_up_at: Option<String>,
    /// The last moment at which events were acknowledged by what was lost; by default now.
    #[arg(long, value_name = "TIME")]
    acknowledged_until: Option<String>,
    /// Take the database over: afterwards `serve` starts on it.
    #[arg(long, requires = "reason")]
    yes: bool,
    /// The reason, for the audit log: one line, 255 bytes at most.
    #[arg(long)]
    reason: Option<String>,
    /// Pause every destination, so that nothing is sent before an operator runs `hooklatch destinations resume`.
    #[arg(long)]
    pause: bool,
    /// Leave tokens that were made at run time as they are; some may have been revoked since the backup.
    #[arg(long)]
    keep_tokens: bool,
    /// Nothing is missing: the same database in another place, stopped before it was copied.
    #[arg(long, conflicts_with_all = ["pause", "keep_tokens", "backed_up_at", "acknowledged_until"])]
    moved: bool,
    /// One JSON object instead of text.
    #[arg(long)]
    json: bool,
}

/// `hooklatch restore-check`: opens the database itself, so no server may run on it.
pub(super) fn restore_check(
    args: &RestoreArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let config = loaded(file, false, kinds)?.config;
    let now_ms = Clock::system().now_ms();
    let backed_up_at_ms = time(args.backed_up_at.as_deref(), "--backed-up-at", now_ms)?;
    let until_ms = time(args.acknowledged_until.as_deref(), "--acknowledged-until", now_ms)?;
    if backed_up_at_ms.is_some_and(|at_ms| at_ms > until_ms.unwrap_or(now_ms)) {
        return Err(Usage("--backed-up-at is later than --acknowledged-until, or than now".to_owned()).into());
    }
    if args
        .reason
        .as_ref()
        .is_some_and(|reason| reason.is_empty() || reason.len() > 255 || reason.contains('\n'))
    {
        return Err(Usage("--reason is one line of 1 to 255 bytes".to_owned()).into());
    }
    let started = Instant::now();
    block_on(async {
        let opened = opened_alone(&config.database, &config.encryption, "").await?;
        if args.yes
            && let Some(who) = running(&opened.store, started).await?
        {
            complain(format!(
                "node `{who}` runs on this database. Stop every server of it, then give the command again: what a server sends while the \
                 database is taken over may be sent twice. Nothing was changed"
            ));
            opened.store.close().await;
            return Ok(Ending::Refused.code());
        }
        let given = GivenTimes { backed_up_at_ms, until_ms, now_ms };
        let done = look(args, &opened.store, &config, kinds, &given).await;
        opened.store.close().await;
        done
    })
}

/// The node that runs on this database, if any: it has a session, and its row advances meanwhile. Sessions alone are no
/// proof, because a pooler keeps them after their client has gone; nor are rows, because a backup contains them.
async fn running(store: &Store, started: Instant) -> anyhow::Result<Option<String>> {
    let ms = |since: Instant| i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX);
    if store.sessions_of_others(ms(started)).await.context("could not look for other servers")? == 0 {
        return Ok(None);
    }
    let watched = Instant::now();
    while watched.elapsed() < NODE_SEEN_EVERY + Duration::from_secs(1) {
        // A node writes its row by itself.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let nodes =
            store.node_list(Clock::system().now_ms()).await.context("could not look for other servers")?;
        if let Some(node) = nodes.into_iter().find(|node| node.ago_ms < ms(watched)) {
            return Ok(Some(node.node));
        }
    }
    Ok(None)
}

/// The times in the arguments.
#[expect(clippy::struct_field_names, reason = "all of them are moments")]
struct GivenTimes {
    backed_up_at_ms: Option<UnixMs>,
    until_ms: Option<UnixMs>,
    now_ms: UnixMs,
}

fn time(text: Option<&str>, name: &str, now_ms: UnixMs) -> anyhow::Result<Option<UnixMs>> {
    let read = text.map(|text| parse_time(text, now_ms).map_err(|why| Usage(format!("{name}: {why}"))));
    Ok(read.transpose()?)
}

/// The keys that rows of this database are encrypted with and that the configuration does not have. Another key under an id
/// that it has was refused when the database was opened.
async fn keys_missing(store: &Store) -> anyhow::Result<Vec<String>> {
    let used = store.keys_in_use().await.context("could not look for encryption keys")?;
    let is_missing = |key_id: &String| store.ring().key_ids().all(|known| known != key_id);
    let missing: BTreeSet<String> = used.into_iter().map(|one| one.key_id).filter(is_missing).collect();
    Ok(missing.into_iter().collect())
}

async fn look(
    args: &RestoreArgs,
    store: &Store,
    config: &Config,
    kinds: &Kinds,
    given: &GivenTimes,
) -> anyhow::Result<ExitCode> {
    let standing = store.restore_state().await.context("could not tell what this database is")?;
    let facts = store.restore_facts().await.context("could not look at the database")?;
    let made_at_ms = match standing {
        RestoreState::Backup { made_at_ms } => Some(made_at_ms),
        _ => None,
    };
    let from_ms = given.backed_up_at_ms.or(made_at_ms).unwrap_or(facts.newest_at_ms);
    let until_ms = given.until_ms.unwrap_or(given.now_ms).max(from_ms);
    let ran_until_ms = match standing {
        RestoreState::Older { ran_until_ms } => Some(ran_until_ms),
        _ => None,
    };
    let moments = Moments { from_ms, until_ms, ran_until_ms, now_ms: given.now_ms };
    let mut report = RestoreReport::of(standing, &facts, &moments, config, kinds);
    report.keys_missing = keys_missing(store).await?;
    let is_waiting = standing != RestoreState::Same;
    if !args.yes {
        say(if args.json { report.to_json()? } else { in_words(&report, given.now_ms) });
        return Ok(if is_waiting { Ending::NotDone.code() } else { ExitCode::SUCCESS });
    }
    refuse_without_keys(store, &config.encryption).await.context("nothing was taken over")?;
    let reason = args.reason.clone().unwrap_or_default();
    if args.moved {
        store.restore_is_moved(&reason, given.now_ms).await.context("could not note it")?;
        complain("noted: nothing is missing, the database is in another place");
        return Ok(ExitCode::SUCCESS);
    }
    if !is_waiting && given.backed_up_at_ms.is_none() {
        complain(
            "nothing says that this database was restored: if it was, name the moment of its backup by --backed-up-at",
        );
        return Ok(Ending::Refused.code());
    }
    let names = config.destinations.keys().map(ToString::to_string);
    let word = TakeOver {
        from_ms: Some(from_ms),
        until_ms,
        paused: names.filter(|_| args.pause).collect(),
        are_tokens_kept: args.keep_tokens,
        reason,
        now_ms: given.now_ms,
    };
    let taken =
        store.restore_take_over(word).await.context("could not take it over; give the command again")?;
    say(if args.json {
        report.with(&taken).to_json()?
    } else {
        done_in_words(&report, &taken, given.now_ms)
    });
    Ok(ExitCode::SUCCESS)
}
