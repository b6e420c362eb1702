-- Destinations that a person has paused: nothing is taken for them until they are resumed.

CREATE TABLE destination_pauses (
    destination  TEXT    NOT NULL PRIMARY KEY,
    actor        TEXT    NOT NULL,
    reason       TEXT    NOT NULL,
    paused_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
