-- What a destination answered, as far as it is kept: bounded and redacted, for people.

ALTER TABLE outbox_attempts ADD COLUMN response TEXT COLLATE "C";
