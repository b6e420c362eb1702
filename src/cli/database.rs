//! Commands that open the database themselves. `prune` deletes once what a running server deletes by itself; `backup`
//! copies the SQLite file beside a running server; `keys` lists the keys of `[encryption]` that are in use, and
//! re-encrypts old values with the newest one.
//!
//! `what-if` shows the effects that the handlers of this program would have on stored events, for use before a deploy:
//! it writes nothing. With `--live` it queries a running server instead, which runs its own handlers.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::api_client::ApiAnswer;
use super::events::EventFilterArgs;
use super::output::{Screen, Shown, fields, with_times};
use super::remote::{ReachArgs, Remote};
use super::shared::{COPY, Ending, Usage, block_on, complain, opened_alone, say};
use crate::app::{App, refuse_restored};
use hooklatch_contract::{
    WHAT_IF_N_DEFAULT, WHAT_IF_N_MAX, WhatIfCall, WhatIfChange, WhatIfEffect, WhatIfEvent, WhatIfOrder,
    WhatIfView,
};
use hooklatch_core::config::EncryptionConfig;
use hooklatch_core::current::Current;
use hooklatch_core::figures::{grouped, plural};
use hooklatch_core::stop::Stop;
use hooklatch_core::types::{Clock, EventKey, Name, Principal, Role};
use hooklatch_core::{plain, times};
use hooklatch_operator::load::{Kinds, loaded};
use hooklatch_operator::setup::register_keys;
use hooklatch_receive::admit::{ShownBytes, WhatIf};
use hooklatch_receive::retention::{PruneRound, Pruner};
use hooklatch_store::{
    EventPlace, EventQuery, FileKey, KeyUse, OperatorStore, PrunedKind, ResealPlace, SEALED_COUNTED_N,
    SealedTable, Store, copy_file,
};

#[derive(Args)]
pub(super) struct PruneArgs {
    /// Only count the rows that would be deleted.
    #[arg(long)]
    dry_run: bool,
    /// Confirm that the clock is right, although the last pruning was days ago.
    #[arg(long)]
    yes: bool,
    /// Print one JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

/// Rows between two lines of progress.
const PRUNE_PROGRESS_N: u64 = 100_000;

/// `hooklatch prune`: on PostgreSQL also beside running servers, one at a time.
pub(super) fn prune(args: &PruneArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let config = loaded(file, false, kinds)?.config;
    let round = block_on(async {
        let instead = "Or do nothing: a running server prunes by itself, every `retention.every_ms`.";
        let opened = opened_alone(&config.database, &config.encryption, instead).await?;
        if !args.dry_run {
            refuse_restored(&opened.store).await?;
        }
        let (_stopper, mut stop) = Stop::channel();
        let (mut rows_n, mut printed_n) = (0, 0);
        let clock = Clock::system();
        let mut pruner =
            Pruner::new(opened.store.clone(), clock, Current::new(config.clone()), args.dry_run).from_below();
        if args.yes {
            pruner = pruner.by_a_right_clock();
        }
        let round = pruner
            .round(&mut stop, |kind, n| {
                rows_n += n;
                if rows_n >= printed_n + PRUNE_PROGRESS_N {
                    printed_n = rows_n;
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
        say(prune_json(&round, args.dry_run));
    } else {
        let rows = |kind: &PrunedKind| format!("{}\t{}", round.rows_n(*kind), kind.table());
        say(if args.dry_run { "rows that would go\ttable" } else { "rows that went\ttable" });
        say(PrunedKind::ALL.iter().map(rows).collect::<Vec<_>>().join("\n"));
    }
    Ok(ExitCode::SUCCESS)
}

fn prune_json(round: &PruneRound, is_dry: bool) -> Value {
    let rows = PrunedKind::ALL.iter().map(|kind| (kind.table().to_owned(), json!(round.rows_n(*kind))));
    json!({ "dry_run": is_dry, "rows": rows.collect::<serde_json::Map<_, _>>() })
}

#[derive(Args)]
#[command(after_help = "Example, daily, with one file for each day of the week:
  hooklatch --config /etc/hooklatch/hooklatch.toml backup --replace /backup/hooks-$(date +%a).db

PostgreSQL is backed up by pg_dump or pg_basebackup: docs/backup.md.")]
pub(super) struct BackupArgs {
    /// File to write, in an existing folder.
    to: PathBuf,
    /// Replace an existing file.
    #[arg(long)]
    replace: bool,
    /// Print one JSON object instead of text.
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

/// Refuses a file that knows another key under an id of the configuration: with the copy, that configuration could not
/// open it.
fn keys_fit(encryption: &EncryptionConfig, keys: &[FileKey]) -> Result<(), String> {
    let other = encryption.keys.iter().find(|one| {
        keys.iter().any(|key| key.key_id == one.key.id() && key.check_value != one.key.check_value())
    });
    other.map_or(Ok(()), |one| Err(format!("{}. Nothing was copied", encryption.mismatch(one.key.id()))))
}

#[derive(Args)]
pub(super) struct KeysArgs {
    #[command(subcommand)]
    command: Option<KeysCommand>,
    /// Print one JSON object instead of a table.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand)]
enum KeysCommand {
    /// Re-encrypt values of older keys with the newest.
    Reseal {
        /// Encrypt values stored in the clear, too; reads all rows.
        #[arg(long)]
        clear: bool,
    },
}

/// Rows of one transaction: bodies may be large, and other processes need to write.
const BATCH_N: u32 = 50;
/// Rows between two lines of progress.
const RESEAL_PROGRESS_N: u64 = 10_000;

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
        if args.command.is_some() {
            refuse_restored(&store).await?;
        }
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
    let mut printed_at = Instant::now();
    while let Some(place) = from {
        let (step_n, next) = store.key_rows(one, place).await.context("could not count the rows of a key")?;
        rows_n += u64::from(step_n);
        from = next;
        if printed_at.elapsed() > Duration::from_secs(1) {
            printed_at = Instant::now();
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
            if before_n / RESEAL_PROGRESS_N != resealed_n / RESEAL_PROGRESS_N {
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

#[derive(Args)]
pub(super) struct WhatIfArgs {
    /// Provider of one event. Without it: the newest events that the filter matches.
    #[arg(value_name = "PROVIDER", requires = "event_id")]
    of: Option<String>,
    /// Event id.
    event_id: Option<String>,
    #[command(flatten)]
    which: EventFilterArgs,
    /// Number of events, 1 to 100.
    #[arg(long, default_value_t = WHAT_IF_N_DEFAULT, value_parser = clap::value_parser!(u32).range(1..=i64::from(WHAT_IF_N_MAX)))]
    limit: u32,
    /// Continue after an earlier run: the cursor that it printed.
    #[arg(long)]
    cursor: Option<String>,
    /// Run the handlers of a running server instead: those that are deployed.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// The events to run.
enum Which {
    One(EventKey),
    Many(EventQuery),
}

/// `hooklatch what-if`: on PostgreSQL, and with `--live`, also beside running servers.
pub(super) fn what_if(
    args: &WhatIfArgs,
    file: Option<&Path>,
    kinds: Kinds,
    more: impl FnOnce(App) -> App,
) -> anyhow::Result<ExitCode> {
    let which = which(args)?;
    if args.live {
        let remote = Remote::open(&args.reach, file, &kinds)?;
        return Ok(show(args, &query_server(&remote, args, which)?));
    }
    let app = more(App::of_loaded(loaded(file, false, &kinds)?, kinds));
    let view = block_on(async {
        let config = app.config();
        let instead = "Or use a copy of its file; `hooklatch what-if --live` asks the server, which runs its own handlers.";
        let opened = opened_alone(&config.database, &config.encryption, instead).await?;
        for all in app.migrations() {
            if let Err(why) = opened.store.program_check(all).await {
                complain(format!("hooklatch: {why}; a handler that needs them will fail"));
            }
        }
        let what_if = app.what_if_alone(&opened.store).await?;
        let view = run_offline(&opened.store, &what_if, which).await;
        opened.store.close().await;
        view
    })?;
    let Some(view) = view else {
        complain("hooklatch: there is no such event");
        return Ok(Ending::NotFound.code());
    };
    Ok(show(args, &view))
}

fn show(args: &WhatIfArgs, view: &WhatIfView) -> ExitCode {
    if args.reach.json {
        say(with_times(serde_json::to_value(view).unwrap_or_default()));
    } else {
        print_view(view);
    }
    let has_compared_nothing = view.unchanged_n == 0 && view.not_run_n > 0;
    if view.changed_n > 0 || has_compared_nothing { Ending::Failed } else { Ending::Done }.code()
}

/// The answer of a running server.
fn query_server(remote: &Remote, args: &WhatIfArgs, which: Which) -> anyhow::Result<WhatIfView> {
    let answer: ApiAnswer<WhatIfView> = match which {
        Which::One(EventKey { provider, event_id }) => {
            let answer =
                remote.api.post_query(&["events", provider.as_str(), &event_id, "what-if"], None::<&()>);
            answer.with_context(|| format!("event {event_id} of {provider}"))?
        }
        Which::Many(query) => {
            let limit = Some(i64::from(query.limit));
            let order = WhatIfOrder { filter: query.filter, limit, cursor: args.cursor.clone() };
            remote.api.post_query(&["what-if"], Some(&order))?
        }
    };
    Ok(answer.view)
}

fn which(args: &WhatIfArgs) -> anyhow::Result<Which> {
    let filter = args.which.filter(None, Clock::system().now_ms())?;
    if let Some((provider, event_id)) = args.of.as_ref().zip(args.event_id.as_ref()) {
        if !filter.is_empty() || args.cursor.is_some() {
            return Err(Usage("name one event, or choose many by a filter".to_owned()).into());
        }
        let provider = Name::parse(provider).map_err(|why| Usage(format!("PROVIDER: {why}")))?;
        return Ok(Which::One(EventKey { provider, event_id: event_id.clone() }));
    }
    let place = args.cursor.as_deref().map(|text| {
        let place = EventPlace::parse(text).filter(|place| matches!(place, EventPlace::Before(_)));
        place.ok_or_else(|| Usage("--cursor: no run of this command printed it".to_owned()))
    });
    Ok(Which::Many(EventQuery { filter: filter.read()?, place: place.transpose()?, limit: args.limit }))
}

/// Runs the handlers; `None` when the one event that was named is not there.
async fn run_offline(store: &Store, what_if: &WhatIf, which: Which) -> anyhow::Result<Option<WhatIfView>> {
    let place = what_if.place().await.context("no other caller waits here")?;
    let mut view = WhatIfView::default();
    let query = match which {
        Which::One(key) => {
            let Some(event) = store.event_committed(&key).await? else { return Ok(None) };
            view.add(what_if.run(&place, event, ShownBytes::ONE).await);
            return Ok(Some(view));
        }
        Which::Many(query) => query,
    };
    // The user who runs this has the database, and so access to everything in it.
    let name = Name::parse("what-if").map_err(|why| anyhow::anyhow!("{why}"))?;
    let people = OperatorStore::new(store.clone()).open(Principal::everywhere(name, Role::Viewer));
    let page = people.event_page(query, Clock::system().now_ms()).await?;
    (view.next, view.looked_back_to_ms) = (page.next, page.looked_back_to_ms);
    for event in page.items {
        let key = EventKey { provider: Name::parse(&event.provider)?, event_id: event.event_id };
        if let Some(event) = store.event_committed(&key).await? {
            view.add(what_if.run(&place, event, ShownBytes::EACH).await);
        }
    }
    Ok(Some(view))
}

/// Prints the result for people: differences in full, the rest as counts.
fn print_view(view: &WhatIfView) {
    view.items.iter().for_each(print_event);
    say(format!(
        "{}: {} unchanged, {} changed, {} not run",
        plural(view.items.len() as u64, "event"),
        view.unchanged_n,
        view.changed_n,
        view.not_run_n
    ));
    view.not_undone.iter().for_each(complain);
    if let Some(next) = &view.next {
        complain(format!("there are more: --cursor {next}"));
    }
}

fn print_event(event: &WhatIfEvent) {
    let why = event.why.as_deref().map(|why| format!(": {}", plain::line(why))).unwrap_or_default();
    let (id, kind) = (plain::line(&event.event_id), plain::line(&event.event_type));
    say(format!(
        "{:<9}  {} {id} ({kind}) stands as {}, would be {}{why}",
        event.verdict.as_str(),
        event.provider,
        event.state.as_str(),
        event.said.as_str()
    ));
    event.effects.iter().filter(|effect| effect.change != WhatIfChange::Same).for_each(print_effect);
}

fn print_effect(effect: &WhatIfEffect) {
    let fields =
        if effect.fields.is_empty() { String::new() } else { format!(" {}", effect.fields.join(", ")) };
    say(format!("  {:<7}  effect {}{fields}", effect.change.as_str(), plain::line(&effect.effect_name)));
    for (word, call) in [("was", &effect.was), ("now", &effect.now)] {
        if let Some(call) = call {
            say(format!("    {word}  {}", in_words(call)));
        }
    }
}

fn in_words(call: &WhatIfCall) -> String {
    let lane = call.lane.as_deref().map(|lane| format!(" in lane {}", plain::line(lane))).unwrap_or_default();
    let body = match &call.body {
        _ if call.is_event_body => "the event's own bytes".to_owned(),
        None => "a body that is not shown".to_owned(),
        Some(body) if call.is_cut => format!("{}…", plain::line(body)),
        Some(body) => plain::line(body).into_owned(),
    };
    let headers = call.headers.iter().map(|(name, value)| format!(" {name}: {};", plain::line(value)));
    let headers: String = headers.collect();
    format!("{} {}{}{lane}{headers} {body}", call.method, call.destination, plain::line(&call.path))
}
