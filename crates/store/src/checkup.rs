//! What a database reports about itself, for the doctor: the tables, indexes and triggers that migrations create and
//! which of them exist, PostgreSQL's settings and statistics (views of the server alone, a row of each table at most),
//! and SQLite's file. Nothing here writes, locks or reads table contents, except for one row of each node with its
//! version, which that node rewrites regularly while it runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::db::{DbResult, Executor, Row, SchemaState, StoreError, Value};
use super::handle::Store;
use super::migrations;
use hooklatch_core::types::UnixMs;

/// Names of what migrations make.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Expected {
    tables: BTreeSet<String>,
    triggers: BTreeSet<String>,
    /// Indexes, and whether they are unique.
    indexes: BTreeMap<String, bool>,
    /// Tables with a primary key.
    keyed: BTreeSet<String>,
}

impl Expected {
    /// Reads the texts in the order in which they are applied.
    fn of<'a>(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut expected = Self::default();
        let mut table = String::new();
        for line in texts.flat_map(str::lines).filter(|line| !line.trim_start().starts_with("--")) {
            expected.read(line, &mut table);
            if line.contains("PRIMARY KEY") {
                expected.keyed.insert(table.clone());
            }
        }
        expected
    }

    /// `table` is the one that was made last.
    fn read(&mut self, line: &str, table: &mut String) {
        let skipped = ["CONCURRENTLY", "IF", "NOT", "EXISTS"];
        let mut words =
            line.split([' ', '(', ';']).filter(|word| !word.is_empty() && !skipped.contains(word));
        let (verb, mut noun) = (words.next(), words.next());
        let is_unique = noun == Some("UNIQUE");
        if is_unique {
            noun = words.next();
        }
        let Some(name) = words.next().map(str::to_owned) else { return };
        match (verb, noun) {
            (Some("CREATE"), Some("TABLE")) => {
                table.clone_from(&name);
                self.tables.insert(name);
            }
            (Some("CREATE"), Some("TRIGGER")) => drop(self.triggers.insert(name)),
            (Some("CREATE"), Some("INDEX")) => drop(self.indexes.insert(name, is_unique)),
            (Some("DROP"), Some("TABLE")) => {
                self.keyed.remove(&name);
                self.tables.remove(&name);
            }
            (Some("DROP"), Some("TRIGGER")) => drop(self.triggers.remove(&name)),
            (Some("DROP"), Some("INDEX")) => drop(self.indexes.remove(&name)),
            _ => {}
        }
    }
}

/// Parts of the schema that are not as the migrations make them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SchemaParts {
    /// Number of parts that are as they should be.
    pub fine_n: usize,
    /// Tables that are not there.
    pub tables_missing: Vec<String>,
    /// Triggers that are not there, or are turned off.
    pub triggers_missing: Vec<String>,
    /// Indexes that are not there, with whether they are unique.
    pub indexes_missing: Vec<(String, bool)>,
    /// Indexes that the database does not use because they were not finished, with whether they are unique.
    pub indexes_unfinished: Vec<(String, bool)>,
    /// Indexes on our tables that are not ours, with whether they are unique.
    pub indexes_others: Vec<(String, bool)>,
}

/// State of a database beside its schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatabaseState {
    /// The file of SQLite.
    File(FileState),
    /// A server, with our tables.
    Server(Box<ServerState>),
}

/// State of SQLite's file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileState {
    /// Path of the file.
    pub path: PathBuf,
    /// `wal`, as it should be.
    pub journal: String,
    /// 2 (`FULL`) or more, as it should be.
    pub synchronous: i64,
    /// Length of the file. Bytes.
    pub bytes: i64,
    /// The part of it in which nothing is. Bytes.
    pub free_bytes: i64,
}

/// State of a PostgreSQL server.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServerState {
    /// Settings by name, as our session has them.
    pub settings: BTreeMap<String, String>,
    /// Settings by name, as a session has them that begins now, where that is known.
    pub coming: BTreeMap<String, String>,
    /// Sessions of clients that are open.
    pub clients_n: i64,
    /// Number of standbys that follow.
    pub standbys_n: i64,
    /// Those of them that a commit waits for.
    pub standbys_sync_n: i64,
    /// Those of them of which our role may not know that.
    pub standbys_hidden_n: i64,
    /// Age of the oldest transaction id in the database.
    pub ids_n: i64,
    /// Age of the oldest open transaction that our role may see. Seconds.
    pub oldest_s: i64,
    /// Prepared transactions that are older than five minutes.
    pub prepared_n: i64,
    /// WAL held by replication slots without a reader. Bytes.
    pub held_bytes: i64,
    /// True when our role may do anything.
    pub is_superuser: bool,
    /// True when our session is encrypted.
    pub is_encrypted: bool,
    /// True when the server is on this machine.
    pub is_local: bool,
    /// Tables in our schema.
    pub tables: Vec<TableState>,
}

/// State of one table of PostgreSQL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TableState {
    /// Name of the table.
    pub name: String,
    /// Rows, as the server guesses.
    pub live_n: i64,
    /// Dead rows.
    pub dead_n: i64,
    /// True when autovacuum is turned off for this table.
    pub is_without_vacuum: bool,
    /// Length without what is kept beside it. Bytes.
    pub bytes: i64,
    /// Time since the last vacuum. Seconds.
    pub vacuumed_s: Option<i64>,
}

impl ServerState {
    /// The value of a setting; empty when the server has none of that name.
    pub fn setting(&self, name: &str) -> &str {
        self.settings.get(name).map_or("", String::as_str)
    }

    /// The value of a setting that is a number; 0 when there is none.
    pub fn number(&self, name: &str) -> i64 {
        self.setting(name).parse().unwrap_or_default()
    }
}

/// Most errors of the file that are reported.
const MISTAKES: &str = "/* checkup_pages */ PRAGMA quick_check(3)";

impl Store {
    /// Reads what the database reports about itself.
    pub async fn checkup_state(&self) -> Result<DatabaseState, StoreError> {
        if self.dialect() == "postgres" {
            let state = alone!(self, reader, "server_state", |db| {
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
            })?;
            return Ok(DatabaseState::Server(Box::new(state)));
        }
        // How a commit is made is the writer's own.
        alone!(self, writer, "file_state", |db| {
            let path = db.fetch_one("/* checkup_file */ PRAGMA database_list", &[]).await?.text("file")?;
            let journal =
                db.fetch_one("/* checkup_file */ PRAGMA journal_mode", &[]).await?.text("journal_mode")?;
            let mut number =
                async |sql: &'static str, column: &str| db.fetch_one(sql, &[]).await?.int(column);
            let synchronous = number("/* checkup_file */ PRAGMA synchronous", "synchronous").await?;
            let page_bytes = number("/* checkup_file */ PRAGMA page_size", "page_size").await?;
            let pages_n = number("/* checkup_file */ PRAGMA page_count", "page_count").await?;
            let free_n = number("/* checkup_file */ PRAGMA freelist_count", "freelist_count").await?;
            Ok(FileState {
                path: PathBuf::from(path),
                journal,
                synchronous,
                bytes: pages_n.saturating_mul(page_bytes),
                free_bytes: free_n.saturating_mul(page_bytes),
            })
        })
        .map(DatabaseState::File)
    }

    /// Reads every page of SQLite's file, for as long as an operation may take; what is wrong with it. `None` on
    /// PostgreSQL.
    pub async fn checkup_pages(&self) -> Result<Option<Vec<String>>, StoreError> {
        if self.dialect() == "postgres" {
            return Ok(None);
        }
        alone!(self, operators, "pages", |db| {
            let rows = match db.fetch_as_is(MISTAKES, &[]).await {
                Ok(rows) => rows,
                // It does not get as far as a list.
                Err(error) if error.is_corruption() => return Ok(vec![error.to_string()]),
                Err(error) => return Err(error),
            };
            let texts = rows.iter().map(|row| row.text("quick_check"));
            texts.filter(|text| !matches!(text, Ok(text) if text == "ok")).collect()
        })
        .map(Some)
    }
}

/// Pause between two writings of a node's row.
pub const NODE_SEEN_EVERY: Duration = Duration::from_secs(15);
/// Time after which a node that was not seen is forgotten. Milliseconds.
const FORGOTTEN_MS: i64 = 3_600_000;
/// Most nodes that are listed.
const NODES_N_MAX: i64 = 200;

/// A node as it was seen last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// Name of the node, as attempts have it.
    pub node: String,
    /// Version of its binary.
    pub version: String,
    /// Version of the schema that its binary wants.
    pub schema: i64,
    /// Time since it was seen, by one clock. Milliseconds.
    pub ago_ms: i64,
}

/// The clock by which nodes are seen: the database's, where it has one.
const NOW: &str =
    "/* node_list */ SELECT LEAST(CAST($1 AS BIGINT), {clock_ms}) AS own_ms, {clock_ms} AS clock_ms";
/// `$5` is 1 where the database's clock is the one.
const SEEN: &str = "/* node_seen */ INSERT INTO nodes (node, version, schema_version, seen_at_ms)
    VALUES ($1, $2, $3, CASE WHEN CAST($5 AS BIGINT) = 1 THEN {clock_ms} ELSE $4 END)
    ON CONFLICT (node) DO UPDATE SET version = excluded.version, schema_version = excluded.schema_version,
        seen_at_ms = excluded.seen_at_ms";
const FORGET: &str = "/* nodes_forget */ DELETE FROM nodes WHERE seen_at_ms < $1";
const GONE: &str = "/* node_gone */ DELETE FROM nodes WHERE node = $1";
const LIST: &str = "/* node_list */ SELECT node, version, schema_version, seen_at_ms FROM nodes
    WHERE seen_at_ms >= $2 ORDER BY seen_at_ms DESC, node LIMIT $1";

impl Store {
    /// Records that this node is running.
    pub async fn node_seen(&self, node: &str, version: &str, now_ms: UnixMs) -> Result<(), StoreError> {
        let (node, version) = (node.to_owned(), version.to_owned());
        let schema = crate::migrations::latest();
        alone!(self, writer, "node_seen", |db| {
            let is_theirs = i64::from(db.is_postgres());
            let values = [node.into(), version.into(), schema.into(), now_ms.into(), is_theirs.into()];
            db.execute(SEEN, &values).await.map(drop)
        })
    }

    /// Deletes the rows of nodes that were not seen for an hour, which each node does when it starts.
    pub async fn nodes_forget(&self, now_ms: UnixMs) -> Result<(), StoreError> {
        together!(self, writer, "nodes_forget", |db| {
            let seen_at_ms = clock_ms(db, now_ms).await?.saturating_sub(FORGOTTEN_MS);
            db.execute(FORGET, &[seen_at_ms.into()]).await.map(drop)
        })
    }

    /// Records that this node has stopped.
    pub async fn node_gone(&self, node: &str) -> Result<(), StoreError> {
        let node = node.to_owned();
        alone!(self, writer, "node_gone", |db| db.execute(GONE, &[node.into()]).await.map(drop))
    }

    /// The nodes that were seen within the hour, the newest first.
    pub async fn node_list(&self, now_ms: UnixMs) -> Result<Vec<NodeSeen>, StoreError> {
        alone!(self, reader, "node_list", |db| {
            let now_ms = clock_ms(db, now_ms).await?;
            let node = |row: &Row| {
                Ok(NodeSeen {
                    node: row.text("node")?,
                    version: row.text("version")?,
                    schema: row.int("schema_version")?,
                    ago_ms: now_ms.saturating_sub(row.int("seen_at_ms")?),
                })
            };
            let values = [NODES_N_MAX.into(), now_ms.saturating_sub(FORGOTTEN_MS).into()];
            db.fetch(LIST, &values).await?.iter().map(node).collect()
        })
    }
}

impl Store {
    /// Number of sessions of servers, or of other commands, that had the database open before `for_ms` ago. SQLite
    /// keeps all but one process out by itself.
    pub async fn sessions_of_others(&self, for_ms: i64) -> Result<i64, StoreError> {
        alone!(self, reader, "sessions_of_others", |db| {
            if !db.is_postgres() {
                return Ok(0);
            }
            let sql = "/* node_sessions */ SELECT COUNT(*) AS n FROM pg_stat_activity
        WHERE application_name = 'hooklatch' AND datname = current_database()
          AND backend_start < clock_timestamp() - CAST($1 AS BIGINT) * INTERVAL '1 millisecond'";
            db.fetch_one(sql, &[for_ms.into()]).await?.int("n")
        })
    }
}

async fn clock_ms(db: &mut Executor<'_>, now_ms: UnixMs) -> DbResult<UnixMs> {
    let row = db.fetch_one(NOW, &[now_ms.into()]).await?;
    row.int(if db.is_postgres() { "clock_ms" } else { "own_ms" })
}

const POSTGRES_TABLES: &str = "/* checkup_schema */ SELECT CAST(c.relname AS TEXT) AS name FROM pg_class c
    WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND c.relkind IN ('r', 'p')";
const POSTGRES_TRIGGERS: &str = "/* checkup_schema */ SELECT CAST(t.tgname AS TEXT) AS name FROM pg_trigger t
    JOIN pg_class c ON c.oid = t.tgrelid
    WHERE c.relnamespace = CAST(current_schema() AS regnamespace) AND NOT t.tgisinternal AND t.tgenabled IN ('O', 'A')";
const POSTGRES_INDEXES: &str = "/* checkup_schema */ SELECT CAST(i.relname AS TEXT) AS name,
        CAST(t.relname AS TEXT) AS of_table, x.indisunique AS is_unique,
        x.indisvalid AND x.indisready AS is_valid,
        EXISTS (SELECT 1 FROM pg_constraint k WHERE k.conindid = i.oid) AS is_of_constraint
    FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_class t ON t.oid = x.indrelid
    WHERE t.relnamespace = CAST(current_schema() AS regnamespace)";
/// Tables whose primary key is there.
const POSTGRES_KEYED: &str = "/* checkup_schema */ SELECT CAST(t.relname AS TEXT) AS name
    FROM pg_index x JOIN pg_class t ON t.oid = x.indrelid
    WHERE t.relnamespace = CAST(current_schema() AS regnamespace) AND x.indisprimary AND x.indisvalid AND x.indisready";
const SQLITE_NAMES: &str = "/* checkup_schema */ SELECT name FROM sqlite_schema WHERE type = $1";
const SQLITE_INDEXES: &str =
    "/* checkup_schema */ SELECT i.name, i.tbl_name AS of_table, l.\"unique\" AS is_unique,
        1 AS is_valid, i.sql IS NULL AS is_of_constraint
    FROM sqlite_schema i JOIN pragma_index_list(i.tbl_name) l ON l.name = i.name WHERE i.type = 'index'";

/// One index that is there.
struct FoundIndex {
    of_table: String,
    is_unique: bool,
    is_valid: bool,
    is_of_constraint: bool,
}

impl Store {
    /// Compares the schema with what the migrations of this binary make.
    pub async fn checkup_schema(&self) -> Result<SchemaParts, StoreError> {
        let is_postgres = self.dialect() == "postgres";
        let expected = Expected::of(migrations::texts(is_postgres));
        let mut parts: SchemaParts =
            alone!(self, reader, "checkup_schema", |db| Ok(compared(&expected, &found(db).await?)))?;
        // A newer binary may have made some that this one does not know.
        if !matches!(self.schema_state().await?, SchemaState::Current) {
            parts.indexes_others.clear();
        }
        Ok(parts)
    }

    /// The unique indexes and primary keys that are not there: each makes something happen once.
    pub async fn checkup_unique(&self) -> Result<Vec<String>, StoreError> {
        let missing = self.checkup_schema().await?.indexes_missing;
        Ok(missing.into_iter().filter(|(_, is_unique)| *is_unique).map(|(name, _)| name).collect())
    }
}

/// What there is.
struct Found {
    tables: BTreeSet<String>,
    triggers: BTreeSet<String>,
    indexes: BTreeMap<String, FoundIndex>,
    /// Tables whose primary key is there; `None` where a table cannot lose it.
    keyed: Option<BTreeSet<String>>,
}

async fn found(db: &mut Executor<'_>) -> DbResult<Found> {
    Ok(if db.is_postgres() {
        Found {
            tables: names(db, POSTGRES_TABLES, &[]).await?,
            triggers: names(db, POSTGRES_TRIGGERS, &[]).await?,
            indexes: indexes(db, POSTGRES_INDEXES).await?,
            keyed: Some(names(db, POSTGRES_KEYED, &[]).await?),
        }
    } else {
        Found {
            tables: names(db, SQLITE_NAMES, &["table".into()]).await?,
            triggers: names(db, SQLITE_NAMES, &["trigger".into()]).await?,
            indexes: indexes(db, SQLITE_INDEXES).await?,
            keyed: None,
        }
    })
}

fn compared(expected: &Expected, Found { tables, triggers, indexes, keyed }: &Found) -> SchemaParts {
    let missing = |wanted: &BTreeSet<String>, found: &BTreeSet<String>| -> Vec<String> {
        wanted.difference(found).cloned().collect()
    };
    let wanted = |is_valid: Option<bool>| -> Vec<(String, bool)> {
        let is_so = |name: &String| indexes.get(name).map(|index| index.is_valid) == is_valid;
        let such = expected.indexes.iter().filter(|(name, _)| is_so(name));
        such.map(|(name, is_unique)| (name.clone(), *is_unique)).collect()
    };
    let is_other = |(name, index): &(&String, &FoundIndex)| {
        expected.tables.contains(&index.of_table)
            && !index.is_of_constraint
            && !expected.indexes.contains_key(*name)
    };
    // Of a table that is there: what is missing altogether is named once.
    let lost_key = |table: &&String| {
        tables.contains(*table) && keyed.as_ref().is_some_and(|keyed| !keyed.contains(*table))
    };
    let keys_missing = expected.keyed.iter().filter(lost_key).map(|table| (format!("{table}_pkey"), true));
    let mut parts = SchemaParts {
        tables_missing: missing(&expected.tables, tables),
        triggers_missing: missing(&expected.triggers, triggers),
        indexes_missing: wanted(None).into_iter().chain(keys_missing).collect(),
        indexes_unfinished: wanted(Some(false)),
        indexes_others: indexes
            .iter()
            .filter(is_other)
            .map(|(name, one)| (name.clone(), one.is_unique))
            .collect(),
        fine_n: 0,
    };
    let keys_n = keyed.as_ref().map_or(0, |_| expected.keyed.len());
    let wanted_n = expected.tables.len() + expected.triggers.len() + expected.indexes.len() + keys_n;
    let indexes_n = parts.indexes_missing.len() + parts.indexes_unfinished.len();
    let missing_n = parts.tables_missing.len() + parts.triggers_missing.len() + indexes_n;
    parts.fine_n = wanted_n.saturating_sub(missing_n);
    parts
}

async fn names(db: &mut Executor<'_>, sql: &'static str, values: &[Value]) -> DbResult<BTreeSet<String>> {
    db.fetch(sql, values).await?.iter().map(|row| row.text("name")).collect()
}

async fn indexes(db: &mut Executor<'_>, sql: &'static str) -> DbResult<BTreeMap<String, FoundIndex>> {
    let rows = db.fetch(sql, &[]).await?;
    let index = |row: &Row| {
        let index = FoundIndex {
            of_table: row.text("of_table")?,
            is_unique: row.is_true("is_unique")?,
            is_valid: row.is_true("is_valid")?,
            is_of_constraint: row.is_true("is_of_constraint")?,
        };
        Ok((row.text("name")?, index))
    };
    rows.iter().map(index).collect()
}

/// Settings that are looked at.
const SETTINGS: [&str; 19] = [
    "server_version_num",
    "server_version",
    "fsync",
    "full_page_writes",
    "synchronous_commit",
    "synchronous_standby_names",
    "client_min_messages",
    "default_transaction_isolation",
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

/// What a session gets that begins now: the server's own value, and above it what is set for every session, for the
/// database, for the role, and for both.
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

#[cfg(test)]
mod expected_tests {
    use super::*;

    #[test]
    fn names_are_read_as_migrations_write_them() {
        let text = "CREATE TABLE a (\n    x BIGINT,\n    PRIMARY KEY (x)\n);\nCREATE UNIQUE INDEX a_x ON a (x);\nCREATE INDEX a_y ON a (y)\n\
            CREATE TRIGGER a_t BEFORE UPDATE ON a FOR EACH ROW\n    SELECT 1;\n-- CREATE TABLE no";
        let further = "DROP INDEX CONCURRENTLY IF EXISTS a_y;\nCREATE INDEX CONCURRENTLY a_z ON a (z);\nCREATE TABLE IF NOT EXISTS b (";
        let found = Expected::of([text, further].into_iter());
        assert_eq!(found.tables, ["a", "b"].map(str::to_owned).into());
        assert_eq!(found.keyed, ["a".to_owned()].into());
        assert_eq!(found.triggers, ["a_t"].map(str::to_owned).into());
        assert_eq!(found.indexes, [("a_x".to_owned(), true), ("a_z".to_owned(), false)].into());
    }

    #[test]
    fn both_databases_have_the_same_indexes() {
        let [one, other] = [
            include_str!("../../../migrations/sqlite/0001_hooklatch.sql"),
            include_str!("../../../migrations/postgres/0001_hooklatch.sql"),
        ]
        .map(|text| Expected::of(std::iter::once(text)));
        // A table without another key has its key in a unique index, or is it.
        let of_both: Vec<&String> =
            one.indexes.keys().filter(|name| other.indexes.contains_key(*name)).collect();
        assert!(of_both.len() > 15 && other.tables.len() > 20, "{of_both:?}");
        assert!(one.triggers.len() >= 4 && other.triggers.len() >= 4);
        assert_eq!(other.keyed, other.tables, "each table has a primary key");
    }
}
