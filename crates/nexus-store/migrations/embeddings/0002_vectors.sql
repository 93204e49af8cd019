-- Vectors as the scan reads them: one small row each, by the row of what they stand for. The table
-- before them was never filled.

DROP TABLE embeddings;

-- Which model the vectors of one kind were made with; another model means making them again.
CREATE TABLE vector_sets (
    kind TEXT PRIMARY KEY CHECK (kind IN ('fact', 'turn')),
    model TEXT NOT NULL,
    -- Rows up to here have been looked at.
    through INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE vectors (
    kind TEXT NOT NULL CHECK (kind IN ('fact', 'turn')),
    row INTEGER NOT NULL,
    -- Copied here so that the arrays beside the vectors are filled from this file alone: the number
    -- of a turn's conversation, when it was said or so, and a hash of who said it.
    audience INTEGER NOT NULL,
    at INTEGER NOT NULL,
    speaker INTEGER NOT NULL,
    -- Scale as four bytes, little end first, then a signed byte per dimension.
    vector BLOB NOT NULL,
    PRIMARY KEY (kind, row)
) STRICT, WITHOUT ROWID;
