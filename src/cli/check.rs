//! `check` and `providers`: what is configured, and what could be.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};

use super::messages::{Api, Reach};
use super::{Kinds, Settings, complain, docs, find_kind, load, retention, say, tell_problems, words};
use crate::kinds::{judge_pairs, judge_vectors};
use crate::load::Loaded;
use crate::provider::Provider;
use crate::spec::{Confidence, Scheme, SettingSpec, Spec, Weakness};

#[derive(Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag")]
pub(super) struct ProvidersArgs {
    /// Describe this kind.
    kind: Option<String>,
    /// A Markdown table, as in the README.
    #[arg(long)]
    markdown: bool,
    /// A page about all of them, as in `docs/providers.md`.
    #[arg(long)]
    docs: bool,
    /// JSON, one object a line.
    #[arg(long)]
    json: bool,
    /// The providers of a running server, and which of their secrets still match: what is safe to remove.
    #[arg(long)]
    live: bool,
    /// With --live: the operator side; `admin.listen` of the configuration by default.
    #[arg(long, requires = "live")]
    url: Option<String>,
    /// With --live: a token of `admin.tokens`; by default the first one in the configuration.
    #[arg(long, requires = "live", env = "HOOKLATCH_TOKEN", hide_env_values = true)]
    token: Option<String>,
}

/// Everything that is wrong, or that nothing is; the signed requests beside kinds of a folder included.
pub(super) fn check(file: Option<&Path>, is_json: bool, kinds: &Kinds) -> ExitCode {
    let (mut warnings, mut ids) = (Vec::new(), None);
    let (mut problems, mut summary) = match load(&Settings::of_process(file), kinds) {
        Err(problems) => (problems, String::new()),
        Ok(Loaded { config, .. }) => {
            warnings.extend(config.warnings.iter().map(ToString::to_string));
            warnings.extend(crate::load::warnings(&config, kinds));
            ids = Some(config.retention.clone());
            let (providers_n, destinations_n) = (config.providers.len(), config.destinations.len());
            (
                Vec::new(),
                format!("the configuration is good: {providers_n} providers, {destinations_n} destinations"),
            )
        }
    };
    if let Some(folder) = &kinds.folder {
        let (vectors_n, more) = judge_vectors(folder, &kinds.broken, kinds);
        problems.extend(more);
        let (pairs_n, more) = judge_pairs(folder, &kinds.broken, kinds);
        problems.extend(more);
        summary = format!(
            "{summary}; kinds of {}: {vectors_n} vectors and {pairs_n} pairs are judged as they say",
            folder.path.display()
        );
    }
    if is_json {
        let ids = ids.as_ref().map(retention::as_json);
        say(json!({ "ok": problems.is_empty(), "problems": problems, "warnings": warnings, "ids": ids }));
    } else if problems.is_empty() {
        for warning in &warnings {
            complain(format!("warning: {warning}"));
        }
        say(summary);
        if let Some(words) = ids.as_ref().and_then(retention::in_words) {
            say(words);
        }
    } else {
        for problem in &problems {
            complain(problem);
        }
        complain(format!("{} problems", problems.len()));
    }
    if problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The kinds as a table, or one of them in full.
pub(super) fn providers(
    args: &ProvidersArgs,
    file: Option<&Path>,
    kinds: &Kinds,
) -> anyhow::Result<ExitCode> {
    if args.live {
        return live(args, file, kinds);
    }
    if let Some(name) = &args.kind {
        let kind = find_kind(kinds, name)?;
        let spec = kind.spec().map_err(Clone::clone)?;
        say(if args.json { summary(spec).to_string() } else { described(kind, spec) });
        return Ok(ExitCode::SUCCESS);
    }
    tell_problems(kinds);
    if args.markdown {
        say(markdown(kinds));
        return Ok(ExitCode::SUCCESS);
    }
    if args.docs {
        say(docs::page(kinds));
        return Ok(ExitCode::SUCCESS);
    }
    for kind in kinds.iter() {
        let spec = kind.spec().map_err(Clone::clone)?;
        if args.json {
            say(summary(spec));
        } else {
            say(format!("{:<18} {:<18} {}", spec.kind, spec.title, signed_by(spec)));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What a running server knows about its providers' secrets.
fn live(args: &ProvidersArgs, file: Option<&Path>, kinds: &Kinds) -> anyhow::Result<ExitCode> {
    let reach = Reach { url: args.url.clone(), token: args.token.clone(), json: args.json };
    let found = Api::new(&reach, file, kinds)?.get(&["providers"], &[])?;
    if args.json {
        say(found);
        return Ok(ExitCode::SUCCESS);
    }
    let list =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let number = |value: &Value, name: &str| value.get(name).and_then(Value::as_i64);
    let now_ms = number(&found, "now_ms").unwrap_or_default();
    for provider in list(&found, "providers") {
        let text = |name: &str| provider.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let secrets = list(&provider, "secrets");
        let horizon_h = number(&provider, "horizon_h").unwrap_or_default();
        say(format!("{:<20} kind {}", text("name"), text("kind")));
        if provider.get("unverified") == Some(&Value::Bool(true)) {
            say("  nobody signs its requests: they are accepted all the same (unverified)");
        }
        for secret in &secrets {
            let position = number(secret, "position").unwrap_or_default();
            let used = match number(secret, "last_matched_at_ms") {
                None => "has not matched yet".to_owned(),
                Some(at_ms) => format!("last matched {} ago, horizon {horizon_h} h", ago(now_ms - at_ms)),
            };
            let advice = match (position, secret.get("is_safe_to_remove") == Some(&Value::Bool(true))) {
                (1, _) => "the newest",
                (_, true) => "safe to remove",
                (_, false) => "not yet safe to remove",
            };
            say(format!("  secret {position} of {} {used}: {advice}", secrets.len()));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// A length of time in its largest whole unit below two days.
fn ago(ms: i64) -> String {
    match ms.max(0) / 1_000 {
        s @ 0..=119 => format!("{s} s"),
        s @ 120..=7_199 => format!("{} min", s / 60),
        s @ 7_200..=172_799 => format!("{} h", s / 3_600),
        s => format!("{} days", s / 86_400),
    }
}

/// The README's table of kinds.
pub(crate) fn markdown(kinds: &[Provider]) -> String {
    let mut lines = vec![
        "| kind | sender | signature | event id | may resend for |".to_owned(),
        "|---|---|---|---|---|".to_owned(),
    ];
    for spec in kinds.iter().filter_map(|kind| kind.spec().ok()) {
        let (id, weak) = (words::key(spec), if words::is_any_unsigned(spec) { " (unsigned)" } else { "" });
        lines.push(format!(
            "| `{}` | [{}]({}) | {} | {id}{weak} | {} h{} |",
            spec.kind,
            spec.title,
            spec.docs,
            signed_by(spec),
            spec.horizon_h,
            retention::when_asked(spec)
        ));
    }
    lines.join("\n")
}

/// A scheme in words for people.
pub(super) fn scheme_name(scheme: Scheme) -> &'static str {
    match scheme {
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
    }
}

fn signed_by(spec: &Spec) -> String {
    let signature = &spec.signature;
    let scheme = scheme_name(signature.scheme);
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

fn described(kind: &Provider, spec: &Spec) -> String {
    let samples: Vec<&str> = kind.sample_list().into_iter().map(|(event_type, _)| event_type).collect();
    let identities: Vec<String> = spec.event.iter().map(words::identities).collect();
    let setting = |setting: &SettingSpec| {
        let needed = if setting.needed { ", needed" } else { "" };
        format!("\n  setting       {}{needed}: {}", setting.name, setting.hint)
    };
    let settings: String = spec.setting.iter().map(setting).collect();
    format!(
        "{} ({})\n  facts         {} ({})\n  signature     {}\n  told apart by {}\n  secret        {}\n  \
         resends for   {}\n  answer within {} ms\n  samples       {}{settings}",
        spec.title,
        spec.kind,
        confidence(spec),
        spec.docs,
        signed_by(spec),
        identities.join("\n                "),
        spec.secret_hint,
        retention::sent_again(spec),
        spec.answer_within_ms,
        samples.join(", "),
    )
}

fn summary(spec: &Spec) -> serde_json::Value {
    json!({
        "kind": spec.kind, "title": spec.title, "confidence": confidence(spec), "docs": spec.docs,
        "secret_hint": spec.secret_hint, "horizon_h": spec.horizon_h,
        "resend_h": retention::resend_json(spec), "answer_within_ms": spec.answer_within_ms,
        "signature": signed_by(spec),
        "identity": spec.event.iter().map(words::identities).collect::<Vec<_>>(), "has_signed_time": spec.has_signed_time(),
        "weakness": spec.signature.weak.map(Weakness::as_str),
        "settings": spec.setting.iter().map(|one| json!({
            "name": one.name, "needed": one.needed, "hint": one.hint,
        })).collect::<Vec<_>>(),
    })
}

pub(super) fn confidence(spec: &Spec) -> &'static str {
    match spec.confidence {
        Confidence::Official => "official",
        Confidence::Secondary => "secondary",
        Confidence::Unsure => "unsure",
    }
}
