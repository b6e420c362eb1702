-- The tables by temperature: keys that outlive the rest, contents written once, a queue of what is not finished, a
-- history that is only appended to. The same tables, columns and words as on PostgreSQL. Times are unix milliseconds;
-- states are words. `shard` (0 to 1023, from provider and event id) keeps an event and all that is bound to it together.

CREATE TABLE installation (
    one             INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    installation_id TEXT    NOT NULL,
    created_at_ms   INTEGER NOT NULL,
    -- When the newest restore was taken over, in seconds since 2026: what counts goes on above it. 0: never.
    restored_s      INTEGER NOT NULL DEFAULT 0,
    -- Rows of the audit log up to this number may be deleted: pruning sets it.
    audit_pruned_seq INTEGER NOT NULL DEFAULT 0,
    -- In a backup alone: when it was made. Whoever finds it in his database was restored.
    backup_at_ms    INTEGER,
    -- Which database it was when a node last started on it; NULL: not known.
    database_id     TEXT,
    timeline        INTEGER,
    -- How often the file beside SQLite's was told of changes; 0 on PostgreSQL.
    witnessed_n     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Restores that were taken over: what happened in between is not in these tables, and may have been done.
CREATE TABLE restores (
    restored_s  INTEGER NOT NULL PRIMARY KEY,
    from_ms     INTEGER NOT NULL,
    until_ms    INTEGER NOT NULL,
    reason      TEXT    NOT NULL
) STRICT;

-- Which older binaries may still run on this schema: those that want this version or a later one. A migration that only
-- expands leaves it alone; one that takes away what an older binary uses raises it in its own text:
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

-- What is inserted first: an event is admitted once because its key is here once. Narrow, and remembered longest.
CREATE TABLE processed_webhook_events (
    provider        TEXT    NOT NULL,
    event_id        TEXT    NOT NULL CHECK (length(CAST(event_id AS BLOB)) BETWEEN 1 AND 255),
    -- Whatever else is kept of the event is found by this number.
    event_seq       INTEGER NOT NULL PRIMARY KEY,
    received_at_ms  INTEGER NOT NULL,
    -- When it happened at the sender, where the sender says so.
    created_at_ms   INTEGER,
    -- When its state was decided; NULL: at admission.
    processed_at_ms INTEGER,
    -- When it is dispatched again; with `retry` alone.
    due_at_ms       INTEGER,
    version         INTEGER,
    attempts_n      INTEGER NOT NULL,
    -- Deliberate re-runs.
    generation      INTEGER NOT NULL DEFAULT 0,
    shard           INTEGER NOT NULL,
    event_type      TEXT    NOT NULL,
    digest          BLOB    NOT NULL CHECK (length(digest) = 32),
    -- Which rule told it from the others, with the version of that rule: `sender/1`, `content/1`, `signal/1`.
    identity        TEXT    NOT NULL,
    state           TEXT    NOT NULL,
    object          TEXT,
    -- For ids that no signature covers: equal for equal signed bytes, whatever id they came under.
    replay_key      BLOB,
    error           TEXT,
    -- 1 for a test event, which an operator made. Senders have no ids that begin so: what they send never is one.
    synthetic       INTEGER NOT NULL GENERATED ALWAYS AS (substr(event_id, 1, 5) = 'test:') VIRTUAL,
    UNIQUE (provider, event_id)
) STRICT;
CREATE UNIQUE INDEX processed_webhook_events_replay ON processed_webhook_events (provider, replay_key)
    WHERE replay_key IS NOT NULL;
-- What waits to be dispatched again, and with it what waits for a person, by number.
CREATE INDEX processed_webhook_events_due ON processed_webhook_events (provider, due_at_ms, event_seq)
    WHERE state = 'retry';
CREATE INDEX processed_webhook_events_open ON processed_webhook_events (state, event_seq)
    WHERE state IN ('retry', 'failed', 'unreadable', 'conflict');
-- How many of each provider do, without a look at those of the others. IS TRUE: said otherwise than above, so that
-- nobody who asks for the names of providers is shown the way by state.
CREATE INDEX processed_webhook_events_waiting ON processed_webhook_events (provider, state, event_seq)
    WHERE (state IN ('retry', 'failed', 'unreadable', 'conflict')) IS TRUE;
-- For people who ask for all that came about one object. Events whose kind names none are not in it.
CREATE INDEX processed_webhook_events_object ON processed_webhook_events (object, event_seq) WHERE object IS NOT NULL;

-- Contents of one event beyond those that have a row of their own.
CREATE TABLE conflict_counts (
    provider TEXT    NOT NULL,
    event_id TEXT    NOT NULL,
    unkept_n INTEGER NOT NULL,
    PRIMARY KEY (provider, event_id)
) STRICT, WITHOUT ROWID;

-- Further copies that came of one event, counted now and then: some are lost when a node dies.
CREATE TABLE event_copies (
    provider    TEXT    NOT NULL,
    event_id    TEXT    NOT NULL,
    copies_n    INTEGER NOT NULL,
    first_at_ms INTEGER NOT NULL,
    last_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (provider, event_id)
) STRICT, WITHOUT ROWID;

-- Of signals that nothing tells apart: which firing is the newest, and from when its window counts.
CREATE TABLE signal_firings (
    provider        TEXT    NOT NULL,
    signal          TEXT    NOT NULL,
    firing_n        INTEGER NOT NULL,
    counted_from_ms INTEGER NOT NULL,
    PRIMARY KEY (provider, signal)
) STRICT, WITHOUT ROWID;

-- The highest version seen of each object, for handlers that take the latest alone.
CREATE TABLE object_versions (
    provider  TEXT    NOT NULL,
    object    TEXT    NOT NULL,
    version   INTEGER NOT NULL,
    event_seq INTEGER NOT NULL,
    PRIMARY KEY (provider, object)
) STRICT, WITHOUT ROWID;

-- Contents: written once, never changed ------------------------------------------------------------------------------

-- What was received: the headers that are kept, and the bytes.
CREATE TABLE webhook_payloads (
    event_seq INTEGER NOT NULL PRIMARY KEY,
    shard     INTEGER NOT NULL,
    -- The fingerprint of the secret that its request was signed with, as in `secret_uses`. NULL: none was used.
    secret    INTEGER,
    headers   TEXT    NOT NULL,
    body      BLOB    NOT NULL,
    -- With `[encryption]`: the key that sealed the columns of this row. NULL: they are in the clear.
    key_id    TEXT,
    -- Values that were replaced before `body` was written; NULL: it is as it came.
    redacted_n INTEGER,
    -- The bytes as they came, of a redacted body, for as long as something is to be made of them.
    whole     BLOB,
    -- With `[encryption]`: the search ids of the event, sealed, so that another key can make their digests anew.
    search_ids TEXT,
    -- `body` is empty, and its bytes are in so many rows of `webhook_body_parts`. NULL: it is in one piece.
    parts_n   INTEGER
) STRICT;
-- Which keys are still needed, and which rows need them.
CREATE INDEX webhook_payloads_key ON webhook_payloads (key_id, event_seq) WHERE key_id IS NOT NULL;
CREATE INDEX webhook_payloads_whole ON webhook_payloads (event_seq) WHERE whole IS NOT NULL;

-- Large bodies, in parts that are written before their event is latched, under the number that it will have.
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
-- Bodies whose parts are being written: the latch of their event deletes the row. What a crash leaves is swept.
CREATE TABLE unlatched_bodies (
    event_seq   INTEGER NOT NULL PRIMARY KEY,
    begun_at_ms INTEGER NOT NULL
) STRICT;

-- Ids inside an event that people search for: its payment, invoice, order. In lower case, or with `[encryption]` a keyed
-- digest (`H:…`). Deleted with the event's body.
CREATE TABLE event_search_ids (
    -- event_seq / 1024: ids are random, and within a block few pages are written.
    block      INTEGER NOT NULL,
    search_key TEXT    NOT NULL,
    event_seq  INTEGER NOT NULL,
    shard      INTEGER NOT NULL,
    PRIMARY KEY (block, search_key, event_seq)
) STRICT, WITHOUT ROWID;

-- What is to be sent, where that is not a POST of the event's own bytes: a message without a row here is one.
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

-- The keys of `[encryption]` that were ever used here, each with a value that only that key gives under this id.
CREATE TABLE encryption_keys (
    key_id        TEXT    NOT NULL PRIMARY KEY,
    check_value   BLOB    NOT NULL,
    written_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The queue ----------------------------------------------------------------------------------------------------------

-- Messages that are neither done nor discarded: small, changed in place, deleted when they are.
CREATE TABLE outbox_queue (
    -- event_seq * 1024 + its place among the event's messages.
    message_id         INTEGER NOT NULL PRIMARY KEY,
    -- Due time when ready, end of the lease when leased, since when it is so when held or dead.
    visible_at_ms      INTEGER NOT NULL,
    created_at_ms      INTEGER NOT NULL,
    -- When the newest claim was made: with `leased`, of the attempt under way.
    leased_at_ms       INTEGER,
    first_sent_at_ms   INTEGER,
    key_valid_until_ms INTEGER,
    -- When the last call ended.
    last_ended_at_ms   INTEGER,
    lane_seq           INTEGER,
    -- Counts claims; the newest one is the fencing token.
    attempts_n         INTEGER NOT NULL DEFAULT 0,
    -- Claims that do not count against the attempts allowed: handed back unsent, or before a person's word.
    attempts_before_n  INTEGER NOT NULL DEFAULT 0,
    generation         INTEGER NOT NULL DEFAULT 0,
    last_http_status   INTEGER,
    -- Bytes of the body that its call carries, about: a look takes no more of them than there is memory for.
    body_bytes_n       INTEGER NOT NULL DEFAULT 0,
    shard              INTEGER NOT NULL,
    state              TEXT    NOT NULL,
    destination        TEXT    NOT NULL,
    -- NULL: as the destination.
    effect_name        TEXT,
    -- Who has it, or had it last.
    node               TEXT,
    lane               TEXT,
    last_result        TEXT,
    last_error         TEXT,
    -- The `unknown` of its destination when a call was made that may have taken effect (`retry`, `query`, `hold`), the
    -- strictest of them; `restored`: it may have been made in a time that a restore took away. NULL: there was none.
    sent_under         TEXT
) STRICT;
CREATE INDEX outbox_queue_due ON outbox_queue (destination, visible_at_ms, message_id)
    WHERE state IN ('ready', 'leased');
CREATE INDEX outbox_queue_stuck ON outbox_queue (destination, state, message_id)
    WHERE state IN ('held', 'dead', 'waiting');
-- Messages that need a decision, by number, for the list of their events. IS TRUE: said otherwise than below, so that
-- nobody who asks for one destination is shown this way.
CREATE INDEX outbox_queue_decide ON outbox_queue (message_id) WHERE (state IN ('held', 'dead')) IS TRUE;
-- Lanes whose head waits for a person.
CREATE INDEX outbox_queue_blocked ON outbox_queue (destination, lane)
    WHERE lane IS NOT NULL AND state IN ('held', 'dead');
-- Whose key is known for the shortest time yet. What is done at its first attempt never gets here.
CREATE INDEX outbox_queue_key ON outbox_queue (destination, key_valid_until_ms)
    WHERE key_valid_until_ms IS NOT NULL AND state IN ('ready', 'held');
CREATE UNIQUE INDEX outbox_queue_lane ON outbox_queue (destination, lane, lane_seq) WHERE lane IS NOT NULL;
-- Never two under way in one lane, whatever the code says.
CREATE UNIQUE INDEX outbox_queue_lane_leased ON outbox_queue (destination, lane)
    WHERE lane IS NOT NULL AND state = 'leased';

-- Who adds to a lane and who moves its head lock this row first: numbers are in the order of commits.
CREATE TABLE outbox_lanes (
    destination TEXT    NOT NULL,
    lane        TEXT    NOT NULL,
    head_seq    INTEGER NOT NULL DEFAULT 1,
    tail_seq    INTEGER NOT NULL DEFAULT 0,
    used_at_ms  INTEGER NOT NULL,
    PRIMARY KEY (destination, lane)
) STRICT, WITHOUT ROWID;

-- Destinations that an operator has paused: nothing is taken for them until they are resumed, by an operator or at their end.
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

-- Messages that are done or discarded.
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
    last_error       TEXT
) STRICT;

-- Attempts that say more than the message's own row does: those that did not end done, those after them, and those with
-- a piece of the answer. The one under way is told by the queue, a first one that went well by `outbox_finished`.
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
    -- The key that sealed `response`.
    key_id         TEXT,
    PRIMARY KEY (message_id, attempt_n)
) STRICT, WITHOUT ROWID;
CREATE INDEX outbox_attempts_key ON outbox_attempts (key_id, message_id, attempt_n) WHERE key_id IS NOT NULL;

-- What people decided and which contents they looked at. Rows are added by `src/store/audit.rs` alone.
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

-- A row of it is never changed, and deleted only up to the mark that pruning has set. Whoever owns the tables can drop
-- these: the log of the process has each row, too.
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

-- Tokens of operators that were made at run time, those of the configuration are not here. A token is 256 random bits
-- and goes by its SHA-256.
CREATE TABLE operator_tokens (
    token_id        TEXT    NOT NULL PRIMARY KEY,
    name            TEXT    NOT NULL,
    role            TEXT    NOT NULL,
    -- What it reaches, as a list in JSON; NULL: everything.
    providers       TEXT,
    destinations    TEXT,
    digest          BLOB NOT NULL,
    created_by      TEXT    NOT NULL,
    -- The request that made it: repeated, it makes no other one.
    idempotency_key TEXT    NOT NULL,
    created_at_ms   INTEGER NOT NULL,
    expires_at_ms   INTEGER NOT NULL,
    revoked_at_ms   INTEGER,
    -- To a minute or so.
    last_used_at_ms INTEGER
) STRICT;
CREATE UNIQUE INDEX operator_tokens_digest ON operator_tokens (digest);
CREATE UNIQUE INDEX operator_tokens_name ON operator_tokens (name) WHERE revoked_at_ms IS NULL;
CREATE UNIQUE INDEX operator_tokens_key ON operator_tokens (created_by, idempotency_key);

-- Sessions of people at the console. A session is 256 random bits in a cookie and goes by its SHA-256; it is good while
-- the token is that it was made with.
CREATE TABLE operator_sessions (
    -- In hexadecimal.
    digest        TEXT NOT NULL PRIMARY KEY,
    -- Name of that token, made at run time or configured.
    token_name    TEXT NOT NULL,
    -- SHA-256 of the session and the token's digest: without the session, no token can be tried against it.
    token_bound   BLOB NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX operator_sessions_token ON operator_sessions (token_name, created_at_ms);
CREATE INDEX operator_sessions_expired ON operator_sessions (expires_at_ms);

-- What people ordered to be done to all that a filter found. A batch holds the operation's row; rows up to
-- changed_n + skipped_n are behind it.
CREATE TABLE operations (
    operation_id   TEXT NOT NULL PRIMARY KEY,
    created_at_ms  INTEGER NOT NULL,
    finished_at_ms INTEGER,
    -- When the newest batch of it was made.
    stepped_at_ms  INTEGER NOT NULL,
    total_n        INTEGER NOT NULL,
    changed_n      INTEGER NOT NULL,
    skipped_n      INTEGER NOT NULL,
    state          TEXT NOT NULL,
    actor          TEXT NOT NULL,
    reason         TEXT NOT NULL,
    -- The act and the filter, as they were ordered.
    subject        TEXT NOT NULL,
    -- How far the orderer's word reached; NULL: everywhere.
    providers      TEXT,
    destinations   TEXT,
    cancelled_by   TEXT,
    -- With `waiting`: until when a second person can approve it.
    expires_at_ms  INTEGER,
    approved_by    TEXT,
    -- Why it stopped or ended by itself.
    note           TEXT,
    -- Its steps with their counts, in JSON; NULL: all at once.
    steps          TEXT
) STRICT;
CREATE INDEX operations_running ON operations (stepped_at_ms) WHERE state = 'running';
CREATE INDEX operations_unfinished ON operations (operation_id) WHERE finished_at_ms IS NULL;
CREATE INDEX operations_finished ON operations (finished_at_ms) WHERE finished_at_ms IS NOT NULL;

-- The set of an operation, fixed with the order, and what became of each row of it.
CREATE TABLE operation_rows (
    operation_id TEXT NOT NULL,
    row_n        INTEGER NOT NULL,
    -- Number of the message, or of the event.
    subject_id   INTEGER NOT NULL,
    -- NULL until it was acted on (`changed`) or passed over.
    outcome      TEXT,
    -- State in which it stood when it was passed over.
    stood        TEXT,
    -- In an operation with steps: `open` until its calls were tried, then `good` or `failed`.
    result       TEXT,
    PRIMARY KEY (operation_id, row_n)
) STRICT, WITHOUT ROWID;
CREATE INDEX operation_rows_skipped ON operation_rows (operation_id, row_n) WHERE outcome <> 'changed';
CREATE INDEX operation_rows_open ON operation_rows (operation_id, row_n) WHERE result = 'open';

-- That a repeated request takes effect once: an operator's, and those of routes of the program's own. The row is written
-- before the request is carried out, or in the transaction of its effect, and goes when its window is over.
CREATE TABLE idempotency_keys (
    -- Whose key it is: `operator:` or `app:` and a name.
    principal       TEXT    NOT NULL,
    idempotency_key TEXT    NOT NULL,
    -- Of the whole request: the same key with another one is refused.
    fingerprint     BLOB    NOT NULL CHECK (length(fingerprint) = 32),
    -- `processing`, `succeeded`, `failed` or `released`.
    state           TEXT    NOT NULL,
    -- Counts claims; who does not hold the newest one writes no answer.
    fence           INTEGER NOT NULL,
    -- Until then nobody else carries it out; with `processing`.
    locked_until_ms INTEGER NOT NULL,
    created_at_ms   INTEGER NOT NULL,
    expires_at_ms   INTEGER NOT NULL,
    -- The answer: with `succeeded` and `failed`. NULL as a body: it was not kept.
    status          INTEGER,
    headers         TEXT,
    body            BLOB,
    PRIMARY KEY (principal, idempotency_key)
) STRICT;
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at_ms);

-- Requests that were not believed, newest few of each provider, without their bodies; and which secret still matches.
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

-- A secret goes by a fingerprint that is keyed with the installation's id: it says nothing about the secret.
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

-- A secret that a sender taught us while a person allowed it: the newest of each provider, until it was shown once.
CREATE TABLE taught_secrets (
    provider     TEXT    NOT NULL PRIMARY KEY,
    secret       TEXT    NOT NULL,
    taught_at_ms INTEGER NOT NULL
) STRICT;

-- Keys that were fetched from senders' hosts and verified a request; a restart need not fetch them again. At most 32 of
-- each provider.
CREATE TABLE fetched_keys (
    provider      TEXT NOT NULL,
    -- SHA-256 of the id, and of everything that decided what was fetched.
    digest        BLOB NOT NULL,
    fetched_at_ms INTEGER NOT NULL,
    -- Id, key and time in JSON; sealed where `key_id` says by which key.
    content       BLOB NOT NULL,
    key_id        TEXT,
    PRIMARY KEY (provider, digest)
) STRICT;

-- Nodes that run, or ran within the hour, for whoever asks whether all are of one version.
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
    -- The time by which the last round counted. A clock that is days beyond it has to prove itself first.
    counted_at_ms INTEGER
) STRICT;
INSERT INTO retention_lease (one, node, until_ms) VALUES (1, '', 0);

-- How far the ids that are kept for so many days have been walked: whoever prunes next goes on there.
CREATE TABLE retention_marks (
    days        INTEGER NOT NULL PRIMARY KEY,
    event_seq   INTEGER NOT NULL,
    begun_at_ms INTEGER NOT NULL
) STRICT;

-- All messages with their events, finished or not, for whoever looks.
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
             last_result, http_status, last_error, CAST(NULL AS TEXT)
      FROM outbox_finished) m
JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024;
