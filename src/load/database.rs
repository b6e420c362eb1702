//! `[database]`: where events are kept, and how that is reached.

use crate::config::{Checker, DatabaseConfig, PoolingConfig, Table};
use crate::database_url;
use crate::mistakes::shown;
use crate::store::sqlite_path;

/// Reads `[database]`, whose URL may be a secret.
pub(super) fn database(checker: &mut Checker<'_>, root: &mut Table) -> Option<DatabaseConfig> {
    let mut table = root.table(checker, "database")?;
    let mut url = None;
    if let Some(field) = table.take(checker, "url") {
        let place = field.clone();
        url = field.secret(checker).map(|secret| secret.reveal().to_owned());
        if let Some(url) = &url {
            checker.read.database_url(&place.key, url);
        }
        if let Some((why, remedy)) = url.as_deref().and_then(database_url_mistake) {
            checker.problem(&place, why, remedy);
        }
    }
    let create = table.take(checker, "create");
    let create_source = create.as_ref().map(|field| field.source.clone()).unwrap_or_default();
    let create = create.and_then(|field| field.flag(checker)).unwrap_or(true);
    let migrate = table.flag(checker, "migrate").unwrap_or_default();
    let connections_n = table.number_u32(checker, "connections_n", 6..=1_000).unwrap_or_default();
    let connect_wait_ms = table.number(checker, "connect_wait_ms", 0..=3_600_000).unwrap_or_default();
    let pooling = table.word(
        checker,
        "pooling",
        &[("session", PoolingConfig::Session), ("transaction", PoolingConfig::Transaction)],
    );
    let replicated = table.flag(checker, "replicated").unwrap_or_default();
    table.finish(checker);
    Some(DatabaseConfig {
        url: url.unwrap_or_default(),
        create,
        create_source,
        migrate,
        connections_n,
        connect_wait_ms,
        pooling: pooling.unwrap_or(PoolingConfig::Session),
        replicated,
    })
}

/// The remedy for what is no URL of a database.
const WRITE: &str =
    "write sqlite://PATH, postgres://USER:PASSWORD@HOST:PORT/DATABASE, or several HOST:PORT between commas";

/// The reason why a database's URL is wrong, and the remedy. No URL of PostgreSQL is quoted: it may hold a password.
fn database_url_mistake(url: &str) -> Option<(String, String)> {
    let wrong = |why: &str| Some((why.to_owned(), WRITE.to_owned()));
    let Some((scheme, rest)) = url.split_once("://") else { return wrong("is not a database URL") };
    match scheme {
        "sqlite" if rest.is_empty() => wrong("names no file"),
        "sqlite" => sqlite_mistake(url),
        "postgres" | "postgresql" => {
            let has_host = |url: &String| {
                reqwest::Url::parse(url).is_ok_and(|url| url.host_str().is_some() || url.query().is_some())
            };
            match database_url::by_host(url) {
                Err(why) => wrong(why),
                Ok(urls) if urls.iter().all(has_host) => None,
                Ok(_) => wrong("is not a PostgreSQL URL"),
            }
        }
        _ if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            wrong(&format!("has the scheme `{}`, which is no database that Hooklatch knows", shown(scheme)))
        }
        _ => wrong("is not a database URL"),
    }
}

/// The same for a path of SQLite.
fn sqlite_mistake(url: &str) -> Option<(String, String)> {
    let path = match sqlite_path(url) {
        Ok(path) => path,
        Err(why) => return Some((why, WRITE.to_owned())),
    };
    let told = shown(&path.to_string_lossy());
    if told.starts_with('~') && told.contains('/') {
        let why = format!("names `{told}`, and only a shell replaces `~`");
        return Some((why, "write the whole path, such as sqlite:///home/USER/hooklatch.db".to_owned()));
    }
    if path.is_dir() || told.ends_with('/') {
        let file = path.join("hooklatch.db");
        let remedy = format!("name a file in it, such as sqlite://{}", shown(&file.to_string_lossy()));
        return Some((format!("names the folder `{told}`, wanted a file"), remedy));
    }
    None
}
