-- What people decide about messages, and that a repeated request of theirs decides once.

-- Claims that do not count against the attempts allowed: handed back unsent, or before a person's word.
ALTER TABLE outbox_messages ADD COLUMN attempts_before_n BIGINT NOT NULL DEFAULT 0;

CREATE TABLE idempotency_keys (
    actor           TEXT COLLATE "C" NOT NULL,
    idempotency_key TEXT COLLATE "C" NOT NULL,
    digest          BYTEA   NOT NULL,
    answer          TEXT COLLATE "C" NOT NULL,
    created_at_ms   BIGINT NOT NULL,
    PRIMARY KEY (actor, idempotency_key)
);

CREATE INDEX audit_log_message ON audit_log (message_id) WHERE message_id IS NOT NULL;
CREATE INDEX processed_webhook_events_received ON processed_webhook_events (received_at_ms);
