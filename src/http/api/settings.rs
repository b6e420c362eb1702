//! `/v1/settings`: the configuration that is in force on this node, without its secrets.

use std::sync::Arc;

use axum::extract::{RawQuery, State};
use axum::response::Response;
use http::StatusCode;

use super::super::error::Problem;
use super::super::reply::view_reply;
use super::asking::Asking;
use super::query::{cursor, limit, query};
use super::state::ApiState;
use crate::api::{Page, SettingLayer, SettingView};
use crate::config::{ConfigLayer, EffectiveSetting};
use crate::types::{Principal, Reach, Role};

/// The values by key. A cursor is the key before the page.
pub(super) async fn list(
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
    let items: Vec<SettingView> = rest.by_ref().take(limit).map(view).collect();
    let next = rest.next().and(items.last()).map(|last| last.key.clone());
    Ok(view_reply(StatusCode::OK, &Page { next, ..Page::whole(items) }))
}

/// True when it is within the scope of who asks.
fn is_seen(setting: &EffectiveSetting, principal: &Principal) -> bool {
    let mut parts = setting.key.split('.');
    let (section, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let has_all = matches!((&principal.providers, &principal.destinations), (Reach::All, Reach::All));
    match section {
        // Where events of a provider in scope go may be out of it.
        "providers" => {
            let is_route = setting.key.contains(".routes[")
                && setting.key.rsplit_once('.').is_some_and(|(_, last)| last == "to");
            let is_told = |text: &String| principal.destinations.has(text.trim_matches('"'));
            principal.providers.has(name) && (!is_route || setting.value.as_ref().is_some_and(is_told))
        }
        "destinations" => principal.destinations.has(name),
        "admin" if name.starts_with("tokens") => has_all && principal.role == Role::Admin,
        _ => has_all,
    }
}

fn view(setting: &EffectiveSetting) -> SettingView {
    SettingView {
        key: setting.key.clone(),
        value: setting.value.clone(),
        is_secret: setting.value.is_none(),
        secret_in: setting.secret_in.clone(),
        layer: match setting.layer {
            ConfigLayer::Default => SettingLayer::Default,
            ConfigLayer::Dev => SettingLayer::Dev,
            ConfigLayer::File => SettingLayer::File,
            ConfigLayer::Environment => SettingLayer::Environment,
        },
        source: setting.source.clone(),
        is_default: setting.is_default,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Name;

    fn setting(key: &str, value: &str) -> EffectiveSetting {
        EffectiveSetting {
            key: key.to_owned(),
            value: Some(format!("\"{value}\"")),
            secret_in: None,
            source: "f".to_owned(),
            layer: ConfigLayer::File,
            is_default: false,
            mark: 0,
        }
    }

    #[test]
    fn who_reaches_one_thing_sees_nothing_of_another() {
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
