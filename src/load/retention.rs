//! `[retention]`: how long what is kept is kept, against what the kinds in use need.
//!
//! An id that is forgotten too early lets the sender's next copy be a new event, so what a kind needs is a floor, and
//! what is not known of it is counted on the long side.

use std::collections::BTreeMap;

use super::kind_list::kind_of;
use crate::config::DEFAULTS_ORIGIN;
use crate::config::{
    AgeConfig, Checker, ENDLESS_DAYS, Field, IdsKept, ProviderConfig, RetentionConfig, Table,
};
use crate::provider::Provider;
use crate::spec::{Resend, Spec};
use crate::types::Name;

/// Days that are counted for sending again by hand where nothing is known of that, unless the operator says otherwise.
const RESEND_UNKNOWN_DAYS: u32 = 30;
/// Longest that ids can be kept. Days.
const DAYS_MAX: u32 = 3_650;

/// `[retention]`, against what the kinds in use need.
pub(super) fn retention(
    checker: &mut Checker<'_>,
    root: &mut Table,
    providers: &BTreeMap<Name, ProviderConfig>,
    kinds: &[Provider],
) -> RetentionConfig {
    let needed = |(name, provider): (&Name, &ProviderConfig)| {
        let spec = kind_of(kinds, provider)?.spec().ok()?;
        Some((name.clone(), kept(spec, provider.age)))
    };
    let ids_of: BTreeMap<Name, IdsKept> = providers.iter().filter_map(needed).collect();
    let Some(mut table) = root.table(checker, "retention") else {
        return RetentionConfig { ids_of, ..RetentionConfig::default() };
    };
    let windows = windows(checker, &mut table);
    let field = table.take(checker, "ids_days");
    let ids_days = field.as_ref().and_then(|field| field.number(checker, &(1..=u64::from(DAYS_MAX))));
    let ids_days = ids_days.and_then(|days| u32::try_from(days).ok());
    let config = RetentionConfig { ids_days, ids_of, ..windows };
    if let (Some(field), Some(days), Some((name, floor, why))) = (&field, ids_days, config.deciding())
        && days < floor
    {
        let why = format!("is less than provider `{name}` needs, {floor} days: {why}");
        checker.problem_shown(field, why, format!("set it to {floor} or more, or leave it out"));
    }
    table.finish(checker);
    config
}

/// A window of time as it is written: its place and its days; 0 after a problem.
struct Window {
    field: Option<Field>,
    days: u32,
}

/// Reads all windows but that of ids.
fn windows(checker: &mut Checker<'_>, table: &mut Table) -> RetentionConfig {
    let mut window = |key: &'static str| {
        let field = table.take(checker, key);
        let days = field.as_ref().and_then(|field| field.number(checker, &(1..=u64::from(DAYS_MAX))));
        Window { field, days: days.and_then(|days| u32::try_from(days).ok()).unwrap_or_default() }
    };
    let bodies = window("bodies_days");
    let attempts = window("attempts_days");
    let messages = window("messages_days");
    let config = RetentionConfig {
        bodies_days: bodies.days,
        attempts_days: attempts.days,
        messages_days: messages.days,
        lanes_days: window("lanes_days").days,
        rejections_days: window("rejections_days").days,
        secret_uses_days: window("secret_uses_days").days,
        taught_days: window("taught_days").days,
        answers_days: window("answers_days").days,
        audit_days: window("audit_days").days,
        ..RetentionConfig::default()
    };
    let parts = [(&bodies, "a body"), (&attempts, "an attempt")];
    let longer = parts.into_iter().filter(|(part, _)| part.days > messages.days);
    if let Some((part, what)) = longer.max_by_key(|(part, _)| part.days).filter(|_| messages.days > 0) {
        told_longer(checker, part, what, &messages);
    }
    let every_ms = table.number(checker, "every_ms", 0..=86_400_000).unwrap_or_default();
    RetentionConfig { every_ms, ..config }
}

/// Says that something is kept for longer than the message that it belongs to, at the one of the two that is not as it
/// is by default.
fn told_longer(checker: &mut Checker<'_>, part: &Window, what: &str, messages: &Window) {
    let (Some(field), Some(messages_field)) = (&part.field, &messages.field) else { return };
    let place = if field.source == DEFAULTS_ORIGIN { messages_field } else { field };
    let why = format!(
        "keeps {what} for {} days and its message for {}: a message is kept longest",
        part.days, messages.days
    );
    let remedy = format!("set retention.messages_days to {} or more, or {} to less", part.days, field.key);
    checker.problem_shown(place, why, remedy);
}

/// One reason to keep ids, and for how many hours.
struct Reason {
    hours: u32,
    why: String,
    /// True when it is known, so that the operator may not say less.
    is_floor: bool,
}

/// The need of a provider of this kind for the ids of its events.
fn kept(spec: &Spec, age: AgeConfig) -> IdsKept {
    let reasons = reasons(spec, age);
    let longest = |reasons: &mut dyn Iterator<Item = &Reason>| {
        let longest = reasons.max_by_key(|reason| reason.hours);
        longest.map_or((1, String::new()), |one| {
            (one.hours.div_ceil(24).clamp(1, DAYS_MAX), format!("its kind `{}` {}", spec.kind, one.why))
        })
    };
    let (days, why) = longest(&mut reasons.iter());
    let (days_min, why_min) = longest(&mut reasons.iter().filter(|reason| reason.is_floor));
    IdsKept { days, why, days_min, why_min }
}

/// Lists the reasons to keep ids. The sender may try a resend as often as the first request.
fn reasons(spec: &Spec, age: AgeConfig) -> Vec<Reason> {
    let again = spec.horizon_h;
    let reason = |hours: u32, why: String, is_floor| Reason { hours, why, is_floor };
    let mut reasons = vec![reason(again, format!("sends an event again for {}", hours_text(again)), true)];
    reasons.push(match spec.resend_h {
        Some(Resend::Hours(hours)) => {
            let (asked, after) = (hours_text(hours), hours_text(again));
            let why = format!("can be asked to send it again for {asked}, and may go on for {after} after that");
            reason(hours.max(again).saturating_add(again), why, true)
        }
        Some(Resend::Unbounded) => {
            let why = format!("can be asked to send it again without a limit, which counts as {ENDLESS_DAYS} days");
            reason((ENDLESS_DAYS * 24).max(again.saturating_mul(2)), why, true)
        }
        None => {
            let why = format!(
                "sends an event again for {}, and nothing is known of asking it to, for which {RESEND_UNKNOWN_DAYS} \
                 days are counted",
                hours_text(again)
            );
            reason((RESEND_UNKNOWN_DAYS * 24).max(again).saturating_add(again), why, false)
        }
    });
    reasons.push(match (age.max_age_s, spec.bounds_signed_time()) {
        (Some(max_age_s), _) => {
            let why = format!("signs a time that may be {max_age_s} s old, as max_age_s says");
            reason(hours_of(max_age_s), why, true)
        }
        (None, true) => {
            // The signed time may also be as far ahead as the kind's own tolerance.
            let (past_s, ahead_s) = (age.tolerance_s.or(spec.tolerance_s()), spec.tolerance_s());
            let tolerance_s = past_s.unwrap_or_default().saturating_add(ahead_s.unwrap_or_default());
            reason(hours_of(tolerance_s), format!("believes a request for {tolerance_s} s"), true)
        }
        (None, false) => {
            let why = format!(
                "signs no time whose age is bounded, so that a recorded request can be sent again at any time, which \
                 counts as {ENDLESS_DAYS} days"
            );
            reason(ENDLESS_DAYS * 24, why, true)
        }
    });
    reasons
}

/// Seconds in hours, rounded up.
fn hours_of(seconds: u32) -> u32 {
    seconds.div_ceil(3_600)
}

/// Whole days from three on, else hours.
fn hours_text(hours: u32) -> String {
    if hours >= 72 && hours.is_multiple_of(24) {
        format!("{} days", hours / 24)
    } else {
        format!("{hours} h")
    }
}
