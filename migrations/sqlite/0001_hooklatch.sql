-- The tables by temperature: long-lived keys, contents written once, a queue of unfinished messages, an append-only
-- history. The same tables, columns and words as on PostgreSQL. Times are unix milliseconds;
-- states are words. `shard` (0 to 1023, from provider and event id) is equal for an event and all its rows.

CREATE TABLE installation (
    one             INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    installation_id TEXT    NOT NULL,
    created_at_ms   INTEGER NOT NULL,
    -- When the newest restore was taken over, in seconds since 2026: counters continue above it. 0: never.
    restored_s      INTEGER NOT NULL DEFAULT 0,
    -- Rows of the audit log up to this number may be deleted: pruning sets it.
    audit_pruned_seq INTEGER NOT NULL DEFAULT 0,
    -- Only in a backup: when it was made. A database with this value was restored.
    backup_at_ms    INTEGER,
    -- Identity of the database when a node last started on it; NULL: unknown.
    database_id     TEXT,
    timeline        INTEGER,
    -- Number of updates of the witness beside SQLite's file; 0 on PostgreSQL.
    witnessed_n     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Restores that were taken over: calls of the lost time are not in these tables, and may have been made.
CREATE TABLE restores (
    restored_s  INTEGER NOT NULL PRIMARY KEY,
    from_ms     INTEGER NOT NULL,
    until_ms    INTEGER NOT NULL,
    reason      TEXT    NOT NULL
) STRICT;

-- Oldest schema version that a running binary may want. A migration that only
-- expands keeps it; one that removes what an older binary uses raises it in its own text:
--     UPDATE schema_floor SET version = N;
CREATE TABLE schema_floor (
    one     INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
) STRICT;
INSERT INTO schema_floor (one, version) VALUES (1, 1);

-- Keys and outcomes -----------------------------------------------------------------------------------------------

-- Events are numbered from blocks of 4,096. Gaps are fine; no number is given twice, whatever was deleted.
CREATE TABLE event_blocks (
    one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    next_seq INTEGER NOT NULL
) STRICT;
INSERT INTO event_blocks (one, next_seq) VALUES (1, 4096);

-- Inserted first: the primary key admits an event once. Narrow rows, kept longest.
CREATE TABLE processed_webhook_events (
    provider        TEXT    NOT NULL,
    event_id        TEXT    NOT NULL CHECK (length(CAST(event_id AS BLOB)) BETWEEN 1 AND 255),
    -- Key of all other rows of the event.
    event_seq       INTEGER NOT NULL PRIMARY KEY,
    received_at_ms  INTEGER NOT NULL,
    -- When it happened at the sender, if known.
    created_at_ms   INTEGER,
    -- When its state was decided; NULL: at admission.
    processed_at_ms INTEGER,
    -- When it is dispatched again; only with `retry`.
    due_at_ms       INTEGER,
    version         INTEGER,
    attempts_n      INTEGER NOT NULL,
    -- Number of reruns.
    generation      INTEGER NOT NULL DEFAULT 0,
    shard           INTEGER NOT NULL,
    event_type      TEXT    NOT NULL,
    digest          BLOB    NOT NULL CHECK (length(digest) = 32),
    -- The identity rule with its version: `sender/1`, `content/1`, `signal/1`.
    identity        TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    object          TEXT,
    -- For unsigned ids: equal for equal signed bytes under any id.
    replay_key      BLOB,
    error           TEXT,
    -- 1 for an operator's test event. No sender's id can begin like its id.
    synthetic       INTEGER NOT NULL GENERATED ALWAYS AS (substr(event_id, 1, 5) = 'test:') VIRTUAL,
    UNIQUE (provider, event_id)
) STRICT;
CREATE UNIQUE INDEX processed_webhook_events_replay ON processed_webhook_events (provider, replay_key)
    WHERE replay_key IS NOT NULL;
-- Events that wait for a retry or an operator, by number. SQLite makes a table of a list
-- of three words or more, at each insert. Statements with such a list are translated to the same words.
CREATE INDEX processed_webhook_events_due ON processed_webhook_events (provider, due_at_ms, event_seq)
    WHERE state = 'retry';
CREATE INDEX processed_webhook_events_open ON processed_webhook_events (state, event_seq)
    WHERE state IN ('retry', 'failed') OR state IN ('unreadable', 'conflict');
-- The same by provider, for counts. IS TRUE differs from the condition above, so that
-- the planner does not use this index for the names of providers.
CREATE INDEX processed_webhook_events_waiting ON processed_webhook_events (provider, state, event_seq)
    WHERE (state IN ('retry', 'failed') OR state IN ('unreadable', 'conflict')) IS TRUE;
-- For searches by object. Events without an object are not in it.
CREATE INDEX processed_webhook_events_object ON processed_webhook_events (object, event_seq) WHERE object IS NOT NULL;

-- Number of an event's further contents without a row of their own.
CREATE TABLE conflict_counts (
    provider TEXT    NOT NULL,
    event_id TEXT    NOT NULL,
    unkept_n INTEGER NOT NULL,
    PRIMARY KEY (provider, event_id)
) STRICT, WITHOUT ROWID;

-- Number of an event's copies, written periodically: a crash loses some.
CREATE TABLE event_copies (
    provider    TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,
    copies_n    INTEGER NOT NULL,
    first_at_ms INTEGER NOT NULL,
    last_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (provider, event_id)
) STRICT, WITHOUT ROWID;

-- The newest firing of a signal without an id, and the start of its window.
CREATE TABLE signal_firings (
    provider        TEXT    NOT NULL,
    signal          TEXT    NOT NULL,
    firing_n        INTEGER NOT NULL,
    counted_from_ms INTEGER NOT NULL,
    PRIMARY KEY (provider, signal)
) STRICT, WITHOUT ROWID;

-- The highest version of each object, for `latest` handlers.
CREATE TABLE object_versions (
    provider  TEXT    NOT NULL,
    object    TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    event_seq INTEGER NOT NULL,
    PRIMARY KEY (provider, object)
) STRICT, WITHOUT ROWID;

-- Contents: written once, never changed ------------------------------------------------------------------------------

-- Received headers and bytes.
CREATE TABLE webhook_payloads (
    event_seq INTEGER NOT NULL PRIMARY KEY,
    shard     INTEGER NOT NULL,
    -- Fingerprint of the matching secret, as in `secret_uses`. NULL: none.
    secret    INTEGER,
    headers   TEXT    NOT NULL,
    body      BLOB    NOT NULL,
    -- With `[encryption]`: id of the key that encrypted this row. NULL: in clear.
    key_id    TEXT,
    -- Redacted values of `body`; NULL: `body` is unchanged.
    redacted_n INTEGER,
    -- The original bytes of a redacted body, while the event is unfinished.
    whole     BLOB,
    -- With `[encryption]`: the event's search ids, encrypted, so that digests can be computed under another key.
    search_ids TEXT,
    -- Number of rows in `webhook_body_parts` with the bytes of `body`, which is then empty. NULL: `body` is complete.
    parts_n   INTEGER
) STRICT;
-- For counting the rows of each key.
CREATE INDEX webhook_payloads_key ON webhook_payloads (key_id, event_seq) WHERE key_id IS NOT NULL;
CREATE INDEX webhook_payloads_whole ON webhook_payloads (event_seq) WHERE whole IS NOT NULL;

-- Parts of large bodies, written before their event is latched, under the event's future number.
CREATE TABLE webhook_body_parts (
    event_seq INTEGER NOT NULL,
    part_n    INTEGER NOT NULL,
    shard     INTEGER NOT NULL,
    part      BLOB    NOT NULL,
    PRIMARY KEY (event_seq, part_n)
) STRICT;
CREATE TRIGGER webhook_payloads_parts AFTER DELETE ON webhook_payloads WHEN OLD.parts_n IS NOT NULL BEGIN
    DELETE FROM webhook_body_parts WHERE event_seq = OLD.event_seq;
END;
-- Bodies whose parts are being written: the latch deletes the row. Pruning deletes what a crash leaves.
CREATE TABLE unlatched_bodies (
    event_seq   INTEGER NOT NULL PRIMARY KEY,
    begun_at_ms INTEGER NOT NULL
) STRICT;

-- Searchable ids inside an event: payment, invoice, order. In lower case, or with `[encryption]` a keyed
-- digest (`H:…`). Deleted with the event's body.
CREATE TABLE event_search_ids (
    -- event_seq / 1024: ids are random, and within a block few pages are written.
    block      INTEGER NOT NULL,
    search_key TEXT    NOT NULL,
    event_seq  INTEGER NOT NULL,
    shard      INTEGER NOT NULL,
    PRIMARY KEY (block, search_key, event_seq)
) STRICT, WITHOUT ROWID;

-- Contents of messages that differ from a POST of the event's bytes.
CREATE TABLE outbox_contents (
    message_id INTEGER NOT NULL PRIMARY KEY,
    shard      INTEGER NOT NULL,
    method     TEXT    NOT NULL,
    path       TEXT    NOT NULL,
    headers    TEXT    NOT NULL,
    -- NULL: the event's own bytes.
    body       BLOB,
    -- As in `webhook_payloads`.
    key_id     TEXT
) STRICT;
CREATE INDEX outbox_contents_key ON outbox_contents (key_id, message_id) WHERE key_id IS NOT NULL;

-- All `[encryption]` keys used so far, each with a check value of key and id.
CREATE TABLE encryption_keys (
    key_id        TEXT    NOT NULL PRIMARY KEY,
    check_value   BLOB    NOT NULL,
    written_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The queue ----------------------------------------------------------------------------------------------------------

-- Messages that are neither done nor discarded: small, updated in place, deleted at the end.
CREATE TABLE outbox_queue (
    -- event_seq * 1024 + its place among the event's messages.
    message_id         INTEGER NOT NULL PRIMARY KEY,
    -- When ready: due time; leased: end of the lease; held or dead: since when.
    visible_at_ms      INTEGER NOT NULL,
    created_at_ms      INTEGER NOT NULL,
    -- Time of the newest claim.
    leased_at_ms       INTEGER,
    first_sent_at_ms   INTEGER,
    key_valid_until_ms INTEGER,
    -- When the last call ended.
    last_ended_at_ms   INTEGER,
    lane_seq           INTEGER,
    -- Counts claims; the newest one is the fencing token.
    attempts_n         INTEGER NOT NULL DEFAULT 0,
    -- Claims that do not count as attempts: returned unsent, or before an operator's decision.
    attempts_before_n  INTEGER NOT NULL DEFAULT 0,
    generation         INTEGER NOT NULL DEFAULT 0,
    last_http_status   INTEGER,
    -- Approximate bytes of its body, which bound a claim's memory.
    body_bytes_n       INTEGER NOT NULL DEFAULT 0,
    shard              INTEGER NOT NULL,
    state              TEXT    NOT NULL,
    destination        TEXT    NOT NULL,
    -- NULL: the destination's.
    effect_name        TEXT,
    -- The node that holds or last held it.
    node               TEXT,
    lane               TEXT,
    last_result        TEXT,
    last_error         TEXT,
    -- The destination's `unknown` at calls that may have taken effect (`retry`, `query`, `hold`), the
    -- strictest of them; `restored`: a call may have been made in the lost time. NULL: none.
    sent_under         TEXT
) STRICT;
CREATE INDEX outbox_queue_due ON outbox_queue (destination, visible_at_ms, message_id)
    WHERE state IN ('ready', 'leased');
CREATE INDEX outbox_queue_stuck ON outbox_queue (destination, state, message_id)
    WHERE state IN ('held', 'dead') OR state = 'waiting';
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
    destination TEXT    NOT NULL,
    lane        TEXT    NOT NULL,
    head_seq    INTEGER NOT NULL DEFAULT 1,
    tail_seq    INTEGER NOT NULL DEFAULT 0,
    used_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (destination, lane)
) STRICT, WITHOUT ROWID;

-- Paused destinations: no message is claimed until they are resumed, by an operator or at their end.
CREATE TABLE destination_pauses (
    destination  TEXT    NOT NULL PRIMARY KEY,
    actor        TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    paused_at_ms INTEGER NOT NULL,
    until_ms     INTEGER
) STRICT;

-- Providers whose events are not dispatched until they are resumed, by an operator or at their end. A pause that has
-- ended keeps its row: the age of what waited counts from then.
CREATE TABLE provider_pauses (
    provider     TEXT    NOT NULL PRIMARY KEY,
    actor        TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    paused_at_ms INTEGER NOT NULL,
    until_ms     INTEGER,
    ended_at_ms  INTEGER
) STRICT;

-- History: appended, never changed -----------------------------------------------------------------------------------

-- Done and discarded messages.
CREATE TABLE outbox_finished (
    message_id       INTEGER NOT NULL PRIMARY KEY,
    created_at_ms    INTEGER NOT NULL,
    first_sent_at_ms INTEGER,
    finished_at_ms   INTEGER NOT NULL,
    attempts_n       INTEGER NOT NULL,
    generation       INTEGER NOT NULL,
    http_status      INTEGER,
    shard            INTEGER NOT NULL,
    state            TEXT    NOT NULL,
    destination      TEXT    NOT NULL,
    effect_name      TEXT,
    node             TEXT,
    lane             TEXT,
    last_result      TEXT,
    last_error       TEXT,
    -- As in the queue, of those that an operator finished: calls that may have taken effect. NULL: none.
    sent_under       TEXT
) STRICT;

-- Attempts with more facts than the message's row: those that did not end done, later ones, and those with
-- a captured answer. The running one is in the queue, a successful first one in `outbox_finished`.
CREATE TABLE outbox_attempts (
    message_id     INTEGER NOT NULL,
    attempt_n      INTEGER NOT NULL,
    started_at_ms  INTEGER NOT NULL,
    finished_at_ms INTEGER NOT NULL,
    http_status    INTEGER,
    shard          INTEGER NOT NULL,
    node           TEXT    NOT NULL,
    result         TEXT    NOT NULL,
    error          TEXT,
    response       TEXT,
    -- Id of the key that encrypted `response`.
    key_id         TEXT,
    PRIMARY KEY (message_id, attempt_n)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_attempts_key ON outbox_attempts (key_id, message_id, attempt_n) WHERE key_id IS NOT NULL;

-- Operators' decisions and reads of contents. Only `crates/store/src/audit.rs` adds rows.
CREATE TABLE audit_log (
    audit_seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    at_ms        INTEGER NOT NULL,
    actor        TEXT    NOT NULL,
    action       TEXT    NOT NULL,
    provider     TEXT,
    event_id     TEXT,
    message_id   INTEGER,
    -- The operation that it was part of.
    operation_id TEXT,
    detail       TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_log_event ON audit_log (provider, event_id, audit_seq) WHERE event_id IS NOT NULL;
CREATE INDEX audit_log_message ON audit_log (message_id) WHERE message_id IS NOT NULL;

-- Rows are never changed, and deleted only up to the number that pruning has set. The owner of the tables can drop
-- these triggers: the log of the process has each row, too.
CREATE TRIGGER audit_log_update BEFORE UPDATE ON audit_log BEGIN
    SELECT RAISE(ABORT, 'the audit log is only appended to, and pruned by Hooklatch alone');
END;
-- `INSERT OR REPLACE` changes a row without a trigger for updates or deletions.
CREATE TRIGGER audit_log_insert BEFORE INSERT ON audit_log
WHEN EXISTS (SELECT 1 FROM audit_log WHERE audit_seq = NEW.audit_seq) BEGIN
    SELECT RAISE(ABORT, 'the audit log is only appended to, and pruned by Hooklatch alone');
END;
CREATE TRIGGER audit_log_delete BEFORE DELETE ON audit_log
WHEN OLD.audit_seq > (SELECT audit_pruned_seq FROM installation WHERE one = 1) BEGIN
    SELECT RAISE(ABORT, 'the audit log is only appended to, and pruned by Hooklatch alone');
END;

-- Operators' tokens created at run time, without those of the configuration. A token is 256 random bits
-- and is stored as its SHA-256.
CREATE TABLE operator_tokens (
    token_id        TEXT    NOT NULL PRIMARY KEY,
    name            TEXT    NOT NULL,
    role            TEXT    NOT NULL,
    -- Its scope, as a list in JSON; NULL: everything.
    providers       TEXT,
    destinations    TEXT,
    digest          BLOB NOT NULL,
    created_by      TEXT    NOT NULL,
    -- The request that created it; a repetition creates no other one.
    idempotency_key TEXT    NOT NULL,
    created_at_ms   INTEGER NOT NULL,
    expires_at_ms   INTEGER NOT NULL,
    revoked_at_ms   INTEGER,
    -- To about a minute.
    last_used_at_ms INTEGER
) STRICT;
CREATE UNIQUE INDEX operator_tokens_digest ON operator_tokens (digest);
CREATE UNIQUE INDEX operator_tokens_name ON operator_tokens (name) WHERE revoked_at_ms IS NULL;
CREATE UNIQUE INDEX operator_tokens_key ON operator_tokens (created_by, idempotency_key);

-- Sessions of the console. A session is 256 random bits in a cookie, stored as its SHA-256, and is valid while
-- its token is.
CREATE TABLE operator_sessions (
    -- In hexadecimal.
    digest        TEXT NOT NULL PRIMARY KEY,
    -- Name of its token, created at run time or configured.
    token_name    TEXT NOT NULL,
    -- SHA-256 of the session and the token's digest: without the session, no token can be tried against it.
    token_bound   BLOB NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX operator_sessions_token ON operator_sessions (token_name, created_at_ms);
CREATE INDEX operator_sessions_expired ON operator_sessions (expires_at_ms);

-- Operations: acts ordered on all rows that a filter found. A batch locks the operation's row; rows up to
-- changed_n + skipped_n are behind it.
CREATE TABLE operations (
    operation_id   TEXT NOT NULL PRIMARY KEY,
    created_at_ms  INTEGER NOT NULL,
    finished_at_ms INTEGER,
    -- Time of the newest batch.
    stepped_at_ms  INTEGER NOT NULL,
    total_n        INTEGER NOT NULL,
    changed_n      INTEGER NOT NULL,
    skipped_n      INTEGER NOT NULL,
    state          TEXT NOT NULL,
    actor          TEXT NOT NULL,
    reason         TEXT NOT NULL,
    -- The ordered act and filter.
    subject        TEXT NOT NULL,
    -- The scope of the ordering token; NULL: everything.
    providers      TEXT,
    destinations   TEXT,
    cancelled_by   TEXT,
    -- With `waiting`: until when a second person can approve it.
    expires_at_ms  INTEGER,
    approved_by    TEXT,
    -- Why it stopped or ended.
    note           TEXT,
    -- Its steps with their counts, in JSON; NULL: all at once.
    steps          TEXT
) STRICT;
CREATE INDEX operations_running ON operations (stepped_at_ms) WHERE state = 'running';
CREATE INDEX operations_unfinished ON operations (operation_id) WHERE finished_at_ms IS NULL;
CREATE INDEX operations_finished ON operations (finished_at_ms) WHERE finished_at_ms IS NOT NULL;

-- The set of an operation, fixed with the order, and the result of each row.
CREATE TABLE operation_rows (
    operation_id TEXT NOT NULL,
    row_n        INTEGER NOT NULL,
    -- Number of the message, or of the event.
    subject_id   INTEGER NOT NULL,
    -- NULL until it was `changed` or skipped.
    outcome      TEXT,
    -- Its state when it was skipped.
    stood        TEXT,
    -- In an operation with steps: `open` until its calls were tried, then `good` or `failed`.
    result       TEXT,
    PRIMARY KEY (operation_id, row_n)
) STRICT, WITHOUT ROWID;
CREATE INDEX operation_rows_skipped ON operation_rows (operation_id, row_n) WHERE outcome <> 'changed';
CREATE INDEX operation_rows_open ON operation_rows (operation_id, row_n) WHERE result = 'open';

-- Idempotency keys of operators' requests and of the program's own routes. The row is written
-- before the request is carried out, or in the transaction of its effect, and is pruned after its window.
CREATE TABLE idempotency_keys (
    -- Its owner: `operator:` or `app:` and a name.
    principal       TEXT    NOT NULL,
    idempotency_key TEXT    NOT NULL,
    -- Digest of the whole request: another request under the key is refused.
    fingerprint     BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    -- `processing`, `succeeded`, `failed` or `released`.
    state           TEXT    NOT NULL,
    -- Counts claims; only the newest one may write an answer.
    fence           INTEGER NOT NULL,
    -- Until then no other caller carries it out; with `processing`.
    locked_until_ms INTEGER NOT NULL,
    created_at_ms   INTEGER NOT NULL,
    expires_at_ms   INTEGER NOT NULL,
    -- The answer: with `succeeded` and `failed`. A body of NULL was not stored.
    status          INTEGER,
    headers         TEXT,
    body            BLOB,
    PRIMARY KEY (principal, idempotency_key)
) STRICT;
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at_ms);

-- Refused requests, the newest of each provider, without bodies; and which secret still matches.
CREATE TABLE rejected_requests (
    rejection_id   TEXT    NOT NULL PRIMARY KEY,
    provider       TEXT    NOT NULL,
    received_at_ms INTEGER NOT NULL,
    step           TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    detail         TEXT    NOT NULL,
    headers        TEXT    NOT NULL,
    body_digest    BLOB    NOT NULL,
    body_bytes_n   INTEGER NOT NULL,
    client_address TEXT
) STRICT;
CREATE INDEX rejected_requests_provider ON rejected_requests (provider, rejection_id);

-- A secret is named by a fingerprint keyed with the installation's id, which reveals nothing about it.
CREATE TABLE secret_uses (
    provider           TEXT    NOT NULL,
    fingerprint        TEXT    NOT NULL,
    matched_n          INTEGER NOT NULL,
    last_matched_at_ms INTEGER NOT NULL,
    PRIMARY KEY (provider, fingerprint)
) STRICT, WITHOUT ROWID;

-- How often each sender sends: when its newest event was accepted, and how long the gaps between minutes with accepted
-- events were, as seconds that lay in gaps of each size. A row for each provider, changed once a minute at most.
CREATE TABLE provider_rhythms (
    provider            TEXT    NOT NULL PRIMARY KEY,
    last_accepted_at_ms INTEGER NOT NULL,
    gaps_n              INTEGER NOT NULL,
    -- A list in JSON.
    gap_seconds         TEXT    NOT NULL
) STRICT;

-- Requests by provider and outcome, attempts by destination and result, hour by hour. Each node adds what it counted,
-- once a minute.
CREATE TABLE activity (
    -- Beginning of the hour in which it was added.
    hour_ms   INTEGER NOT NULL,
    -- `provider` or `destination`.
    subject   TEXT NOT NULL,
    name      TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    counted_n INTEGER NOT NULL,
    PRIMARY KEY (hour_ms, subject, name, outcome)
) STRICT, WITHOUT ROWID;

-- A secret received during pairing: the newest of each provider, until it was shown once.
CREATE TABLE pairing_secrets (
    provider     TEXT    NOT NULL PRIMARY KEY,
    secret       TEXT    NOT NULL,
    paired_at_ms INTEGER NOT NULL
) STRICT;

-- Keys fetched from senders' hosts that verified a request, kept over restarts. At most 32 of
-- each provider.
CREATE TABLE fetched_keys (
    provider      TEXT NOT NULL,
    -- SHA-256 of the id, and of everything that determined the fetch.
    digest        BLOB NOT NULL,
    fetched_at_ms INTEGER NOT NULL,
    -- Id, key and time in JSON; encrypted with `key_id`.
    content       BLOB NOT NULL,
    key_id        TEXT,
    PRIMARY KEY (provider, digest)
) STRICT;

-- Nodes that run, or ran within the hour, to compare their versions.
CREATE TABLE nodes (
    node           TEXT NOT NULL PRIMARY KEY,
    version        TEXT NOT NULL,
    -- Version of the schema that its binary wants.
    schema_version INTEGER NOT NULL,
    seen_at_ms     INTEGER NOT NULL
) STRICT;

-- Which node prunes: one at a time.
CREATE TABLE retention_lease (
    one      INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    node     TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    -- The newest event of which finished messages were pruned; -1: none yet. Of events up to it, messages may be missing.
    messages_pruned_seq INTEGER NOT NULL DEFAULT -1,
    -- Time of the last round. A clock that is days beyond it is doubted at first.
    counted_at_ms INTEGER
) STRICT;
INSERT INTO retention_lease (one, node, until_ms) VALUES (1, '', 0);

-- Position of pruning among ids with this window: the next node continues there.
CREATE TABLE retention_marks (
    days        INTEGER NOT NULL PRIMARY KEY,
    event_seq   INTEGER NOT NULL,
    begun_at_ms INTEGER NOT NULL
) STRICT;

-- All messages with their events, finished or not, for readers of SQL.
CREATE VIEW outbox_messages AS
SELECT m.message_id, e.event_seq, e.provider, e.event_id, e.event_type, m.generation,
       COALESCE(m.effect_name, m.destination) AS effect_name, m.destination, m.lane, m.state, m.attempts_n, m.node,
       m.visible_at_ms, m.created_at_ms, m.first_sent_at_ms, m.key_valid_until_ms, m.finished_at_ms, m.last_result,
       m.last_http_status, m.last_error, m.sent_under
FROM (SELECT message_id, generation, effect_name, destination, lane, state, attempts_n, node, visible_at_ms,
             created_at_ms, first_sent_at_ms, key_valid_until_ms, CAST(NULL AS INTEGER) AS finished_at_ms, last_result,
             last_http_status, last_error, sent_under
      FROM outbox_queue
      UNION ALL
      SELECT message_id, generation, effect_name, destination, lane, state, attempts_n, node,
             finished_at_ms AS visible_at_ms, created_at_ms, first_sent_at_ms, CAST(NULL AS INTEGER), finished_at_ms,
             last_result, http_status, last_error, sent_under
      FROM outbox_finished) m
JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024;
