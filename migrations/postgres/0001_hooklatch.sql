-- The tables by temperature: long-lived keys, contents written once, a queue of unfinished messages, an append-only
-- history. The same tables, columns and words as on SQLite. Times are unix milliseconds;
-- states are words. `shard` (0 to 1023, from provider and event id) is equal for an event and all its rows.

CREATE TABLE installation (
    one             BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    installation_id TEXT COLLATE "C" NOT NULL,
    created_at_ms   BIGINT NOT NULL,
    -- When the newest restore was taken over, in seconds since 2026: counters continue above it. 0: never.
    restored_s      BIGINT NOT NULL DEFAULT 0,
    -- Rows of the audit log up to this number may be deleted: pruning sets it.
    audit_pruned_seq BIGINT NOT NULL DEFAULT 0,
    -- Only in a backup: when it was made. A database with this value was restored.
    backup_at_ms    BIGINT,
    -- Identity of the database when a node last started on it; NULL: unknown.
    database_id     TEXT COLLATE "C",
    timeline        BIGINT,
    -- Number of updates of the witness beside SQLite's file; 0 on PostgreSQL.
    witnessed_n     BIGINT NOT NULL DEFAULT 0
);

-- Restores that were taken over: calls of the lost time are not in these tables, and may have been made.
CREATE TABLE restores (
    restored_s  BIGINT NOT NULL PRIMARY KEY,
    from_ms     BIGINT NOT NULL,
    until_ms    BIGINT NOT NULL,
    reason      TEXT COLLATE "C" NOT NULL
);

-- Oldest schema version that a running binary may want. A migration that only
-- expands keeps it; one that removes what an older binary uses raises it in its own text:
--     UPDATE schema_floor SET version = N;
CREATE TABLE schema_floor (
    one     BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    version BIGINT NOT NULL
);
INSERT INTO schema_floor (one, version) VALUES (1, 1);

-- Large tables are vacuumed after a fiftieth of them was deleted, not after a fifth, so that new rows reuse the
-- space. Rows that are never changed are frozen by the first vacuum that comes by, so that no later one, against the
-- wraparound of transaction ids, reads all of a table again.

-- Keys and outcomes -----------------------------------------------------------------------------------------------

-- A node draws 4,096 event numbers at once. Gaps are fine; numbers follow time to a few seconds.
CREATE SEQUENCE event_blocks AS BIGINT MINVALUE 4096 START WITH 4096 INCREMENT BY 4096;

-- Inserted first: the primary key admits an event once. Narrow rows, kept longest.
CREATE TABLE processed_webhook_events (
    provider        TEXT COLLATE "C" NOT NULL,
    event_id        TEXT COLLATE "C" NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND 255),
    -- Key of all other rows of the event.
    event_seq       BIGINT   NOT NULL,
    received_at_ms  BIGINT   NOT NULL,
    -- When it happened at the sender, if known.
    created_at_ms   BIGINT,
    -- When its state was decided; NULL: at admission.
    processed_at_ms BIGINT,
    -- When it is dispatched again; only with `retry`.
    due_at_ms       BIGINT,
    version         BIGINT,
    attempts_n      INTEGER  NOT NULL,
    -- Number of reruns.
    generation      INTEGER  NOT NULL DEFAULT 0,
    shard           SMALLINT NOT NULL,
    event_type      TEXT COLLATE "C" NOT NULL,
    digest          BYTEA    NOT NULL CHECK (octet_length(digest) = 32),
    -- The identity rule with its version: `sender/1`, `content/1`, `signal/1`.
    identity        TEXT COLLATE "C" NOT NULL,
    state           TEXT COLLATE "C" NOT NULL,
    object          TEXT COLLATE "C",
    -- For unsigned ids: equal for equal signed bytes under any id.
    replay_key      BYTEA,
    error           TEXT COLLATE "C",
    -- TRUE for an operator's test event. No sender's id can begin like its id.
    synthetic       BOOLEAN  NOT NULL GENERATED ALWAYS AS (left(event_id, 5) = 'test:') STORED,
    PRIMARY KEY (provider, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE UNIQUE INDEX processed_webhook_events_seq ON processed_webhook_events (event_seq);
CREATE UNIQUE INDEX processed_webhook_events_replay ON processed_webhook_events (provider, replay_key)
    WHERE replay_key IS NOT NULL;
-- Events that wait for a retry or an operator, by number.
CREATE INDEX processed_webhook_events_due ON processed_webhook_events (provider, due_at_ms, event_seq)
    WHERE state = 'retry';
CREATE INDEX processed_webhook_events_open ON processed_webhook_events (state, event_seq)
    WHERE state IN ('retry', 'failed', 'unreadable', 'conflict');
-- The same by provider, for counts. IS TRUE differs from the condition above, so that
-- the planner does not use this index for the names of providers.
CREATE INDEX processed_webhook_events_waiting ON processed_webhook_events (provider, state, event_seq)
    WHERE (state IN ('retry', 'failed', 'unreadable', 'conflict')) IS TRUE;
-- For searches by object. Events without an object are not in it.
CREATE INDEX processed_webhook_events_object ON processed_webhook_events (object, event_seq) WHERE object IS NOT NULL;

-- Number of an event's further contents without a row of their own.
CREATE TABLE conflict_counts (
    provider TEXT COLLATE "C" NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    unkept_n BIGINT NOT NULL,
    PRIMARY KEY (provider, event_id)
);

-- Number of an event's copies, written periodically: a crash loses some.
CREATE TABLE event_copies (
    provider    TEXT COLLATE "C" NOT NULL,
    event_id    TEXT COLLATE "C" NOT NULL,
    copies_n    BIGINT NOT NULL,
    first_at_ms BIGINT NOT NULL,
    last_at_ms  BIGINT NOT NULL,
    PRIMARY KEY (provider, event_id)
);

-- The newest firing of a signal without an id, and the start of its window.
CREATE TABLE signal_firings (
    provider        TEXT COLLATE "C" NOT NULL,
    signal          TEXT COLLATE "C" NOT NULL,
    firing_n        BIGINT NOT NULL,
    counted_from_ms BIGINT NOT NULL,
    PRIMARY KEY (provider, signal)
);

-- The highest version of each object, for `latest` handlers.
CREATE TABLE object_versions (
    provider  TEXT COLLATE "C" NOT NULL,
    object    TEXT COLLATE "C" NOT NULL,
    version   BIGINT NOT NULL,
    event_seq BIGINT NOT NULL,
    PRIMARY KEY (provider, object)
);

-- Contents: written once, never changed ------------------------------------------------------------------------------

-- Received headers and bytes.
CREATE TABLE webhook_payloads (
    event_seq BIGINT   NOT NULL PRIMARY KEY,
    shard     SMALLINT NOT NULL,
    -- Fingerprint of the matching secret, as in `secret_uses`. NULL: none.
    secret    BIGINT,
    headers   TEXT COLLATE "C" NOT NULL,
    body      BYTEA    NOT NULL,
    -- With `[encryption]`: id of the key that encrypted this row. NULL: in clear.
    key_id    TEXT COLLATE "C",
    -- Redacted values of `body`; NULL: `body` is unchanged.
    redacted_n INTEGER,
    -- The original bytes of a redacted body, while the event is unfinished.
    whole     BYTEA,
    -- With `[encryption]`: the event's search ids, encrypted, so that digests can be computed under another key.
    search_ids TEXT COLLATE "C",
    -- Number of rows in `webhook_body_parts` with the bytes of `body`, which is then empty. NULL: `body` is complete.
    parts_n   INTEGER
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 0,
        toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_freeze_min_age = 0);
-- For counting the rows of each key.
CREATE INDEX webhook_payloads_key ON webhook_payloads (key_id, event_seq) WHERE key_id IS NOT NULL;
CREATE INDEX webhook_payloads_whole ON webhook_payloads (event_seq) WHERE whole IS NOT NULL;

-- Parts of large bodies, written before their event is latched, under the event's future number.
CREATE TABLE webhook_body_parts (
    event_seq BIGINT   NOT NULL,
    part_n    INTEGER  NOT NULL,
    shard     SMALLINT NOT NULL,
    part      BYTEA    NOT NULL,
    PRIMARY KEY (event_seq, part_n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 0,
        toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_freeze_min_age = 0);
-- Compression would take longer than writing.
ALTER TABLE webhook_body_parts ALTER COLUMN part SET STORAGE EXTERNAL;
CREATE FUNCTION webhook_body_parts_delete() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM webhook_body_parts WHERE event_seq = OLD.event_seq;
    RETURN NULL;
END
$$;
CREATE TRIGGER webhook_payloads_parts AFTER DELETE ON webhook_payloads FOR EACH ROW
    WHEN (OLD.parts_n IS NOT NULL) EXECUTE FUNCTION webhook_body_parts_delete();
-- Bodies whose parts are being written: the latch deletes the row. Pruning deletes what a crash leaves.
CREATE TABLE unlatched_bodies (
    event_seq   BIGINT NOT NULL PRIMARY KEY,
    begun_at_ms BIGINT NOT NULL
);

-- Searchable ids inside an event: payment, invoice, order. In lower case, or with `[encryption]` a keyed
-- digest (`H:…`). Deleted with the event's body.
CREATE TABLE event_search_ids (
    -- event_seq / 1024: ids are random, and within a block few pages are written.
    block      BIGINT   NOT NULL,
    search_key TEXT COLLATE "C" NOT NULL,
    event_seq  BIGINT   NOT NULL,
    shard      SMALLINT NOT NULL,
    PRIMARY KEY (block, search_key, event_seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 0);

-- Contents of messages that differ from a POST of the event's bytes.
CREATE TABLE outbox_contents (
    message_id BIGINT   NOT NULL PRIMARY KEY,
    shard      SMALLINT NOT NULL,
    method     TEXT COLLATE "C" NOT NULL,
    path       TEXT COLLATE "C" NOT NULL,
    headers    TEXT COLLATE "C" NOT NULL,
    -- NULL: the event's own bytes.
    body       BYTEA,
    -- As in `webhook_payloads`.
    key_id     TEXT COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 0,
        toast.autovacuum_vacuum_scale_factor = 0.02, toast.autovacuum_freeze_min_age = 0);
CREATE INDEX outbox_contents_key ON outbox_contents (key_id, message_id) WHERE key_id IS NOT NULL;

-- All `[encryption]` keys used so far, each with a check value of key and id.
CREATE TABLE encryption_keys (
    key_id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    check_value   BYTEA  NOT NULL,
    written_at_ms BIGINT NOT NULL
);

-- The queue ----------------------------------------------------------------------------------------------------------

-- Messages that are neither done nor discarded: small, updated in place, deleted at the end.
CREATE TABLE outbox_queue (
    -- event_seq * 1024 + its place among the event's messages.
    message_id         BIGINT   NOT NULL PRIMARY KEY,
    -- When ready: due time; leased: end of the lease; held or dead: since when.
    visible_at_ms      BIGINT   NOT NULL,
    created_at_ms      BIGINT   NOT NULL,
    -- Time of the newest claim.
    leased_at_ms       BIGINT,
    first_sent_at_ms   BIGINT,
    key_valid_until_ms BIGINT,
    -- When the last call ended.
    last_ended_at_ms   BIGINT,
    lane_seq           BIGINT,
    -- Counts claims; the newest one is the fencing token.
    attempts_n         INTEGER  NOT NULL DEFAULT 0,
    -- Claims that do not count as attempts: returned unsent, or before an operator's decision.
    attempts_before_n  INTEGER  NOT NULL DEFAULT 0,
    generation         INTEGER  NOT NULL DEFAULT 0,
    last_http_status   INTEGER,
    -- Approximate bytes of its body, which bound a claim's memory.
    body_bytes_n       INTEGER  NOT NULL DEFAULT 0,
    shard              SMALLINT NOT NULL,
    state              TEXT COLLATE "C" NOT NULL,
    destination        TEXT COLLATE "C" NOT NULL,
    -- NULL: the destination's.
    effect_name        TEXT COLLATE "C",
    -- The node that holds or last held it.
    node               TEXT COLLATE "C",
    lane               TEXT COLLATE "C",
    last_result        TEXT COLLATE "C",
    last_error         TEXT COLLATE "C",
    -- The destination's `unknown` at calls that may have taken effect (`retry`, `query`, `hold`), the
    -- strictest of them; `restored`: a call may have been made in the lost time. NULL: none.
    sent_under         TEXT COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
CREATE INDEX outbox_queue_due ON outbox_queue (destination, visible_at_ms, message_id)
    WHERE state IN ('ready', 'leased');
CREATE INDEX outbox_queue_stuck ON outbox_queue (destination, state, message_id)
    WHERE state IN ('held', 'dead', 'waiting');
-- Messages that need a decision, by number, for lists of events. IS TRUE differs from the condition below, so that
-- the planner does not use this index for one destination.
CREATE INDEX outbox_queue_decide ON outbox_queue (message_id) WHERE (state IN ('held', 'dead')) IS TRUE;
-- Lanes whose head waits for an operator.
CREATE INDEX outbox_queue_blocked ON outbox_queue (destination, lane)
    WHERE lane IS NOT NULL AND state IN ('held', 'dead');
-- By expiry of the key. Messages done at the first attempt are never in it.
CREATE INDEX outbox_queue_key ON outbox_queue (destination, key_valid_until_ms)
    WHERE key_valid_until_ms IS NOT NULL AND state IN ('ready', 'held');
CREATE UNIQUE INDEX outbox_queue_lane ON outbox_queue (destination, lane, lane_seq) WHERE lane IS NOT NULL;
-- At most one running message a lane.
CREATE UNIQUE INDEX outbox_queue_lane_leased ON outbox_queue (destination, lane)
    WHERE lane IS NOT NULL AND state = 'leased';

-- Appending to a lane and moving its head lock this row first, so numbers follow the order of commits.
CREATE TABLE outbox_lanes (
    destination TEXT COLLATE "C" NOT NULL,
    lane        TEXT COLLATE "C" NOT NULL,
    head_seq    BIGINT NOT NULL DEFAULT 1,
    tail_seq    BIGINT NOT NULL DEFAULT 0,
    used_at_ms  BIGINT NOT NULL,
    PRIMARY KEY (destination, lane)
);

-- Paused destinations: no message is claimed until they are resumed, by an operator or at their end.
CREATE TABLE destination_pauses (
    destination  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    actor        TEXT COLLATE "C" NOT NULL,
    reason       TEXT COLLATE "C" NOT NULL,
    paused_at_ms BIGINT NOT NULL,
    until_ms     BIGINT
);

-- Providers whose events are not dispatched until they are resumed, by an operator or at their end. A pause that has
-- ended keeps its row: the age of what waited counts from then.
CREATE TABLE provider_pauses (
    provider     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    actor        TEXT COLLATE "C" NOT NULL,
    reason       TEXT COLLATE "C" NOT NULL,
    paused_at_ms BIGINT NOT NULL,
    until_ms     BIGINT,
    ended_at_ms  BIGINT
);

-- History: appended, never changed -----------------------------------------------------------------------------------

-- Done and discarded messages.
CREATE TABLE outbox_finished (
    message_id       BIGINT   NOT NULL PRIMARY KEY,
    created_at_ms    BIGINT   NOT NULL,
    first_sent_at_ms BIGINT,
    finished_at_ms   BIGINT   NOT NULL,
    attempts_n       INTEGER  NOT NULL,
    generation       INTEGER  NOT NULL,
    http_status      INTEGER,
    shard            SMALLINT NOT NULL,
    state            TEXT COLLATE "C" NOT NULL,
    destination      TEXT COLLATE "C" NOT NULL,
    effect_name      TEXT COLLATE "C",
    node             TEXT COLLATE "C",
    lane             TEXT COLLATE "C",
    last_result      TEXT COLLATE "C",
    last_error       TEXT COLLATE "C",
    -- As in the queue, of those that an operator finished: calls that may have taken effect. NULL: none.
    sent_under       TEXT COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 0);

-- Attempts with more facts than the message's row: those that did not end done, later ones, and those with
-- a captured answer. The running one is in the queue, a successful first one in `outbox_finished`.
CREATE TABLE outbox_attempts (
    message_id     BIGINT  NOT NULL,
    attempt_n      INTEGER NOT NULL,
    started_at_ms  BIGINT  NOT NULL,
    finished_at_ms BIGINT  NOT NULL,
    http_status    INTEGER,
    shard          SMALLINT NOT NULL,
    node           TEXT COLLATE "C" NOT NULL,
    result         TEXT COLLATE "C" NOT NULL,
    error          TEXT COLLATE "C",
    response       TEXT COLLATE "C",
    -- Id of the key that encrypted `response`.
    key_id         TEXT COLLATE "C",
    PRIMARY KEY (message_id, attempt_n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, autovacuum_freeze_min_age = 0);
CREATE INDEX outbox_attempts_key ON outbox_attempts (key_id, message_id, attempt_n) WHERE key_id IS NOT NULL;

-- Operators' decisions and reads of contents. Only `crates/store/src/audit.rs` adds rows.
CREATE TABLE audit_log (
    audit_seq    BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    at_ms        BIGINT NOT NULL,
    actor        TEXT COLLATE "C" NOT NULL,
    action       TEXT COLLATE "C" NOT NULL,
    provider     TEXT COLLATE "C",
    event_id     TEXT COLLATE "C",
    message_id   BIGINT,
    -- The operation that it was part of.
    operation_id TEXT COLLATE "C",
    detail       TEXT COLLATE "C" NOT NULL
);
CREATE INDEX audit_log_event ON audit_log (provider, event_id, audit_seq) WHERE event_id IS NOT NULL;
CREATE INDEX audit_log_message ON audit_log (message_id) WHERE message_id IS NOT NULL;

-- Rows are never changed, and deleted only up to the number that pruning has set. The owner of the tables can drop
-- these triggers: the log of the process has each row, too.
CREATE FUNCTION audit_refuse() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the audit log is only appended to, and pruned by Hooklatch alone';
END
$$;
CREATE TRIGGER audit_log_update BEFORE UPDATE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_refuse();
CREATE TRIGGER audit_log_truncate BEFORE TRUNCATE ON audit_log FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse();
CREATE FUNCTION audit_log_is_pruned() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    IF OLD.audit_seq > (SELECT audit_pruned_seq FROM installation WHERE one = 1) THEN
        RAISE EXCEPTION 'the audit log is only appended to, and pruned by Hooklatch alone';
    END IF;
    RETURN OLD;
END
$$;
CREATE TRIGGER audit_log_delete BEFORE DELETE ON audit_log FOR EACH ROW EXECUTE FUNCTION audit_log_is_pruned();

-- Operators' tokens created at run time, without those of the configuration. A token is 256 random bits
-- and is stored as its SHA-256.
CREATE TABLE operator_tokens (
    token_id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name            TEXT COLLATE "C" NOT NULL,
    role            TEXT COLLATE "C" NOT NULL,
    -- Its scope, as a list in JSON; NULL: everything.
    providers       TEXT COLLATE "C",
    destinations    TEXT COLLATE "C",
    digest          BYTEA NOT NULL,
    created_by      TEXT COLLATE "C" NOT NULL,
    -- The request that created it; a repetition creates no other one.
    idempotency_key TEXT COLLATE "C" NOT NULL,
    created_at_ms   BIGINT NOT NULL,
    expires_at_ms   BIGINT NOT NULL,
    revoked_at_ms   BIGINT,
    -- To about a minute.
    last_used_at_ms BIGINT
);
CREATE UNIQUE INDEX operator_tokens_digest ON operator_tokens (digest);
CREATE UNIQUE INDEX operator_tokens_name ON operator_tokens (name) WHERE revoked_at_ms IS NULL;
CREATE UNIQUE INDEX operator_tokens_key ON operator_tokens (created_by, idempotency_key);

-- Sessions of the console. A session is 256 random bits in a cookie, stored as its SHA-256, and is valid while
-- its token is.
CREATE TABLE operator_sessions (
    -- In hexadecimal.
    digest        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    -- Name of its token, created at run time or configured.
    token_name    TEXT COLLATE "C" NOT NULL,
    -- SHA-256 of the session and the token's digest: without the session, no token can be tried against it.
    token_bound   BYTEA NOT NULL,
    created_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL
);
CREATE INDEX operator_sessions_token ON operator_sessions (token_name, created_at_ms);
CREATE INDEX operator_sessions_expired ON operator_sessions (expires_at_ms);

-- Operations: acts ordered on all rows that a filter found. A batch locks the operation's row; rows up to
-- changed_n + skipped_n are behind it.
CREATE TABLE operations (
    operation_id   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at_ms  BIGINT NOT NULL,
    finished_at_ms BIGINT,
    -- Time of the newest batch.
    stepped_at_ms  BIGINT NOT NULL,
    total_n        BIGINT NOT NULL,
    changed_n      BIGINT NOT NULL,
    skipped_n      BIGINT NOT NULL,
    state          TEXT COLLATE "C" NOT NULL,
    actor          TEXT COLLATE "C" NOT NULL,
    reason         TEXT COLLATE "C" NOT NULL,
    -- The ordered act and filter.
    subject        TEXT COLLATE "C" NOT NULL,
    -- The scope of the ordering token; NULL: everything.
    providers      TEXT COLLATE "C",
    destinations   TEXT COLLATE "C",
    cancelled_by   TEXT COLLATE "C",
    -- With `waiting`: until when a second person can approve it.
    expires_at_ms  BIGINT,
    approved_by    TEXT COLLATE "C",
    -- Why it stopped or ended.
    note           TEXT COLLATE "C",
    -- Its steps with their counts, in JSON; NULL: all at once.
    steps          TEXT COLLATE "C"
);
CREATE INDEX operations_running ON operations (stepped_at_ms) WHERE state = 'running';
CREATE INDEX operations_unfinished ON operations (operation_id) WHERE finished_at_ms IS NULL;
CREATE INDEX operations_finished ON operations (finished_at_ms) WHERE finished_at_ms IS NOT NULL;

-- The set of an operation, fixed with the order, and the result of each row.
CREATE TABLE operation_rows (
    operation_id TEXT COLLATE "C" NOT NULL,
    row_n        BIGINT NOT NULL,
    -- Number of the message, or of the event.
    subject_id   BIGINT NOT NULL,
    -- NULL until it was `changed` or skipped.
    outcome      TEXT COLLATE "C",
    -- Its state when it was skipped.
    stood        TEXT COLLATE "C",
    -- In an operation with steps: `open` until its calls were tried, then `good` or `failed`.
    result       TEXT COLLATE "C",
    PRIMARY KEY (operation_id, row_n)
);
CREATE INDEX operation_rows_skipped ON operation_rows (operation_id, row_n) WHERE outcome <> 'changed';
CREATE INDEX operation_rows_open ON operation_rows (operation_id, row_n) WHERE result = 'open';

-- Idempotency keys of operators' requests and of the program's own routes. The row is written
-- before the request is carried out, or in the transaction of its effect, and is pruned after its window.
CREATE TABLE idempotency_keys (
    -- Its owner: `operator:` or `app:` and a name.
    principal       TEXT COLLATE "C" NOT NULL,
    idempotency_key TEXT COLLATE "C" NOT NULL,
    -- Digest of the whole request: another request under the key is refused.
    fingerprint     BYTEA  NOT NULL CHECK (octet_length(fingerprint) = 32),
    -- `processing`, `succeeded`, `failed` or `released`.
    state           TEXT COLLATE "C" NOT NULL,
    -- Counts claims; only the newest one may write an answer.
    fence           BIGINT NOT NULL,
    -- Until then no other caller carries it out; with `processing`.
    locked_until_ms BIGINT NOT NULL,
    created_at_ms   BIGINT NOT NULL,
    expires_at_ms   BIGINT NOT NULL,
    -- The answer: with `succeeded` and `failed`. A body of NULL was not stored.
    status          BIGINT,
    headers         TEXT COLLATE "C",
    body            BYTEA,
    PRIMARY KEY (principal, idempotency_key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at_ms);

-- Refused requests, the newest of each provider, without bodies; and which secret still matches.
CREATE TABLE rejected_requests (
    rejection_id   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    provider       TEXT COLLATE "C" NOT NULL,
    received_at_ms BIGINT NOT NULL,
    step           TEXT COLLATE "C" NOT NULL,
    reason         TEXT COLLATE "C" NOT NULL,
    detail         TEXT COLLATE "C" NOT NULL,
    headers        TEXT COLLATE "C" NOT NULL,
    body_digest    BYTEA  NOT NULL,
    body_bytes_n   BIGINT NOT NULL,
    client_address TEXT COLLATE "C"
);
CREATE INDEX rejected_requests_provider ON rejected_requests (provider, rejection_id);

-- A secret is named by a fingerprint keyed with the installation's id, which reveals nothing about it.
CREATE TABLE secret_uses (
    provider           TEXT COLLATE "C" NOT NULL,
    fingerprint        TEXT COLLATE "C" NOT NULL,
    matched_n          BIGINT NOT NULL,
    last_matched_at_ms BIGINT NOT NULL,
    PRIMARY KEY (provider, fingerprint)
);

-- How often each sender sends: when its newest event was accepted, and how long the gaps between minutes with accepted
-- events were, as seconds that lay in gaps of each size. A row for each provider, changed once a minute at most.
CREATE TABLE provider_rhythms (
    provider            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    last_accepted_at_ms BIGINT NOT NULL,
    gaps_n              BIGINT NOT NULL,
    -- A list in JSON.
    gap_seconds         TEXT COLLATE "C" NOT NULL
);

-- Requests by provider and outcome, attempts by destination and result, hour by hour. Each node adds what it counted,
-- once a minute.
CREATE TABLE activity (
    -- Beginning of the hour in which it was added.
    hour_ms   BIGINT NOT NULL,
    -- `provider` or `destination`.
    subject   TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    outcome   TEXT COLLATE "C" NOT NULL,
    counted_n BIGINT NOT NULL,
    PRIMARY KEY (hour_ms, subject, name, outcome)
);

-- A secret received during pairing: the newest of each provider, until it was shown once.
CREATE TABLE pairing_secrets (
    provider     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    secret       TEXT COLLATE "C" NOT NULL,
    paired_at_ms BIGINT NOT NULL
);

-- Keys fetched from senders' hosts that verified a request, kept over restarts. At most 32 of
-- each provider.
CREATE TABLE fetched_keys (
    provider      TEXT COLLATE "C" NOT NULL,
    -- SHA-256 of the id, and of everything that determined the fetch.
    digest        BYTEA NOT NULL,
    fetched_at_ms BIGINT NOT NULL,
    -- Id, key and time in JSON; encrypted with `key_id`.
    content       BYTEA NOT NULL,
    key_id        TEXT COLLATE "C",
    PRIMARY KEY (provider, digest)
);

-- Nodes that run, or ran within the hour, to compare their versions.
CREATE TABLE nodes (
    node           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    version        TEXT COLLATE "C" NOT NULL,
    -- Version of the schema that its binary wants.
    schema_version BIGINT NOT NULL,
    seen_at_ms     BIGINT NOT NULL
);

-- Which node prunes: one at a time.
CREATE TABLE retention_lease (
    one      BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    node     TEXT COLLATE "C" NOT NULL,
    until_ms BIGINT NOT NULL,
    -- The newest event of which finished messages were pruned; -1: none yet. Of events up to it, messages may be missing.
    messages_pruned_seq BIGINT NOT NULL DEFAULT -1,
    -- Time of the last round. A clock that is days beyond it is doubted at first.
    counted_at_ms BIGINT
);
INSERT INTO retention_lease (one, node, until_ms) VALUES (1, '', 0);

-- Position of pruning among ids with this window: the next node continues there.
CREATE TABLE retention_marks (
    days        BIGINT NOT NULL PRIMARY KEY,
    event_seq   BIGINT NOT NULL,
    begun_at_ms BIGINT NOT NULL
);

-- All messages with their events, finished or not, for readers of SQL.
CREATE VIEW outbox_messages AS
SELECT m.message_id, e.event_seq, e.provider, e.event_id, e.event_type, m.generation,
       COALESCE(m.effect_name, m.destination) AS effect_name, m.destination, m.lane, m.state, m.attempts_n, m.node,
       m.visible_at_ms, m.created_at_ms, m.first_sent_at_ms, m.key_valid_until_ms, m.finished_at_ms, m.last_result,
       m.last_http_status, m.last_error, m.sent_under
FROM (SELECT message_id, generation, effect_name, destination, lane, state, attempts_n, node, visible_at_ms,
             created_at_ms, first_sent_at_ms, key_valid_until_ms, CAST(NULL AS BIGINT) AS finished_at_ms, last_result,
             last_http_status, last_error, sent_under
      FROM outbox_queue
      UNION ALL
      SELECT message_id, generation, effect_name, destination, lane, state, attempts_n, node,
             finished_at_ms AS visible_at_ms, created_at_ms, first_sent_at_ms, CAST(NULL AS BIGINT), finished_at_ms,
             last_result, http_status, last_error, sent_under
      FROM outbox_finished) m
JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024;

-- The default compression (pglz) costs a third of the throughput; a server built without lz4 does not compress bodies.
DO $$
BEGIN
    ALTER TABLE webhook_payloads ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE outbox_contents ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    ALTER TABLE webhook_payloads ALTER COLUMN body SET STORAGE EXTERNAL;
    ALTER TABLE outbox_contents ALTER COLUMN body SET STORAGE EXTERNAL;
END
$$;
