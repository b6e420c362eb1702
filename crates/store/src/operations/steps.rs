//! The steps of an operation that makes calls: how many rows may be acted on now, the results of the calls of those
//! that it acted on, and whether too many failed. The state is in the operation's row, and is changed under its lock.

use serde::{Deserialize, Serialize};

use super::OperationRow;
use crate::db::{DbResult, Executor, Row};
use hooklatch_contract::{OperationSteps, OperationSubject, StepView, StepsView};
use hooklatch_core::types::{EventState, UnixMs};

/// Results after which the share of failed calls is counted anew, so that a late failure is seen as soon as an early
/// one.
const WINDOW_N: u64 = 100;
/// Most rows that were acted on and whose calls have not been tried yet.
const OPEN_N_MAX: u64 = 200;

/// Characters of an error that are kept as the reason of a stop.
const ERROR_CHARS_MAX: usize = 200;

/// The steps of an operation and their counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Steps {
    per_s: u32,
    stop_percent: u32,
    /// Index of the step under way.
    at: usize,
    /// Results since the share was last counted anew: good ones and failed ones.
    window: (u64, u64),
    /// Pending results of calls that were made before an operator continued it.
    pardoned_n: u64,
    list: Vec<StepView>,
}

/// Results of rows whose calls were tried since the last look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Results {
    pub good_n: u64,
    pub failed_n: u64,
    /// The error of one that failed.
    pub error: Option<String>,
}

impl Steps {
    /// The steps of an operation on so many rows; `None` for none.
    pub(crate) fn plan(wanted: &OperationSteps, total_n: u64) -> Option<Self> {
        let mut left_n = total_n;
        let mut list = Vec::new();
        for size in wanted.sizes.iter().chain([&u64::MAX]) {
            let rows_n = left_n.min(*size);
            if rows_n > 0 {
                list.push(StepView { rows_n, ..StepView::default() });
            }
            left_n -= rows_n;
        }
        let is_stepped = !wanted.sizes.is_empty() && !list.is_empty();
        is_stepped.then_some(Self {
            per_s: wanted.per_s,
            stop_percent: wanted.stop_percent,
            at: 0,
            window: (0, 0),
            pardoned_n: 0,
            list,
        })
    }

    /// As operators see them.
    pub(crate) fn view(&self) -> StepsView {
        StepsView {
            per_s: self.per_s,
            stop_percent: self.stop_percent,
            current: u32::try_from(self.at + 1).unwrap_or(u32::MAX),
            list: self.list.clone(),
        }
    }

    /// Number of rows that have been acted on and whose calls have not been tried.
    pub(crate) fn open_n(&self) -> u64 {
        self.list.iter().map(StepView::open_n).sum()
    }

    /// Number of the last row of the step under way.
    fn end_n(&self) -> u64 {
        self.list.iter().take(self.at + 1).map(|step| step.rows_n).sum()
    }

    /// Counts results; the reason to stop when too many failed.
    pub(super) fn record_results(&mut self, results: &Results) -> Option<String> {
        let is_first = self.at == 0 && self.list.len() > 1;
        let (step_n, stop_percent) = (self.at + 1, u64::from(self.stop_percent));
        let step = self.list.get_mut(self.at)?;
        step.good_n += results.good_n;
        step.failed_n += results.failed_n;
        let rows_n = step.rows_n;
        let pardoned_n = self.pardoned_n.min(results.good_n + results.failed_n);
        let failed_n = results.failed_n.min(pardoned_n);
        self.pardoned_n -= pardoned_n;
        self.window.0 += results.good_n - (pardoned_n - failed_n);
        self.window.1 += results.failed_n - failed_n;
        let (settled_n, failed_n) = (self.window.0 + self.window.1, self.window.1);
        let of_n = settled_n.max(rows_n.min(WINDOW_N));
        let is_over = if is_first { failed_n > 0 } else { failed_n * 100 > stop_percent * of_n };
        if settled_n >= WINDOW_N && !is_over {
            self.window = (0, 0);
        }
        is_over.then(|| {
            let limit = if is_first {
                "none may fail in the first step".to_owned()
            } else {
                format!("at most {stop_percent} % may fail")
            };
            let error = results.error.as_deref().map(|error| format!("; one of them: {error}")).unwrap_or_default();
            format!("step {step_n}: {failed_n} of the last {settled_n} rows had a call that failed, {limit}{error}")
        })
    }

    /// Begins the next step when all of this one is settled.
    pub(crate) fn advance(&mut self, passed_n: u64) {
        while self.at + 1 < self.list.len() && passed_n >= self.end_n() && self.open_n() == 0 {
            self.at += 1;
            self.window = (0, 0);
        }
    }

    /// An operator continues it: failures so far no longer count, nor do pending results of the calls made so far.
    pub(super) fn forgive(&mut self) {
        self.window = (0, 0);
        self.pardoned_n = self.open_n();
    }

    /// Number of rows that may be acted on now, of a batch of `rows_n`.
    pub(crate) fn allowed_n(&self, passed_n: u64, since_ms: UnixMs, rows_n: u32) -> u32 {
        let left_n = self.end_n().saturating_sub(passed_n);
        let room_n = OPEN_N_MAX.saturating_sub(self.open_n());
        let due_n = since_ms.max(0).unsigned_abs().saturating_mul(self.per_s.into()) / 1_000;
        let due_n = due_n.min(self.per_s.into());
        u32::try_from(left_n.min(room_n).min(due_n)).unwrap_or(rows_n).min(rows_n)
    }

    /// Counts rows that were acted on. A row that was passed over tried nothing, so the step gets one of a later step
    /// in its place.
    pub(super) fn record_batch(&mut self, changed_n: u64, mut skipped_n: u64) {
        let Some(step) = self.list.get_mut(self.at) else { return };
        step.changed_n += changed_n;
        while skipped_n > 0
            && let Some(later) = self.list.get_mut(self.at + 1)
        {
            let moved_n = later.rows_n.min(skipped_n);
            later.rows_n -= moved_n;
            skipped_n -= moved_n;
            let is_used_up = later.rows_n == 0;
            if let Some(step) = self.list.get_mut(self.at) {
                step.rows_n += moved_n;
            }
            if is_used_up {
                self.list.remove(self.at + 1);
            }
        }
    }
}

/// Rows of messages whose calls have not been seen to be tried. `released` is not an attempt: nothing was sent.
const RESULTS_OF_MESSAGES: &str = "/* operation_results */ SELECT r.row_n, q.last_error AS error,
        CASE WHEN q.state IN ('held', 'dead') OR q.last_result IN ('retry', 'refused', 'unknown') OR d.state = 'discarded'
             THEN 1 ELSE 0 END AS is_failed,
        CASE WHEN q.message_id IS NULL THEN 0 ELSE 1 END AS is_open
    FROM operation_rows r
    LEFT JOIN outbox_queue q ON q.message_id = r.subject_id
    LEFT JOIN outbox_finished d ON d.message_id = r.subject_id
    WHERE r.operation_id = $1 AND r.result = 'open' ORDER BY r.row_n LIMIT 500";

/// Rows of events whose handlers, or whose newest calls, have not been seen to be tried.
const RESULTS_OF_EVENTS: &str =
    "/* operation_results */ SELECT r.row_n, e.state, e.attempts_n, c.failed_n, c.open_n,
        COALESCE(c.error, e.error) AS error
    FROM operation_rows r
    LEFT JOIN processed_webhook_events e ON e.event_seq = r.subject_id
    LEFT JOIN (
        SELECT o.row_n, MAX(q.last_error) AS error,
               SUM(CASE WHEN q.state IN ('held', 'dead') OR q.last_result IN ('retry', 'refused', 'unknown')
                        THEN 1 ELSE 0 END) AS failed_n,
               SUM(CASE WHEN q.state IN ('held', 'dead') OR q.last_result IN ('retry', 'refused', 'unknown')
                        THEN 0 ELSE 1 END) AS open_n
        FROM operation_rows o
        JOIN processed_webhook_events p ON p.event_seq = o.subject_id
        JOIN outbox_queue q ON q.message_id BETWEEN o.subject_id * 1024 AND o.subject_id * 1024 + 1023
             AND q.generation = p.generation
        WHERE o.operation_id = $1 AND o.result = 'open' GROUP BY o.row_n
    ) c ON c.row_n = r.row_n
    WHERE r.operation_id = $1 AND r.result = 'open' ORDER BY r.row_n LIMIT 500";

const MARK: &str = "/* operation_results */ UPDATE operation_rows SET result = $3
    WHERE operation_id = $1 AND row_n = ANY($2) AND result = 'open'";

/// Marks the rows whose calls were tried since the last look, each once, and counts them.
pub(super) async fn settle_results(db: &mut Executor<'_>, row: &OperationRow) -> DbResult<Results> {
    let sql = match row.view.subject {
        OperationSubject::Messages { .. } => RESULTS_OF_MESSAGES,
        OperationSubject::Events { .. } => RESULTS_OF_EVENTS,
    };
    let found = db.fetch(sql, &[row.view.operation_id.as_str().into()]).await?;
    let (mut good, mut failed, mut error) = (Vec::new(), Vec::new(), None);
    for found in &found {
        let result = match row.view.subject {
            OperationSubject::Messages { .. } => of_message(found)?,
            OperationSubject::Events { .. } => of_event(found)?,
        };
        match result {
            RowResult::Open => {}
            RowResult::Good => good.push(found.int("row_n")?),
            RowResult::Failed => {
                failed.push(found.int("row_n")?);
                let found: Option<String> = found.text_or_null("error")?;
                error = error.or(found.map(|found| found.chars().take(ERROR_CHARS_MAX).collect()));
            }
        }
    }
    let mut results = Results { error, ..Results::default() };
    for (rows, word, n) in [(good, "good", &mut results.good_n), (failed, "failed", &mut results.failed_n)] {
        if !rows.is_empty() {
            *n = db.execute(MARK, &[row.view.operation_id.as_str().into(), rows.into(), word.into()]).await?;
        }
    }
    Ok(results)
}

/// What became of a row.
enum RowResult {
    /// Its calls have not been tried, or its handlers have not run.
    Open,
    Good,
    Failed,
}

fn of_message(found: &Row) -> DbResult<RowResult> {
    Ok(match (found.int("is_failed")?, found.int("is_open")?) {
        (1, _) => RowResult::Failed,
        (_, 1) => RowResult::Open,
        _ => RowResult::Good,
    })
}

fn of_event(found: &Row) -> DbResult<RowResult> {
    let number = |column: &str| -> DbResult<i64> { Ok(found.int_or_null(column)?.unwrap_or_default()) };
    let state = found.text_or_null("state")?.as_deref().and_then(EventState::parse);
    Ok(match state {
        Some(EventState::Retry) if number("attempts_n")? == 0 => RowResult::Open,
        Some(EventState::Retry | EventState::Failed | EventState::Unreadable | EventState::Conflict) => {
            RowResult::Failed
        }
        Some(EventState::Handled) if number("failed_n")? > 0 => RowResult::Failed,
        Some(EventState::Handled) if number("open_n")? > 0 => RowResult::Open,
        // Handlers that made nothing of it, and what is no longer there.
        _ => RowResult::Good,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(sizes: &[u64], total_n: u64) -> Steps {
        let wanted = OperationSteps { sizes: sizes.to_vec(), per_s: 50, stop_percent: 10 };
        Steps::plan(&wanted, total_n).expect("steps")
    }

    fn results(good_n: u64, failed_n: u64) -> Results {
        Results { good_n, failed_n, error: (failed_n > 0).then(|| "status 500".to_owned()) }
    }

    /// Acts on all rows of the step under way.
    fn act(steps: &mut Steps, passed_n: &mut u64) {
        let changed_n = steps.end_n() - *passed_n;
        steps.record_batch(changed_n, 0);
        *passed_n += changed_n;
    }

    #[test]
    fn the_rows_are_divided_among_the_steps_and_the_rest() {
        #[track_caller]
        fn check(sizes: &[u64], total_n: u64, want: &[u64]) {
            let wanted = OperationSteps { sizes: sizes.to_vec(), ..OperationSteps::default() };
            let found = Steps::plan(&wanted, total_n);
            let found: Vec<u64> =
                found.map(|steps| steps.list.iter().map(|step| step.rows_n).collect()).unwrap_or_default();
            assert_eq!(found, want);
        }
        check(&[1, 10, 100], 5_000, &[1, 10, 100, 4_889]);
        check(&[1, 10, 100], 11, &[1, 10]);
        check(&[1, 10, 100], 12, &[1, 10, 1]);
        check(&[1, 10, 100], 0, &[]);
        check(&[], 5_000, &[]);
    }

    #[test]
    fn what_was_called_before_a_person_continued_it_stops_it_no_more() {
        let (mut steps, mut passed_n) = (steps(&[10], 20), 0);
        act(&mut steps, &mut passed_n);
        assert!(steps.record_results(&results(0, 2)).is_some());
        steps.forgive();
        assert_eq!(steps.record_results(&results(1, 7)), None, "all ten were called before");
        steps.advance(passed_n);
        act(&mut steps, &mut passed_n);
        assert!(steps.record_results(&results(0, 2)).is_some(), "these were called after it");
    }

    #[test]
    fn rows_that_are_passed_over_do_not_count_as_a_trial() {
        let (mut steps, mut passed_n) = (steps(&[1, 10], 14), 0);
        steps.record_batch(0, 1);
        passed_n += 1;
        steps.advance(passed_n);
        assert_eq!((steps.at, steps.allowed_n(passed_n, 60_000, 200)), (0, 1), "another one is tried first");
        steps.record_batch(1, 0);
        assert!(steps.record_results(&results(0, 1)).is_some(), "none may fail in the first step");
        steps.record_batch(0, 12);
        assert_eq!(steps.list.len(), 1, "{steps:?}");
        assert_eq!(steps.end_n(), 14);
    }

    #[test]
    fn a_step_waits_until_the_calls_of_the_one_before_were_tried() {
        let (mut steps, mut passed_n) = (steps(&[1, 10], 100), 0);
        assert_eq!(steps.allowed_n(0, 1_000, 200), 1);
        act(&mut steps, &mut passed_n);
        steps.advance(passed_n);
        assert_eq!((steps.at, steps.allowed_n(passed_n, 60_000, 200)), (0, 0), "its call is under way");
        assert_eq!(steps.record_results(&results(1, 0)), None);
        steps.advance(passed_n);
        assert_eq!((steps.at, steps.allowed_n(passed_n, 60_000, 200)), (1, 10));
        act(&mut steps, &mut passed_n);
        assert_eq!(steps.record_results(&results(9, 0)), None);
        steps.advance(passed_n);
        assert_eq!(steps.at, 1, "one is open");
        assert_eq!(steps.record_results(&results(0, 1)), None, "10 % are not more than 10 %");
        steps.advance(passed_n);
        assert_eq!(
            (steps.at, steps.allowed_n(passed_n, 60_000, 200)),
            (2, 50),
            "at most a second's rows at once"
        );
    }

    #[test]
    fn rows_are_acted_on_at_the_rate_and_not_far_ahead_of_their_calls() {
        let mut steps = steps(&[1_000], 1_000);
        for (since_ms, rows_n, want) in
            [(0, 200, 0), (20, 200, 1), (500, 200, 25), (500, 7, 7), (9_000, 200, 50), (-5, 9, 0)]
        {
            assert_eq!(steps.allowed_n(0, since_ms, rows_n), want, "{since_ms} ms");
        }
        steps.record_batch(190, 0);
        assert_eq!(steps.allowed_n(190, 1_000, 200), 10);
        steps.record_batch(10, 0);
        assert_eq!(steps.allowed_n(200, 1_000, 200), 0);
    }

    #[test]
    fn it_stops_when_too_many_fail_and_at_the_first_step_when_any_does() {
        #[track_caller]
        fn check(sizes: &[u64], at: usize, given: &[(u64, u64)], want: Option<&str>) {
            let mut steps = steps(sizes, 5_000);
            steps.at = at;
            let mut stopped = None;
            for (good_n, failed_n) in given {
                stopped = stopped.or_else(|| steps.record_results(&results(*good_n, *failed_n)));
            }
            assert_eq!(stopped.is_some(), want.is_some(), "{stopped:?}");
            let stopped = stopped.unwrap_or_default();
            assert!(want.is_none_or(|want| stopped.contains(want)), "{stopped}");
        }
        let sizes = &[1, 10, 100];
        check(sizes, 0, &[(1, 0)], None);
        check(
            sizes,
            0,
            &[(0, 1)],
            Some("step 1: 1 of the last 1 rows had a call that failed, none may fail"),
        );
        check(sizes, 1, &[(0, 1)], None);
        check(sizes, 1, &[(0, 2)], Some("step 2: 2 of the last 2"));
        check(sizes, 2, &[(50, 10)], None);
        check(sizes, 2, &[(50, 11)], Some("status 500"));
        // In the rest, late failures stop it as soon as immediate ones.
        check(sizes, 3, &[(4_000, 0), (0, 10)], None);
        check(sizes, 3, &[(4_000, 0), (0, 11)], Some("11 of the last 11"));
        check(&[5_000], 0, &[(0, 10)], None);
    }

    #[test]
    fn who_continues_it_forgives_what_failed() {
        let mut steps = steps(&[1, 10], 100);
        steps.record_batch(1, 0);
        assert!(steps.record_results(&results(0, 1)).is_some());
        steps.forgive();
        steps.advance(1);
        assert_eq!((steps.at, steps.open_n()), (1, 0));
        assert_eq!(steps.view().list[0].failed_n, 1);
    }

    #[test]
    fn steps_are_kept_as_they_are() {
        let steps = steps(&[1, 10], 100);
        let kept = serde_json::to_string(&steps).unwrap();
        assert_eq!(serde_json::from_str::<Steps>(&kept).unwrap(), steps);
    }
}
