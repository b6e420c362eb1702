-- The tables by temperature: keys that outlive the rest, contents written once, a queue of what is not finished, a
-- history that is only appended to. The same tables, columns and words as on SQLite. Times are unix milliseconds;
-- states are words. `shard` (0 to 1023, from provider and event id) keeps an event and all that is bound to it together.

CREATE TABLE installation (
    one             BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    installation_id TEXT COLLATE "C" NOT NULL,
    created_at_ms   BIGINT NOT NULL,
    -- When the newest restore was taken over, in seconds since 2026: what counts goes on above it. 0: never.
    restored_s      BIGINT NOT NULL DEFAULT 0,
    -- Rows of the audit log up to this number may be deleted: pruning sets it.
    audit_pruned_seq BIGINT NOT NULL DEFAULT 0,
    -- In a backup alone: when it was made. Whoever finds it in his database was restored.
    backup_at_ms    BIGINT,
    -- Which database it was when a node last started on it; NULL: not known.
    database_id     TEXT COLLATE "C",
    timeline        BIGINT,
    -- How often the file beside SQLite's was told of changes; 0 on PostgreSQL.
    witnessed_n     BIGINT NOT NULL DEFAULT 0
);

-- Restores that were taken over: what happened in between is not in these tables, and may have been done.
CREATE TABLE restores (
    restored_s  BIGINT NOT NULL PRIMARY KEY,
    from_ms     BIGINT NOT NULL,
    until_ms    BIGINT NOT NULL,
    reason      TEXT COLLATE "C" NOT NULL
);

-- Which older binaries may still run on this schema: those that want this version or a later one. A migration that only
-- expands leaves it alone; one that takes away what an older binary uses raises it in its own text:
--     UPDATE schema_floor SET version = N;
CREATE TABLE schema_floor (
    one     BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    version BIGINT NOT NULL
);
INSERT INTO schema_floor (one, version) VALUES (1, 1);

-- Large tables are vacuumed after a fiftieth of them was deleted, not after a fifth: what was pruned makes room for what
-- comes.

-- Keys and outcomes -----------------------------------------------------------------------------------------------

-- A node draws 4,096 event numbers at once. Gaps are fine; numbers follow time to a few seconds.
CREATE SEQUENCE event_blocks AS BIGINT MINVALUE 4096 START WITH 4096 INCREMENT BY 4096;

-- What is inserted first: an event is admitted once because its key is here once. Narrow, and remembered longest.
CREATE TABLE processed_webhook_events (
    provider        TEXT COLLATE "C" NOT NULL,
    event_id        TEXT COLLATE "C" NOT NULL CHECK (octet_length(event_id) BETWEEN 1 AND 255),
    -- Whatever else is kept of the event is found by this number.
    event_seq       BIGINT   NOT NULL,
    received_at_ms  BIGINT   NOT NULL,
    -- When it happened at the sender, where the sender says so.
    created_at_ms   BIGINT,
    -- When its state was decided; NULL: at admission.
    processed_at_ms BIGINT,
    -- When it is dispatched again; with `retry` alone.
    due_at_ms       BIGINT,
    version         BIGINT,
    attempts_n      INTEGER  NOT NULL,
    -- Deliberate re-runs.
    generation      INTEGER  NOT NULL DEFAULT 0,
    shard           SMALLINT NOT NULL,
    event_type      TEXT COLLATE "C" NOT NULL,
    digest          BYTEA    NOT NULL CHECK (octet_length(digest) = 32),
    -- Which rule told it from the others, with the version of that rule: `sender/1`, `content/1`, `signal/1`.
    identity        TEXT COLLATE "C" NOT NULL,
    state           TEXT COLLATE "C" NOT NULL,
    object          TEXT COLLATE "C",
    -- For ids that no signature covers: equal for equal signed bytes, whatever id they came under.
    replay_key      BYTEA,
    error           TEXT COLLATE "C",
    -- TRUE for a test event, which an operator made. Senders have no ids that begin so: what they send never is one.
    synthetic       BOOLEAN  NOT NULL GENERATED ALWAYS AS (left(event_id, 5) = 'test:') STORED,
    PRIMARY KEY (provider, event_id)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE UNIQUE INDEX processed_webhook_events_seq ON processed_webhook_events (event_seq);
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
    provider TEXT COLLATE "C" NOT NULL,
    event_id TEXT COLLATE "C" NOT NULL,
    unkept_n BIGINT NOT NULL,
    PRIMARY KEY (provider, event_id)
);

-- Further copies that came of one event, counted now and then: some are lost when a node dies.
CREATE TABLE event_copies (
    provider    TEXT COLLATE "C" NOT NULL,
    event_id    TEXT COLLATE "C" NOT NULL,
    copies_n    BIGINT NOT NULL,
    first_at_ms BIGINT NOT NULL,
    last_at_ms  BIGINT NOT NULL,
    PRIMARY KEY (provider, event_id)
);

-- Of signals that nothing tells apart: which firing is the newest, and from when its window counts.
CREATE TABLE signal_firings (
    provider        TEXT COLLATE "C" NOT NULL,
    signal          TEXT COLLATE "C" NOT NULL,
    firing_n        BIGINT NOT NULL,
    counted_from_ms BIGINT NOT NULL,
    PRIMARY KEY (provider, signal)
);

-- The highest version seen of each object, for handlers that take the latest alone.
CREATE TABLE object_versions (
    provider  TEXT COLLATE "C" NOT NULL,
    object    TEXT COLLATE "C" NOT NULL,
    version   BIGINT NOT NULL,
    event_seq BIGINT NOT NULL,
    PRIMARY KEY (provider, object)
);

-- Contents: written once, never changed ------------------------------------------------------------------------------

-- What was received: the headers that are kept, and the bytes.
CREATE TABLE webhook_payloads (
    event_seq BIGINT   NOT NULL PRIMARY KEY,
    shard     SMALLINT NOT NULL,
    -- The fingerprint of the secret that its request was signed with, as in `secret_uses`. NULL: none was used.
    secret    BIGINT,
    headers   TEXT COLLATE "C" NOT NULL,
    body      BYTEA    NOT NULL,
    -- With `[encryption]`: the key that sealed the columns of this row. NULL: they are in the clear.
    key_id    TEXT COLLATE "C",
    -- Values that were replaced before `body` was written; NULL: it is as it came.
    redacted_n INTEGER,
    -- The bytes as they came, of a redacted body, for as long as something is to be made of them.
    whole     BYTEA,
    -- With `[encryption]`: the search ids of the event, sealed, so that another key can make their digests anew.
    search_ids TEXT COLLATE "C",
    -- `body` is empty, and its bytes are in so many rows of `webhook_body_parts`. NULL: it is in one piece.
    parts_n   INTEGER
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.02);
-- Which keys are still needed, and which rows need them.
CREATE INDEX webhook_payloads_key ON webhook_payloads (key_id, event_seq) WHERE key_id IS NOT NULL;
CREATE INDEX webhook_payloads_whole ON webhook_payloads (event_seq) WHERE whole IS NOT NULL;

-- Large bodies, in parts that are written before their event is latched, under the number that it will have.
CREATE TABLE webhook_body_parts (
    event_seq BIGINT   NOT NULL,
    part_n    INTEGER  NOT NULL,
    shard     SMALLINT NOT NULL,
    part      BYTEA    NOT NULL,
    PRIMARY KEY (event_seq, part_n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.02);
-- To compress it would take more time than to write it.
ALTER TABLE webhook_body_parts ALTER COLUMN part SET STORAGE EXTERNAL;
CREATE FUNCTION webhook_body_parts_delete() RETURNS TRIGGER LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM webhook_body_parts WHERE event_seq = OLD.event_seq;
    RETURN NULL;
END
$$;
CREATE TRIGGER webhook_payloads_parts AFTER DELETE ON webhook_payloads FOR EACH ROW
    WHEN (OLD.parts_n IS NOT NULL) EXECUTE FUNCTION webhook_body_parts_delete();
-- Bodies whose parts are being written: the latch of their event deletes the row. What a crash leaves is swept.
CREATE TABLE unlatched_bodies (
    event_seq   BIGINT NOT NULL PRIMARY KEY,
    begun_at_ms BIGINT NOT NULL
);

-- Ids inside an event that people search for: its payment, invoice, order. In lower case, or with `[encryption]` a keyed
-- digest (`H:…`). Deleted with the event's body.
CREATE TABLE event_search_ids (
    -- event_seq / 1024: ids are random, and within a block few pages are written.
    block      BIGINT   NOT NULL,
    search_key TEXT COLLATE "C" NOT NULL,
    event_seq  BIGINT   NOT NULL,
    shard      SMALLINT NOT NULL,
    PRIMARY KEY (block, search_key, event_seq)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

-- What is to be sent, where that is not a POST of the event's own bytes: a message without a row here is one.
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
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05, toast.autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX outbox_contents_key ON outbox_contents (key_id, message_id) WHERE key_id IS NOT NULL;

-- The keys of `[encryption]` that were ever used here, each with a value that only that key gives under this id.
CREATE TABLE encryption_keys (
    key_id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    check_value   BYTEA  NOT NULL,
    written_at_ms BIGINT NOT NULL
);

-- The queue ----------------------------------------------------------------------------------------------------------

-- Messages that are neither done nor discarded: small, changed in place, deleted when they are.
CREATE TABLE outbox_queue (
    -- event_seq * 1024 + its place among the event's messages.
    message_id         BIGINT   NOT NULL PRIMARY KEY,
    -- Due time when ready, end of the lease when leased, since when it is so when held or dead.
    visible_at_ms      BIGINT   NOT NULL,
    created_at_ms      BIGINT   NOT NULL,
    -- When the newest claim was made: with `leased`, of the attempt under way.
    leased_at_ms       BIGINT,
    first_sent_at_ms   BIGINT,
    key_valid_until_ms BIGINT,
    -- When the last call ended.
    last_ended_at_ms   BIGINT,
    lane_seq           BIGINT,
    -- Counts claims; the newest one is the fencing token.
    attempts_n         INTEGER  NOT NULL DEFAULT 0,
    -- Claims that do not count against the attempts allowed: handed back unsent, or before a person's word.
    attempts_before_n  INTEGER  NOT NULL DEFAULT 0,
    generation         INTEGER  NOT NULL DEFAULT 0,
    last_http_status   INTEGER,
    -- Bytes of the body that its call carries, about: a look takes no more of them than there is memory for.
    body_bytes_n       INTEGER  NOT NULL DEFAULT 0,
    shard              SMALLINT NOT NULL,
    state              TEXT COLLATE "C" NOT NULL,
    destination        TEXT COLLATE "C" NOT NULL,
    -- NULL: as the destination.
    effect_name        TEXT COLLATE "C",
    -- Who has it, or had it last.
    node               TEXT COLLATE "C",
    lane               TEXT COLLATE "C",
    last_result        TEXT COLLATE "C",
    last_error         TEXT COLLATE "C",
    -- The `unknown` of its destination when a call was made that may have taken effect (`retry`, `query`, `hold`), the
    -- strictest of them; `restored`: it may have been made in a time that a restore took away. NULL: there was none.
    sent_under         TEXT COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);
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
    destination TEXT COLLATE "C" NOT NULL,
    lane        TEXT COLLATE "C" NOT NULL,
    head_seq    BIGINT NOT NULL DEFAULT 1,
    tail_seq    BIGINT NOT NULL DEFAULT 0,
    used_at_ms  BIGINT NOT NULL,
    PRIMARY KEY (destination, lane)
);

-- Destinations that an operator has paused: nothing is taken for them until they are resumed, by an operator or at their end.
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

-- Messages that are done or discarded.
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
    last_error       TEXT COLLATE "C"
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);

-- Attempts that say more than the message's own row does: those that did not end done, those after them, and those with
-- a piece of the answer. The one under way is told by the queue, a first one that went well by `outbox_finished`.
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
    -- The key that sealed `response`.
    key_id         TEXT COLLATE "C",
    PRIMARY KEY (message_id, attempt_n)
) WITH (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_insert_scale_factor = 0.05);
CREATE INDEX outbox_attempts_key ON outbox_attempts (key_id, message_id, attempt_n) WHERE key_id IS NOT NULL;

-- What people decided and which contents they looked at. Rows are added by `src/store/audit.rs` alone.
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

-- A row of it is never changed, and deleted only up to the mark that pruning has set. Whoever owns the tables can drop
-- these: the log of the process has each row, too.
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

-- Tokens of operators that were made at run time, those of the configuration are not here. A token is 256 random bits
-- and goes by its SHA-256.
CREATE TABLE operator_tokens (
    token_id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name            TEXT COLLATE "C" NOT NULL,
    role            TEXT COLLATE "C" NOT NULL,
    -- What it reaches, as a list in JSON; NULL: everything.
    providers       TEXT COLLATE "C",
    destinations    TEXT COLLATE "C",
    digest          BYTEA NOT NULL,
    created_by      TEXT COLLATE "C" NOT NULL,
    -- The request that made it: repeated, it makes no other one.
    idempotency_key TEXT COLLATE "C" NOT NULL,
    created_at_ms   BIGINT NOT NULL,
    expires_at_ms   BIGINT NOT NULL,
    revoked_at_ms   BIGINT,
    -- To a minute or so.
    last_used_at_ms BIGINT
);
CREATE UNIQUE INDEX operator_tokens_digest ON operator_tokens (digest);
CREATE UNIQUE INDEX operator_tokens_name ON operator_tokens (name) WHERE revoked_at_ms IS NULL;
CREATE UNIQUE INDEX operator_tokens_key ON operator_tokens (created_by, idempotency_key);

-- Sessions of people at the console. A session is 256 random bits in a cookie and goes by its SHA-256; it is good while
-- the token is that it was made with.
CREATE TABLE operator_sessions (
    -- In hexadecimal.
    digest        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    -- Name of that token, made at run time or configured.
    token_name    TEXT COLLATE "C" NOT NULL,
    -- SHA-256 of the session and the token's digest: without the session, no token can be tried against it.
    token_bound   BYTEA NOT NULL,
    created_at_ms BIGINT NOT NULL,
    expires_at_ms BIGINT NOT NULL
);
CREATE INDEX operator_sessions_token ON operator_sessions (token_name, created_at_ms);
CREATE INDEX operator_sessions_expired ON operator_sessions (expires_at_ms);

-- What people ordered to be done to all that a filter found. A batch holds the operation's row; rows up to
-- changed_n + skipped_n are behind it.
CREATE TABLE operations (
    operation_id   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at_ms  BIGINT NOT NULL,
    finished_at_ms BIGINT,
    -- When the newest batch of it was made.
    stepped_at_ms  BIGINT NOT NULL,
    total_n        BIGINT NOT NULL,
    changed_n      BIGINT NOT NULL,
    skipped_n      BIGINT NOT NULL,
    state          TEXT COLLATE "C" NOT NULL,
    actor          TEXT COLLATE "C" NOT NULL,
    reason         TEXT COLLATE "C" NOT NULL,
    -- The act and the filter, as they were ordered.
    subject        TEXT COLLATE "C" NOT NULL,
    -- How far the orderer's word reached; NULL: everywhere.
    providers      TEXT COLLATE "C",
    destinations   TEXT COLLATE "C",
    cancelled_by   TEXT COLLATE "C",
    -- With `waiting`: until when a second person can approve it.
    expires_at_ms  BIGINT,
    approved_by    TEXT COLLATE "C",
    -- Why it stopped or ended by itself.
    note           TEXT COLLATE "C",
    -- Its steps with their counts, in JSON; NULL: all at once.
    steps          TEXT COLLATE "C"
);
CREATE INDEX operations_running ON operations (stepped_at_ms) WHERE state = 'running';
CREATE INDEX operations_unfinished ON operations (operation_id) WHERE finished_at_ms IS NULL;
CREATE INDEX operations_finished ON operations (finished_at_ms) WHERE finished_at_ms IS NOT NULL;

-- The set of an operation, fixed with the order, and what became of each row of it.
CREATE TABLE operation_rows (
    operation_id TEXT COLLATE "C" NOT NULL,
    row_n        BIGINT NOT NULL,
    -- Number of the message, or of the event.
    subject_id   BIGINT NOT NULL,
    -- NULL until it was acted on (`changed`) or passed over.
    outcome      TEXT COLLATE "C",
    -- State in which it stood when it was passed over.
    stood        TEXT COLLATE "C",
    -- In an operation with steps: `open` until its calls were tried, then `good` or `failed`.
    result       TEXT COLLATE "C",
    PRIMARY KEY (operation_id, row_n)
);
CREATE INDEX operation_rows_skipped ON operation_rows (operation_id, row_n) WHERE outcome <> 'changed';
CREATE INDEX operation_rows_open ON operation_rows (operation_id, row_n) WHERE result = 'open';

-- That a repeated request takes effect once: an operator's, and those of routes of the program's own. The row is written
-- before the request is carried out, or in the transaction of its effect, and goes when its window is over.
CREATE TABLE idempotency_keys (
    -- Whose key it is: `operator:` or `app:` and a name.
    principal       TEXT COLLATE "C" NOT NULL,
    idempotency_key TEXT COLLATE "C" NOT NULL,
    -- Of the whole request: the same key with another one is refused.
    fingerprint     BYTEA  NOT NULL CHECK (octet_length(fingerprint) = 32),
    -- `processing`, `succeeded`, `failed` or `released`.
    state           TEXT COLLATE "C" NOT NULL,
    -- Counts claims; who does not hold the newest one writes no answer.
    fence           BIGINT NOT NULL,
    -- Until then nobody else carries it out; with `processing`.
    locked_until_ms BIGINT NOT NULL,
    created_at_ms   BIGINT NOT NULL,
    expires_at_ms   BIGINT NOT NULL,
    -- The answer: with `succeeded` and `failed`. NULL as a body: it was not kept.
    status          BIGINT,
    headers         TEXT COLLATE "C",
    body            BYTEA,
    PRIMARY KEY (principal, idempotency_key)
) WITH (autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires_at_ms);

-- Requests that were not believed, newest few of each provider, without their bodies; and which secret still matches.
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

-- A secret goes by a fingerprint that is keyed with the installation's id: it says nothing about the secret.
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

-- A secret that a sender taught us while a person allowed it: the newest of each provider, until it was shown once.
CREATE TABLE taught_secrets (
    provider     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    secret       TEXT COLLATE "C" NOT NULL,
    taught_at_ms BIGINT NOT NULL
);

-- Keys that were fetched from senders' hosts and verified a request; a restart need not fetch them again. At most 32 of
-- each provider.
CREATE TABLE fetched_keys (
    provider      TEXT COLLATE "C" NOT NULL,
    -- SHA-256 of the id, and of everything that decided what was fetched.
    digest        BYTEA NOT NULL,
    fetched_at_ms BIGINT NOT NULL,
    -- Id, key and time in JSON; sealed where `key_id` says by which key.
    content       BYTEA NOT NULL,
    key_id        TEXT COLLATE "C",
    PRIMARY KEY (provider, digest)
);

-- Nodes that run, or ran within the hour, for whoever asks whether all are of one version.
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
    -- The time by which the last round counted. A clock that is days beyond it has to prove itself first.
    counted_at_ms BIGINT
);
INSERT INTO retention_lease (one, node, until_ms) VALUES (1, '', 0);

-- How far the ids that are kept for so many days have been walked: whoever prunes next goes on there.
CREATE TABLE retention_marks (
    days        BIGINT NOT NULL PRIMARY KEY,
    event_seq   BIGINT NOT NULL,
    begun_at_ms BIGINT NOT NULL
);

-- All messages with their events, finished or not, for whoever looks.
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
             last_result, http_status, last_error, CAST(NULL AS TEXT)
      FROM outbox_finished) m
JOIN processed_webhook_events e ON e.event_seq = m.message_id / 1024;

-- The default compression (pglz) costs a third of the throughput; a server built without lz4 keeps bodies as they are.
DO $$
BEGIN
    ALTER TABLE webhook_payloads ALTER COLUMN body SET COMPRESSION lz4;
    ALTER TABLE outbox_contents ALTER COLUMN body SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported THEN
    ALTER TABLE webhook_payloads ALTER COLUMN body SET STORAGE EXTERNAL;
    ALTER TABLE outbox_contents ALTER COLUMN body SET STORAGE EXTERNAL;
END
$$;
