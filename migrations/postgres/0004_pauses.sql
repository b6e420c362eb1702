-- Destinations that a person has paused: nothing is taken for them until they are resumed.

CREATE TABLE destination_pauses (
    destination  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    actor        TEXT COLLATE "C" NOT NULL,
    reason       TEXT COLLATE "C" NOT NULL,
    paused_at_ms BIGINT NOT NULL
);
