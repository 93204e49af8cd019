-- What was said, as memory finds it again: each turn with the words of the one before, in the stretch
-- of conversation it belongs to. Replaces the index over single events.

DROP TRIGGER events_fts_added;
DROP TRIGGER events_fts_removed;
DROP TRIGGER events_fts_changed;
DROP TABLE events_fts;

-- Conversations by number, so that a turn's visibility is one integer.
CREATE TABLE conversations (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE turns (
    row INTEGER PRIMARY KEY REFERENCES events (row) ON DELETE CASCADE,
    conversation INTEGER NOT NULL REFERENCES conversations (id),
    -- Row of the first turn of the stretch: a thread, or talk without a longer silence.
    episode INTEGER NOT NULL,
    said_at INTEGER NOT NULL
) STRICT;

CREATE INDEX turns_by_conversation ON turns (conversation, row);
CREATE INDEX turns_by_episode ON turns (episode, row);

-- Both keep only the index: the words are in `events`.
CREATE VIRTUAL TABLE turns_fts USING fts5 (
    own, before, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);
-- For scripts that put no spaces between words; other turns are not in it.
CREATE VIRTUAL TABLE turns_trigrams USING fts5 (
    own, content = '', contentless_delete = 1, tokenize = 'trigram remove_diacritics 1'
);

INSERT INTO conversations (key)
SELECT DISTINCT CASE WHEN platform IN ('control-plane', 'nexus') THEN 'nexus' ELSE platform END || ':'
    || coalesce(container_id, metadata ->> '$.session', sender_id)
FROM events WHERE type = 'message';

INSERT INTO turns (row, conversation, episode, said_at)
SELECT events.row, conversations.id, events.row, events.timestamp FROM events
JOIN conversations ON conversations.key =
    CASE WHEN platform IN ('control-plane', 'nexus') THEN 'nexus' ELSE platform END || ':'
    || coalesce(container_id, metadata ->> '$.session', sender_id)
WHERE type = 'message';

-- A stretch ends with ninety minutes of silence.
WITH starts AS (
    SELECT row, conversation,
        said_at - lag(said_at, 1, -1e15) OVER (PARTITION BY conversation ORDER BY row) > 5400000 AS is_first
    FROM turns
), stretches AS (
    SELECT row, max(CASE WHEN is_first THEN row END)
        OVER (PARTITION BY conversation ORDER BY row) AS episode
    FROM starts
)
UPDATE turns SET episode = (SELECT episode FROM stretches WHERE stretches.row = turns.row);

INSERT INTO turns_fts (rowid, own, before)
SELECT turns.row, events.content,
    coalesce(lag(events.content) OVER (PARTITION BY turns.episode ORDER BY turns.row), '')
FROM turns JOIN events ON events.row = turns.row;

INSERT INTO turns_trigrams (rowid, own)
SELECT turns.row, events.content FROM turns JOIN events ON events.row = turns.row
WHERE events.content GLOB '*[぀-ヿ㐀-鿿가-힯]*';
