-- The directory: where people meet, what those places are called, and who is seen in them. Empty strings stand for
-- what a platform does not have: NULLs would not be unique.

CREATE TABLE spaces (
    platform TEXT NOT NULL,
    account_id TEXT NOT NULL,
    space_id TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    current_name TEXT,
    current_name_seen INTEGER,
    metadata_json TEXT,
    PRIMARY KEY (platform, account_id, space_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE containers (
    platform TEXT NOT NULL,
    account_id TEXT NOT NULL,
    container_id TEXT NOT NULL,
    container_kind TEXT NOT NULL CHECK (container_kind IN ('dm', 'group', 'channel', 'direct')),
    space_id TEXT NOT NULL DEFAULT '',
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    current_name TEXT,
    current_name_seen INTEGER,
    metadata_json TEXT,
    PRIMARY KEY (platform, account_id, container_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE threads (
    platform TEXT NOT NULL,
    account_id TEXT NOT NULL,
    container_id TEXT NOT NULL,
    thread_id TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    current_name TEXT,
    current_name_seen INTEGER,
    metadata_json TEXT,
    PRIMARY KEY (platform, account_id, container_id, thread_id)
) STRICT, WITHOUT ROWID;

-- The parent of a thread is its container; nothing else has one.
CREATE TABLE names (
    kind TEXT NOT NULL CHECK (kind IN ('space', 'container', 'thread')),
    platform TEXT NOT NULL,
    account_id TEXT NOT NULL,
    target_id TEXT NOT NULL,
    parent_id TEXT NOT NULL DEFAULT '',
    name TEXT NOT NULL,
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    PRIMARY KEY (kind, platform, account_id, target_id, parent_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE container_participants (
    platform TEXT NOT NULL,
    account_id TEXT NOT NULL,
    container_id TEXT NOT NULL,
    thread_id TEXT NOT NULL DEFAULT '',
    entity_id TEXT NOT NULL REFERENCES entities (id),
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    message_count INTEGER NOT NULL DEFAULT 0,
    last_sender_name TEXT,
    last_avatar_url TEXT,
    PRIMARY KEY (platform, account_id, container_id, thread_id, entity_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX container_participants_by_entity ON container_participants (entity_id);

CREATE TABLE membership_events (
    id TEXT PRIMARY KEY,
    platform TEXT NOT NULL,
    account_id TEXT NOT NULL,
    space_id TEXT NOT NULL DEFAULT '',
    container_id TEXT NOT NULL DEFAULT '',
    thread_id TEXT NOT NULL DEFAULT '',
    entity_id TEXT NOT NULL REFERENCES entities (id),
    action TEXT NOT NULL CHECK (action IN ('join', 'leave', 'invite', 'kick', 'ban', 'unban')),
    occurred_at INTEGER NOT NULL,
    source_event_id TEXT,
    metadata_json TEXT
) STRICT;

CREATE INDEX membership_events_by_entity ON membership_events (entity_id, occurred_at);
