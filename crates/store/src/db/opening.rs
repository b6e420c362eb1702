//! The settings of a database before it is opened, and how a start waits for it.
//!
//! The state of a schema: whether it fits this binary.

use std::time::{Duration, Instant};

use tracing::warn;

use super::error::StoreError;

/// Time between two tries of a start, and between two lines of the log about them.
const OPEN_EVERY: Duration = Duration::from_millis(500);
const LOG_EVERY: Duration = Duration::from_secs(5);

/// Address of the database, and the number of connections to it.
#[derive(Debug, Clone)]
pub struct StoreSettings {
    /// Address of the database: `sqlite://PATH` or `postgres://…`.
    pub url: String,
    /// Most connections; SQLite has one writer and this many readers.
    pub connections_n: u32,
}

/// The kind of pooler that stands between us and PostgreSQL, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooling {
    /// Every connection is a session of its own: no pooler, or one in session mode.
    #[default]
    Session,
    /// A pooler gives every transaction another session: prepared statements have to survive that, and the role
    /// brings the settings.
    Transaction,
}

/// Settings for PostgreSQL alone; SQLite does not look at them.
#[derive(Debug, Clone, Default)]
pub struct PostgresSettings {
    /// The kind of pooler that stands between us and the server, if any.
    pub pooling: Pooling,
    /// True when a server that waits for no standby is refused.
    pub is_replicated: bool,
}

impl StoreSettings {
    /// True when it is PostgreSQL, which may be away for a while.
    pub fn is_postgres(&self) -> bool {
        is_postgres(&self.url)
    }
}

/// Returns the result of `attempt`, retried for up to `wait` while the database is not available: a
/// start may fall into a fail-over.
pub async fn waiting<T>(
    wait: Duration,
    mut attempt: impl AsyncFnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let started = Instant::now();
    let mut tries = tokio::time::interval(OPEN_EVERY);
    let mut logged: Option<Instant> = None;
    loop {
        tries.tick().await;
        match attempt().await {
            Err(StoreError::Unavailable { op, source }) if started.elapsed() < wait => {
                if logged.is_none_or(|at| at.elapsed() >= LOG_EVERY) {
                    logged = Some(Instant::now());
                    warn!(
                        op,
                        error = %source,
                        waited_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or_default(),
                        waits_max_ms = u64::try_from(wait.as_millis()).unwrap_or_default(),
                        "no PostgreSQL takes writes yet; waiting"
                    );
                }
            }
            done => return done,
        }
    }
}

pub(crate) fn is_postgres(url: &str) -> bool {
    url.starts_with("postgres://") || url.starts_with("postgresql://")
}

/// The answer to the question if this binary may run on the database's schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// The schema is as this binary wants it.
    Current,
    /// Older than this binary wants it: it has to be migrated.
    Behind {
        /// Version that is there.
        found: i64,
        /// Version that this binary wants.
        wanted: i64,
    },
    /// Newer than this binary knows, and it may run on it: everything it uses is still there.
    Expanded {
        /// Version that is there.
        found: i64,
        /// Version that this binary wants.
        wanted: i64,
    },
    /// Newer than this binary knows, and not for it any more.
    Ahead {
        /// Version that is there.
        found: i64,
        /// Version that this binary wants.
        wanted: i64,
        /// The oldest version that a binary may want there.
        floor: i64,
    },
}

impl SchemaState {
    /// Compares version numbers; 0 is an empty database. `floor` is the oldest version that a binary may want.
    pub fn of(found: i64, floor: i64, wanted: i64) -> Self {
        match found.cmp(&wanted) {
            std::cmp::Ordering::Equal => Self::Current,
            std::cmp::Ordering::Less => Self::Behind { found, wanted },
            std::cmp::Ordering::Greater if wanted >= floor => Self::Expanded { found, wanted },
            std::cmp::Ordering::Greater => Self::Ahead { found, wanted, floor },
        }
    }

    /// True when the database has none of its tables.
    pub fn is_empty(self) -> bool {
        matches!(self, Self::Behind { found: 0, .. })
    }

    /// True when this binary may run on it.
    pub fn is_usable(self) -> bool {
        matches!(self, Self::Current | Self::Expanded { .. })
    }
}

impl std::fmt::Display for SchemaState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Current => f.write_str("current"),
            Self::Behind { found, wanted } => write!(
                f,
                "at version {found}, older than {wanted}: run `hooklatch migrate`, or set database.migrate = true"
            ),
            Self::Expanded { found, wanted } => {
                write!(f, "at version {found}, newer than {wanted} and still fit for it")
            }
            Self::Ahead { found, wanted, floor } => write!(
                f,
                "at version {found}, which takes binaries from version {floor} on, and this one wants {wanted}: \
                 start the Hooklatch that brought the schema there, or a later one"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::db::error::DbError;

    fn away() -> StoreError {
        StoreError::Unavailable { op: "open", source: DbError::vanished() }
    }

    #[tokio::test(start_paused = true)]
    async fn a_start_waits_for_a_database_that_is_away_and_for_nothing_else() {
        let mut tries_n = 0;
        let opened = waiting(Duration::from_mins(1), async || {
            tries_n += 1;
            if tries_n < 4 { Err(away()) } else { Ok(tries_n) }
        });
        assert_eq!(opened.await.unwrap(), 4);
        let mut tries_n = 0;
        let refused = waiting(Duration::from_mins(1), async || {
            tries_n += 1;
            Err::<(), _>(StoreError::Refused("no".to_owned()))
        });
        assert!(matches!(refused.await, Err(StoreError::Refused(_))));
        let impatient = waiting(Duration::ZERO, async || Err::<(), _>(away()));
        assert!(matches!(impatient.await, Err(StoreError::Unavailable { .. })));
        assert_eq!(tries_n, 1);
    }

    #[test]
    fn only_urls_of_postgresql_are_its_own() {
        for (url, wanted) in [
            ("postgres://h/d", true),
            ("postgresql://h/d", true),
            ("sqlite://x.db", false),
            ("postgres:h", false),
            ("Postgres://h", false),
        ] {
            assert_eq!(is_postgres(url), wanted, "{url}");
        }
    }
}

#[cfg(test)]
mod schema_state_tests {
    use super::*;

    #[test]
    fn a_binary_runs_on_its_own_schema_and_on_later_ones_that_still_take_it() {
        use SchemaState::{Ahead, Behind, Current, Expanded};
        for (found, floor, wanted, state, is_usable) in [
            (3, 1, 3, Current, true),
            // The database is empty.
            (0, 0, 3, Behind { found: 0, wanted: 3 }, false),
            (2, 1, 3, Behind { found: 2, wanted: 3 }, false),
            (4, 3, 3, Expanded { found: 4, wanted: 3 }, true),
            (9, 1, 3, Expanded { found: 9, wanted: 3 }, true),
            (4, 4, 3, Ahead { found: 4, wanted: 3, floor: 4 }, false),
        ] {
            let found = SchemaState::of(found, floor, wanted);
            assert_eq!((found, found.is_usable()), (state, is_usable));
        }
        let said = SchemaState::of(2, 1, 3).to_string();
        assert!(said.contains("hooklatch migrate"), "the remedy is missing: {said}");
    }
}
