//! `providers`: the list of kinds, one kind in full, and the providers of a running server with the secrets that still
//! match. `tests.rs` writes the pages of the senders.

#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::api_client::ApiAnswer;
use super::check as retention;
use super::messages::{PauseCommand, pause_facts};
use super::output::Column::{self, Whole};
use super::output::{Screen, Shown, Tone, fields, table};
use super::remote::ReachArgs;
use super::remote::Remote;
use super::shared::{complain, find_kind, report_problems, say};
use hooklatch_contract::{Page, ProviderView, SecretView, WaitingCount};
use hooklatch_core::figures::grouped;
use hooklatch_core::times::{ago, format_moment};
use hooklatch_operator::load::Kinds;
use hooklatch_receive::provider::{Kind, Provider};
use hooklatch_verify::spec::words;
use hooklatch_verify::spec::{SettingSpec, Spec, Weakness};

#[derive(Args)]
pub(super) struct ProvidersArgs {
    /// Kind to describe; with --live, provider to show.
    kind: Option<String>,
    /// List the providers of a running server and which secrets are safe to remove.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    switch: Option<PauseCommand>,
}

/// The kinds as a table, or one of them in full.
pub(super) fn providers(
    args: &ProvidersArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    if args.live || args.switch.is_some() {
        let remote = Remote::open(&args.reach, file, kinds)?;
        return match &args.switch {
            Some(switch) => switch.run(&remote, "providers"),
            None => live(&remote, args.kind.as_deref()),
        };
    }
    if let Some(name) = &args.kind {
        let kind = find_kind(kinds, name)?;
        let spec = kind.spec().map_err(Clone::clone)?;
        say(if args.reach.json { summary(spec).to_string() } else { described(kind, spec) });
        return Ok(ExitCode::SUCCESS);
    }
    report_problems(kinds);
    for kind in kinds.iter() {
        let spec = kind.spec().map_err(Clone::clone)?;
        if args.reach.json {
            say(summary(spec));
        } else {
            say(format!("{:<18} {:<18} {}", spec.kind, spec.title, words::signed_by(spec)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn described(kind: &Provider, spec: &Spec) -> String {
    let samples = counted(kind.sample_list().into_iter().map(|(event_type, _)| event_type));
    let identities: Vec<String> = spec.event.iter().map(words::identities).collect();
    let found_by: Vec<String> = spec.event.iter().filter_map(words::search_places).collect();
    let found_by = if found_by.is_empty() {
        String::new()
    } else {
        format!("\n  found by      its event id, {}", found_by.join("\n                its event id, "))
    };
    let is_bound = spec.whose.as_ref().is_some_and(|whose| whose.open.is_none());
    let whose = words::whose(spec).filter(|_| is_bound);
    let whose = whose.map(|whose| format!("\n  whose event   {whose}")).unwrap_or_default();
    let setting = |setting: &SettingSpec| {
        let needed = if setting.needed { ", needed" } else { "" };
        format!("\n  setting       {}{needed}: {}", setting.name, setting.hint)
    };
    let settings: String = spec.setting.iter().map(setting).collect();
    let largest =
        spec.body_bytes_max.map(|bytes| format!("\n  largest body  {} bytes", grouped(bytes.into())));
    let largest = largest.unwrap_or_default();
    let types = spec.event_types.as_ref().map_or_else(String::new, |types| {
        format!("\n  event types   {}, by {}: --json lists them", types.list.len(), types.source)
    });
    format!(
        "{} ({})\n  facts         {} ({})\n  signature     {}{whose}\n  left open     {}\n  identified by {}{found_by}\n  payload       {}\n  headers       {}\n  secret        {}\n  \
         resends for   {}\n  answer within {} ms{largest}{types}\n  samples       {}{settings}",
        spec.title,
        spec.kind,
        words::confidence(spec),
        spec.docs,
        words::signed_by(spec),
        words::left_open(spec),
        identities.join("\n                "),
        payload(spec),
        headers(spec),
        spec.secret_hint,
        retention::sent_again(spec),
        spec.answer_within_ms,
        samples.join(", "),
    )
}

/// Distinct values in the order of their first occurrence, with their number where it is not 1: `a, b (2)`.
fn counted<'a>(types: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut counts: Vec<(&str, usize)> = Vec::new();
    for event_type in types {
        match counts.iter_mut().find(|(known, _)| *known == event_type) {
            Some((_, n)) => *n += 1,
            None => counts.push((event_type, 1)),
        }
    }
    let text =
        |(event_type, n)| if n == 1 { String::from(event_type) } else { format!("{event_type} ({n})") };
    counts.into_iter().map(text).collect()
}

/// What handlers, templates and routes get, and how they reach the rest.
fn payload(spec: &Spec) -> String {
    let is_whole = spec.event.iter().all(|event| event.payload.is_empty());
    let rest =
        if is_whole { "" } else { "; `envelope` is all of it, and so is `payload` with payload = \"\"" };
    format!("{}{rest}", words::payload(spec))
}

fn headers(spec: &Spec) -> String {
    if spec.headers.is_empty() {
        "none that the signature covers".to_owned()
    } else {
        spec.headers.join(", ")
    }
}

fn summary(spec: &Spec) -> serde_json::Value {
    json!({
        "kind": spec.kind, "title": spec.title, "confidence": words::confidence(spec), "docs": spec.docs,
        "secret_hint": spec.secret_hint, "horizon_h": spec.horizon_h,
        "retry_span_s": spec.retry_span_s,
        "resend_h": retention::resend_json(spec), "answer_within_ms": spec.answer_within_ms,
        "body_bytes_max": spec.body_bytes_max,
        "signature": words::signed_by(spec), "whose": words::whose(spec),
        "left_open": words::left_open(spec),
        "payload": spec.event.iter().map(|event| &event.payload).collect::<Vec<_>>(), "headers": spec.headers,
        "identity": spec.event.iter().map(words::identities).collect::<Vec<_>>(), "has_signed_time": spec.has_signed_time(),
        "search": spec.event.iter().filter_map(words::search_places).collect::<Vec<_>>(),
        "event_types": spec.event_types.as_ref().map(|types| json!({ "source": types.source, "list": types.list })),
        "weakness": spec.signature.weak.map(Weakness::as_str),
        "settings": spec.setting.iter().map(|one| json!({
            "name": one.name, "needed": one.needed, "hint": one.hint,
        })).collect::<Vec<_>>(),
    })
}

/// Shows the providers of a running server, or one of them.
fn live(remote: &Remote, name: Option<&str>) -> anyhow::Result<ExitCode> {
    if let Some(name) = name {
        return remote.show(&["providers", name], &[], |view, screen, _| in_full(view, screen));
    }
    let found: ApiAnswer<Page<ProviderView>> = remote.api.get(&["providers"], &[])?;
    if found.view.items.is_empty() && !remote.screen.is_json {
        complain("no provider is configured there");
        return Ok(ExitCode::SUCCESS);
    }
    remote.print(&found, |page, screen| {
        let all: Vec<String> = page.items.iter().map(|view| in_full(view, screen)).collect();
        all.join("\n\n")
    });
    Ok(ExitCode::SUCCESS)
}

const SECRETS: [Column; 4] = [Whole("secret"), Whole("matched"), Whole("use"), Whole("advice")];

fn in_full(view: &ProviderView, screen: &Screen) -> String {
    let mut facts = vec![
        ("provider", Shown::text(&view.name)),
        ("kind", Shown::text(&view.kind)),
        ("register", Shown::text(&view.url)),
        ("identified by", Shown::text(&view.identity)),
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
            let at = format_moment(event.received_at_ms, screen.now_ms);
            ("last event", Shown::text(format!("{at}: {} ({})", event.event_id, event.event_type)))
        }
    });
    let of = |count: &WaitingCount| {
        let more = if count.is_more { "+" } else { "" };
        format!("{}{more} {}", grouped(count.events_n), count.state)
    };
    let waiting = view.waiting.iter().map(of).collect::<Vec<_>>().join(", ");
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
