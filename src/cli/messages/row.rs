//! A message as a line of a list, and in full with its attempts.

use crate::api::{AttemptView, AuditView, MessageDetail, MessageView};
use crate::cli::desk::{ListRow, rows};
use crate::cli::output::{Column, Screen, Shown, Tone, fields, told};

impl ListRow for MessageView {
    const NOUN: &'static str = "message";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("written (UTC)"),
        Column::Whole("message id"),
        Column::Whole("destination"),
        Column::Whole("event id"),
        Column::Whole("state"),
        Column::Whole("attempts"),
        Column::Loose("last error"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        vec![
            Shown::text(told(self.created_at_ms, screen.now_ms)),
            Shown::text(self.message_id.to_string()),
            Shown::text(&self.destination),
            Shown::text(&self.event_id),
            Shown::message_state(self.state),
            Shown::number(self.attempts_n.into()),
            Shown::or_dash(self.last_error.as_deref()),
        ]
    }
}

impl ListRow for AttemptView {
    const NOUN: &'static str = "attempt";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("attempt"),
        Column::Whole("began (UTC)"),
        Column::Whole("took ms"),
        Column::Whole("result"),
        Column::Whole("status"),
        Column::Whole("node"),
        Column::Loose("error"),
        Column::Loose("answer"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        let took_ms = self.finished_at_ms.map(|ms| (ms.saturating_sub(self.started_at_ms)).to_string());
        vec![
            Shown::number(self.attempt_n.into()),
            Shown::text(told(self.started_at_ms, screen.now_ms)),
            Shown::or_dash(took_ms),
            Shown::attempt(self.result),
            Shown::or_dash(self.http_status.map(|status| status.to_string())),
            Shown::text(&self.node),
            Shown::or_dash(self.error.as_deref()),
            Shown::or_dash(self.response.as_deref()),
        ]
    }
}

/// All that is known of a message.
pub(super) fn in_full(view: &MessageDetail, screen: &Screen, version: Option<&str>) -> String {
    let mut parts = vec![facts(&view.message, screen, version)];
    if !view.attempts.is_empty() {
        parts.push(rows::<AttemptView>(screen, &view.attempts, true));
    }
    if !view.decisions.is_empty() {
        parts.push(rows::<AuditView>(screen, &view.decisions, true));
    }
    parts.join("\n\n")
}

fn facts(message: &MessageView, screen: &Screen, version: Option<&str>) -> String {
    let time = |ms: i64| Shown::text(told(ms, screen.now_ms));
    let event = format!("{} {} ({})", message.provider, message.event_id, message.event_type);
    let mut facts = vec![
        ("message", Shown::text(message.message_id.to_string())),
        ("event", Shown::text(event)),
        ("effect", Shown::text(&message.effect_name)),
        ("destination", Shown::text(&message.destination)),
        ("state", Shown::message_state(message.state)),
    ];
    facts.extend(message.lane.as_deref().map(|lane| ("lane", Shown::text(lane))));
    facts.extend(message.last_error.as_deref().map(|error| ("error", Shown::text(error))));
    facts.push(("key", Shown::text(&message.idempotency_key)));
    facts.push(("written", time(message.created_at_ms)));
    match message.finished_at_ms {
        Some(ms) => facts.push(("finished", time(ms))),
        None => facts.push(("due", time(message.visible_at_ms))),
    }
    // Past this the destination may have forgotten the key, and would act again.
    facts.extend(message.key_valid_until_ms.map(|ms| {
        let safe = if ms < screen.now_ms { Tone::Bad } else { Tone::Plain };
        ("key good until", time(ms).in_tone(safe))
    }));
    facts.extend(
        version.map(|version| ("version", Shown::text(version.trim_matches('"')).in_tone(Tone::Faint))),
    );
    fields(screen, &facts)
}
