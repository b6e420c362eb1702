//! `[admin]`: the operators' listener and who may use it.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use super::edge::{hosts, nets};
use super::listen::check_loopback;
use super::tls::{forwarded, listener_tls};
use crate::config::{
    AdminConfig, AdminToken, Checker, DEFAULTS_ORIGIN, Field, OperatorUrl, Table, UrlRule, http_url,
};
use crate::types::{Name, Reach, Role};

/// Reads `[admin]`; `server` is where the receiver listens.
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
            // The one that somebody wrote is to blame.
            if field.source == DEFAULTS_ORIGIN {
                checker.problem_shown(
                    &field.at("server.listen".to_owned()),
                    "is where operators reach the server unless admin.listen says otherwise",
                    "use another port, or write admin.listen",
                );
            } else {
                checker.problem_shown(
                    &field,
                    "is where the receiver listens",
                    "use another port than server.listen",
                );
            }
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
    let hosts = hosts(checker, &mut table);
    let public_url = table.text(checker, "public_url").filter(|(_, text)| !text.is_empty());
    let public_url = public_url.and_then(|(field, text)| operator_url(checker, &field, &text));
    let tls = listener_tls(checker, &mut table);
    let proxies = nets(checker, &mut table, "proxies");
    let forwarded = forwarded(checker, &mut table);
    let approvals_n = table.number_u32(checker, "approvals_n", 1..=2).unwrap_or(1);
    let approval_h = table.number_u32(checker, "approval_h", 1..=168).unwrap_or(24);
    table.finish(checker);
    let listen = listen.unwrap_or(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)));
    Some(AdminConfig { listen, tokens, hosts, public_url, tls, proxies, forwarded, approvals_n, approval_h })
}

/// Beginnings of our own paths: a proxy's path that begins so could not be told from them where the proxy has taken its
/// own off.
pub(crate) const OWN_PATHS: [&str; 23] = [
    "assets",
    "audit",
    "destinations",
    "dev",
    "events",
    "explain",
    "lanes",
    "livez",
    "messages",
    "metrics",
    "openapi.json",
    "operations",
    "overview",
    "readyz",
    "rejected",
    "search",
    "senders",
    "settings",
    "sign-in",
    "sign-out",
    "v1",
    "webhooks",
    "what-if",
];

/// The address at which people reach us.
fn operator_url(checker: &mut Checker<'_>, field: &Field, text: &str) -> Option<OperatorUrl> {
    let text = http_url(checker, field, text, UrlRule::Public)?;
    let url = reqwest::Url::parse(&text).ok()?;
    let base = url.path().trim_end_matches('/');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
    let first = base.trim_start_matches('/').split('/').next().unwrap_or_default();
    let why = if !base.bytes().all(is_plain) || base.contains("//") {
        Some((
            "has other characters in its path than letters, digits and -._~",
            "choose a simpler path at the proxy",
        ))
    } else if OWN_PATHS.contains(&first) {
        Some((
            "has a path that begins like one of our own",
            "choose another one at the proxy, such as /hooklatch",
        ))
    } else {
        None
    };
    if let Some((why, remedy)) = why {
        checker.problem_shown(field, why, remedy);
        return None;
    }
    let host = url.host_str()?.trim_end_matches('.').to_ascii_lowercase();
    let origin = url.origin().ascii_serialization();
    Some(OperatorUrl { host, origin, base: base.to_owned(), is_secure: url.scheme() == "https" })
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
    let role = table.word(checker, "role", &Role::ALL.map(|role| (role.as_str(), role)));
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
    let providers = reach(checker, &mut table, "providers");
    let destinations = reach(checker, &mut table, "destinations");
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
    Some(AdminToken { name: name?, role: role?, token: token?, providers, destinations })
}

/// The names that a token reaches; everything when there is no list.
fn reach(checker: &mut Checker<'_>, table: &mut Table, key: &'static str) -> Reach {
    let Some(field) = table.take(checker, key) else { return Reach::All };
    let mut names = BTreeSet::new();
    for one in field.list(checker).unwrap_or_default() {
        let Some(text) = one.text(checker) else { continue };
        match Name::parse(&text) {
            Ok(name) => drop(names.insert(name)),
            Err(error) => checker.problem(&one, error.to_string(), format!("write a name of [{key}]")),
        }
    }
    Reach::These(names)
}
