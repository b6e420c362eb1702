//! What the statements that delete have in common: which events wait for somebody, what goes with what, and that each
//! statement has one that counts beside it.

/// Events in these states wait for somebody, with everything that is kept of them.
macro_rules! waiting {
    () => {
        "('retry', 'failed', 'unreadable', 'conflict')"
    };
}
/// True when an event, by the expression of its number, has a message that is neither done nor discarded.
macro_rules! no_open_message {
    ($event_seq:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.message_id >= ",
            $event_seq,
            " * 1024 AND q.message_id < (",
            $event_seq,
            " + 1) * 1024)"
        )
    };
}
macro_rules! no_body {
    ($event_seq:literal) => {
        concat!("NOT EXISTS (SELECT 1 FROM webhook_payloads p WHERE p.event_seq = ", $event_seq, ")")
    };
}
macro_rules! not_waiting {
    ($event_seq:literal) => {
        concat!(
            "NOT EXISTS (SELECT 1 FROM processed_webhook_events e WHERE e.event_seq = ",
            $event_seq,
            " AND e.state IN ",
            waiting!(),
            ")"
        )
    };
}
/// True when an event that is old enough goes with the round, by the expressions of its table and of the cuts of bodies
/// and messages. It is for counting before anything is deleted.
macro_rules! event_goes {
    ($e:literal, $bodies:literal, $messages:literal) => {
        concat!(
            $e,
            ".state NOT IN ",
            waiting!(),
            " AND NOT EXISTS (SELECT 1 FROM outbox_queue q WHERE q.message_id >= ",
            $e,
            ".event_seq * 1024 AND q.message_id < (",
            $e,
            ".event_seq + 1) * 1024) AND NOT EXISTS (SELECT 1 FROM outbox_finished f WHERE f.message_id >= ",
            $e,
            ".event_seq * 1024 AND f.message_id < (",
            $e,
            ".event_seq + 1) * 1024 AND f.finished_at_ms >= ",
            $messages,
            ") AND (COALESCE(",
            $e,
            ".processed_at_ms, ",
            $e,
            ".received_at_ms) < ",
            $bodies,
            " OR NOT EXISTS (SELECT 1 FROM webhook_payloads p WHERE p.event_seq = ",
            $e,
            ".event_seq))"
        )
    };
}
/// True when the bytes of an event, by the expression of its number, are gone or go with the round.
macro_rules! body_goes {
    ($event_seq:literal) => {
        concat!(
            " AND NOT EXISTS (SELECT 1 FROM webhook_payloads p
                 JOIN processed_webhook_events e ON e.event_seq = p.event_seq WHERE p.event_seq = ",
            $event_seq,
            " AND (e.state IN ",
            waiting!(),
            " OR COALESCE(e.processed_at_ms, e.received_at_ms) >= $3
                 OR EXISTS (SELECT 1 FROM outbox_finished f WHERE f.message_id >= p.event_seq * 1024
                     AND f.message_id < (p.event_seq + 1) * 1024 AND f.finished_at_ms >= $3)))"
        )
    };
}
/// Two statements: one that counts what would go, and one by which it goes. Who counts also says before when
/// bodies (`$3`) and messages (`$4`) go.
macro_rules! both {
    ($table:literal, $common:expr, $counted:expr, $gone:expr) => {
        (
            concat!(
                "/* prune_count */ SELECT COUNT(*) AS n FROM ",
                $table,
                " WHERE CAST($3 AS BIGINT) IS NOT NULL AND CAST($4 AS BIGINT) IS NOT NULL AND ",
                $common,
                $counted
            ),
            concat!("/* prune_delete */ DELETE FROM ", $table, " WHERE ", $common, $gone),
        )
    };
}
/// The same by two texts: who counts says when bodies (`$4`) and messages (`$5`) go.
macro_rules! both_by_texts {
    ($table:literal, $common:expr, $counted:expr, $gone:expr) => {
        (
            concat!(
                "/* prune_count */ SELECT COUNT(*) AS n FROM ",
                $table,
                " WHERE CAST($4 AS BIGINT) IS NOT NULL AND CAST($5 AS BIGINT) IS NOT NULL AND ",
                $common,
                $counted
            ),
            concat!("/* prune_delete */ DELETE FROM ", $table, " WHERE ", $common, $gone),
        )
    };
}

pub(super) use {body_goes, both, both_by_texts, event_goes, no_body, no_open_message, not_waiting, waiting};
