-- Forgetting that was begun and is not done: what is looked for stays written here until nothing of it
-- is left anywhere else, so that a crash cannot cut it off in the middle.
CREATE TABLE forgetting (
    id TEXT PRIMARY KEY,
    what TEXT NOT NULL,
    -- Every place is overwritten; only the unused parts of the files are left.
    is_overwritten INTEGER NOT NULL DEFAULT 0,
    begun_at INTEGER NOT NULL
) STRICT;
