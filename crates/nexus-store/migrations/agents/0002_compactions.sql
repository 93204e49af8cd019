-- What earlier turns of a session became when they no longer fitted into a request. The turns stay;
-- one that is undone no longer counts and the turns are sent again.
CREATE TABLE compactions (
    id               TEXT PRIMARY KEY,
    session_label    TEXT NOT NULL,
    -- The turn that needed the room.
    turn_id          TEXT NOT NULL,
    -- The last turn that the summary stands for, and its depth; none when only results were shortened.
    through_turn_id  TEXT,
    through_depth    INTEGER,
    turns_summarized INTEGER NOT NULL,
    summary          TEXT,
    -- Results that are sent shortened from now on: [{"call", "text"}].
    trims_json       TEXT NOT NULL DEFAULT '[]',
    cause            TEXT NOT NULL CHECK (cause IN ('context_limit', 'overflow', 'length')),
    -- Who wrote the summary: `provider/model`, or `extract`.
    author           TEXT NOT NULL,
    tokens_before    INTEGER NOT NULL,
    tokens_after     INTEGER NOT NULL,
    created_at       INTEGER NOT NULL,
    undone_at        INTEGER
) STRICT;
CREATE INDEX compactions_by_session ON compactions (session_label);
