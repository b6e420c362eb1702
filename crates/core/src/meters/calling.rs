//! What goes out: messages, attempts, destinations.

use super::metric::{LONG_SECONDS, Metric, MetricGroup, QUICK_SECONDS, counter, gauge, histogram};

pub(super) const CALLING: MetricGroup = MetricGroup { title: "Messages and calls", metrics: ROWS };

const ROWS: &[Metric] = &[
    gauge(
        "hooklatch_destination_info",
        &["destination", "kind"],
        "1",
        "1 for each configured destination, with its kind.",
    ),
    gauge(
        "hooklatch_key_valid_seconds",
        &["destination"],
        "seconds",
        "How long a destination remembers an idempotency key: `key_valid_for_ms`.",
    ),
    gauge(
        "hooklatch_outbox_messages",
        &["destination", "state"],
        "messages",
        "Messages that are not done, by state; 10000 means as many or more.",
    ),
    gauge(
        "hooklatch_outbox_oldest_due_seconds",
        &["destination", "state"],
        "seconds",
        "How long the first message in that state has been due; 0 when none is.",
    ),
    histogram(
        "hooklatch_message_age_seconds",
        &["destination"],
        "seconds",
        LONG_SECONDS,
        "Time from when an event was received, or dispatched again, until a message that followed from it was done.",
    ),
    counter(
        "hooklatch_attempts_total",
        &["destination", "result"],
        "attempts",
        "Attempts that ended, by result.",
    ),
    histogram(
        "hooklatch_attempt_seconds",
        &["destination"],
        "seconds",
        QUICK_SECONDS,
        "Time that a call took.",
    ),
    gauge(
        "hooklatch_lanes_blocked",
        &["destination"],
        "lanes",
        "Lanes whose head waits for a person, with all that is behind it; 10000 means as many or more.",
    ),
    gauge(
        "hooklatch_key_left_seconds",
        &["destination"],
        "seconds",
        "Least time until the idempotency key of an open message is not known any more, negative when it has passed; absent where no key ends or no message is open.",
    ),
    gauge(
        "hooklatch_breaker_open",
        &["destination"],
        "0 or 1",
        "1 while a node makes calls only now and then because too many in a row failed; 0 after one that worked, and when nothing was left to try with for as long as the longest back-off.",
    ),
    gauge(
        "hooklatch_destination_paused",
        &["destination"],
        "0 or 1",
        "1 while an operator has paused a destination: no node sends to it.",
    ),
    gauge(
        "hooklatch_pause_due_timestamp_seconds",
        &["destination"],
        "unix seconds",
        "When a pause should be over: its end, or a day after it began where it has none; absent while there is none.",
    ),
    gauge(
        "hooklatch_provider_paused",
        &["provider"],
        "0 or 1",
        "1 while an operator has paused a provider: its events are admitted and not dispatched.",
    ),
    gauge(
        "hooklatch_provider_pause_due_timestamp_seconds",
        &["provider"],
        "unix seconds",
        "When a pause of a provider should be over: its end, or a day after it began where it has none; absent while there is none.",
    ),
    gauge(
        "hooklatch_concurrency",
        &["destination"],
        "calls",
        "Calls that a destination bears at once, as this node found out.",
    ),
    counter(
        "hooklatch_fenced_total",
        &["destination"],
        "attempts",
        "Settlements that changed nothing, because the lease had ended and another worker held the message.",
    ),
    gauge(
        "hooklatch_outbox_stray_messages",
        &[],
        "messages",
        "Messages that wait for destinations that are not configured; each state is counted up to 10000.",
    ),
];
