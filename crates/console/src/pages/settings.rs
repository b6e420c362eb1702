//! The configuration as it is, and the log of what people did.

use super::prelude::*;
use crate::parts::text::{brief, foreign, moment, none};
use hooklatch_contract::{AuditView, SettingLayer, SettingView};

/// Most values on a page.
const SHOWN_N_MAX: usize = 150;
/// Most pages of the contract that are read: 2,000 values.
const ASKED_N_MAX: usize = 4;
/// Most characters of a value: a list may be long.
const VALUE_CHARS_MAX: usize = 400;

pub(crate) async fn show(visit: Visit, values: Values) -> PageResult {
    let (all, is_more) = asked(&visit).await?;
    let (section, key) = (values.get("section"), values.get("key"));
    let differs = values.get("differs").is_some();
    let is_chosen = |one: &&SettingView| {
        section.is_none_or(|section| section_of(one) == section)
            && key.is_none_or(|key| one.key.contains(key))
            && !(differs && one.is_default)
    };
    let chosen: Vec<&SettingView> = all.iter().filter(is_chosen).collect();
    let mut sections: Vec<&str> = all.iter().map(section_of).collect();
    sections.dedup();
    let body = html! {
        p { "What this node runs with. A variable goes before the file, the file before the defaults; what is not here has "
            "the default of " code { "config.default.toml" } ". Secrets are never shown." }
        (filter(&visit, &values, &sections, differs))
        @if chosen.is_empty() { (list::nothing("No value is found by this filter.")) }
        @if chosen.len() > SHOWN_N_MAX || is_more {
            p class="note" { "There are more values than one page shows. Choose a section, or write a part of a key." }
        }
        @for section in &sections { (table(section, &chosen)) }
    };
    Ok(PageBody::new("Settings", body))
}

/// All values, up to that many; and whether there are more.
async fn asked(visit: &Visit) -> Result<(Vec<SettingView>, bool), PageError> {
    let (mut all, mut cursor) = (Vec::new(), None);
    for _ in 0..ASKED_N_MAX {
        let asked = [("limit", Some("500")), ("cursor", cursor.as_deref())];
        let page: Page<SettingView> = visit.get(&with_query("/settings", &asked)).await?;
        all.extend(page.items);
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok((all, cursor.is_some()))
}

/// `server` of `server.listen`, and `providers.stripe` of what is below that.
fn section_of(setting: &SettingView) -> &str {
    let first = setting.key.split('.').next().unwrap_or_default();
    if !matches!(first, "providers" | "destinations") {
        return first;
    }
    let end = setting.key.match_indices('.').nth(1).map_or(setting.key.len(), |(place, _)| place);
    setting.key.get(..end).unwrap_or(first)
}

fn filter(visit: &Visit, values: &Values, sections: &[&str], differs: bool) -> Markup {
    let fields = html! {
        (list::choice("section", "Section", values, sections.iter().copied()))
        (list::text_field("key", "Part of a key", values))
        label class="tick" {
            input type="checkbox" name="differs" value="yes" checked[differs];
            span { "Only what differs from the default" }
        }
    };
    list::filter(&visit.link("/settings"), &fields, !values.is_empty())
}

fn table(section: &str, chosen: &[&SettingView]) -> Markup {
    let shown = chosen.iter().take(SHOWN_N_MAX).filter(|one| section_of(one) == section);
    let cells = |one: &&SettingView| {
        let key = one.key.strip_prefix(section).map_or(one.key.as_str(), |rest| rest.trim_start_matches('.'));
        [html! { code { (foreign(key)) } }, value(one), origin(one)]
    };
    html! {
        @if shown.clone().next().is_some() {
            section class="settings" aria-label=(section) {
                h2 { (foreign(section)) }
                (list::rows(section, ["Key", "Value", "From"], "", shown, cells))
            }
        }
    }
}

fn value(setting: &SettingView) -> Markup {
    let Some(text) = &setting.value else {
        return html! {
            (chip(Mood::Quiet, "set"))
            @if let Some(place) = &setting.secret_in { " in " code { (foreign(place)) } }
        };
    };
    html! { code { (brief(text, VALUE_CHARS_MAX)) } }
}

/// The layer as a word, and the file or variable where it is no default.
fn origin(setting: &SettingView) -> Markup {
    let mood = match setting.layer {
        SettingLayer::Default => return html! { span class="none" { "default" } },
        SettingLayer::Dev | SettingLayer::File => Mood::Quiet,
        SettingLayer::Environment => Mood::Needed,
    };
    html! {
        (chip(mood, setting.layer.as_str()))
        @if setting.layer != SettingLayer::Dev { " " span class="hint" { (foreign(&setting.source)) } }
        @if setting.is_default { " " span class="hint" { "(as the default)" } }
    }
}

pub(crate) async fn show_audit(visit: Visit, values: Values) -> PageResult {
    let found: Page<AuditView> =
        visit.get(&with_query("/audit", &[("cursor", values.get("cursor"))])).await?;
    let cells = |one: &AuditView| {
        [
            html! { span class="figure" { (one.audit_seq) } },
            moment(one.at_ms, visit.now_ms),
            foreign(&one.actor),
            html! { code { (foreign(&one.action)) } },
            about(&visit, one),
            foreign(&one.detail),
        ]
    };
    let headings = ["No.", "Time", "Who", "What", "About", "Why"];
    let nothing = "No one has decided anything, or looked at a content.";
    let body = html! {
        p { "Every decision, every look at a content and every sign-in, in the order in which they were written. The "
            "database changes none of these rows." }
        (list::rows("Audit log", headings, nothing, &found.items, cells))
        (list::onwards(&visit, "/audit", &values, &found))
    };
    Ok(PageBody::new("Audit", body))
}

/// What it is about, as links.
fn about(visit: &Visit, one: &AuditView) -> Markup {
    let mut parts: Vec<Markup> = Vec::new();
    match (&one.provider, &one.event_id) {
        (Some(provider), Some(event_id)) => {
            parts.push(html! { "event " (link::event(visit, provider, event_id)) });
        }
        (Some(provider), None) => parts.push(html! { "sender " (link::provider(visit, provider)) }),
        _ => {}
    }
    if let Some(message_id) = &one.message_id {
        parts.push(html! { "message " (link::message(visit, message_id)) });
    }
    if let Some(operation_id) = &one.operation_id {
        parts.push(html! { "operation " (link::operation(visit, operation_id)) });
    }
    if parts.is_empty() {
        return none();
    }
    html! { @for (n, part) in parts.iter().enumerate() { @if n > 0 { ", " } (part) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_listed_under_its_section_and_an_entry_is_one() {
        #[track_caller]
        fn check(key: &str, want: &str) {
            let setting = SettingView {
                key: key.to_owned(),
                value: None,
                is_secret: true,
                secret_in: None,
                layer: SettingLayer::File,
                source: String::new(),
                is_default: false,
            };
            assert_eq!(section_of(&setting), want);
        }
        check("server.listen", "server");
        check("admin.tls.key_file", "admin");
        check("providers.stripe.secrets[0]", "providers.stripe");
        check("destinations.a-b.headers.x.y", "destinations.a-b");
        check("providers", "providers");
    }
}
