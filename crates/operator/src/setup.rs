//! Opens the database as configured: the first step of every command that has one.

use std::time::Duration;

use anyhow::Context;

use hooklatch_core::config::{DatabaseConfig, EncryptionConfig, PoolingConfig};
use hooklatch_store::{self as store, Pooling, PostgresSettings, SchemaState, Store, StoreSettings};

/// A database that was just opened.
pub struct Opened {
    /// The database, open for reading and writing.
    pub store: Store,
    /// Versions of the schema that were applied now.
    pub applied: Vec<i64>,
    /// State of the schema.
    pub schema: SchemaState,
}

/// Opens the database and, if it `is_migrated`, brings its schema up to date; waits for a PostgreSQL that takes writes
/// as long as the configuration says. A fail-over may come between any two steps, so all of them are taken again.
pub async fn store(
    config: &DatabaseConfig,
    encryption: &EncryptionConfig,
    is_migrated: bool,
) -> anyhow::Result<Opened> {
    let settings = StoreSettings { url: config.url.clone(), connections_n: config.connections_n };
    let postgres = PostgresSettings {
        pooling: match config.pooling {
            PoolingConfig::Session => Pooling::Session,
            PoolingConfig::Transaction => Pooling::Transaction,
        },
        is_replicated: config.replicated,
    };
    if !config.create {
        file_is_there(config)?;
    }
    let wait_ms = if settings.is_postgres() { config.connect_wait_ms } else { 0 };
    let opened = store::waiting(Duration::from_millis(wait_ms), async || {
        let store = Store::open_with(&settings, &postgres).await?.sealed_with(encryption.ring());
        if !config.create && store.schema_state().await?.is_empty() {
            store.close().await;
            return Ok(Err(config.missing("this one has no tables of Hooklatch")));
        }
        let applied = if is_migrated { store.migrate().await? } else { Vec::new() };
        let schema = store.schema_state().await?;
        Ok(Ok(Opened { store, applied, schema }))
    });
    let opened = opened.await.context("could not open the database")?;
    let opened = opened.map_err(|missing| anyhow::anyhow!("{missing}"))?;
    if opened.schema.is_usable() {
        let mismatch = opened.store.key_mismatch().await.context("could not check the encryption keys")?;
        refuse(encryption, mismatch)?;
    }
    Ok(opened)
}

/// Refuses an SQLite file that is missing or empty, before anything is created in its place: a volume that is not
/// mounted looks like a new installation.
fn file_is_there(config: &DatabaseConfig) -> anyhow::Result<()> {
    let Ok(path) = store::sqlite_path(&config.url) else { return Ok(()) };
    if std::fs::metadata(&path).is_ok_and(|found| found.len() > 0) {
        return Ok(());
    }
    anyhow::bail!("{}", config.missing(&format!("`{}` is missing or empty", path.display())))
}

/// Writes the check values of the keys of `[encryption]` that the database has not seen, and refuses those that it
/// knows as others. To be called before anything is encrypted, or stored in the clear: without a key, a database that
/// was sealed is refused unless the configuration says that it is meant.
pub async fn register_keys(store: &Store, encryption: &EncryptionConfig) -> anyhow::Result<()> {
    refuse_without_keys(store, encryption).await?;
    refuse(encryption, store.keys_register().await.context("could not register the encryption keys")?)
}

/// Refuses a database that was sealed where the configuration has no key and does not say that this is meant.
pub async fn refuse_without_keys(store: &Store, encryption: &EncryptionConfig) -> anyhow::Result<()> {
    if encryption.keys.is_empty() && !encryption.is_clear_accepted {
        let known = store.key_known().await.context("could not look for encryption keys")?;
        if let Some(key_id) = known {
            return Err(anyhow::Error::msg(EncryptionConfig::missing(&key_id)));
        }
    }
    Ok(())
}

fn refuse(encryption: &EncryptionConfig, mismatch: Option<String>) -> anyhow::Result<()> {
    mismatch.map_or(Ok(()), |key_id| Err(anyhow::Error::msg(encryption.mismatch(&key_id))))
}
