//! Follows an operation to its end: progress on stderr, and patience with a server that is away for a while.

use std::time::{Duration, Instant};

use super::command::command;
use super::row::{in_full, progress};
use crate::api::{OperationState, OperationView, StepView};
use crate::cli::api_client::{ApiAnswer, ApiError, patience};
use crate::cli::desk::Desk;
use crate::cli::ending::Ending;
use crate::cli::shared::complain;
use crate::figures::grouped;

/// Waits between two looks: the first, and the longest.
const LOOKS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));
/// Time between two lines of progress.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Time for which a server may be away before it is given up.
const AWAY_MAX: Duration = Duration::from_mins(1);

/// Looks until it has ended, or for `within` at most; what was seen last.
pub(crate) fn follow(
    desk: &Desk,
    begun: ApiAnswer<OperationView>,
    within: Option<Duration>,
) -> anyhow::Result<ApiAnswer<OperationView>> {
    let started = Instant::now();
    let (mut seen, mut wait) = (begun, LOOKS.0);
    let (mut told, mut told_at) = (String::new(), started);
    let mut away_since: Option<Instant> = None;
    desk.api.run(async {
        while seen.view.state == OperationState::Running && within.is_none_or(|most| started.elapsed() < most)
        {
            patience(wait).await;
            wait = (wait * 2).min(LOOKS.1);
            let id = seen.view.operation_id.clone();
            match desk.api.fetch(&["operations", &id], &[]).await {
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
            if now != told && told_at.elapsed() >= TOLD_EVERY {
                complain(&now);
                (told, told_at) = (now, Instant::now());
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

/// True for what may be otherwise in a moment.
fn is_away(error: &ApiError) -> bool {
    match error {
        ApiError::Unreached { .. } | ApiError::Lost { .. } => true,
        ApiError::Refused(problem) => matches!(problem.status, 429 | 502..=504),
        ApiError::Foreign { status, .. } => *status >= 500,
    }
}

/// Prints how it ended.
pub(crate) fn ended(desk: &Desk, end: &ApiAnswer<OperationView>) -> Ending {
    desk.show(end, |view| in_full(view, &desk.screen));
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
