//! `providers --live`: the providers of a running server, and which of their secrets still match.

use std::path::Path;
use std::process::ExitCode;

use super::super::api_client::ApiAnswer;
use super::super::desk::Desk;
use super::super::output::{Column, fields};
use super::super::output::{Screen, Shown, Tone, ago, grouped, table, told, with_times};
use super::super::pause::pause_facts;
use super::super::reach::ReachArgs;
use super::super::shared::{complain, say};
use crate::api::{Page, ProviderView, SecretView, WaitingCount};
use crate::load::Kinds;

/// Shows what a running server knows about its providers, or about one of them.
pub(super) fn live(
    reach: &ReachArgs,
    name: Option<&str>,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    let desk = Desk::open(reach, file, kinds)?;
    if let Some(name) = name {
        let found: ApiAnswer<ProviderView> = desk.api.get(&["providers", name], &[])?;
        desk.show(&found, |view| in_full(view, &desk.screen));
        return Ok(ExitCode::SUCCESS);
    }
    let found: ApiAnswer<Page<ProviderView>> = desk.api.get(&["providers"], &[])?;
    if desk.screen.is_json {
        say(with_times(found.raw));
        return Ok(ExitCode::SUCCESS);
    }
    if found.view.items.is_empty() {
        complain("no provider is configured there");
        return Ok(ExitCode::SUCCESS);
    }
    let all: Vec<String> = found.view.items.iter().map(|view| in_full(view, &desk.screen)).collect();
    desk.screen.print(&all.join("\n\n"));
    Ok(ExitCode::SUCCESS)
}

const SECRETS: [Column; 4] =
    [Column::Whole("secret"), Column::Whole("matched"), Column::Whole("use"), Column::Whole("advice")];

fn in_full(view: &ProviderView, screen: &Screen) -> String {
    let mut facts = vec![
        ("provider", Shown::text(&view.name)),
        ("kind", Shown::text(&view.kind)),
        ("register", Shown::text(&view.url)),
        ("told apart by", Shown::text(&view.identity)),
        ("horizon", Shown::text(format!("{} h", view.horizon_h))),
    ];
    if view.pause.is_some() {
        let paused = "paused: its events are answered 200 and kept, and not dispatched";
        facts.push(("state", Shown::text(paused).in_tone(Tone::Waits)));
        facts.extend(pause_facts(view.pause.as_ref(), screen));
    }
    if view.is_unverified {
        let unverified = "nobody signs its requests: they are accepted all the same (unverified)";
        facts.push(("beware", Shown::text(unverified).in_tone(Tone::Bad)));
    }
    facts.push(match &view.last_event {
        None => ("last event", Shown::text("none so far").in_tone(Tone::Faint)),
        Some(event) => {
            let at = told(event.received_at_ms, screen.now_ms);
            ("last event", Shown::text(format!("{at}: {} ({})", event.event_id, event.event_type)))
        }
    });
    let of = |count: &WaitingCount| {
        let more = if count.is_more { "+" } else { "" };
        format!("{}{more} {}", grouped(count.events_n), count.state)
    };
    let waiting = view.waiting.iter().map(of);
    let waiting = waiting.collect::<Vec<_>>().join(", ");
    if !waiting.is_empty() {
        facts.push(("waiting", Shown::text(waiting).in_tone(Tone::Waits)));
    }
    let facts = fields(screen, &facts);
    if view.secrets.is_empty() {
        return facts;
    }
    let secrets: Vec<Vec<Shown>> =
        view.secrets.iter().map(|secret| secret_cells(secret, view.secrets.len(), screen)).collect();
    format!("{facts}\n{}", table(screen, &SECRETS, &secrets, true))
}

fn secret_cells(secret: &SecretView, secrets_n: usize, screen: &Screen) -> Vec<Shown> {
    let used = secret.last_matched_at_ms.map_or_else(
        || "has not matched yet".to_owned(),
        |ms| format!("last matched {} ago", ago(screen.now_ms.saturating_sub(ms))),
    );
    let advice = match (secret.position, secret.is_safe_to_remove) {
        (1, _) => Shown::text("the newest"),
        (_, true) => Shown::text("safe to remove").in_tone(Tone::Good),
        (_, false) => Shown::text("not yet safe to remove").in_tone(Tone::Waits),
    };
    vec![
        Shown::text(format!("secret {} of {secrets_n}, {}", secret.position, secret.fingerprint)),
        Shown::number(secret.matched_n),
        Shown::text(used),
        advice,
    ]
}
