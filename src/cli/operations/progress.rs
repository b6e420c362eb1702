//! Follows an operation to its end: progress on stderr, and patience with a server that is away for a while.

use std::time::{Duration, Instant};

use super::command::command;
use super::row::{in_full, progress};
use crate::api::{OperationState, OperationView};
use crate::cli::api_client::{ApiAnswer, ApiError, patience};
use crate::cli::desk::Desk;
use crate::cli::ending::Ending;
use crate::cli::shared::complain;

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
            let now = progress(&seen.view);
            if now != told && told_at.elapsed() >= TOLD_EVERY {
                complain(&now);
                (told, told_at) = (now, Instant::now());
            }
        }
        Ok(seen)
    })
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
