//! The facts of a configuration that rules compare with, each as a series that Prometheus records.

use std::time::Duration;

use crate::config::Config;
use crate::load::Loaded;
use crate::spec::Spec;
use crate::store::PrunedKind;
use crate::types::Name;

/// A day, in milliseconds.
const DAY_MS: u64 = 86_400_000;

/// A fact of the configuration.
#[derive(Debug)]
pub(super) struct Number {
    /// Name of the series.
    pub(super) record: &'static str,
    /// What it is about, if it is not about the whole: a label, and its value.
    pub(super) of: Option<(&'static str, String)>,
    /// The series' value, as a length of time.
    pub(super) length: Duration,
    /// Where it stands, for people.
    pub(super) why: String,
}

/// Everything that the rules may ask for.
pub(super) fn numbers(loaded: &Loaded) -> Vec<Number> {
    let config = &loaded.config;
    let mut numbers = vec![clock(loaded)];
    for (name, active) in &loaded.active {
        numbers.push(answer(config, name, active.spec()));
        numbers.extend(retry_span(name, active.spec()));
    }
    numbers.extend(config.destinations.iter().map(|(name, destination)| Number {
        record: "hooklatch:key_valid_seconds",
        of: Some(("destination", name.to_string())),
        length: Duration::from_millis(destination.key_valid_for_ms),
        why: format!("destinations.{name}.key_valid_for_ms"),
    }));
    numbers.extend(retention(config));
    numbers
}

/// How long a request may take: as long as its sender waits, or until we answer 503 ourselves.
fn answer(config: &Config, name: &Name, spec: &Spec) -> Number {
    let (sender_ms, own_ms) = (u64::from(spec.answer_within_ms), config.server.answer_timeout_ms);
    let why = if sender_ms < own_ms {
        format!("senders of the kind {} wait so long; server.answer_timeout_ms is longer", spec.kind)
    } else {
        format!("server.answer_timeout_ms; senders of the kind {} wait {sender_ms} ms", spec.kind)
    };
    let length = Duration::from_millis(sender_ms.min(own_ms));
    Number { record: "hooklatch:answer_seconds", of: Some(("provider", name.to_string())), length, why }
}

/// How long a sender repeats what it got no good answer for; nothing where its documentation does not say.
fn retry_span(name: &Name, spec: &Spec) -> Option<Number> {
    Some(Number {
        record: "hooklatch:sender_retry_span_seconds",
        of: Some(("provider", name.to_string())),
        length: Duration::from_secs(spec.retry_span_s?.into()),
        why: format!("senders of the kind {} repeat an event for so long", spec.kind),
    })
}

/// How far the clocks may be apart: as far as a lease and every signed time bear it.
fn clock(loaded: &Loaded) -> Number {
    let lease_ms = loaded.config.outbox.lease_ms;
    let mut least = (lease_ms, "outbox.lease_ms".to_owned());
    for (name, active) in &loaded.active {
        for signature in active.spec().signatures().filter(|one| one.tolerance_s.is_some()) {
            let (past_s, ahead_s) = signature.tolerances_s();
            let tolerance_ms = u64::from(past_s.min(ahead_s)) * 1_000;
            if tolerance_ms < least.0 {
                least = (tolerance_ms, format!("the tolerance of providers.{name} for signed times"));
            }
        }
    }
    Number {
        record: "hooklatch:clock_tolerance_seconds",
        of: None,
        length: Duration::from_millis(least.0),
        why: least.1,
    }
}

/// How long each table keeps its rows, where one key says that.
fn retention(config: &Config) -> Vec<Number> {
    let kept = &config.retention;
    let ids_days =
        kept.ids_of.keys().map(|name| kept.ids_days_for(name)).chain([kept.ids_days_unknown()]).min();
    let of = |kind: PrunedKind| match kind {
        PrunedKind::Bodies | PrunedKind::Contents => Some((kept.bodies_days, "bodies_days")),
        PrunedKind::Attempts => Some((kept.attempts_days, "attempts_days")),
        PrunedKind::Messages | PrunedKind::Operations => Some((kept.messages_days, "messages_days")),
        PrunedKind::Ids => ids_days.map(|days| (days, "ids_days, of the provider with the fewest")),
        PrunedKind::Lanes => Some((kept.lanes_days, "lanes_days")),
        PrunedKind::Rejections => Some((kept.rejections_days, "rejections_days")),
        PrunedKind::SecretUses => Some((kept.secret_uses_days, "secret_uses_days")),
        PrunedKind::Taught => Some((kept.taught_days, "taught_days")),
        PrunedKind::Answers => Some((kept.answers_days, "answers_days")),
        PrunedKind::Audit => Some((kept.audit_days, "audit_days")),
        // They go with what they belong to.
        _ => None,
    };
    let number = |kind: PrunedKind| {
        let (days, key) = of(kind)?;
        Some(Number {
            record: "hooklatch:retention_seconds",
            of: Some(("table", kind.table().to_owned())),
            length: Duration::from_millis(u64::from(days) * DAY_MS),
            why: format!("retention.{key}"),
        })
    };
    PrunedKind::ALL.iter().copied().filter_map(number).collect()
}
