//! What PostgreSQL says about itself. Views of the server alone, a row of each table at most.

use super::facts::{ServerState, TableState};
use crate::store::db::{DbResult, Door, Row};

/// Settings that are looked at.
const SETTINGS: [&str; 17] = [
    "server_version_num",
    "server_version",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "max_connections",
    "superuser_reserved_connections",
    "reserved_connections",
    "autovacuum",
    "track_counts",
    "lock_timeout",
    "idle_in_transaction_session_timeout",
    "statement_timeout",
    "idle_session_timeout",
    "transaction_timeout",
    "data_checksums",
];

const OF_SETTINGS: &str =
    "/* checkup_server */ SELECT CAST(name AS TEXT) AS name, CAST(setting AS TEXT) AS setting
    FROM pg_settings WHERE name = ANY($1)";

/// What a session gets that begins now: the server's own value, and above it what was said of everybody, of the
/// database, of the role, and of both.
const COMING: &str = "/* checkup_coming */ SELECT name, setting FROM (
        SELECT CAST(name AS TEXT) AS name, CAST(reset_val AS TEXT) AS setting, -1 AS place FROM pg_settings
        WHERE name = ANY($1)
        UNION ALL
        SELECT split_part(said, '=', 1), substr(said, strpos(said, '=') + 1),
            CAST(setdatabase <> 0 AS INTEGER) + 2 * CAST(setrole <> 0 AS INTEGER)
        FROM pg_db_role_setting, unnest(setconfig) AS said
        WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
            AND setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user))
    ) every WHERE name = ANY($1) ORDER BY place";
/// Those of them with which a session would be refused.
const COMING_NAMES: [&str; 2] = ["synchronous_commit", "default_transaction_read_only"];

const STATE: &str = "/* checkup_server */ SELECT
    (SELECT COUNT(*) FROM pg_stat_activity WHERE backend_type = 'client backend' OR backend_type IS NULL) AS clients_n,
    (SELECT COUNT(*) FROM pg_stat_replication) AS standbys_n,
    (SELECT COUNT(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')) AS standbys_sync_n,
    (SELECT COUNT(*) FROM pg_stat_replication WHERE sync_state IS NULL) AS standbys_hidden_n,
    (SELECT CAST(CAST(CAST(age(datfrozenxid) AS TEXT) AS BIGINT) AS BIGINT) FROM pg_database
     WHERE datname = current_database()) AS ids_n,
    (SELECT CAST(COALESCE(MAX(extract(epoch FROM clock_timestamp() - xact_start)), 0) AS BIGINT) FROM pg_stat_activity
     WHERE datname = current_database() AND pid <> pg_backend_pid()) AS oldest_s,
    (SELECT COUNT(*) FROM pg_prepared_xacts
     WHERE database = current_database() AND prepared < now() - interval '5 minutes') AS prepared_n,
    CASE WHEN pg_is_in_recovery() THEN 0 ELSE (
        SELECT COALESCE(MAX(CAST(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn) AS BIGINT)), 0)
        FROM pg_replication_slots WHERE NOT active) END AS held_bytes,
    (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) AS is_superuser,
    COALESCE((SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()), false) AS is_encrypted,
    COALESCE(inet_client_addr() <<= inet '127.0.0.0/8' OR inet_client_addr() = inet '::1'
        OR inet_client_addr() = inet_server_addr(), true) AS is_local";

const TABLES: &str = "/* checkup_tables */ SELECT CAST(s.relname AS TEXT) AS name, s.n_live_tup AS live_n,
        s.n_dead_tup AS dead_n, pg_relation_size(s.relid) AS bytes,
        CAST(extract(epoch FROM clock_timestamp() - GREATEST(s.last_vacuum, s.last_autovacuum)) AS BIGINT) AS vacuumed_s,
        COALESCE((SELECT bool_or(said IN ('autovacuum_enabled=false', 'autovacuum_enabled=off'))
            FROM pg_class c, unnest(c.reloptions) AS said WHERE c.oid = s.relid), false) AS is_without_vacuum
    FROM pg_stat_user_tables s WHERE s.schemaname = current_schema() ORDER BY s.relname LIMIT 500";

pub(super) async fn server_state(db: &mut Door<'_>) -> DbResult<ServerState> {
    let names: Vec<String> = SETTINGS.map(str::to_owned).to_vec();
    let settings = db.fetch(OF_SETTINGS, &[names.into()]).await?;
    let setting = |row: &Row| Ok((row.text("name")?, row.text("setting")?));
    let settings = settings.iter().map(setting).collect::<DbResult<_>>()?;
    let names: Vec<String> = COMING_NAMES.map(str::to_owned).to_vec();
    let coming = db.fetch(COMING, &[names.into()]).await?;
    let coming = coming.iter().map(setting).collect::<DbResult<_>>()?;
    let tables = db.fetch(TABLES, &[]).await?;
    let tables = tables.iter().map(table).collect::<DbResult<_>>()?;
    let row = db.fetch_one(STATE, &[]).await?;
    Ok(ServerState {
        settings,
        coming,
        clients_n: row.int("clients_n")?,
        standbys_n: row.int("standbys_n")?,
        standbys_sync_n: row.int("standbys_sync_n")?,
        standbys_hidden_n: row.int("standbys_hidden_n")?,
        ids_n: row.int("ids_n")?,
        oldest_s: row.int("oldest_s")?,
        prepared_n: row.int("prepared_n")?,
        held_bytes: row.int("held_bytes")?,
        is_superuser: row.is_true("is_superuser")?,
        is_encrypted: row.is_true("is_encrypted")?,
        is_local: row.is_true("is_local")?,
        tables,
    })
}

fn table(row: &Row) -> DbResult<TableState> {
    Ok(TableState {
        name: row.text("name")?,
        live_n: row.int("live_n")?,
        dead_n: row.int("dead_n")?,
        is_without_vacuum: row.is_true("is_without_vacuum")?,
        bytes: row.int("bytes")?,
        vacuumed_s: row.int_or_null("vacuumed_s")?,
    })
}
