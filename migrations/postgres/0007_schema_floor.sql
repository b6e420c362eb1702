-- Which older binaries may still run on this schema: those that want this version or a later one. A migration that
-- only expands leaves it alone; one that takes away what an older binary uses raises it in its own text:
--     UPDATE schema_floor SET version = N;

CREATE TABLE schema_floor (
    one     BIGINT NOT NULL PRIMARY KEY CHECK (one = 1),
    version BIGINT NOT NULL
);
INSERT INTO schema_floor (one, version) VALUES (1, 7);
