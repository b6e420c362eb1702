//! An operation as a line of a list, and in full.

use crate::api::{OperationState, OperationSubject, OperationView, SkippedRow, StepView};
use crate::cli::desk::ListRow;
use crate::cli::output::{Column, Screen, Shown, Tone, fields, grouped, table, told};

impl ListRow for OperationView {
    const NOUN: &'static str = "operation";
    const COLUMNS: &'static [Column] = &[
        Column::Whole("ordered (UTC)"),
        Column::Id("operation id"),
        Column::Whole("state"),
        Column::Whole("done"),
        Column::Loose("what"),
        Column::Whole("by"),
        Column::Loose("reason"),
    ];

    fn cells(&self, screen: &Screen) -> Vec<Shown> {
        vec![
            Shown::text(told(self.created_at_ms, screen.now_ms)),
            Shown::text(&self.operation_id),
            state(self.state),
            Shown::text(progress(self)),
            Shown::text(in_words(&self.subject)),
            Shown::text(&self.actor),
            Shown::text(&self.reason),
        ]
    }
}

const STEPS: [Column; 6] = [
    Column::Whole("step"),
    Column::Whole("rows"),
    Column::Whole("acted on"),
    Column::Whole("calls open"),
    Column::Whole("good"),
    Column::Whole("failed"),
];

fn step_cells(n: usize, step: &StepView) -> Vec<Shown> {
    let counts = [step.rows_n, step.changed_n, step.open_n(), step.good_n, step.failed_n];
    let number = Shown::number(u64::try_from(n + 1).unwrap_or_default());
    std::iter::once(number).chain(counts.into_iter().map(Shown::number)).collect()
}

const SKIPPED: [Column; 3] = [Column::Whole("passed over"), Column::Whole("why"), Column::Whole("state")];

/// All that is known of an operation.
pub(super) fn in_full(view: &OperationView, screen: &Screen) -> String {
    let time = |ms: i64| Shown::text(told(ms, screen.now_ms));
    let mut facts = vec![
        ("operation", Shown::text(&view.operation_id)),
        ("what", Shown::text(in_words(&view.subject))),
        ("state", state(view.state)),
        ("done", Shown::text(progress(view))),
        ("ordered", time(view.created_at_ms)),
        ("by", Shown::text(&view.actor)),
        ("reason", Shown::text(&view.reason)),
    ];
    facts.extend(view.finished_at_ms.map(|ms| ("ended", time(ms))));
    facts.extend(view.cancelled_by.as_deref().map(|actor| ("cancelled by", Shown::text(actor))));
    facts.extend(view.approved_by.as_deref().map(|actor| ("approved by", Shown::text(actor))));
    facts.extend(view.approve_until_ms.map(|ms| ("to be approved until", time(ms))));
    facts.extend(view.note.as_deref().map(|note| ("why", Shown::text(note))));
    let mut told = fields(screen, &facts);
    if let Some(steps) = &view.steps {
        let lines: Vec<Vec<Shown>> =
            steps.list.iter().enumerate().map(|(n, step)| step_cells(n, step)).collect();
        told = format!("{told}\n\n{}", table(screen, &STEPS, &lines, true));
    }
    if view.skipped.is_empty() {
        return told;
    }
    let cells = |row: &SkippedRow| {
        vec![Shown::text(&row.subject), Shown::text(&row.outcome), Shown::or_dash(row.state.as_deref())]
    };
    let skipped: Vec<Vec<Shown>> = view.skipped.iter().map(cells).collect();
    format!("{told}\n\n{}", table(screen, &SKIPPED, &skipped, true))
}

fn state(state: OperationState) -> Shown {
    match state {
        OperationState::Running => Shown::text("running"),
        OperationState::Waiting => Shown::text("waiting for approval").in_tone(Tone::Waits),
        OperationState::Stopped => Shown::text("stopped").in_tone(Tone::Bad),
        OperationState::Done => Shown::text("done").in_tone(Tone::Good),
        OperationState::Cancelled => Shown::text("cancelled").in_tone(Tone::Waits),
    }
}

/// `412 of 1,000`, and how many were passed over.
pub(super) fn progress(view: &OperationView) -> String {
    let skipped = match view.skipped_n {
        0 => String::new(),
        n => format!(", {} passed over", grouped(n)),
    };
    format!("{} of {}{skipped}", grouped(view.changed_n), grouped(view.total_n))
}

/// `send messages: state held, destination billing`.
fn in_words(subject: &OperationSubject) -> String {
    let (noun, filter) = match subject {
        OperationSubject::Messages { filter, .. } => ("messages", serde_json::to_value(filter)),
        OperationSubject::Events { filter, .. } => ("events", serde_json::to_value(filter)),
    };
    let word = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let act = subject.act().replace('_', " ");
    let filter = filter.unwrap_or_default();
    let members = filter.as_object().into_iter().flatten();
    let members: Vec<String> =
        members.map(|(name, value)| format!("{} {}", name.replace('_', " "), word(value))).collect();
    format!("{act} {noun}: {}", members.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{EventAct, EventFilter, MessageAct, MessageFilter};
    use crate::types::{EventState, MessageState};

    #[test]
    fn an_operation_is_told_in_words() {
        let filter = MessageFilter {
            state: Some(MessageState::Held),
            destination: Some("billing".to_owned()),
            ..Default::default()
        };
        let subject = OperationSubject::Messages { act: MessageAct::Send, filter };
        assert_eq!(in_words(&subject), "send messages: destination billing, state held");
        let filter =
            EventFilter { state: Some(EventState::Failed), received_to_ms: Some(5), ..Default::default() };
        let subject = OperationSubject::Events { act: EventAct::EraseAndDiscard, filter };
        assert_eq!(in_words(&subject), "erase and discard events: received to ms 5, state failed");
    }
}
