-- That something was forgotten, and never what.
CREATE TABLE forget_log (
    id TEXT PRIMARY KEY,
    event_id TEXT NOT NULL,
    facts INTEGER NOT NULL,
    forgotten_at INTEGER NOT NULL
) STRICT;
