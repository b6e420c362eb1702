//! `check` and `providers`: what is configured, and what could be.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::{complain, find_kind, load, say};
use crate::provider::Provider;
use crate::spec::{Confidence, Scheme, SettingSpec, Source, Sources, Spec, Weakness};

#[derive(Args)]
pub(super) struct ProvidersArgs {
    /// Describe this kind.
    kind: Option<String>,
    /// A Markdown table, as in the README.
    #[arg(long)]
    markdown: bool,
    /// JSON, one object a line.
    #[arg(long)]
    json: bool,
}

/// Everything that is wrong, or that nothing is.
pub(super) fn check(file: Option<&Path>, is_json: bool, kinds: &[Provider]) -> ExitCode {
    let (problems, summary) = match load(file, false, kinds) {
        Err(problems) => (problems, String::new()),
        Ok(config) => {
            let (providers_n, destinations_n) = (config.providers.len(), config.destinations.len());
            (
                Vec::new(),
                format!("the configuration is good: {providers_n} providers, {destinations_n} destinations"),
            )
        }
    };
    if is_json {
        say(json!({ "ok": problems.is_empty(), "problems": problems }));
    } else if problems.is_empty() {
        say(summary);
    } else {
        for problem in &problems {
            complain(problem);
        }
        complain(format!("{} problems", problems.len()));
    }
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The kinds as a table, or one of them in full.
pub(super) fn providers(args: &ProvidersArgs, kinds: &[Provider]) -> anyhow::Result<ExitCode> {
    if let Some(name) = &args.kind {
        let kind = find_kind(kinds, name)?;
        let spec = kind.spec().map_err(Clone::clone)?;
        say(if args.json { summary(spec).to_string() } else { described(kind, spec) });
        return Ok(ExitCode::SUCCESS);
    }
    if args.markdown {
        say(markdown(kinds));
        return Ok(ExitCode::SUCCESS);
    }
    for kind in kinds {
        let spec = kind.spec().map_err(Clone::clone)?;
        if args.json {
            say(summary(spec));
        } else {
            say(format!("{:<18} {:<18} {}", spec.kind, spec.title, signed_by(spec)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The README's table of kinds.
pub(crate) fn markdown(kinds: &[Provider]) -> String {
    let mut lines = vec![
        "| kind | sender | signature | event id | may resend for |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for spec in kinds.iter().filter_map(|kind| kind.spec().ok()) {
        let event = spec.event.last();
        let id = event.map(|event| places(&event.id)).unwrap_or_default();
        let weak = if event.is_some_and(|event| !event.id_signed) { " (unsigned)" } else { "" };
        lines.push(format!(
            "| `{}` | [{}]({}) | {} | {id}{weak} | {} h |",
            spec.kind,
            spec.title,
            spec.docs,
            signed_by(spec),
            spec.horizon_h
        ));
    }
    lines.join("\n")
}

fn signed_by(spec: &Spec) -> String {
    let signature = &spec.signature;
    let scheme = match signature.scheme {
        Scheme::HmacSha1 => "HMAC-SHA-1",
        Scheme::HmacSha256 => "HMAC-SHA-256",
        Scheme::HmacSha384 => "HMAC-SHA-384",
        Scheme::HmacSha512 => "HMAC-SHA-512",
        Scheme::StandardWebhooks => "Standard Webhooks v1, v1a",
        Scheme::Ed25519 => "Ed25519",
        Scheme::EcdsaP256 => "ECDSA P-256",
        Scheme::RsaSha256 => "RSA-SHA-256",
        Scheme::RsaSha1 => "RSA-SHA-1",
        Scheme::Token => "shared token",
        Scheme::Basic => "HTTP Basic",
        Scheme::Unsigned => "none",
        Scheme::Code => "code",
    };
    let place = match (signature.headers.as_slice(), &signature.json) {
        ([], None) => String::new(),
        ([], Some(pointer)) => format!(" in body `{pointer}`"),
        (headers, _) => format!(" in `{}`", headers.join(" or ")),
    };
    let time = match (signature.scheme, signature.tolerance_s) {
        (_, Some(s)) => format!(", time within {s} s"),
        (Scheme::Code, None) => String::new(),
        _ => ", no time".to_owned(),
    };
    let weak = signature.weak.map(|weak| format!("; {}", weak.as_str())).unwrap_or_default();
    format!("{scheme}{place}{time}{weak}")
}

fn places(sources: &Sources) -> String {
    let one = |source: &Source| match source {
        Source::Json(pointer) => format!("`{}`", pointer.split('|').next().unwrap_or_default()),
        Source::Outer(name) | Source::Header(name) => {
            format!("`{}`", name.split('|').next().unwrap_or_default())
        }
        Source::Digest(_) => "digest of the body".to_owned(),
        Source::Member(names) => format!("which of `{}`", names.replace('|', "`, `")),
        Source::Received(_) => "time of arrival".to_owned(),
        Source::Text(text) => text.clone(),
        Source::List(_) => "the name of its list".to_owned(),
    };
    sources.0.iter().map(one).collect::<Vec<_>>().join(" + ")
}

fn described(kind: &Provider, spec: &Spec) -> String {
    let samples: Vec<&str> = kind.sample_list().iter().map(|(event_type, _)| *event_type).collect();
    let id = spec.event.last().map(|event| places(&event.id)).unwrap_or_default();
    let setting = |setting: &SettingSpec| {
        let needed = if setting.needed { ", needed" } else { "" };
        format!("\n  setting       {}{needed}: {}", setting.name, setting.hint)
    };
    let settings: String = spec.setting.iter().map(setting).collect();
    format!(
        "{} ({})\n  facts         {} ({})\n  signature     {}\n  event id      {id}\n  secret        {}\n  \
         resends for   {} h\n  answer within {} ms\n  samples       {}{settings}",
        spec.title,
        spec.kind,
        confidence(spec),
        spec.docs,
        signed_by(spec),
        spec.secret_hint,
        spec.horizon_h,
        spec.answer_within_ms,
        samples.join(", "),
    )
}

fn summary(spec: &Spec) -> serde_json::Value {
    json!({
        "kind": spec.kind, "title": spec.title, "confidence": confidence(spec), "docs": spec.docs,
        "secret_hint": spec.secret_hint, "horizon_h": spec.horizon_h, "answer_within_ms": spec.answer_within_ms,
        "signature": signed_by(spec), "has_signed_time": spec.has_signed_time(),
        "weakness": spec.signature.weak.map(Weakness::as_str),
        "settings": spec.setting.iter().map(|one| json!({
            "name": one.name, "needed": one.needed, "hint": one.hint,
        })).collect::<Vec<_>>(),
    })
}

fn confidence(spec: &Spec) -> &'static str {
    match spec.confidence {
        Confidence::Official => "official",
        Confidence::Secondary => "secondary",
        Confidence::Unsure => "unsure",
    }
}
