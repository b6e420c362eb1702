//! Which nodes there are, and what version each is of: a row of each, written again and again while it runs.

use std::time::Duration;

use crate::store::db::{DbResult, Door, Row, StoreError};
use crate::store::handle::Store;
use crate::types::UnixMs;

/// Pause between two writings of a node's row.
pub const NODE_SEEN_EVERY: Duration = Duration::from_secs(15);
/// Time after which a node that was not seen is forgotten. Milliseconds.
const FORGOTTEN_MS: i64 = 3_600_000;
/// Most nodes that are told.
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
    "/* node_seen */ SELECT LEAST(CAST($1 AS BIGINT), {clock_ms}) AS own_ms, {clock_ms} AS clock_ms";
const SEEN: &str =
    "/* node_seen */ INSERT INTO nodes (node, version, schema_version, seen_at_ms) VALUES ($1, $2, $3, $4)
    ON CONFLICT (node) DO UPDATE SET version = excluded.version, schema_version = excluded.schema_version,
        seen_at_ms = excluded.seen_at_ms";
const FORGET: &str = "/* node_seen */ DELETE FROM nodes WHERE seen_at_ms < $1";
const GONE: &str = "/* node_gone */ DELETE FROM nodes WHERE node = $1";
const LIST: &str = "/* node_list */ SELECT node, version, schema_version, seen_at_ms FROM nodes
    ORDER BY seen_at_ms DESC, node LIMIT $1";

impl Store {
    /// Says that this node is there.
    pub async fn node_seen(&self, node: &str, version: &str, now_ms: UnixMs) -> Result<(), StoreError> {
        let (node, version) = (node.to_owned(), version.to_owned());
        let schema = crate::store::migrations::latest();
        together!(self.node_seen(&node, &version, schema, now_ms))
    }

    /// Says that this node is there no more.
    pub async fn node_gone(&self, node: &str) -> Result<(), StoreError> {
        let node = node.to_owned();
        alone!(self.writer.node_gone(&node))
    }

    /// The nodes that were seen within the hour, the newest first.
    pub async fn node_list(&self, now_ms: UnixMs) -> Result<Vec<NodeSeen>, StoreError> {
        alone!(self.reader.node_list(now_ms))
    }
}

impl Store {
    /// Number of sessions of servers, or of other commands, that had the database open before `for_ms` ago. SQLite keeps all but
    /// one process out by itself.
    pub async fn sessions_of_others(&self, for_ms: i64) -> Result<i64, StoreError> {
        alone!(self.reader.sessions_of_others(for_ms))
    }
}

async fn sessions_of_others(db: &mut Door<'_>, for_ms: i64) -> DbResult<i64> {
    if !db.is_postgres() {
        return Ok(0);
    }
    let sql = "/* node_sessions */ SELECT COUNT(*) AS n FROM pg_stat_activity
        WHERE application_name = 'hooklatch' AND datname = current_database()
          AND backend_start < clock_timestamp() - CAST($1 AS BIGINT) * INTERVAL '1 millisecond'";
    db.fetch_one(sql, &[for_ms.into()]).await?.int("n")
}

async fn clock_ms(db: &mut Door<'_>, now_ms: UnixMs) -> DbResult<UnixMs> {
    let row = db.fetch_one(NOW, &[now_ms.into()]).await?;
    row.int(if db.is_postgres() { "clock_ms" } else { "own_ms" })
}

async fn node_seen(
    db: &mut Door<'_>,
    node: &str,
    version: &str,
    schema: i64,
    now_ms: UnixMs,
) -> DbResult<()> {
    let seen_at_ms = clock_ms(db, now_ms).await?;
    db.execute(SEEN, &[node.into(), version.into(), schema.into(), seen_at_ms.into()]).await?;
    db.execute(FORGET, &[seen_at_ms.saturating_sub(FORGOTTEN_MS).into()]).await.map(drop)
}

async fn node_gone(db: &mut Door<'_>, node: &str) -> DbResult<()> {
    db.execute(GONE, &[node.into()]).await.map(drop)
}

async fn node_list(db: &mut Door<'_>, now_ms: UnixMs) -> DbResult<Vec<NodeSeen>> {
    let now_ms = clock_ms(db, now_ms).await?;
    let node = |row: &Row| {
        Ok(NodeSeen {
            node: row.text("node")?,
            version: row.text("version")?,
            schema: row.int("schema_version")?,
            ago_ms: now_ms.saturating_sub(row.int("seen_at_ms")?),
        })
    };
    db.fetch(LIST, &[NODES_N_MAX.into()]).await?.iter().map(node).collect()
}
