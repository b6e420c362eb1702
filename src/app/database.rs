//! The database at start: open it, migrate or check its schema, compare its clock with ours.

use std::path::Path;

use anyhow::Context;
use tracing::{debug, info, warn};

use hooklatch_core::config::Config;
use hooklatch_core::times::rfc3339;
use hooklatch_core::types::Clock;
use hooklatch_operator::setup::{self, Opened};
use hooklatch_outbox::ClockOffset;
use hooklatch_store::{ProgramMigrations, RestoreState, SchemaState, Store, WitnessFinding, WitnessState};

const DAY_MS: i64 = 86_400_000;

/// Opens the database, migrates or checks its schema, and refuses a clock that is minutes off.
pub(super) async fn open_store(
    config: &Config,
    clock: &Clock,
    migrations: &[ProgramMigrations],
) -> anyhow::Result<Store> {
    for warning in &config.warnings {
        warn!("{warning}");
    }
    let Opened { store, applied, schema } =
        setup::store(&config.database, &config.encryption, config.database.migrate).await?;
    info!("{}", config.encryption.in_words());
    if !applied.is_empty() {
        info!(versions = ?applied, "migrated the database");
    }
    match schema {
        SchemaState::Current => refuse_without_unique(&store).await?,
        state if state.is_usable() => info!("schema of the database is {state}"),
        state => anyhow::bail!("schema of the database is {state}"),
    }
    check_not_restored(&store, config.database.replicated).await?;
    witnessed(&store, clock).await?;
    setup::register_keys(&store, &config.encryption).await?;
    if config.database.migrate {
        migrate(&store, migrations).await?;
    } else {
        for all in migrations {
            store.program_check(all).await?;
        }
    }
    let found = ClockOffset::ask(&store, clock, config.outbox.lease_ms).await;
    let found = found.context("could not read the database's clock")?;
    let ClockOffset { offset_ms, max_ms, .. } = found;
    anyhow::ensure!(
        !found.is_far(),
        "clock of the database is {offset_ms} ms away from ours, at most {max_ms} ms are allowed (outbox.lease_ms, and never more than two minutes): set one of them right",
    );
    Ok(store.keeping_answers(i64::from(config.retention.answers_days) * DAY_MS))
}

/// Refuses a database that lacks a unique index, as a dump that was read in with errors does: a latch does not notice.
async fn refuse_without_unique(store: &Store) -> anyhow::Result<()> {
    let missing = store.checkup_unique().await.context("could not look for the unique indexes")?;
    anyhow::ensure!(
        missing.is_empty(),
        "the database lacks {}: without a unique index an event is taken twice, and paid twice. Was a dump read in with \
         errors? Make each again as `migrations/` does (ALTER TABLE … ADD PRIMARY KEY, CREATE UNIQUE INDEX); where that finds \
         rows twice, ask the destinations before you decide which one goes",
        missing.join(", ")
    );
    Ok(())
}

/// Refuses a database that was restored to an earlier moment and that no operator has taken over: the destination may
/// have forgotten what it would send again, and knows what it would count under other names.
async fn check_not_restored(store: &Store, is_replicated: bool) -> anyhow::Result<()> {
    let state = restore_state(store).await?;
    if state == RestoreState::TookOver {
        if is_replicated {
            info!("another server of the database took over; commits waited for it");
        } else {
            warn!(
                "another server of the database took over since the last start, and no commit waited for it: what was \
                 confirmed last may be missing. `hooklatch restore-check` says which senders to ask"
            );
        }
    }
    if let Some(what) = restored_in_words(state) {
        anyhow::bail!(
            "this database {what}: events that were acknowledged since are not in it, and what was sent since would be \
             sent again. Run no server on it, and ask `hooklatch restore-check`; docs/backup.md says what to do"
        );
    }
    store.restore_note().await.context("could not note which database it is")
}

/// Refuses a command that would change what a restored database still needs to be taken over, as a start refuses it.
/// Unlike a start it notes nothing.
pub(crate) async fn refuse_restored(store: &Store) -> anyhow::Result<()> {
    if let Some(what) = restored_in_words(restore_state(store).await?) {
        anyhow::bail!(
            "nothing was changed: this database {what}, and no operator has taken it over. What is deleted or written before \
             is missing when it is compared with what senders and destinations know. Ask `hooklatch restore-check` first; \
             docs/backup.md says what to do"
        );
    }
    Ok(())
}

async fn restore_state(store: &Store) -> anyhow::Result<RestoreState> {
    store.restore_state().await.context("could not tell whether it is the same database")
}

/// What happened to a database that was restored and not taken over; `None` where that is not so.
fn restored_in_words(state: RestoreState) -> Option<String> {
    match state {
        RestoreState::Same | RestoreState::TookOver => None,
        RestoreState::Backup { made_at_ms } => {
            let at = rfc3339(made_at_ms).unwrap_or_else(|| made_at_ms.to_string());
            Some(format!("is a backup that was made at {at}"))
        }
        RestoreState::Older { ran_until_ms } => {
            let at = rfc3339(ran_until_ms).unwrap_or_else(|| ran_until_ms.to_string());
            Some(format!(
                "is older than what ran last, which was here until {at} at least: a copy was put back"
            ))
        }
        RestoreState::Elsewhere => Some(
            "was read in from a dump, or is in another server or database than the one that ran last"
                .to_owned(),
        ),
        RestoreState::PointInTime => Some("was restored to an earlier point in time".to_owned()),
    }
}

/// Has the witness file record the progress of the database from now on. Refuses an empty database in the place of
/// another one; no other error here prevents the start.
async fn witnessed(store: &Store, clock: &Clock) -> anyhow::Result<()> {
    match store.witness_state().await {
        Ok(Some(WitnessState { path, finding, .. })) => {
            let file = path.display();
            match finding {
                WitnessFinding::Absent => info!(%file, "the database has no witness yet: it gets one"),
                WitnessFinding::Other => {
                    refuse_empty_elsewhere(store, &path).await?;
                    warn!(
                        %file,
                        "the database is of another installation than the one that ran here last: all keys differ from those \
                         of before. If that was not intended, stop and put the right file back"
                    );
                }
                WitnessFinding::Unreadable(why) => warn!(
                    %file,
                    why,
                    "the witness of the database cannot be read, so it is not known whether an older copy was put in its \
                     place; it is written anew. If one was, stop and see docs/backup.md"
                ),
                WitnessFinding::Same { .. } | WitnessFinding::Older { .. } => {}
            }
        }
        Ok(None) => return Ok(()),
        Err(error) => debug!(%error, "the witness was not looked at"),
    }
    if let Err(error) = store.witness_begin(clock.now_ms()).await {
        debug!(%error, "could not write the start into the witness");
    }
    Ok(())
}

/// Refuses a database without events in the place of another installation, whose witness this is.
pub(crate) async fn refuse_empty_elsewhere(store: &Store, witness: &Path) -> anyhow::Result<()> {
    let is_empty = store.is_without_events().await.context("could not look for events in the database")?;
    anyhow::ensure!(
        !is_empty,
        "the database has no event, and its witness `{}` is of another installation that ran here: every event of before \
         would be new, and whatever senders send again would be paid again. Put the right file back (docs/backup.md). If you \
         mean to begin anew, remove the witness",
        witness.display()
    );
    Ok(())
}

/// Applies the missing migrations of the program; returns the names of the steps, each after its program's name.
pub(crate) async fn migrate(store: &Store, migrations: &[ProgramMigrations]) -> anyhow::Result<Vec<String>> {
    let mut applied = Vec::new();
    for all in migrations {
        let steps = store.program_migrate(all).await?;
        if !steps.is_empty() {
            info!(program = all.program(), ?steps, "migrated the program's own tables");
        }
        applied.extend(steps.iter().map(|step| format!("{}: {step}", all.program())));
    }
    Ok(applied)
}
