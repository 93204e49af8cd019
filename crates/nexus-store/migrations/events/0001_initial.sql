-- events.db: what arrived and what was said. Rows are only added; `inbox` says which of the arrived
-- ones still have to be dealt with.

CREATE TABLE events (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    source TEXT NOT NULL,
    source_id TEXT NOT NULL,
    type TEXT NOT NULL,
    direction TEXT NOT NULL DEFAULT 'inbound' CHECK (direction IN ('inbound', 'outbound', 'observed')),
    platform TEXT NOT NULL,
    account_id TEXT,
    sender_id TEXT NOT NULL,
    to_recipients TEXT,
    space_id TEXT,
    container_kind TEXT,
    container_id TEXT,
    thread_id TEXT,
    reply_to TEXT,
    content TEXT NOT NULL,
    content_type TEXT NOT NULL DEFAULT 'text',
    attachments TEXT,
    timestamp INTEGER NOT NULL,
    received_at INTEGER NOT NULL,
    metadata TEXT,
    UNIQUE (source, source_id)
) STRICT;

CREATE INDEX events_by_time ON events (timestamp DESC);
CREATE INDEX events_by_sender ON events (platform, sender_id);
CREATE INDEX events_by_thread ON events (thread_id) WHERE thread_id IS NOT NULL;
CREATE INDEX events_by_reply ON events (reply_to) WHERE reply_to IS NOT NULL;

CREATE TABLE inbox (
    event_id TEXT PRIMARY KEY REFERENCES events (id),
    request_id TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    outcome TEXT NOT NULL DEFAULT 'accepted'
        CHECK (outcome IN ('accepted', 'done', 'denied', 'handled', 'skipped', 'failed')),
    accepted_at INTEGER NOT NULL,
    closed_at INTEGER
) STRICT;

CREATE INDEX inbox_open ON inbox (accepted_at, event_id) WHERE outcome = 'accepted';
CREATE INDEX inbox_by_request ON inbox (request_id);

CREATE VIRTUAL TABLE events_fts USING fts5 (
    content, content = 'events', content_rowid = 'row', tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TRIGGER events_fts_added AFTER INSERT ON events BEGIN
    INSERT INTO events_fts (rowid, content) VALUES (new.row, new.content);
END;
CREATE TRIGGER events_fts_removed AFTER DELETE ON events BEGIN
    INSERT INTO events_fts (events_fts, rowid, content) VALUES ('delete', old.row, old.content);
END;
CREATE TRIGGER events_fts_changed AFTER UPDATE OF content ON events BEGIN
    INSERT INTO events_fts (events_fts, rowid, content) VALUES ('delete', old.row, old.content);
    INSERT INTO events_fts (rowid, content) VALUES (new.row, new.content);
END;
