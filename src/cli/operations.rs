//! `operations`: acts on all rows that a filter found. The commands show, follow, approve, continue and cancel them.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Subcommand};

use super::api_client::{ApiAnswer, ApiError, pause};
use super::bulk::{act_in_full, show_rows};
use super::output::Column::{self, Id, Loose, Whole};
use super::output::{Screen, Shown, Tone, fields, table};
use super::remote::{ListColumn, ListRow, PagingArgs, Remote, ServerCommand, WhyArgs, rows};
use super::shared::{Ending, complain, say};
use hooklatch_contract::{
    OperationPreview, OperationState, OperationSubject, OperationView, SkippedRow, StepView,
};
use hooklatch_core::figures::grouped;

#[derive(Subcommand)]
pub(super) enum Operations {
    /// List the newest operations.
    List(PagingArgs),
    /// Show one operation and its progress.
    Show {
        /// Id of the operation.
        operation_id: String,
    },
    /// Follow one operation to its end; 7 when it still runs.
    Wait {
        /// Id of the operation.
        operation_id: String,
        /// Longest time to wait. Seconds; without it, until the end.
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<u64>,
    },
    /// Approve one operation that another operator ordered: it begins.
    Approve(DecideArgs),
    /// Continue one operation that stopped because too many of its calls failed.
    Continue(DecideArgs),
    /// Cancel one operation; what was done stays done.
    Cancel(DecideArgs),
}

#[derive(Args)]
pub(super) struct DecideArgs {
    /// Id of the operation.
    operation_id: String,
    #[command(flatten)]
    why: WhyArgs,
}

impl ServerCommand for Operations {
    fn run(&self, remote: &Remote) -> anyhow::Result<ExitCode> {
        match self {
            Self::List(paging) => remote.list::<OperationView>(&["operations"], &[], Some(paging)),
            Self::Show { operation_id } => {
                let found: ApiAnswer<OperationView> = remote.api.get(&["operations", operation_id], &[])?;
                remote.print(&found, in_full);
                if found.view.state == OperationState::Waiting && !remote.screen.is_json {
                    let path = ["operations", operation_id, "preview"];
                    let preview = remote.api.get::<OperationPreview>(&path, &[])?.view;
                    show_rows(&remote.screen, &preview);
                    preview.acts.iter().for_each(|act| say(act_in_full(act, 1)));
                }
                Ok(ExitCode::SUCCESS)
            }
            Self::Wait { operation_id, timeout } => {
                let found = remote.api.get(&["operations", operation_id], &[])?;
                let end = follow(remote, found, timeout.map(Duration::from_secs))?;
                Ok(print_end(remote, &end).code())
            }
            Self::Approve(args) => args.decide(remote, "approve"),
            Self::Continue(args) => args.decide(remote, "continue"),
            Self::Cancel(args) => args.decide(remote, "cancel"),
        }
    }
}

impl DecideArgs {
    fn decide(&self, remote: &Remote, word: &str) -> anyhow::Result<ExitCode> {
        let path = ["operations", &self.operation_id, word];
        remote.print(&remote.order(&path, &self.why.order(), &self.why)?, in_full);
        Ok(ExitCode::SUCCESS)
    }
}

/// The command that decides about an operation, to be typed as it stands but for the reason.
pub(super) fn command(word: &str, operation_id: &str) -> String {
    format!("hooklatch operations {word} {operation_id} --reason \"…\"")
}

impl ListRow for OperationView {
    const NOUN: &'static str = "operation";
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("ordered (UTC)"), |one, screen| screen.time(one.created_at_ms)),
        (Id("operation id"), |one, _| Shown::text(&one.operation_id)),
        (Whole("state"), |one, _| state(one.state)),
        (Whole("done"), |one, _| Shown::text(progress(one))),
        (Loose("what"), |one, _| Shown::text(in_words(&one.subject))),
        (Whole("by"), |one, _| Shown::text(&one.actor)),
        (Loose("reason"), |one, _| Shown::text(&one.reason)),
    ];
}

const STEPS: [Column; 6] =
    [Whole("step"), Whole("rows"), Whole("acted on"), Whole("calls open"), Whole("good"), Whole("failed")];

fn step_cells(n: usize, step: &StepView) -> Vec<Shown> {
    let counts = [step.rows_n, step.changed_n, step.open_n(), step.good_n, step.failed_n];
    let number = Shown::number(u64::try_from(n + 1).unwrap_or_default());
    std::iter::once(number).chain(counts.into_iter().map(Shown::number)).collect()
}

impl ListRow for SkippedRow {
    const COLUMNS: &'static [ListColumn<Self>] = &[
        (Whole("passed over"), |one, _| Shown::text(&one.subject)),
        (Whole("why"), |one, _| Shown::text(&one.outcome)),
        (Whole("state"), |one, _| Shown::or_dash(one.state.as_deref())),
    ];
}

/// All that is known of an operation.
fn in_full(view: &OperationView, screen: &Screen) -> String {
    let mut facts = vec![
        ("operation", Shown::text(&view.operation_id)),
        ("what", Shown::text(in_words(&view.subject))),
        ("state", state(view.state)),
        ("done", Shown::text(progress(view))),
        ("ordered", screen.time(view.created_at_ms)),
        ("by", Shown::text(&view.actor)),
        ("reason", Shown::text(&view.reason)),
    ];
    facts.extend(view.finished_at_ms.map(|ms| ("ended", screen.time(ms))));
    facts.extend(view.cancelled_by.as_deref().map(|actor| ("cancelled by", Shown::text(actor))));
    facts.extend(view.approved_by.as_deref().map(|actor| ("approved by", Shown::text(actor))));
    facts.extend(view.approve_until_ms.map(|ms| ("to be approved until", screen.time(ms))));
    facts.extend(view.note.as_deref().map(|note| ("why", Shown::text(note))));
    let mut parts = vec![fields(screen, &facts)];
    if let Some(steps) = &view.steps {
        let lines: Vec<Vec<Shown>> =
            steps.list.iter().enumerate().map(|(n, step)| step_cells(n, step)).collect();
        parts.push(table(screen, &STEPS, &lines, true));
    }
    if !view.skipped.is_empty() {
        parts.push(rows(screen, &view.skipped, true));
    }
    parts.join("\n\n")
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
fn progress(view: &OperationView) -> String {
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

/// Waits between two looks: the first, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Time between two lines of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Time for which a server may be away before it is given up.
const AWAY_MAX: Duration = Duration::from_mins(1);

/// Polls until the operation has ended, or for `within` at most; returns the last view.
pub(super) fn follow(
    remote: &Remote,
    begun: ApiAnswer<OperationView>,
    within: Option<Duration>,
) -> anyhow::Result<ApiAnswer<OperationView>> {
    let started = Instant::now();
    let (mut seen, mut wait) = (begun, LOOKS.0);
    let (mut shown, mut shown_at) = (String::new(), started);
    let mut away_since: Option<Instant> = None;
    remote.api.run(async {
        while seen.view.state == OperationState::Running && within.is_none_or(|most| started.elapsed() < most)
        {
            pause(wait).await;
            wait = (wait * 2).min(LOOKS.1);
            let id = seen.view.operation_id.clone();
            match remote.api.fetch(&["operations", &id], &[]).await {
                Ok(found) => (seen, away_since) = (found, None),
                Err(error) if is_away(&error) => {
                    if away_since.is_none() {
                        complain(format!("{error}; still looking"));
                    }
                    if away_since.get_or_insert_with(Instant::now).elapsed() > AWAY_MAX {
                        let more = format!("the operation goes on: `hooklatch operations wait {id}`");
                        return Err(anyhow::Error::from(error).context(more));
                    }
                }
                Err(error) => return Err(error.into()),
            }
            let now = watched(&seen.view);
            if now != shown && shown_at.elapsed() >= PROGRESS_EVERY {
                complain(&now);
                (shown, shown_at) = (now, Instant::now());
            }
        }
        Ok(seen)
    })
}

/// `412 of 1,000; step 2 of 4: calls of 12 not tried yet`.
fn watched(view: &OperationView) -> String {
    let done = progress(view);
    let Some(steps) = &view.steps else { return done };
    let step = usize::try_from(steps.current.saturating_sub(1)).ok().and_then(|place| steps.list.get(place));
    let open_n = step.map_or(0, StepView::open_n);
    let waits =
        if open_n > 0 { format!(": calls of {} not tried yet", grouped(open_n)) } else { String::new() };
    format!("{done}; step {} of {}{waits}", steps.current, steps.list.len())
}

/// True for an error that a retry may clear.
fn is_away(error: &ApiError) -> bool {
    match error {
        ApiError::Unreached { .. } | ApiError::Lost { .. } => true,
        ApiError::Refused(problem) => matches!(problem.status, 429 | 502..=504),
        ApiError::Foreign { status, .. } => *status >= 500,
    }
}

/// Prints the result of the operation.
pub(super) fn print_end(remote: &Remote, end: &ApiAnswer<OperationView>) -> Ending {
    remote.print(end, in_full);
    let id = &end.view.operation_id;
    match end.view.state {
        OperationState::Done => Ending::Done,
        OperationState::Running => Ending::NotDone,
        OperationState::Waiting => {
            complain(format!("another person has to approve it:\n  {}", command("approve", id)));
            Ending::NotDone
        }
        OperationState::Stopped => {
            let (go_on, end) = (command("continue", id), command("cancel", id));
            complain(format!(
                "it stopped because calls failed; look at them first, then one of:\n  {go_on}\n  {end}"
            ));
            Ending::Failed
        }
        OperationState::Cancelled => Ending::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hooklatch_contract::{EventAct, EventFilter, MessageAct, MessageFilter};
    use hooklatch_core::types::{EventState, MessageState};

    #[test]
    fn an_operation_is_described_in_words() {
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

    #[test]
    fn progress_says_the_step_and_what_it_waits_for() {
        let view = |steps: &str| -> OperationView {
            let text = format!(
                r#"{{"operation_id":"op-1","state":"running","subject":{{"messages":{{"act":"send","filter":{{}}}}}},
                "actor":"ann","reason":"x","created_at_ms":1,"finished_at_ms":null,"cancelled_by":null,
                "total_n":1000,"changed_n":412,"skipped_n":3,"skipped":[],"steps":{steps}}}"#
            );
            serde_json::from_str(&text).expect("an operation")
        };
        assert_eq!(watched(&view("null")), "412 of 1,000, 3 passed over");
        let steps = |changed_n: u64| {
            format!(
                r#"{{"per_s":50,"stop_percent":10,"current":2,"list":[
                {{"rows_n":1,"changed_n":1,"good_n":1,"failed_n":0}},
                {{"rows_n":999,"changed_n":{changed_n},"good_n":400,"failed_n":2}}]}}"#
            )
        };
        assert_eq!(
            watched(&view(&steps(414))),
            "412 of 1,000, 3 passed over; step 2 of 2: calls of 12 not tried yet"
        );
        assert_eq!(watched(&view(&steps(402))), "412 of 1,000, 3 passed over; step 2 of 2");
    }
}
