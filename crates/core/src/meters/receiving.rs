//! Receiving: requests, events, refusals.

use super::metric::{Metric, MetricGroup, QUICK_SECONDS, counter, gauge, histogram};

pub(super) const RECEIVING: MetricGroup = MetricGroup { title: "Requests and events", metrics: ROWS };

const ROWS: &[Metric] = &[
    gauge(
        "hooklatch_provider_info",
        &["provider", "kind"],
        "1",
        "1 for each configured provider, with its kind.",
    ),
    counter(
        "hooklatch_requests_total",
        &["provider", "outcome"],
        "requests",
        "Webhook requests that ended, by how they ended; provider is - for paths that no provider has.",
    ),
    histogram(
        "hooklatch_admit_seconds",
        &["provider"],
        "seconds",
        QUICK_SECONDS,
        "Time that a request waited for the commit of its events.",
    ),
    histogram(
        "hooklatch_batch_events",
        &[],
        "events",
        &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1_024.0],
        "Events that were committed in one transaction.",
    ),
    counter(
        "hooklatch_test_events_total",
        &["provider"],
        "events",
        "Test events that operators made; no other metric of requests counts them.",
    ),
    gauge(
        "hooklatch_admit_waiting",
        &[],
        "requests",
        "Requests that wait for the commit of their events now.",
    ),
    gauge(
        "hooklatch_admit_waiting_max",
        &[],
        "requests",
        "Most requests that may wait for a commit; one more is answered 503.",
    ),
    gauge(
        "hooklatch_inflight_bytes",
        &[],
        "bytes",
        "Memory that requests hold now, from their first byte until their events are written.",
    ),
    gauge(
        "hooklatch_inflight_bytes_max",
        &[],
        "bytes",
        "Most memory that requests may hold; one more is answered 503.",
    ),
    counter(
        "hooklatch_requests_given_up_total",
        &["provider"],
        "requests",
        "Requests whose sender hung up before its events were committed.",
    ),
    gauge(
        "hooklatch_last_accepted_timestamp_seconds",
        &["provider"],
        "unix seconds",
        "When the newest accepted event of a provider was received, by any node; absent before the first.",
    ),
    gauge(
        "hooklatch_usual_gap_seconds",
        &["provider"],
        "seconds",
        "How long the sender is silent as a rule: 95 of 100 seconds lay in gaps between accepted events that were no longer; a minute or more, absent while fewer than 20 gaps, or less than a day, were seen.",
    ),
    gauge(
        "hooklatch_answer_limit_seconds",
        &["provider"],
        "seconds",
        "How long a request may take: as long as its sender waits, or `server.answer_timeout_ms` if that is less.",
    ),
    gauge(
        "hooklatch_sender_retry_span_seconds",
        &["provider"],
        "seconds",
        "How long the sender of this kind repeats what it got no 2xx for; 0 when it never does, absent when its documentation does not say.",
    ),
    gauge(
        "hooklatch_refusing_since_timestamp_seconds",
        &[],
        "unix seconds",
        "Since when this node answered every request 5xx that it could have admitted; 0 while it admits, and once it is ready and \
         refused none for five minutes.",
    ),
    counter(
        "hooklatch_secret_matched_total",
        &["provider", "slot"],
        "requests",
        "Believed requests by the place of the secret that matched, as configured: slot 0 is the first, the newest.",
    ),
    counter(
        "hooklatch_rejected_total",
        &["provider", "reason"],
        "requests",
        "Requests that were not believed, by reason.",
    ),
    counter(
        "hooklatch_refused_total",
        &["provider", "reason", "signed"],
        "requests",
        "Requests that were neither admitted nor rejected, by the code of the answer; signed is yes where a signature header was there or none can be, provider is - for paths that no provider has.",
    ),
    counter(
        "hooklatch_rejections_dropped_total",
        &[],
        "requests",
        "Refused requests of which no note was kept, because their provider's share of notes was used up.",
    ),
    counter(
        "hooklatch_unidentified_total",
        &["provider"],
        "requests",
        "Believed requests in which no event id was found where the kind says that it stands.",
    ),
    counter(
        "hooklatch_copies_uncounted_total",
        &[],
        "requests",
        "Copies of known events that were answered well and not counted, because the database was slow.",
    ),
    counter(
        "hooklatch_replays_unrecorded_total",
        &["provider"],
        "events",
        "Events of which it could not be noted that their signed text was seen before.",
    ),
    counter(
        "hooklatch_repeats_total",
        &["provider", "outcome"],
        "events",
        "Events whose signed text arrived before under another id, of bodies that may repeat: accepted, or replayed when another one was accepted within ten minutes.",
    ),
    counter(
        "hooklatch_conflicts_kept_total",
        &["provider"],
        "events",
        "Events with other content under a known id that were kept beside the first.",
    ),
    counter(
        "hooklatch_conflicts_unkept_total",
        &["provider"],
        "events",
        "Events with other content under a known id that were counted and not kept, because there are too many.",
    ),
    counter(
        "hooklatch_unreadable_cut_total",
        &["provider"],
        "events",
        "Events that could not be read and whose bytes were not kept, because their provider has too many of them.",
    ),
    counter(
        "hooklatch_unconfirmed_total",
        &["provider"],
        "events",
        "Events that were signed and are no documented form of their sender's: kept as a type that ends in .unconfirmed, for a handler to ask the sender.",
    ),
    counter("hooklatch_taken_total", &["provider"], "events", "New events that a route or a handler takes."),
    counter(
        "hooklatch_ignored_total",
        &["provider", "reason"],
        "events",
        "New events from which nothing followed, by reason: no_route when no route and no handler takes their type, handler when a handler ignored them, filter when the `when` of their routes was false.",
    ),
    counter(
        "hooklatch_dispatch_failures_total",
        &["provider", "state"],
        "events",
        "Dispatches that failed, by the state that the event got.",
    ),
    gauge(
        "hooklatch_events",
        &["provider", "state"],
        "events",
        "Events that wait for an operator, by state; 10000 means as many or more.",
    ),
    gauge(
        "hooklatch_events_oldest_seconds",
        &["provider", "state"],
        "seconds",
        "Age of the first event in that state; 0 when there is none.",
    ),
];
