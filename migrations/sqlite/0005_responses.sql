-- What a destination answered, as far as it is kept: bounded and redacted, for people.

ALTER TABLE outbox_attempts ADD COLUMN response TEXT;

-- The last attempt of a message that is done is told by the message: its row in outbox_attempts, written before the
-- first byte left, stays as it is. That is one write less for every call that goes well.
ALTER TABLE outbox_messages ADD COLUMN last_http_status INTEGER;
