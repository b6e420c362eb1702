-- Events, what they said, what follows from them. Times are unix milliseconds; states are words.
-- `shard` (0 to 63, from provider and event id) keeps an event and all that is bound to it together.

CREATE TABLE installation (
    one             INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    installation_id TEXT    NOT NULL,
    created_at_ms   INTEGER NOT NULL
) STRICT;

CREATE TABLE processed_webhook_events (
    shard           INTEGER NOT NULL,
    provider        TEXT    NOT NULL,
    event_id        TEXT    NOT NULL CHECK (length(CAST(event_id AS BLOB)) BETWEEN 1 AND 255),
    event_type      TEXT    NOT NULL,
    digest          BLOB    NOT NULL CHECK (length(digest) = 32),
    -- For ids that no signature covers: equal for equal signed bytes, whatever id they came under.
    replay_key      BLOB,
    object          TEXT,
    version         INTEGER,
    state           TEXT    NOT NULL,
    attempts_n      INTEGER NOT NULL,
    due_at_ms       INTEGER,
    error           TEXT,
    generation      INTEGER NOT NULL DEFAULT 0,
    created_at_ms   INTEGER,
    received_at_ms  INTEGER NOT NULL,
    processed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (provider, event_id)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX processed_webhook_events_replay ON processed_webhook_events (provider, replay_key)
    WHERE replay_key IS NOT NULL;
CREATE INDEX processed_webhook_events_due ON processed_webhook_events (due_at_ms) WHERE state = 'retry';
CREATE INDEX processed_webhook_events_open ON processed_webhook_events (state)
    WHERE state IN ('retry', 'failed', 'unreadable');

CREATE TABLE webhook_payloads (
    shard          INTEGER NOT NULL,
    provider       TEXT    NOT NULL,
    event_id       TEXT    NOT NULL,
    received_at_ms INTEGER NOT NULL,
    headers        TEXT    NOT NULL,
    body           BLOB    NOT NULL,
    PRIMARY KEY (provider, event_id)
) STRICT;

CREATE TABLE object_versions (
    provider TEXT    NOT NULL,
    object   TEXT    NOT NULL,
    version  INTEGER NOT NULL,
    event_id TEXT    NOT NULL,
    PRIMARY KEY (provider, object)
) STRICT, WITHOUT ROWID;

CREATE TABLE outbox_messages (
    message_id         TEXT    NOT NULL PRIMARY KEY,
    shard              INTEGER NOT NULL,
    provider           TEXT    NOT NULL,
    event_id           TEXT    NOT NULL,
    event_type         TEXT    NOT NULL,
    generation         INTEGER NOT NULL,
    effect_name        TEXT    NOT NULL,
    idempotency_key    TEXT    NOT NULL,
    destination        TEXT    NOT NULL,
    method             TEXT    NOT NULL,
    path               TEXT    NOT NULL,
    headers            TEXT    NOT NULL,
    -- NULL: the event's own bytes, from webhook_payloads.
    body               BLOB,
    state              TEXT    NOT NULL,
    -- Counts claims; the newest one is the fencing token.
    attempts_n         INTEGER NOT NULL DEFAULT 0,
    -- Due time when ready, end of the lease when leased.
    visible_at_ms      INTEGER NOT NULL,
    leased_by          TEXT,
    last_result        TEXT,
    last_error         TEXT,
    first_sent_at_ms   INTEGER,
    key_valid_until_ms INTEGER,
    created_at_ms      INTEGER NOT NULL,
    settled_at_ms      INTEGER,
    UNIQUE (provider, event_id, generation, effect_name)
) STRICT;

CREATE INDEX outbox_messages_due ON outbox_messages (destination, visible_at_ms, message_id)
    WHERE state IN ('ready', 'leased');
CREATE INDEX outbox_messages_stuck ON outbox_messages (destination, state) WHERE state IN ('held', 'dead');

CREATE TABLE outbox_attempts (
    message_id     TEXT    NOT NULL,
    attempt_n      INTEGER NOT NULL,
    shard          INTEGER NOT NULL,
    node           TEXT    NOT NULL,
    started_at_ms  INTEGER NOT NULL,
    finished_at_ms INTEGER,
    result         TEXT,
    http_status    INTEGER,
    error          TEXT,
    PRIMARY KEY (message_id, attempt_n)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit_log (
    audit_id   TEXT    NOT NULL PRIMARY KEY,
    at_ms      INTEGER NOT NULL,
    actor      TEXT    NOT NULL,
    action     TEXT    NOT NULL,
    provider   TEXT,
    event_id   TEXT,
    message_id TEXT,
    detail     TEXT    NOT NULL
) STRICT;
