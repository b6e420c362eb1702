//! Records: the caller's own token, rejected requests, the search by an id, the settings and the audit log; and
//! figures: what waits, and what was counted over time.

use http::StatusCode;

use super::super::error::{Problem, view_reply};
use super::messages::Judge;
use super::query::Query;
use super::{Answer, Caller, ProviderFacts};
use hooklatch_contract::{BacklogEvents, BacklogMessages, BacklogView, MeView, Page, SearchHit, SettingView};
use hooklatch_core::config::EffectiveSetting;
use hooklatch_core::types::{EventState, Principal, Reach, Role};
use hooklatch_store::{ActivityQuery, RejectedQuery, Unsearched};

/// Longest text that is looked for: the address of a page may be longer than any id. Characters.
const QUERY_CHARS_MAX: usize = 1_000;
/// Hours of activity, unless `hours_n` says otherwise, and most of them: as long as counts are kept.
const HOURS_N_DEFAULT: u32 = 24;
const HOURS_N_MAX: u32 = 9_600;

pub(super) async fn me(caller: Caller) -> Answer {
    let (state, principal) = (&caller.state, caller.people.principal());
    let view = MeView {
        name: principal.name.to_string(),
        role: principal.role,
        providers: principal.providers.names(),
        destinations: principal.destinations.names(),
        server_name: state.server_name.clone(),
        is_test: state.is_test,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        is_encrypting: false,
        now_ms: caller.now_ms(),
    };
    Ok(view_reply(StatusCode::OK, &view))
}

pub(super) async fn list_rejected(caller: Caller, query: Query) -> Answer {
    let provider = query.name("provider")?;
    let is_id = |text: &&str| {
        (1..=64).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-')
    };
    let before = query.cursor(|text| Some(text).filter(is_id).map(str::to_owned))?;
    let query = RejectedQuery { provider, reason: query.text("reason")?, before, limit: query.limit()? };
    Ok(view_reply(StatusCode::OK, &caller.people.rejected(query, caller.now_ms()).await?))
}

/// It has no parameters, and refuses any.
pub(super) async fn group_rejected(caller: Caller, _: Query) -> Answer {
    Ok(view_reply(StatusCode::OK, &Page::whole(caller.people.rejected_groups().await?)))
}

pub(super) async fn search(caller: Caller, query: Query) -> Answer {
    let id = query.get("id").filter(|id| !id.is_empty() && !id.contains('\0'));
    let id = id.filter(|id| id.chars().nth(QUERY_CHARS_MAX).is_none());
    let id =
        id.ok_or(Problem::bad_request("`id` must be what to look for: 1 to 1,000 characters without NUL"))?;
    let names = |has_search: Option<bool>| {
        let is_so = |facts: &&ProviderFacts| facts.has_search == has_search;
        caller.state.providers.iter().filter(is_so).map(|facts| facts.name.to_string()).collect()
    };
    let unsearched = Unsearched { off: names(Some(false)), unnamed: names(None) };
    let mut found = caller.people.search(id, &unsearched, caller.now_ms()).await?;
    let messages = found.found.iter_mut().filter_map(|hit| match hit {
        SearchHit::MessageId { message }
        | SearchHit::IdempotencyKey { message }
        | SearchHit::EffectName { message } => Some(message),
        _ => None,
    });
    Judge::add(&caller, messages).await?;
    Ok(view_reply(StatusCode::OK, &found))
}

/// The values by key. A cursor is the key before the page.
pub(super) async fn settings(caller: Caller, query: Query) -> Answer {
    let after = query.cursor(|text| (!text.is_empty()).then(|| text.to_owned()))?;
    let limit = query.limit()? as usize;
    let seen = caller.state.settings.iter().filter(|one| is_seen(one, caller.people.principal()));
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

pub(super) async fn audit(caller: Caller, query: Query) -> Answer {
    let before = query.cursor(|text| text.parse::<i64>().ok().filter(|seq| *seq >= 0))?;
    Ok(view_reply(StatusCode::OK, &caller.people.audit(before, query.limit()?).await?))
}

/// Counts the events and messages that need an operator, and says of each whether anything configured takes
/// them.
pub(super) async fn backlog(caller: Caller) -> Answer {
    let (now_ms, state, people) = (caller.now_ms(), &caller.state, &caller.people);
    let (events, pauses) = people.waiting_events().await?;
    let events = events.into_iter().map(|(provider, count)| BacklogEvents {
        is_configured: caller.provider(&provider).is_some(),
        pause: pauses.get(&provider).filter(|_| count.state == EventState::Retry).cloned(),
        provider,
        count,
    });
    let statuses = people.destinations(state.destinations.keys(), now_ms).await?;
    let messages = statuses.into_iter().flat_map(|status| {
        let is_configured = state.destinations.contains_key(status.name.as_str());
        let destination = status.name;
        status.backlog.into_iter().map(move |count| BacklogMessages {
            destination: destination.clone(),
            is_configured,
            count,
        })
    });
    let mut unknown_paths =
        if people.principal().is_everywhere() { (state.unknown_paths)() } else { Vec::new() };
    if !people.may_see_contents() {
        for one in &mut unknown_paths {
            one.client_address = None;
        }
    }
    let causes = people.causes().await?;
    let operations = people.operations_for_persons().await?;
    let view = BacklogView {
        now_ms,
        events: events.collect(),
        messages: messages.collect(),
        unknown_paths,
        causes,
        operations,
    };
    Ok(view_reply(StatusCode::OK, &view))
}

pub(super) async fn activity(caller: Caller, query: Query) -> Answer {
    let wrong = "`hours_n` must be a number from 1 to 9600";
    let hours_n = query.up_to(("hours_n", HOURS_N_DEFAULT, HOURS_N_MAX), wrong)?;
    let (provider, destination) = (query.name("provider")?, query.name("destination")?);
    let principal = caller.people.principal();
    for (name, reach) in [(&provider, &principal.providers), (&destination, &principal.destinations)] {
        if let Some(name) = name.as_ref().filter(|name| !reach.has(name.as_str())) {
            return Err(Problem::NOT_FOUND.with_detail(format!("this token does not reach `{name}`")));
        }
    }
    let wanted = ActivityQuery { provider, destination, hours_n };
    let view = caller.people.activity(&wanted, (caller.state.unsaved)(), caller.now_ms()).await?;
    Ok(view_reply(StatusCode::OK, &view))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_core::types::Name;

    fn setting(key: &str, value: &str) -> EffectiveSetting {
        EffectiveSetting {
            key: key.to_owned(),
            value: Some(format!("\"{value}\"")),
            secret_in: None,
            source: "f".to_owned(),
            layer: hooklatch_core::config::SettingLayer::File,
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
