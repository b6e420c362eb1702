-- Events, what they said, what follows from them. Times are unix milliseconds; states are words.
-- `shard` (0 to 63, from provider and event id) keeps an event and all that is bound to it together.

CREATE TABLE installation (
    one             BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    installation_id TEXT COLLATE "C" NOT NULL,
    created_at_ms   BIGINT NOT NULL
);

CREATE TABLE processed_webhook_events (
    shard           SMALLINT NOT NULL,
    provider        TEXT COLLATE "C" NOT NULL,
    event_id        TEXT COLLATE "C" NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND 255),
    event_type      TEXT COLLATE "C" NOT NULL,
    digest          BYTEA    NOT NULL CHECK (octet_length(digest) = 32),
    -- For ids that no signature covers: equal for equal signed bytes, whatever id they came under.
    replay_key      BYTEA,
    object          TEXT COLLATE "C",
    version         BIGINT,
    state           TEXT COLLATE "C" NOT NULL,
    attempts_n      BIGINT NOT NULL,
    due_at_ms       BIGINT,
    error           TEXT COLLATE "C",
    generation      BIGINT NOT NULL DEFAULT 0,
    created_at_ms   BIGINT,
    received_at_ms  BIGINT NOT NULL,
    processed_at_ms BIGINT NOT NULL,
    PRIMARY KEY (provider, event_id)
);

CREATE UNIQUE INDEX processed_webhook_events_replay ON processed_webhook_events (provider, replay_key)
    WHERE replay_key IS NOT NULL;
CREATE INDEX processed_webhook_events_due ON processed_webhook_events (due_at_ms) WHERE state = 'retry';
CREATE INDEX processed_webhook_events_open ON processed_webhook_events (state)
    WHERE state IN ('retry', 'failed', 'unreadable');

CREATE TABLE webhook_payloads (
    shard          SMALLINT NOT NULL,
    provider       TEXT COLLATE "C" NOT NULL,
    event_id       TEXT COLLATE "C" NOT NULL,
    received_at_ms BIGINT NOT NULL,
    headers        TEXT COLLATE "C" NOT NULL,
    body           BYTEA    NOT NULL,
    PRIMARY KEY (provider, event_id)
);

CREATE TABLE object_versions (
    provider TEXT COLLATE "C" NOT NULL,
    object   TEXT COLLATE "C" NOT NULL,
    version  BIGINT NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (provider, object)
);

CREATE TABLE outbox_messages (
    message_id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    shard              SMALLINT NOT NULL,
    provider           TEXT COLLATE "C" NOT NULL,
    event_id           TEXT COLLATE "C" NOT NULL,
    event_type         TEXT COLLATE "C" NOT NULL,
    generation         BIGINT NOT NULL,
    effect_name        TEXT COLLATE "C" NOT NULL,
    idempotency_key    TEXT COLLATE "C" NOT NULL,
    destination        TEXT COLLATE "C" NOT NULL,
    method             TEXT COLLATE "C" NOT NULL,
    path               TEXT COLLATE "C" NOT NULL,
    headers            TEXT COLLATE "C" NOT NULL,
    -- NULL: the event's own bytes, from webhook_payloads.
    body               BYTEA,
    state              TEXT COLLATE "C" NOT NULL,
    -- Counts claims; the newest one is the fencing token.
    attempts_n         BIGINT NOT NULL DEFAULT 0,
    -- Due time when ready, end of the lease when leased.
    visible_at_ms      BIGINT NOT NULL,
    leased_by          TEXT COLLATE "C",
    last_result        TEXT COLLATE "C",
    last_error         TEXT COLLATE "C",
    first_sent_at_ms   BIGINT,
    key_valid_until_ms BIGINT,
    created_at_ms      BIGINT NOT NULL,
    settled_at_ms      BIGINT,
    UNIQUE (provider, event_id, generation, effect_name)
);

CREATE INDEX outbox_messages_due ON outbox_messages (destination, visible_at_ms, message_id)
    WHERE state IN ('ready', 'leased');
CREATE INDEX outbox_messages_stuck ON outbox_messages (destination, state) WHERE state IN ('held', 'dead');

CREATE TABLE outbox_attempts (
    message_id     TEXT COLLATE "C" NOT NULL,
    attempt_n      BIGINT NOT NULL,
    shard          SMALLINT NOT NULL,
    node           TEXT COLLATE "C" NOT NULL,
    started_at_ms  BIGINT NOT NULL,
    finished_at_ms BIGINT,
    result         TEXT COLLATE "C",
    http_status    BIGINT,
    error          TEXT COLLATE "C",
    PRIMARY KEY (message_id, attempt_n)
);

CREATE TABLE audit_log (
    audit_id   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    at_ms      BIGINT NOT NULL,
    actor      TEXT COLLATE "C" NOT NULL,
    action     TEXT COLLATE "C" NOT NULL,
    provider   TEXT COLLATE "C",
    event_id   TEXT COLLATE "C",
    message_id TEXT COLLATE "C",
    detail     TEXT COLLATE "C" NOT NULL
);

-- The default compression (pglz) costs a third of the throughput; a server built without lz4 keeps bodies as they are.
DO $$
BEGIN
    ALTER TABLE webhook_payloads ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE outbox_messages ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    ALTER TABLE webhook_payloads ALTER COLUMN body SET STORAGE EXTERNAL;
    ALTER TABLE outbox_messages ALTER COLUMN body SET STORAGE EXTERNAL;
END
$$;
