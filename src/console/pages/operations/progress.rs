//! How far an operation is.

use maud::{Markup, html};

use crate::api::{OperationState, OperationView, StepView, StepsView};
use crate::console::parts::list;
use crate::figures::grouped;

/// Number of rows that are behind it.
fn passed_n(operation: &OperationView) -> u64 {
    operation.changed_n.saturating_add(operation.skipped_n)
}

/// How far it is, in a few words: `40 of 1,000`.
pub(super) fn brief(operation: &OperationView) -> String {
    format!("{} of {}", grouped(passed_n(operation)), grouped(operation.total_n))
}

/// How far it is, as a bar with the same in words.
pub(super) fn bar(operation: &OperationView) -> Markup {
    let OperationView { total_n, changed_n, skipped_n, .. } = operation;
    let left_n = total_n.saturating_sub(passed_n(operation));
    html! {
        // A bar of nothing has no end: one that is over is full.
        progress max=(total_n.max(&1)) value=(if *total_n == 0 { 1 } else { passed_n(operation) }) aria-label="Progress" {
            (brief(operation))
        }
        p {
            strong { (brief(operation)) } ": "
            (grouped(*changed_n)) " changed, " (grouped(*skipped_n)) " passed over"
            @if left_n > 0 {
                ", " (grouped(left_n))
                @if operation.state == OperationState::Cancelled { " left as they were" } @else { " to go" }
            }
            "."
        }
    }
}

/// The steps, with what became of their calls.
pub(super) fn steps(steps: &StepsView) -> Markup {
    let row = |(n, step): (usize, &StepView)| {
        let numbers = [step.rows_n, step.changed_n, step.open_n(), step.good_n, step.failed_n];
        let is_current = u32::try_from(n + 1).is_ok_and(|n| n == steps.current);
        html! { tr aria-current=[is_current.then_some("step")] { td { (n + 1) } @for number in numbers { td { (grouped(number)) } } } }
    };
    let rows: Vec<Markup> = steps.list.iter().enumerate().map(row).collect();
    html! {
        h2 { "Steps" }
        (list::table("Steps", &["Step", "Rows", "Acted on", "Calls not tried yet", "Good", "Failed"], &rows))
        p class="hint" {
            "At most " (steps.per_s) " rows a second. It stops by itself when a call of the first of several steps fails, or more than "
            (steps.stop_percent) " % of the others. A call that is tried again, or of which nobody knows, counts as failed."
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_a_bar_and_the_same_in_words() {
        #[track_caller]
        fn check(state: &str, counts: (u64, u64, u64), wants: &[&str]) {
            let (total_n, changed_n, skipped_n) = counts;
            let view = serde_json::json!({
                "operation_id": "o", "state": state, "actor": "ann", "reason": "r", "created_at_ms": 0, "total_n": total_n,
                "changed_n": changed_n, "skipped_n": skipped_n, "skipped": [],
                "subject": { "messages": { "act": "send", "filter": { "state": "dead" } } },
            });
            let drawn = bar(&serde_json::from_value(view).unwrap()).0;
            for want in wants {
                assert!(drawn.contains(want), "{want}: {drawn}");
            }
        }
        check("running", (1_000, 40, 2), &["max=\"1000\" value=\"42\"", "<strong>42 of 1,000", "958 to go"]);
        check("cancelled", (9, 4, 0), &["value=\"4\"", "5 left as they were"]);
        check("done", (9, 9, 0), &["9 changed, 0 passed over."]);
        check("done", (0, 0, 0), &["max=\"1\" value=\"1\"", "0 of 0"]);
    }
}
