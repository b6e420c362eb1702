//! `[database]`: where events are kept, and how that is reached.

use crate::config::{Checker, DatabaseConfig, PoolingConfig, Table};
use crate::database_url;
use crate::mistakes::shown;

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
        if let Some(why) = url.as_deref().and_then(database_url_mistake) {
            checker.problem(
                &place,
                why,
                "write sqlite://PATH, postgres://USER:PASSWORD@HOST:PORT/DATABASE, or several HOST:PORT between commas",
            );
        }
    }
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
        migrate,
        connections_n,
        connect_wait_ms,
        pooling: pooling.unwrap_or(PoolingConfig::Session),
        replicated,
    })
}

/// The reason why a database's URL is wrong, without quoting it: it may hold a password.
fn database_url_mistake(url: &str) -> Option<String> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Some("is not a database URL".to_owned());
    };
    match scheme {
        "sqlite" if rest.is_empty() => Some("names no file".to_owned()),
        "sqlite" => None,
        "postgres" | "postgresql" => {
            let has_host = |url: &String| {
                reqwest::Url::parse(url).is_ok_and(|url| url.host_str().is_some() || url.query().is_some())
            };
            match database_url::by_host(url) {
                Err(why) => Some(why.to_owned()),
                Ok(urls) if urls.iter().all(has_host) => None,
                Ok(_) => Some("is not a PostgreSQL URL".to_owned()),
            }
        }
        _ if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
            Some(format!("has the scheme `{}`, which is no database that Hooklatch knows", shown(scheme)))
        }
        _ => Some("is not a database URL".to_owned()),
    }
}
