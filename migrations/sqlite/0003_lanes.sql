-- Messages of one lane go out in order, one at a time. Its head is `ready`; those behind it are `waiting`, out of
-- every worker's sight, so that a deep lane costs the others nothing.

ALTER TABLE outbox_messages ADD COLUMN lane TEXT   ;
ALTER TABLE outbox_messages ADD COLUMN lane_seq INTEGER;

-- Who adds to a lane and who moves its head lock this row first: numbers are in the order of commits.
CREATE TABLE outbox_lanes (
    destination TEXT    NOT NULL,
    lane        TEXT    NOT NULL,
    head_seq    INTEGER NOT NULL DEFAULT 1,
    tail_seq    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (destination, lane)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX outbox_messages_lane ON outbox_messages (destination, lane, lane_seq) WHERE lane IS NOT NULL;
-- Never two under way in one lane, whatever the code says.
CREATE UNIQUE INDEX outbox_messages_lane_leased ON outbox_messages (destination, lane)
    WHERE lane IS NOT NULL AND state = 'leased';
CREATE INDEX outbox_messages_waiting ON outbox_messages (destination) WHERE state = 'waiting';
