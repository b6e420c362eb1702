-- Requests that were not believed, newest few of each provider, without their bodies; and which secret still matches.

CREATE TABLE rejected_requests (
    rejection_id   TEXT NOT NULL PRIMARY KEY,
    provider       TEXT NOT NULL,
    received_at_ms INTEGER NOT NULL,
    step           TEXT NOT NULL,
    reason         TEXT NOT NULL,
    detail         TEXT NOT NULL,
    headers        TEXT NOT NULL,
    body_digest    BLOB NOT NULL,
    body_bytes_n   INTEGER NOT NULL
) STRICT;
CREATE INDEX rejected_requests_provider ON rejected_requests (provider, rejection_id);

-- A secret goes by a fingerprint that is keyed with the installation's id: it says nothing about the secret.
CREATE TABLE secret_uses (
    provider           TEXT NOT NULL,
    fingerprint        TEXT NOT NULL,
    matched_n          INTEGER NOT NULL,
    last_matched_at_ms INTEGER NOT NULL,
    PRIMARY KEY (provider, fingerprint)
) STRICT;
