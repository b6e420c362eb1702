//! A message as a line of a list, and in full with its attempts.

use crate::api::{AttemptView, AuditView, MessageAct, MessageDetail, MessageView, Risk};
use crate::cli::desk::{ListRow, rows};
use crate::cli::destinations::rule;
use crate::cli::output::{Column, Screen, Shown, Tone, fields, told};
use crate::types::MessageState;

impl ListRow for MessageView {
    const NOUN: &'static str = "message";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("written (UTC)"),
        Column::Id("message id"),
        Column::Whole("destination"),
        Column::Id("event id"),
        Column::Whole("state"),
        Column::Whole("attempts"),
        Column::Loose("what it means"),
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
            Shown::or_dash(self.judgement.as_ref().map(|one| one.headline.as_str())),
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
    let mut parts = vec![facts(view, screen, version)];
    if !view.attempts.is_empty() {
        parts.push(rows::<AttemptView>(screen, &view.attempts, true));
    }
    parts.extend(view.damaged.iter().map(|row| Shown::text(row.sentence()).as_str().to_owned()));
    if !view.decisions.is_empty() {
        parts.push(rows::<AuditView>(screen, &view.decisions, true));
    }
    parts.join("\n\n")
}

fn facts(view: &MessageDetail, screen: &Screen, version: Option<&str>) -> String {
    let message = &view.message;
    let time = |ms: i64| Shown::text(told(ms, screen.now_ms));
    let event = format!("{} {} ({})", message.provider, message.event_id, message.event_type);
    let mut facts = vec![
        ("message", Shown::text(message.message_id.to_string())),
        ("event", Shown::text(event)),
        ("effect", Shown::text(&message.effect_name)),
        ("destination", Shown::text(&message.destination)),
        ("state", Shown::message_state(message.state)),
    ];
    if let Some(judgement) = &message.judgement {
        facts.push(("means", Shown::text(&judgement.headline)));
        for one in &judgement.acts {
            let name = match one.act {
                MessageAct::Done => "if done",
                MessageAct::Send => "if sent",
                MessageAct::Discard => "if discarded",
            };
            let tone = if one.risk == Risk::None { Tone::Good } else { Tone::Bad };
            let sentence = format!("{}. {}", one.risk.in_words(), one.sentence);
            facts.push((name, Shown::text(sentence).in_tone(tone)));
        }
    }
    facts.extend(message.lane.as_deref().map(|lane| ("lane", Shown::text(lane))));
    facts.extend(message.last_error.as_deref().map(|error| ("error", Shown::text(error))));
    facts.push(("key", Shown::text(&message.idempotency_key)));
    facts.push(("written", time(message.created_at_ms)));
    let name = match message.state {
        MessageState::Ready => "due",
        MessageState::Leased => "lease until",
        MessageState::Waiting => "waiting since",
        MessageState::Held => "held since",
        MessageState::Dead => "dead since",
        MessageState::Done | MessageState::Discarded => "finished",
    };
    facts.push((name, time(message.finished_at_ms.unwrap_or(message.visible_at_ms))));
    facts.extend(view.policy.iter().map(|policy| ("unknown", Shown::text(rule(policy)))));
    facts.extend(view.key_known_until_ms().map(|ms| ("key known until", time(ms))));
    facts.extend(
        version.map(|version| ("version", Shown::text(version.trim_matches('"')).in_tone(Tone::Faint))),
    );
    fields(screen, &facts)
}
