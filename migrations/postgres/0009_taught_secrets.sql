-- A secret that a sender taught us while a person allowed it: the newest of each provider, until it was shown once.
CREATE TABLE taught_secrets (
    provider     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    secret       TEXT COLLATE "C" NOT NULL,
    taught_at_ms BIGINT NOT NULL
);
