//! Records: the caller's own token, rejected requests, the search by an id, the settings and the audit log.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::messages::Judge;
use super::query::{cursor, limit, name, query, query_within, text};
use super::state::{ApiState, Asking, ProviderFacts};
use hooklatch_contract::{MeView, Page, SearchHit, SettingView};
use hooklatch_core::config::EffectiveSetting;
use hooklatch_core::types::{Principal, Reach, Role};
use hooklatch_store::{RejectedQuery, Unsearched};

pub(crate) async fn me(State(state): State<Arc<ApiState>>, Asking(people): Asking) -> Response {
    let principal = people.principal();
    let view = MeView {
        name: principal.name.to_string(),
        role: principal.role,
        providers: principal.providers.names(),
        destinations: principal.destinations.names(),
        server_name: state.server_name.clone(),
        is_test: state.is_test,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        is_encrypting: false,
        now_ms: state.clock.now_ms(),
    };
    view_reply(StatusCode::OK, &view)
}

pub(super) async fn list_rejected(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["provider", "reason", "cursor", "limit"])?;
    let provider = name(&values, "provider")?;
    let is_id = |text: &str| {
        (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let before = cursor(&values, |text| Some(text.to_owned()).filter(|text| is_id(text)))?;
    let query = RejectedQuery { provider, reason: text(&values, "reason")?, before, limit: limit(&values)? };
    let page = people.rejected(query, state.clock.now_ms()).await?;
    Ok(view_reply(StatusCode::OK, &page))
}

pub(super) async fn group_rejected(
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    query(raw.as_deref(), [])?;
    Ok(view_reply(StatusCode::OK, &Page::whole(people.rejected_groups().await?)))
}

/// Longest text that is looked for: the address of a page may be longer than any id. Characters.
const QUERY_CHARS_MAX: usize = 1_000;
/// The same in bytes.
const QUERY_BYTES_MAX: usize = 4_096;

pub(crate) async fn search(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    let values = query_within(raw.as_deref(), ["id"], QUERY_BYTES_MAX)?;
    let id = values.get("id").filter(|id| !id.is_empty() && !id.contains('\0'));
    let id = id.filter(|id| id.chars().nth(QUERY_CHARS_MAX).is_none());
    let id =
        id.ok_or(Problem::bad_request("`id` must be what to look for: 1 to 1,000 characters without NUL"))?;
    let names = |has_search: Option<bool>| {
        let is_so = |facts: &&ProviderFacts| facts.has_search == has_search;
        state.providers.iter().filter(is_so).map(|facts| facts.name.to_string()).collect()
    };
    let unsearched = Unsearched { off: names(Some(false)), unnamed: names(None) };
    let mut found = people.search(id, &unsearched, state.clock.now_ms()).await?;
    let messages = found.found.iter_mut().filter_map(|hit| match hit {
        SearchHit::MessageId { message }
        | SearchHit::IdempotencyKey { message }
        | SearchHit::EffectName { message } => Some(message),
        _ => None,
    });
    Judge::add(&state, &people, messages).await?;
    Ok(view_reply(StatusCode::OK, &found))
}

/// The values by key. A cursor is the key before the page.
pub(crate) async fn settings(
    State(state): State<Arc<ApiState>>,
    Asking(people): Asking,
    RawQuery(raw): RawQuery,
) -> Result<Response, Problem> {
    people.needs(Role::Operator)?;
    let values = query(raw.as_deref(), ["cursor", "limit"])?;
    let after = cursor(&values, |text| (!text.is_empty()).then(|| text.to_owned()))?;
    let limit = limit(&values)? as usize;
    let seen = state.settings.iter().filter(|one| is_seen(one, people.principal()));
    let mut rest = seen.filter(|one| after.as_ref().is_none_or(|after| one.key > *after));
    let items: Vec<SettingView> = rest.by_ref().take(limit).map(setting_view).collect();
    let next = rest.next().and(items.last()).map(|last| last.key.clone());
    Ok(view_reply(StatusCode::OK, &Page { next, ..Page::whole(items) }))
}

/// True when it is within the scope of the caller.
fn is_seen(setting: &EffectiveSetting, principal: &Principal) -> bool {
    let mut parts = setting.key.split('.');
    let (section, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let has_all = matches!((&principal.providers, &principal.destinations), (Reach::All, Reach::All));
    match section {
        // Where events of a provider in scope go may be out of it.
        "providers" => {
            let is_route = setting.key.contains(".routes[")
                && setting.key.rsplit_once('.').is_some_and(|(_, last)| last == "to");
            let is_in_scope = |text: &String| principal.destinations.has(text.trim_matches('"'));
            principal.providers.has(name) && (!is_route || setting.value.as_ref().is_some_and(is_in_scope))
        }
        "destinations" => principal.destinations.has(name),
        "admin" if name.starts_with("tokens") => has_all && principal.role == Role::Admin,
        _ => has_all,
    }
}

fn setting_view(setting: &EffectiveSetting) -> SettingView {
    SettingView {
        key: setting.key.clone(),
        value: setting.value.clone(),
        is_secret: setting.value.is_none(),
        secret_in: setting.secret_in.clone(),
        layer: setting.layer,
        source: setting.source.clone(),
        is_default: setting.is_default,
    }
}

pub(crate) async fn audit(Asking(people): Asking, RawQuery(raw): RawQuery) -> Result<Response, Problem> {
    let values = query(raw.as_deref(), ["cursor", "limit"])?;
    let before = cursor(&values, |text| text.parse::<i64>().ok().filter(|seq| *seq >= 0))?;
    Ok(view_reply(StatusCode::OK, &people.audit(before, limit(&values)?).await?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_core::config::SettingLayer;
    use hooklatch_core::types::Name;

    fn setting(key: &str, value: &str) -> EffectiveSetting {
        EffectiveSetting {
            key: key.to_owned(),
            value: Some(format!("\"{value}\"")),
            secret_in: None,
            source: "f".to_owned(),
            layer: SettingLayer::File,
            is_default: false,
            mark: 0,
        }
    }

    #[test]
    fn a_scoped_token_sees_settings_of_its_scope_only() {
        let name = |text: &str| Name::parse(text).expect("a name");
        let these = |text: &str| Reach::These([name(text)].into());
        let all = Principal::everywhere(name("ann"), Role::Operator);
        let admin = Principal::everywhere(name("ada"), Role::Admin);
        let scoped = Principal {
            providers: these("stripe"),
            destinations: these("billing"),
            ..Principal::everywhere(name("sam"), Role::Admin)
        };
        for (key, value, want) in [
            ("server.listen", "x", [true, true, false]),
            ("admin.hosts", "x", [true, true, false]),
            ("admin.tokens[0].name", "x", [false, true, false]),
            ("admin.tokens", "x", [false, true, false]),
            ("providers.stripe.kind", "x", [true, true, true]),
            ("providers.stripe2.kind", "x", [true, true, false]),
            ("providers.stripe.routes[0].to", "billing", [true, true, true]),
            ("providers.stripe.routes[0].to", "mail", [true, true, false]),
            ("destinations.billing.url", "x", [true, true, true]),
            ("destinations.mail.url", "x", [true, true, false]),
        ] {
            let setting = setting(key, value);
            let seen = [&all, &admin, &scoped].map(|who| is_seen(&setting, who));
            assert_eq!(seen, want, "{key} = {value}");
        }
    }
}
