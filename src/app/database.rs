//! The database at the start: opened, migrated or checked, its clock compared with ours.

use anyhow::Context;
use tracing::{info, warn};

use crate::config::Config;
use crate::outbox::clock_offset_ms_max;
use crate::setup::{self, Opened};
use crate::store::{ProgramMigrations, SchemaState, Store};
use crate::types::Clock;

const DAY_MS: i64 = 86_400_000;

/// Opens the database, brings or checks its schema, and refuses a clock that is minutes away.
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
        SchemaState::Current => {}
        state if state.is_usable() => info!("schema of the database is {state}"),
        state => anyhow::bail!("schema of the database is {state}"),
    }
    if config.database.migrate {
        migrate(&store, migrations).await?;
    } else {
        for all in migrations {
            store.program_check(all).await?;
        }
    }
    let offset_ms =
        store.clock_offset_ms(clock.now_ms()).await.context("could not read the database's clock")?;
    let max_ms = clock_offset_ms_max(config.outbox.lease_ms);
    anyhow::ensure!(
        offset_ms.abs() <= max_ms,
        "clock of the database is {offset_ms} ms away from ours, at most {max_ms} ms are allowed (outbox.lease_ms, and never more than two minutes): set one of them right",
    );
    Ok(store.keeping_answers(i64::from(config.retention.answers_days) * DAY_MS))
}

/// Applies what is missing of the program's own migrations; gives back the names of the steps, behind their program's.
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
