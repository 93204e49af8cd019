-- A person may ask for a compaction, or for a conversation to begin anew; the list of causes grows by both.
CREATE TABLE compactions_with_more_causes (
    id               TEXT PRIMARY KEY,
    session_label    TEXT NOT NULL,
    -- The turn that needed the room, or the last one before somebody asked.
    turn_id          TEXT NOT NULL,
    -- The last turn that the summary stands for, and its depth; none when only results were shortened.
    through_turn_id  TEXT,
    through_depth    INTEGER,
    turns_summarized INTEGER NOT NULL,
    -- What is sent in place of the turns; none when nothing is.
    summary          TEXT,
    -- Results that are sent shortened from now on: [{"call", "text"}].
    trims_json       TEXT NOT NULL DEFAULT '[]',
    cause            TEXT NOT NULL CHECK (cause IN ('context_limit', 'overflow', 'length', 'asked', 'reset')),
    -- Who wrote the summary: `provider/model`, or `extract`.
    author           TEXT NOT NULL,
    tokens_before    INTEGER NOT NULL,
    tokens_after     INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    undone_at        INTEGER
) STRICT;
-- The order in which they were taken is the order of the rows.
INSERT INTO compactions_with_more_causes (rowid, id, session_label, turn_id, through_turn_id, through_depth,
    turns_summarized, summary, trims_json, cause, author, tokens_before, tokens_after, created_at, undone_at)
SELECT rowid, id, session_label, turn_id, through_turn_id, through_depth, turns_summarized, summary, trims_json,
    cause, author, tokens_before, tokens_after, created_at, undone_at
FROM compactions ORDER BY rowid;
DROP TABLE compactions;
ALTER TABLE compactions_with_more_causes RENAME TO compactions;
CREATE INDEX compactions_by_session ON compactions (session_label);
