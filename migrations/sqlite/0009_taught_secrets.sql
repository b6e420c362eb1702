-- A secret that a sender taught us while a person allowed it: the newest of each provider, until it was shown once.
CREATE TABLE taught_secrets (
    provider     TEXT    NOT NULL PRIMARY KEY,
    secret       TEXT    NOT NULL,
    taught_at_ms INTEGER NOT NULL
) STRICT;
