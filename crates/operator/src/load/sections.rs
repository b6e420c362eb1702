//! The sections that are checked against each other, against files, or against what the kinds in use need: `[server]`,
//! `[admin]`, `[database]` and `[retention]`. Their keys are in `config`.
//!
//! An id that is forgotten too early lets the sender's next copy be a new event, so what a kind needs is a floor, and
//! what is not known of it is counted on the long side.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ::config::ValueKind;

use super::configuration::kind_of;
use hooklatch_core::config::{
    AdminConfig, AgeConfig, DATABASE_URL_FORMS, DAYS_MAX, DEFAULTS_ORIGIN, DatabaseConfig, ENDLESS_DAYS,
    Field, IdsKept, ListenerTlsConfig, ProviderConfig, RetentionConfig, ServerConfig, Table,
};
use hooklatch_core::database_url;
use hooklatch_core::mistakes::shown;
use hooklatch_core::tls::server_config;
use hooklatch_core::types::Name;
use hooklatch_receive::provider::{Kind, Provider};
use hooklatch_store::sqlite_path;
use hooklatch_verify::spec::{Resend, Spec};

/// Days within which messages may be sent again by hand where nothing is known of that; a default.
const RESEND_UNKNOWN_DAYS: u32 = 30;
/// Most characters of the installation's name: it stands in the title of each page.
const NAME_CHARS_MAX: usize = 64;

/// `[server]`. The second value is whether the operator set `public_url`.
pub(crate) fn server(root: &mut Table<'_>) -> Option<(ServerConfig, bool)> {
    root.section("server", |table| {
        let [name, public_url, tls] = ["name", "public_url", "tls"].map(|key| table.peek(key));
        let mut server = ServerConfig::read(table);
        check_tls(tls, server.tls.as_ref());
        let is_line =
            server.name.trim() == server.name && !server.name.chars().any(hooklatch_core::plain::is_hidden);
        if let Some(name) = name.filter(|_| !is_line || server.name.chars().count() > NAME_CHARS_MAX) {
            let why = "is not a name of at most 64 characters on one line";
            name.problem_shown(why, "write a short name, such as \"production\"");
        }
        let is_filled =
            |field: Field<'_>| matches!(field.value.kind, ValueKind::String(text) if !text.is_empty());
        let has_public_url = public_url.is_some_and(is_filled);
        if !has_public_url {
            let scheme = if server.tls.is_some() { "https" } else { "http" };
            server.public_url = format!("{scheme}://{}", reachable(server.listen));
        }
        // Requests that wait behind a handler on SQLite must have their answer in time.
        server.handler_timeout_ms = server.handler_timeout_ms.min(server.answer_timeout_ms / 2);
        (server, has_public_url)
    })
}

/// An address that this machine can call: all interfaces are reached by loopback.
pub fn reachable(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, listen.port())
}

/// Tries the files of a listener's `tls`.
fn check_tls(place: Option<Field<'_>>, tls: Option<&ListenerTlsConfig>) {
    let (Some(place), Some(tls)) = (place, tls) else { return };
    if let Err(mistake) = server_config(tls)
        && let Some(file) = place.peek(mistake.key)
    {
        let remedy = "a path is relative to the config file's folder; check the file and its rights";
        file.problem(mistake.why, remedy);
    }
}

/// Reads `[admin]`; `server` is where the receiver listens.
pub(crate) fn admin(root: &mut Table<'_>, server: Option<SocketAddr>) -> Option<AdminConfig> {
    root.section("admin", |table| {
        let [listen, tls] = ["listen", "tls"].map(|key| table.peek(key));
        let admin = AdminConfig::read(table);
        check_tls(tls, admin.tls.as_ref());
        let is_taken = admin.listen.port() != 0 && Some(admin.listen) == server;
        match listen.filter(|_| is_taken) {
            None => {}
            // The one that is written is to blame.
            Some(field) if field.source == DEFAULTS_ORIGIN => {
                let why = "is where operators reach the server unless admin.listen says otherwise";
                let remedy = "use another port, or write admin.listen";
                field.at("server.listen".to_owned()).problem_shown(why, remedy);
            }
            Some(field) => {
                field.problem_shown("is where the receiver listens", "use another port than server.listen");
            }
        }
        admin
    })
}

/// Reads `[database]`, whose URL may be a secret.
pub(crate) fn database(root: &mut Table<'_>) -> Option<DatabaseConfig> {
    root.section("database", |table| {
        let url = table.peek("url");
        let database = DatabaseConfig::read(table);
        let mistake = database_url_mistake(&database.url).filter(|_| !database.url.is_empty());
        if let (Some(field), Some((why, remedy))) = (url, mistake) {
            field.problem(why, remedy);
        }
        database
    })
}

/// The reason why a database's URL is wrong, and the remedy. No URL of PostgreSQL is quoted: it may hold a password.
fn database_url_mistake(url: &str) -> Option<(String, String)> {
    let wrong = |why: &str| Some((why.to_owned(), DATABASE_URL_FORMS.to_owned()));
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

/// The reason why the path of an SQLite file is wrong, and the remedy.
fn sqlite_mistake(url: &str) -> Option<(String, String)> {
    let path = match sqlite_path(url) {
        Ok(path) => path,
        Err(why) => return Some((why, DATABASE_URL_FORMS.to_owned())),
    };
    let named = shown(&path.to_string_lossy());
    if named.starts_with('~') && named.contains('/') {
        let why = format!("names `{named}`, and only a shell replaces `~`");
        return Some((why, "write the whole path, such as sqlite:///home/USER/hooklatch.db".to_owned()));
    }
    if path.is_dir() || named.ends_with('/') {
        let file = path.join("hooklatch.db");
        let remedy = format!("name a file in it, such as sqlite://{}", shown(&file.to_string_lossy()));
        return Some((format!("names the folder `{named}`, wanted a file"), remedy));
    }
    None
}

/// `[retention]`, against what the kinds in use need.
pub(crate) fn retention(
    root: &mut Table<'_>,
    providers: &BTreeMap<Name, ProviderConfig>,
    kinds: &[Provider],
) -> RetentionConfig {
    let needed = |(name, provider): (&Name, &ProviderConfig)| {
        let spec = kind_of(kinds, provider)?.spec().ok()?;
        Some((name.clone(), ids_kept(spec, provider.age)))
    };
    let ids_of: BTreeMap<Name, IdsKept> = providers.iter().filter_map(needed).collect();
    let retention = root.section("retention", |table| {
        let [bodies, attempts, messages, ids] =
            ["bodies_days", "attempts_days", "messages_days", "ids_days"].map(|key| table.peek(key));
        let config = RetentionConfig { ids_of: ids_of.clone(), ..RetentionConfig::read(table) };
        let parts = [(bodies, config.bodies_days, "a body"), (attempts, config.attempts_days, "an attempt")];
        let longer = parts.into_iter().filter(|(_, days, _)| *days > config.messages_days);
        let longest = longer.max_by_key(|(_, days, _)| *days).filter(|_| config.messages_days > 0);
        if let (Some((Some(part), days, what)), Some(messages)) = (longest, messages) {
            check_window(&part, (days, what), &messages, config.messages_days);
        }
        if let (Some(ids), Some(days), Some((name, floor, why))) = (ids, config.ids_days, config.deciding())
            && days < floor
        {
            let why = format!("is less than provider `{name}` needs, {floor} days: {why}");
            ids.problem_shown(why, format!("set it to {floor} or more, or leave it out"));
        }
        config
    });
    retention.unwrap_or_else(|| RetentionConfig { ids_of, ..RetentionConfig::default() })
}

/// Reports that something is kept for longer than the message that it belongs to, at the one of the two that is not as
/// it is by default.
fn check_window(part: &Field<'_>, (days, what): (u32, &str), messages: &Field<'_>, messages_days: u32) {
    let place = if part.source == DEFAULTS_ORIGIN { messages } else { part };
    let why = format!(
        "keeps {what} for {days} days and its message for {messages_days}: a message is kept longest"
    );
    let remedy = format!("set retention.messages_days to {days} or more, or {} to less", part.key);
    place.problem_shown(why, remedy);
}

/// One reason to keep ids, and for how many hours.
struct Reason {
    hours: u32,
    why: String,
    /// True when it is known, so that the operator may not set less.
    is_floor: bool,
}

/// The need of a provider of this kind for the ids of its events.
fn ids_kept(spec: &Spec, age: AgeConfig) -> IdsKept {
    let reasons = reasons(spec, age);
    let longest = |reasons: &mut dyn Iterator<Item = &Reason>| {
        let longest = reasons.max_by_key(|reason| reason.hours);
        longest.map_or((1, String::new()), |one| {
            (one.hours.div_ceil(24).clamp(1, DAYS_MAX), format!("its kind `{}` {}", spec.kind, one.why))
        })
    };
    let (days, why) = longest(&mut reasons.iter());
    let (days_min, why_min) = longest(&mut reasons.iter().filter(|reason| reason.is_floor));
    IdsKept { days, why, days_min, why_min }
}

/// Lists the reasons to keep ids. The sender may try a resend as often as the first request.
fn reasons(spec: &Spec, age: AgeConfig) -> Vec<Reason> {
    let again = spec.horizon_h;
    let reason = |hours: u32, why: String, is_floor| Reason { hours, why, is_floor };
    let mut reasons = vec![reason(again, format!("sends an event again for {}", hours_text(again)), true)];
    reasons.push(match spec.resend_h {
        Some(Resend::Hours(hours)) => {
            let (asked, after) = (hours_text(hours), hours_text(again));
            let why = format!("can be asked to send it again for {asked}, and may go on for {after} after that");
            reason(hours.max(again).saturating_add(again), why, true)
        }
        Some(Resend::Unbounded) => {
            let why = format!("can be asked to send it again without a limit, which counts as {ENDLESS_DAYS} days");
            reason((ENDLESS_DAYS * 24).max(again.saturating_mul(2)), why, true)
        }
        None => {
            let why = format!(
                "sends an event again for {}, and nothing is known of asking it to, for which {RESEND_UNKNOWN_DAYS} \
                 days are counted",
                hours_text(again)
            );
            reason((RESEND_UNKNOWN_DAYS * 24).max(again).saturating_add(again), why, false)
        }
    });
    reasons.push(match (age.max_age_s, spec.bounds_signed_time()) {
        (Some(max_age_s), _) => {
            let why = format!("signs a time that may be {max_age_s} s old, as max_age_s says");
            reason(max_age_s.div_ceil(3_600), why, true)
        }
        (None, true) => {
            // The signed time may also be as far ahead as the kind's own tolerance.
            let (past_s, ahead_s) = (age.tolerance_s.or(spec.tolerance_s()), spec.tolerance_s());
            let tolerance_s = past_s.unwrap_or_default().saturating_add(ahead_s.unwrap_or_default());
            reason(tolerance_s.div_ceil(3_600), format!("believes a request for {tolerance_s} s"), true)
        }
        (None, false) => {
            let why = format!(
                "signs no time whose age is bounded, so that a recorded request can be sent again at any time, which \
                 counts as {ENDLESS_DAYS} days"
            );
            reason(ENDLESS_DAYS * 24, why, true)
        }
    });
    reasons
}

/// Whole days from three on, else hours.
fn hours_text(hours: u32) -> String {
    if hours >= 72 && hours.is_multiple_of(24) {
        format!("{} days", hours / 24)
    } else {
        format!("{hours} h")
    }
}
