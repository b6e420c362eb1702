//! `providers`: the list of kinds, or one of them in full.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::super::desk::Desk;
use super::super::pause::PauseCommand;
use super::super::reach::ReachArgs;
use super::super::retention;
use super::super::shared::{find_kind, say, tell_problems};
use super::live;
use crate::figures::grouped;
use crate::load::Kinds;
use crate::provider::Provider;
use crate::spec::words;
use crate::spec::{SettingSpec, Spec, Weakness};

#[derive(Args)]
pub(crate) struct ProvidersArgs {
    /// Describe this kind alone; with --live, this provider.
    kind: Option<String>,
    /// The providers of a running server, and which of their secrets still match: what is safe to remove.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    reach: ReachArgs,
    #[command(subcommand)]
    switch: Option<PauseCommand>,
}

/// The kinds as a table, or one of them in full.
pub(crate) fn providers(
    args: &ProvidersArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    if let Some(switch) = &args.switch {
        switch.run(&Desk::open(&args.reach, file, kinds)?, "providers")?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.live {
        return live::live(&args.reach, args.kind.as_deref(), file, kinds);
    }
    if let Some(name) = &args.kind {
        let kind = find_kind(kinds, name)?;
        let spec = kind.spec().map_err(Clone::clone)?;
        say(if args.reach.json { summary(spec).to_string() } else { described(kind, spec) });
        return Ok(ExitCode::SUCCESS);
    }
    tell_problems(kinds);
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
        "{} ({})\n  facts         {} ({})\n  signature     {}{whose}\n  left open     {}\n  told apart by {}{found_by}\n  payload       {}\n  headers       {}\n  secret        {}\n  \
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

/// Each once, in the order of its first, with how many there are of it where they are several: `a, b (2)`.
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
