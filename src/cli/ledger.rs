//! The ledger of one event as a timeline: its facts, then a line for each entry.

use super::output::{Screen, Shown, Tone, fields};
use super::remote::version_fact;
use hooklatch_contract::{AttemptView, ContentView, LedgerEntry, LedgerView, LedgerWhat, Risk};
use hooklatch_core::figures::{grouped, plural, reruns};
use hooklatch_core::plain;
use hooklatch_core::times::{day, in_day};

/// The whole page. With `has_content`, headers and body follow.
pub(super) fn ledger(view: &LedgerView, screen: &Screen, version: Option<&str>, has_content: bool) -> String {
    let mut parts = vec![facts(view, screen, version), judgement(view, screen)];
    if view.is_cut {
        parts.push("the oldest entries are left out".to_owned());
    }
    parts.push(timeline(&view.entries, screen));
    let mut left_out = Vec::new();
    if view.conflicts_unkept_n > 0 {
        let unkept = plural(view.conflicts_unkept_n, "copy").replace("copys", "copies");
        left_out.push(format!("{unkept} with other content came and were not kept"));
    }
    if view.hidden_messages_n > 0 {
        let hidden = plural(view.hidden_messages_n, "message");
        left_out.push(format!("{hidden} to destinations that this token does not reach are not shown"));
    }
    left_out.extend(view.damaged.iter().map(|row| Shown::text(row.sentence()).as_str().to_owned()));
    parts.extend((!left_out.is_empty()).then(|| left_out.join("\n")));
    parts.extend(view.content.as_ref().filter(|_| has_content).map(|content| content_lines(content, screen)));
    parts.join("\n\n")
}

/// What happened and what it means, then the possible acts with the risk of each.
fn judgement(view: &LedgerView, screen: &Screen) -> String {
    let mut lines = vec![Shown::text(&view.judgement.headline).as_str().to_owned()];
    for one in &view.judgement.acts {
        let word = serde_json::to_value(one.act).ok();
        let word = word.as_ref().and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        let (risk, tone) = match one.risk {
            Risk::None => ("", Tone::Plain),
            Risk::MayRepeatEffect => (" (may repeat an effect)", Tone::Waits),
            Risk::LosesEffect => (" (loses an effect)", Tone::Bad),
            Risk::CannotSay => (" (risk not known)", Tone::Waits),
        };
        let sentence = Shown::text(&one.sentence);
        let (word, risk) = (word.replace('_', " "), screen.paint(tone, risk));
        lines.push(format!("  {word}{risk}: {}", sentence.as_str()));
    }
    lines.join("\n")
}

fn facts(view: &LedgerView, screen: &Screen, version: Option<&str>) -> String {
    let event = &view.event;
    let mut facts = vec![
        ("event", Shown::text(&event.event_id)),
        ("provider", Shown::text(&event.provider)),
        ("type", Shown::text(&event.event_type)),
        ("state", Shown::event_state(event.state)),
    ];
    if !event.parts.is_empty() {
        facts.insert(1, ("parts", Shown::text(event.parts.join(" · "))));
    }
    let calls = Shown::delivery(&event.delivery);
    facts.push(match &event.delivery.error {
        Some(error) => ("calls", Shown::text(format!("{}: {error}", calls.as_str())).in_tone(calls.tone())),
        None => ("calls", calls),
    });
    facts.extend(event.error.as_deref().map(|error| ("error", Shown::text(error))));
    facts.extend(event.object.as_deref().map(|object| {
        let version = event.version.map(|version| format!(" at {version}")).unwrap_or_default();
        ("object", Shown::text(format!("{object}{version}")))
    }));
    facts.extend(view.beside_event_id.as_deref().map(|first| ("kept beside", Shown::text(first))));
    facts.push(("received", screen.time(event.received_at_ms)));
    facts.extend(event.created_at_ms.map(|ms| ("happened", screen.time(ms))));
    facts.extend(event.due_at_ms.map(|ms| ("due", screen.time(ms))));
    facts.push(("identity", Shown::text(&event.identity)));
    if event.generation > 0 {
        facts.push(("run again", Shown::text(format!("{} by people", reruns(event.generation)))));
    }
    facts.extend(view.trace_id.as_deref().map(|trace_id| {
        let unrecorded = if view.is_trace_recorded == Some(false) { ", not recorded" } else { "" };
        ("trace", Shown::text(format!("{trace_id}{unrecorded}")))
    }));
    let content = match (&view.content, view.content_missing.as_deref()) {
        (Some(content), _) => format!("{}; --content shows it", content_in_words(content)),
        (None, Some("role")) => "not for the role of this token".to_owned(),
        (None, _) => "no longer kept".to_owned(),
    };
    facts.push(("content", Shown::text(content)));
    facts.extend(version_fact(version));
    fields(screen, &facts)
}

fn content_in_words(content: &ContentView) -> String {
    let mut words = vec![format!("{} bytes", grouped(content.body_bytes_n))];
    if content.is_encrypted {
        words.push("stored under a key".to_owned());
    }
    if let Some(redacted_n) = content.redacted_n {
        words.push(format!("{} left out before it was stored", plural(redacted_n.into(), "value")));
    }
    if content.is_lossy {
        words.push("not all of it UTF-8".to_owned());
    }
    words.extend(content.unopened.as_ref().map(|why| format!("it does not open: {why}")));
    words.join(", ")
}

/// Headers and body. Received text is indented, so that it cannot look like a line of Hooklatch.
fn content_lines(content: &ContentView, screen: &Screen) -> String {
    let mut lines = vec![screen.paint(Tone::Head, "headers")];
    for (name, values) in &content.headers {
        lines.extend(values.iter().map(|value| format!("  {}: {}", plain::line(name), plain::line(value))));
    }
    lines.push(screen.paint(Tone::Head, "body"));
    lines.extend(content.body.lines().map(|line| format!("  {}", plain::line(line))));
    lines.join("\n")
}

/// A line for each entry, and one for each day that begins.
fn timeline(entries: &[LedgerEntry], screen: &Screen) -> String {
    let (mut lines, mut today) = (Vec::new(), String::new());
    let width = entries.iter().map(|entry| words(&entry.what).0.as_str().len()).max().unwrap_or_default();
    for entry in entries {
        let date = day(entry.at_ms);
        if date != today {
            lines.push(screen.paint(Tone::Head, &format!("{date} (UTC)")));
            today = date;
        }
        let (what, more) = words(&entry.what);
        let room = " ".repeat(width.saturating_sub(what.as_str().len()));
        let painted = what.painted(screen);
        lines.push(format!("{}  {painted}{room}  {}", in_day(entry.at_ms), more.as_str()));
    }
    lines.join("\n")
}

/// What happened, and its details.
fn words(what: &LedgerWhat) -> (Shown, Shown) {
    let (name, tone, more) = match what {
        LedgerWhat::Received { body_bytes_n, secret_position, secret_fingerprint } => {
            let bytes = body_bytes_n
                .map_or_else(|| "bytes no longer kept".to_owned(), |n| format!("{} bytes", grouped(n)));
            let secret = secret_position.map(|position| {
                let name = secret_fingerprint.as_deref().map(|name| format!(" ({name})")).unwrap_or_default();
                format!(", secret {position}{name} matched")
            });
            ("received", Tone::Plain, format!("{bytes}{}", secret.unwrap_or_default()))
        }
        LedgerWhat::Latched { digest, identity } => {
            ("latched", Tone::Plain, format!("by {identity}, content {}", short(digest)))
        }
        LedgerWhat::Duplicates { copies_n, first_at_ms } => {
            let since = first_at_ms.map(|ms| format!(", the first at {} {}", day(ms), in_day(ms)));
            let more = format!("{} more, nothing changed{}", grouped(*copies_n), since.unwrap_or_default());
            ("duplicates", Tone::Plain, more)
        }
        LedgerWhat::Conflict { event, digest } => {
            let (id, state) = (&event.event_id, event.state.as_str());
            ("conflict", Tone::Waits, format!("other content {}, kept as {id} ({state})", short(digest)))
        }
        LedgerWhat::Replayed { event } => {
            ("replayed", Tone::Waits, format!("the same signed text as {}", event.event_id))
        }
        LedgerWhat::Handled { state, attempts_n, error } => {
            let times = plural(u64::from(*attempts_n), "dispatch").replace("dispatchs", "dispatches");
            let more = format!("{} after {times}{}", state.as_str(), because(error.as_deref()));
            ("handled", Shown::event_state(*state).tone(), more)
        }
        LedgerWhat::Effect { message } => {
            let (effect, to) = (&message.effect_name, &message.destination);
            let more = format!("{effect} to {to}: message {}, {}", message.message_id, message.state);
            ("effect", Tone::Plain, more)
        }
        LedgerWhat::Attempt { effect_name, attempt, .. } => {
            ("attempt", Shown::attempt(attempt.result).tone(), attempt_in_words(effect_name, attempt))
        }
        LedgerWhat::Decision { decision } => {
            let why = because(Some(&decision.detail));
            ("decision", Tone::Head, format!("{}: {}{why}", decision.actor, decision.action))
        }
    };
    (Shown::text(name).in_tone(tone), Shown::text(more))
}

fn attempt_in_words(effect_name: &str, attempt: &AttemptView) -> String {
    let result = Shown::attempt(attempt.result);
    let status = attempt.http_status.map(|status| format!(" ({status})")).unwrap_or_default();
    let took =
        attempt.finished_at_ms.map(|ms| format!(" in {} ms", ms.saturating_sub(attempt.started_at_ms)));
    format!(
        "{} of {effect_name}: {}{status}{} by {}{}",
        attempt.attempt_n,
        result.as_str(),
        took.unwrap_or_default(),
        attempt.node,
        because(attempt.error.as_deref())
    )
}

fn because(why: Option<&str>) -> String {
    why.filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default()
}

/// The start of a digest, long enough to distinguish it from another.
fn short(digest: &str) -> String {
    digest.chars().take(12).collect()
}
