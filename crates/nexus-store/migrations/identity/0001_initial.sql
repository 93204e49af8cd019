-- identity.db: people and other named things, how they reach us, and what they may do.

CREATE TABLE entities (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    merged_into TEXT REFERENCES entities (id),
    normalized TEXT NOT NULL,
    is_user INTEGER NOT NULL DEFAULT 0 CHECK (is_user IN (0, 1)),
    source TEXT NOT NULL DEFAULT 'inferred' CHECK (source IN ('delivery', 'inferred', 'imported', 'manual')),
    mention_count INTEGER NOT NULL DEFAULT 0,
    first_seen INTEGER,
    last_seen INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    CHECK (merged_into IS NULL OR merged_into <> id)
) STRICT;

CREATE INDEX entities_by_normalized ON entities (normalized);
CREATE INDEX entities_by_type ON entities (type);
CREATE INDEX entities_merged ON entities (merged_into) WHERE merged_into IS NOT NULL;
-- There is one owner: of all canonical entities only one may be the user.
CREATE UNIQUE INDEX entities_one_user ON entities (is_user) WHERE is_user = 1 AND merged_into IS NULL;

CREATE TABLE entity_tags (
    entity_id TEXT NOT NULL REFERENCES entities (id),
    tag TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    PRIMARY KEY (entity_id, tag)
) STRICT, WITHOUT ROWID;

CREATE INDEX entity_tags_by_tag ON entity_tags (tag);

CREATE TABLE entity_cooccurrences (
    entity_id_1 TEXT NOT NULL REFERENCES entities (id),
    entity_id_2 TEXT NOT NULL REFERENCES entities (id),
    count INTEGER NOT NULL DEFAULT 1,
    last_cooccurred INTEGER NOT NULL,
    PRIMARY KEY (entity_id_1, entity_id_2),
    CHECK (entity_id_1 < entity_id_2)
) STRICT, WITHOUT ROWID;

CREATE INDEX entity_cooccurrences_other_way ON entity_cooccurrences (entity_id_2);

CREATE TABLE merge_candidates (
    id TEXT PRIMARY KEY,
    entity_a_id TEXT NOT NULL REFERENCES entities (id),
    entity_b_id TEXT NOT NULL REFERENCES entities (id),
    confidence REAL NOT NULL,
    reason TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'rejected')),
    created_at INTEGER NOT NULL,
    resolved_at INTEGER,
    UNIQUE (entity_a_id, entity_b_id)
) STRICT;

-- The space is an empty string where a platform has none: NULLs would not be unique.
CREATE TABLE contacts (
    platform TEXT NOT NULL,
    space_id TEXT NOT NULL DEFAULT '',
    sender_id TEXT NOT NULL,
    entity_id TEXT NOT NULL REFERENCES entities (id),
    first_seen INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    message_count INTEGER NOT NULL DEFAULT 0,
    sender_name TEXT,
    avatar_url TEXT,
    PRIMARY KEY (platform, space_id, sender_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX contacts_by_entity ON contacts (entity_id);
CREATE INDEX contacts_by_time ON contacts (last_seen);

CREATE TABLE auth_tokens (
    id TEXT PRIMARY KEY,
    audience TEXT NOT NULL,
    token_prefix TEXT NOT NULL,
    token_hash TEXT NOT NULL UNIQUE,
    entity_id TEXT NOT NULL REFERENCES entities (id),
    role TEXT NOT NULL,
    scopes TEXT NOT NULL,
    label TEXT,
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE TABLE grants (
    id TEXT PRIMARY KEY,
    principal_query TEXT NOT NULL,
    resources TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER,
    granted_by TEXT NOT NULL,
    reason TEXT,
    request_context TEXT,
    conditions TEXT
) STRICT;

CREATE TABLE access_log (
    id TEXT PRIMARY KEY,
    timestamp INTEGER NOT NULL,
    event_id TEXT,
    request_id TEXT,
    platform TEXT NOT NULL,
    sender_id TEXT NOT NULL,
    container_kind TEXT,
    account TEXT,
    principal_id TEXT,
    principal_type TEXT NOT NULL,
    principal_name TEXT,
    principal_relationship TEXT,
    policies_evaluated TEXT,
    policies_matched TEXT,
    policies_denied TEXT,
    effect TEXT NOT NULL CHECK (effect IN ('allow', 'deny', 'ask')),
    deny_reason TEXT,
    tools_allowed TEXT,
    tools_denied TEXT,
    credentials_allowed TEXT,
    data_access TEXT,
    persona TEXT,
    session_key TEXT,
    grants_applied TEXT,
    processing_time_ms INTEGER,
    operation_kind TEXT,
    operation TEXT,
    operation_resource TEXT,
    operation_action TEXT,
    operation_permission TEXT
) STRICT;

CREATE INDEX access_log_by_time ON access_log (timestamp DESC);

CREATE TABLE grant_log (
    id TEXT PRIMARY KEY,
    timestamp INTEGER NOT NULL,
    grant_id TEXT NOT NULL REFERENCES grants (id),
    activity TEXT NOT NULL CHECK (activity IN ('created', 'used', 'expired', 'revoked')),
    actor TEXT,
    reason TEXT,
    access_log_id TEXT
) STRICT;

CREATE INDEX grant_log_by_grant ON grant_log (grant_id, timestamp);

CREATE TABLE permission_requests (
    id TEXT PRIMARY KEY,
    requester_id TEXT,
    requester_platform TEXT,
    kind TEXT,
    tool_name TEXT,
    tool_call_id TEXT,
    session_key TEXT,
    nexus_request_id TEXT,
    summary TEXT,
    context_json TEXT,
    resources TEXT NOT NULL,
    reason TEXT,
    original_message TEXT,
    created_at INTEGER NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'denied', 'expired')),
    expires_at INTEGER NOT NULL,
    responder TEXT,
    response_at INTEGER,
    response_platform TEXT,
    grant_id TEXT REFERENCES grants (id)
) STRICT;

CREATE INDEX permission_requests_open ON permission_requests (expires_at) WHERE status = 'pending';
