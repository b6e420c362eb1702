-- Which rule told each event from the others, with the version of that rule: `sender/1`, `content/1`, `signal/1`.
ALTER TABLE processed_webhook_events ADD COLUMN identity TEXT NOT NULL DEFAULT '';

-- Other content under a known id waits for a person, like what could not be read.
DROP INDEX processed_webhook_events_open;
CREATE INDEX processed_webhook_events_open ON processed_webhook_events (state)
    WHERE state IN ('retry', 'failed', 'unreadable', 'conflict');

-- Contents of one event beyond those that have a row of their own.
CREATE TABLE conflict_counts (
    provider TEXT    NOT NULL,
    event_id TEXT    NOT NULL,
    unkept_n INTEGER NOT NULL,
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
