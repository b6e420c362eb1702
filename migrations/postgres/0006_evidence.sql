-- Requests that were not believed, newest few of each provider, without their bodies; and which secret still matches.

CREATE TABLE rejected_requests (
    rejection_id   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    provider       TEXT COLLATE "C" NOT NULL,
    received_at_ms BIGINT NOT NULL,
    step           TEXT COLLATE "C" NOT NULL,
    reason         TEXT COLLATE "C" NOT NULL,
    detail         TEXT COLLATE "C" NOT NULL,
    headers        TEXT COLLATE "C" NOT NULL,
    body_digest    BYTEA    NOT NULL,
    body_bytes_n   BIGINT NOT NULL
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
