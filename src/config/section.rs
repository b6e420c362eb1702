//! The sections that are there once: `[server]`, `[admin]`, `[database]`, `[outbox]`, `[log]`.
//!
//! Their defaults are those of `config.default.toml`, so a key is always there unless it was spoilt; then a
//! problem is recorded and the value given back here is of no matter.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::dev::check_loopback;
use super::field::{Checker, Field, Table};
use super::{
    AdminConfig, AdminRole, AdminToken, DatabaseConfig, FetchConfig, LogConfig, LogFormat, OutboxConfig,
    PoolingConfig, ServerConfig,
};
use crate::database_url;
use crate::types::Name;

/// `[server]`. The second value is whether the operator set `public_url`.
pub(super) fn server(checker: &mut Checker<'_>, root: &mut Table) -> Option<(ServerConfig, bool)> {
    let mut table = root.table(checker, "server")?;
    let listen = listen(checker, &mut table);
    let written = table.text(checker, "public_url").filter(|(_, text)| !text.is_empty());
    let has_public_url = written.is_some();
    let public_url = match written {
        Some((field, text)) => http_url(checker, &field, &text, UrlRule::Public),
        None => Some(format!("http://{}", reachable(listen))),
    };
    let body_bytes_max = table.number_u32(checker, "body_bytes_max", 1_024..=67_108_864).unwrap_or_default();
    let inflight_range = u64::from(body_bytes_max)..=u64::from(u32::MAX);
    let answer_timeout_ms = table.number(checker, "answer_timeout_ms", 100..=60_000).unwrap_or_default();
    let handler_timeout_ms = table.number(checker, "handler_timeout_ms", 10..=30_000).unwrap_or_default();
    let config = ServerConfig {
        listen,
        public_url: public_url.unwrap_or_default(),
        body_bytes_max,
        header_timeout_ms: table.number(checker, "header_timeout_ms", 100..=300_000).unwrap_or_default(),
        body_timeout_ms: table.number(checker, "body_timeout_ms", 100..=300_000).unwrap_or_default(),
        answer_timeout_ms,
        connections_n_max: table.number_u32(checker, "connections_n_max", 1..=100_000).unwrap_or_default(),
        queue_n_max: table.number_u32(checker, "queue_n_max", 1..=100_000).unwrap_or_default(),
        inflight_bytes_max: table
            .number_u32(checker, "inflight_bytes_max", inflight_range)
            .unwrap_or_default(),
        events_n_max: table.number_u32(checker, "events_n_max", 1..=100_000).unwrap_or_default(),
        // Whoever waits behind a handler on SQLite is to have its answer in time.
        handler_timeout_ms: handler_timeout_ms.min(answer_timeout_ms / 2),
        unreadable_bytes_max: table
            .number_u32(checker, "unreadable_bytes_max", 0..=u64::from(u32::MAX))
            .unwrap_or_default(),
        edge: super::edge::edge(checker, &mut table),
    };
    table.finish(checker);
    Some((config, has_public_url))
}

fn listen(checker: &mut Checker<'_>, table: &mut Table) -> SocketAddr {
    let nowhere = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let Some((field, text)) = table.text(checker, "listen") else { return nowhere };
    check_loopback(checker, &field);
    text.parse().unwrap_or_else(|_| {
        checker.problem_shown(
            &field,
            "is not an address with a port",
            "write it as 127.0.0.1:8080 or [::1]:8080",
        );
        nowhere
    })
}

/// An address that this machine can call: all interfaces are reached by loopback.
pub(super) fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, listen.port())
}

/// `[admin]`
pub(super) fn admin(
    checker: &mut Checker<'_>,
    root: &mut Table,
    server: Option<SocketAddr>,
) -> Option<AdminConfig> {
    let mut table = root.table(checker, "admin")?;
    let field = table.take(checker, "listen");
    let mut listen = None;
    if let Some(field) = field {
        let text = field.text(checker);
        check_loopback(checker, &field);
        listen = text.as_ref().and_then(|text| text.parse::<SocketAddr>().ok());
        if text.is_some() && listen.is_none() {
            checker.problem_shown(&field, "is not an address with a port", "write it as 127.0.0.1:8081");
        }
        if listen.is_some_and(|listen| listen.port() != 0) && listen == server {
            checker.problem_shown(
                &field,
                "is where the receiver listens",
                "use another port than server.listen",
            );
        }
    }
    let list = match table.take(checker, "tokens") {
        Some(field) => field.list(checker).unwrap_or_default(),
        None => Vec::new(),
    };
    let mut tokens: Vec<AdminToken> = Vec::new();
    for field in list {
        let place = field.at(format!("{}.name", field.key));
        let Some(token) = admin_token(checker, field) else { continue };
        if tokens.iter().any(|other| other.name == token.name) {
            checker.problem(
                &place,
                format!("`{}` is the name of two tokens", token.name),
                "rename one of them",
            );
        }
        if tokens.iter().any(|other| other.token.is(token.token.reveal())) {
            checker.problem(&place, "has the token of another entry", "make a token for each");
        }
        tokens.push(token);
    }
    let hosts = super::edge::hosts(checker, &mut table);
    table.finish(checker);
    Some(AdminConfig { listen: listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))), tokens, hosts })
}

fn admin_token(checker: &mut Checker<'_>, field: Field) -> Option<AdminToken> {
    let mut table = field.table(checker)?;
    let problems_before = checker.problems.len();
    let name = table.text(checker, "name").and_then(|(field, text)| match Name::parse(&text) {
        Ok(name) => Some(name),
        Err(error) => {
            checker.problem(&field, error.to_string(), "choose another name");
            None
        }
    });
    let role =
        table.word(checker, "role", &[("viewer", AdminRole::Viewer), ("operator", AdminRole::Operator)]);
    let token = table.take(checker, "token").and_then(|field| {
        let place = field.clone();
        let secret = field.secret(checker)?;
        let is_fit = (16..=1_024).contains(&secret.reveal().len())
            && secret.reveal().bytes().all(|byte| byte.is_ascii_graphic());
        if !is_fit {
            let remedy = "make one with `openssl rand -hex 32`";
            checker.problem(&place, "is not 16 to 1024 visible ASCII characters", remedy);
        }
        is_fit.then_some(secret)
    });
    if checker.problems.len() == problems_before {
        for (key, is_there) in
            [("name", name.is_some()), ("role", role.is_some()), ("token", token.is_some())]
        {
            if !is_there {
                checker.missing(table.path(key), "a token is { name = …, role = …, token = … }");
            }
        }
    }
    table.finish(checker);
    Some(AdminToken { name: name?, role: role?, token: token? })
}

/// `[kinds]`; its folder is read before the rest is checked, because the kinds in it say what is right.
pub(super) fn kinds(checker: &mut Checker<'_>, root: &mut Table) {
    let Some(mut table) = root.table(checker, "kinds") else { return };
    table.text(checker, "folder");
    table.finish(checker);
}

/// `[database]`
pub(super) fn database(checker: &mut Checker<'_>, root: &mut Table) -> Option<DatabaseConfig> {
    let mut table = root.table(checker, "database")?;
    let mut url = None;
    if let Some(field) = table.take(checker, "url") {
        let place = field.clone();
        url = field.secret(checker).map(|secret| secret.reveal().to_owned());
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

/// What is wrong with a database's URL, without quoting it: it may hold a password.
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
        _ if scheme.bytes().all(|byte| byte.is_ascii_alphanumeric()) => Some(format!(
            "has the scheme `{}`, which is no database that Hooklatch knows",
            super::problem::shown(scheme)
        )),
        _ => Some("is not a database URL".to_owned()),
    }
}

/// `[outbox]`. The second value is the lease, when it is right.
pub(super) fn outbox(checker: &mut Checker<'_>, root: &mut Table) -> Option<(OutboxConfig, Option<u64>)> {
    let mut table = root.table(checker, "outbox")?;
    let lease_ms = table.number(checker, "lease_ms", 1_000..=3_600_000);
    let config = OutboxConfig {
        lease_ms: lease_ms.unwrap_or_default(),
        poll_ms: table.number(checker, "poll_ms", 50..=60_000).unwrap_or_default(),
        stop_timeout_ms: table.number(checker, "stop_timeout_ms", 0..=600_000).unwrap_or_default(),
    };
    table.finish(checker);
    Some((config, lease_ms))
}

/// `[fetch]`
pub(super) fn fetch(checker: &mut Checker<'_>, root: &mut Table) -> Option<FetchConfig> {
    let mut table = root.table(checker, "fetch")?;
    let config = FetchConfig {
        proxy: table.take(checker, "proxy").and_then(|field| super::destination::proxy(checker, field)),
        ca: table.take(checker, "ca").and_then(|field| field.secret(checker)),
        private_hosts: super::destination::private_hosts(checker, &mut table),
    };
    table.finish(checker);
    Some(config)
}

/// `[log]`
pub(super) fn log(checker: &mut Checker<'_>, root: &mut Table) -> Option<LogConfig> {
    let mut table = root.table(checker, "log")?;
    let filter = table.text(checker, "filter").map(|(field, text)| {
        if text.trim().is_empty() || tracing_subscriber::EnvFilter::builder().parse(&text).is_err() {
            checker.problem_shown(
                &field,
                "is not a log filter",
                "write info, or \"info,hooklatch::outbox=debug\"",
            );
        }
        text
    });
    let words = [("auto", LogFormat::Auto), ("human", LogFormat::Human), ("json", LogFormat::Json)];
    let format = table.word(checker, "format", &words).unwrap_or(LogFormat::Auto);
    table.finish(checker);
    Some(LogConfig { filter: filter.unwrap_or_default(), format })
}

/// What a URL may have besides scheme, host, port and path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UrlRule {
    /// `server.public_url`: nothing; its trailing slash is dropped.
    Public,
    /// A call's URL: a query.
    Destination,
}

/// An `http://` or `https://` URL, as it was written.
pub(super) fn http_url(
    checker: &mut Checker<'_>,
    field: &Field,
    text: &str,
    rule: UrlRule,
) -> Option<String> {
    let has_scheme = text.contains("://");
    let Ok(url) = reqwest::Url::parse(text).map_err(drop) else {
        let remedy = if has_scheme { "write https://HOST/PATH" } else { "begin it with https:// or http://" };
        checker.problem_shown(field, "is not a URL", remedy);
        return None;
    };
    // Not shown: it holds a password.
    if !url.username().is_empty() || url.password().is_some() {
        checker.problem(field, "has a user or password in it", "use an `authorization` header instead");
        return None;
    }
    let why = if !has_scheme || !matches!(url.scheme(), "http" | "https") {
        Some(("has another scheme than http:// or https://", "begin it with https:// or http://"))
    } else if url.host_str().is_none_or(str::is_empty) {
        Some(("has no host", "write https://HOST/PATH"))
    } else if url.fragment().is_some() || (rule == UrlRule::Public && url.query().is_some()) {
        Some(("has a query or fragment", "remove everything from `?` or `#` on"))
    } else if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        Some(("has spaces or control characters", "remove or percent-encode them"))
    } else {
        None
    };
    if let Some((why, remedy)) = why {
        checker.problem_shown(field, why, remedy);
        return None;
    }
    Some(if rule == UrlRule::Public { text.trim_end_matches('/').to_owned() } else { text.to_owned() })
}
