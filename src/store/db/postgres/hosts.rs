//! The servers that the URL names, and which of them takes writes now.

use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tracing::info;

use super::plans::SessionRole;
use super::session::{self, SessionVerdict};
use crate::database_url;
use crate::store::db::error::{DbError, DbResult};
use crate::store::db::opening::PostgresSettings;
use crate::store::db::store_error::StoreError;

/// Time for which the host that took writes last is asked alone, when there are others.
const CURRENT_TIMEOUT: Duration = Duration::from_millis(500);
/// Time that a host may take to say what it is: with the one above less than the pool waits for a
/// connection.
const HOST_TIMEOUT: Duration = Duration::from_secs(4);
/// Further time for the hosts before it in the URL, once one is found: all nodes choose the same.
const EARLIER_TIMEOUT: Duration = Duration::from_millis(250);

/// All hosts of the URL, in its order; never none.
pub(super) struct DatabaseHosts {
    all: Vec<Arc<PgConnectOptions>>,
    settings: PostgresSettings,
    /// The host that took writes last.
    current: Mutex<Arc<PgConnectOptions>>,
}

/// Result of asking one host.
enum HostAnswer {
    Fit(PgConnection),
    /// It takes no writes, or cannot be reached: another one may, or this one later.
    Passing(String),
    /// It must not be used, or does not want us.
    Refused(StoreError),
}

impl DatabaseHosts {
    pub(super) fn parse(url: &str, settings: PostgresSettings) -> Result<Self, StoreError> {
        let urls =
            database_url::by_host(url).map_err(|why| StoreError::Refused(format!("database url {why}")))?;
        let options = |url: &String| {
            // The driver's message may quote the url, which may hold a password.
            let options = PgConnectOptions::from_str(url)
                .map_err(|_| StoreError::Refused("database url is not a PostgreSQL url".to_owned()))?;
            // Poolers refuse start-up parameters that they do not know. What we need of a session is set by statements.
            let options =
                options.application_name("hooklatch").statement_cache_capacity(512).extra_float_digits(None);
            Ok(Arc::new(options))
        };
        let all = urls.iter().map(options).collect::<Result<Vec<_>, StoreError>>()?;
        let first =
            all.first().ok_or_else(|| StoreError::Refused("database url names no host".to_owned()))?;
        Ok(Self { current: Mutex::new(Arc::clone(first)), all, settings })
    }

    /// The host that took writes last.
    pub(super) fn current(&self) -> Arc<PgConnectOptions> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn follow(&self, host: &Arc<PgConnectOptions>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&current, host) {
            *current = Arc::clone(host);
            info!(host = place(host), "follows to the host that takes writes");
        }
    }

    /// A session that may write and is fit: where the last one was, else wherever one is.
    pub(super) async fn connect(&self, role: SessionRole) -> DbResult<PgConnection> {
        if self.all.len() > 1
            && let HostAnswer::Fit(session) =
                ask(&self.current(), &self.settings, role, CURRENT_TIMEOUT).await
        {
            return Ok(session);
        }
        self.found(role).await.map_err(|error| match error {
            StoreError::Unavailable { source, .. } | StoreError::Query { source, .. } => source,
            other => DbError::lost(other.to_string()),
        })
    }

    /// The first of all hosts, in their order, that takes writes and is fit. All are asked at once.
    pub(super) async fn found(&self, role: SessionRole) -> Result<PgConnection, StoreError> {
        let mut asked = JoinSet::new();
        for (n, host) in self.all.iter().cloned().enumerate() {
            let settings = self.settings.clone();
            asked.spawn(async move {
                let answer = ask(&host, &settings, role, HOST_TIMEOUT).await;
                (n, host, answer)
            });
        }
        let mut answers = Vec::new();
        let mut until = Instant::now() + HOST_TIMEOUT + EARLIER_TIMEOUT;
        while let Ok(Some(answer)) = timeout_at(until, asked.join_next()).await {
            if matches!(answer, Ok((.., HostAnswer::Fit(_)))) {
                until = until.min(Instant::now() + EARLIER_TIMEOUT);
            }
            answers.extend(answer.ok());
        }
        answers.sort_by_key(|(n, ..)| *n);
        let mut refusal = None;
        let mut seen = Vec::new();
        for (_, host, answer) in answers {
            match answer {
                HostAnswer::Fit(session) => {
                    self.follow(&host);
                    return Ok(session);
                }
                HostAnswer::Passing(why) => seen.push(why),
                HostAnswer::Refused(error) => refusal = refusal.or(Some(error)),
            }
        }
        Err(refusal.unwrap_or_else(|| StoreError::Unavailable {
            op: "open",
            source: DbError::lost(seen.join("; ")),
        }))
    }
}

async fn ask(
    options: &PgConnectOptions,
    settings: &PostgresSettings,
    role: SessionRole,
    limit: Duration,
) -> HostAnswer {
    let place = place(options);
    let asking = async {
        let mut session = options.connect().await?;
        let verdict = session::prepare(&mut session, settings, role).await?;
        Ok::<_, DbError>((session, verdict))
    };
    match tokio::time::timeout(limit, asking).await {
        Ok(Ok((session, SessionVerdict::Fit))) => HostAnswer::Fit(session),
        Ok(Ok((_, SessionVerdict::ReadOnly(why)))) => HostAnswer::Passing(format!("{place}: {why}")),
        Ok(Ok((_, SessionVerdict::Unfit(why)))) => HostAnswer::Refused(StoreError::Refused(why)),
        Ok(Err(error)) => match StoreError::from_db("open", error) {
            StoreError::Unavailable { source, .. } => HostAnswer::Passing(format!("{place}: {source}")),
            other => HostAnswer::Refused(other),
        },
        Err(_) => HostAnswer::Passing(format!("{place}: no answer within {} ms", limit.as_millis())),
    }
}

/// Host and port, for people.
fn place(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}
