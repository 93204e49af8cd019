-- Vectors in runs as the scan reads them: loading a hundred thousand is then a few hundred reads
-- and not a hundred thousand. New ones stand one by one in `vectors` until a run is full.

CREATE TABLE vector_chunks (
    kind TEXT NOT NULL CHECK (kind IN ('fact', 'turn')),
    -- First and last row; runs do not overlap, and every single vector is behind the last run.
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    -- Vectors that were not forgotten.
    live INTEGER NOT NULL,
    -- For each vector row, audience and time as eight bytes and the speaker as four, little end first.
    marks BLOB NOT NULL,
    -- The vectors behind each other, all of one length.
    vectors BLOB NOT NULL,
    PRIMARY KEY (kind, first)
) STRICT;

-- About how many vectors stand one by one.
ALTER TABLE vector_sets ADD COLUMN loose INTEGER NOT NULL DEFAULT 0;
UPDATE vector_sets SET loose = (SELECT count(*) FROM vectors WHERE vectors.kind = vector_sets.kind);
