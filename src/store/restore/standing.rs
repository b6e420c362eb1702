//! Whether a database is the one that ran last.

use tracing::error;

use super::witness::{WitnessState, WitnessWord};
use crate::store::db::{Backend, DbError, DbResult, Door, Purpose, StoreError};
use crate::store::handle::Store;
use crate::types::UnixMs;

/// Relation of a database to the one that a node last started on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestoreStanding {
    /// It is that one, or nothing says otherwise.
    Same,
    /// It is a backup that we made ourselves.
    Backup {
        /// When it was made.
        made_at_ms: UnixMs,
    },
    /// It is a file that lacks what was changed last: a copy of earlier was put in its place.
    Older {
        /// What ran last was there until then, at least.
        ran_until_ms: UnixMs,
    },
    /// It has another table, database or server than before: a dump that was read in, or a move.
    Elsewhere,
    /// Its server was restored to an earlier point in time.
    PointInTime,
    /// Another server took over, which may lack what was confirmed last unless commits waited for it.
    TookOver,
}

impl RestoreStanding {
    /// True when no node may start before a person has said what it is.
    pub fn is_to_be_taken_over(self) -> bool {
        matches!(self, Self::Backup { .. } | Self::Older { .. } | Self::Elsewhere | Self::PointInTime)
    }

    /// The word for programs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Backup { .. } => "backup",
            Self::Older { .. } => "older",
            Self::Elsewhere => "elsewhere",
            Self::PointInTime => "point_in_time",
            Self::TookOver => "took_over",
        }
    }
}

/// Who a database is: its server, the database and our table in it. A standby that takes over keeps the id and gets
/// another timeline, and so does a server that is restored to a point in time; what is read in from a dump has another
/// id, also where it took the place of the tables in the same database (`pg_restore --clean`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DatabaseIdentity {
    id: String,
    timeline: i64,
    /// True when its server is told to stop recovering at a point.
    has_target: bool,
}

impl Store {
    /// Tells whether it is the database that a node last started on.
    pub async fn restore_standing(&self) -> Result<RestoreStanding, StoreError> {
        let now = identity(&self.parts.backend).await?;
        let standing = alone!(self.reader.restore_standing(now.as_ref()))?;
        if standing != RestoreStanding::Same {
            return Ok(standing);
        }
        Ok(match self.witness_state().await? {
            Some(WitnessState { word: WitnessWord::Older { at_ms }, .. }) => {
                RestoreStanding::Older { ran_until_ms: at_ms }
            }
            _ => standing,
        })
    }

    /// Looks whether the server, the database or the tables were restored since this process started on them. Once they
    /// were, no connection is given any more. SQLite looks with each commit (`db/sqlite/identity.rs`).
    pub(in crate::store) async fn restore_watch(&self) -> Result<(), StoreError> {
        let Some(now) = identity(&self.parts.backend).await? else { return Ok(()) };
        let had_target = *self.parts.had_target.get_or_init(|| now.has_target);
        let what = match alone!(self.reader.restore_standing(Some(&now)))? {
            RestoreStanding::Backup { .. } | RestoreStanding::Elsewhere => {
                "was read in from a dump, or is in another server or database than the one that this server started on"
            }
            // Settings of an earlier recovery stay in the files of a server, and its standby has them when it takes over.
            RestoreStanding::PointInTime if !had_target => "was restored to an earlier point in time",
            _ => return Ok(()),
        };
        let what = format!("this database {what}");
        if self.parts.backend.trust().replace(&what) {
            error!(
                "{what}. Events that were acknowledged since are not in it, so every request is answered 503 and nothing is \
                 sent until this server is restarted. Stop every node, and take the database over: `hooklatch restore-check`. \
                 docs/backup.md says how, under \"Put back under a running server\""
            );
        }
        Err(StoreError::from_db("restore_watch", DbError::lost(what)))
    }

    /// Remembers that a node started on this database.
    pub async fn restore_note(&self) -> Result<(), StoreError> {
        let Some(now) = identity(&self.parts.backend).await? else { return Ok(()) };
        alone!(self.writer.restore_note(&now))
    }
}

async fn restore_standing(db: &mut Door<'_>, now: Option<&DatabaseIdentity>) -> DbResult<RestoreStanding> {
    let sql = "/* restore_standing */ SELECT backup_at_ms, database_id, timeline FROM installation";
    let row = db.fetch_one(sql, &[]).await?;
    if let Some(made_at_ms) = row.int_or_null("backup_at_ms")? {
        return Ok(RestoreStanding::Backup { made_at_ms });
    }
    let noted = row.text_or_null("database_id")?.zip(row.int_or_null("timeline")?);
    let (Some(now), Some((id, timeline))) = (now, noted) else { return Ok(RestoreStanding::Same) };
    Ok(if now.id != id {
        RestoreStanding::Elsewhere
    } else if now.timeline == timeline {
        RestoreStanding::Same
    } else if now.has_target {
        RestoreStanding::PointInTime
    } else {
        RestoreStanding::TookOver
    })
}

pub(super) async fn restore_note(db: &mut Door<'_>, now: &DatabaseIdentity) -> DbResult<()> {
    let sql = "/* restore_note */ UPDATE installation SET database_id = $1, timeline = $2
               WHERE COALESCE(database_id, '') <> $1 OR COALESCE(timeline, -1) <> $2";
    db.execute(sql, &[now.id.as_str().into(), now.timeline.into()]).await.map(drop)
}

/// What a server says of itself; nothing on SQLite, and where it is not told to everybody.
pub(super) async fn identity(backend: &Backend) -> Result<Option<DatabaseIdentity>, StoreError> {
    if matches!(backend, Backend::Sqlite(_)) {
        return Ok(None);
    }
    let told = backend.alone("restore_identity", Purpose::Writer, |mut door| {
        Box::pin(async move { restore_identity(&mut door).await })
    });
    match told.await {
        Ok(identity) => Ok(Some(identity)),
        Err(error @ (StoreError::Unavailable { .. } | StoreError::CommitUnknown { .. })) => Err(error),
        Err(error) => {
            tracing::debug!(%error, "the server does not say which one it is");
            Ok(None)
        }
    }
}

async fn restore_identity(db: &mut Door<'_>) -> DbResult<DatabaseIdentity> {
    let sql = "/* restore_identity */ SELECT
        CAST((SELECT system_identifier FROM pg_control_system()) AS TEXT) || '/'
            || (SELECT CAST(oid AS TEXT) FROM pg_database WHERE datname = current_database()) || '/'
            || CAST(CAST(to_regclass('installation') AS OID) AS TEXT) AS database_id,
        CAST(CAST('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) AS BIT(32)) AS BIGINT) AS timeline,
        (SELECT COUNT(*) FROM pg_settings WHERE name IN ('recovery_target', 'recovery_target_time',
            'recovery_target_xid', 'recovery_target_lsn', 'recovery_target_name') AND setting <> '') AS targets_n";
    let row = db.fetch_one(sql, &[]).await?;
    Ok(DatabaseIdentity {
        id: row.text("database_id")?,
        timeline: row.int("timeline")?,
        has_target: row.int("targets_n")? > 0,
    })
}
