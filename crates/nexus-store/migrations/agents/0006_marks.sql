-- Files that hold words nobody vouches for: a run that had read some has written them. While a command of such a
-- run is under way its folder stands here under the call's id; a death in between leaves it so.
CREATE TABLE file_marks (
    -- Relative to the workspace where it lies inside, absolute elsewhere.
    path       TEXT NOT NULL,
    call_id    TEXT NOT NULL,
    request_id TEXT NOT NULL,
    sources    TEXT NOT NULL,
    marked_at  INTEGER NOT NULL,
    PRIMARY KEY (path, call_id)
) STRICT, WITHOUT ROWID;
