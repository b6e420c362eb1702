//! How long ids are remembered and who decided that, and how long senders send again, in words.

use serde_json::{Value, json};

use crate::config::RetentionConfig;
use crate::spec::{Resend, Spec};

/// For people; nothing where there is no provider.
pub(super) fn in_words(retention: &RetentionConfig) -> Option<String> {
    let (name, days, why) = retention.deciding()?;
    Some(match retention.ids_days {
        None => format!("ids are remembered for {days} days at most, for provider `{name}`: {why}"),
        Some(set) => format!(
            "ids are remembered for {set} days, as retention.ids_days says; at least {days} are needed, for provider \
             `{name}`: {why}"
        ),
    })
}

/// For programs: every provider.
pub(super) fn as_json(retention: &RetentionConfig) -> Value {
    let providers = retention.ids_of.iter().map(|(name, kept)| {
        json!({
            "provider": name.as_str(), "days": retention.ids_days_for(name), "days_min": kept.days_min,
            "why": if retention.ids_days.is_none() { &kept.why } else { &kept.why_min },
        })
    });
    json!({ "ids_days": retention.ids_days, "providers": providers.collect::<Vec<_>>() })
}

/// Says how long a sender sends an event again: by itself, and when it is asked to.
pub(super) fn sent_again(spec: &Spec) -> String {
    format!("{}{}", hours(spec.horizon_h), when_asked(spec))
}

/// Says what is known of asking it to, to be put behind how long it does so by itself.
pub(super) fn when_asked(spec: &Spec) -> String {
    match spec.resend_h {
        None => String::new(),
        Some(Resend::Hours(asked)) => format!("; when asked to, {}", hours(asked)),
        Some(Resend::Unbounded) => "; when asked to, without a limit".to_owned(),
    }
}

/// Writes `resend_h` for programs: null, a number of hours, or `unbounded`.
pub(super) fn resend_json(spec: &Spec) -> Value {
    match spec.resend_h {
        None => Value::Null,
        Some(Resend::Hours(hours)) => json!(hours),
        Some(Resend::Unbounded) => json!("unbounded"),
    }
}

fn hours(hours: u32) -> String {
    if hours > 48 && hours.is_multiple_of(24) { format!("{} days", hours / 24) } else { format!("{hours} h") }
}
