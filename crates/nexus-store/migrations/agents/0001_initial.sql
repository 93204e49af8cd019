-- agents.db: what was done and what must be said. Decides after a crash.

-- A session is a stable name for a place in the turn tree.
CREATE TABLE sessions (
    label                TEXT PRIMARY KEY,
    head_turn_id         TEXT,
    persona              TEXT NOT NULL,
    role                 TEXT NOT NULL CHECK (role IN ('manager', 'worker')),
    parent_session_label TEXT,
    parent_turn_id       TEXT,
    dispatch_id          TEXT,
    task_description     TEXT,
    task_status          TEXT CHECK (task_status IN ('pending', 'running', 'completed', 'failed', 'cancelled')),
    -- Why a running worker is being ended; gone once it has reported.
    cancel_reason        TEXT,
    spawn_depth          INTEGER NOT NULL DEFAULT 0,
    settings_json        TEXT NOT NULL DEFAULT '{}',
    origin               TEXT NOT NULL,
    status               TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'archived')),
    created_at           INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_by_parent ON sessions (parent_session_label, task_status) WHERE parent_session_label IS NOT NULL;
CREATE INDEX sessions_by_update ON sessions (updated_at DESC);

CREATE TABLE session_history (
    id            INTEGER PRIMARY KEY,
    session_label TEXT NOT NULL,
    turn_id       TEXT NOT NULL,
    changed_at    INTEGER NOT NULL
) STRICT;

-- One exchange with a model. Ancestry is parent by parent, never a stored list.
CREATE TABLE turns (
    id                  TEXT PRIMARY KEY,
    parent_turn_id      TEXT,
    depth               INTEGER NOT NULL,
    turn_type           TEXT NOT NULL DEFAULT 'normal' CHECK (turn_type IN ('normal', 'compaction')),
    status              TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed', 'aborted')),
    session_label       TEXT NOT NULL,
    request_id          TEXT NOT NULL,
    role                TEXT NOT NULL,
    attempt             INTEGER NOT NULL,
    provider            TEXT,
    model               TEXT,
    stop_reason         TEXT,
    error               TEXT,
    input_tokens        INTEGER NOT NULL DEFAULT 0,
    output_tokens       INTEGER NOT NULL DEFAULT 0,
    cached_input_tokens INTEGER NOT NULL DEFAULT 0,
    cache_write_tokens  INTEGER NOT NULL DEFAULT 0,
    reasoning_tokens    INTEGER NOT NULL DEFAULT 0,
    context_json        TEXT,
    started_at          INTEGER NOT NULL,
    completed_at        INTEGER
) STRICT;

-- Tool results are not messages: they live with their call.
CREATE TABLE messages (
    id         TEXT PRIMARY KEY,
    turn_id    TEXT NOT NULL REFERENCES turns (id),
    sequence   INTEGER NOT NULL,
    role       TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
    frame      TEXT,
    content    TEXT NOT NULL,
    thinking   TEXT,
    created_at INTEGER NOT NULL,
    UNIQUE (turn_id, sequence)
) STRICT;

CREATE TABLE tool_calls (
    id                    TEXT PRIMARY KEY,
    turn_id               TEXT NOT NULL REFERENCES turns (id),
    message_id            TEXT NOT NULL REFERENCES messages (id),
    sequence              INTEGER NOT NULL,
    model_call_id         TEXT NOT NULL,
    tool_name             TEXT NOT NULL,
    arguments_json        TEXT NOT NULL,
    status                TEXT NOT NULL CHECK (status IN ('intended', 'completed', 'failed', 'interrupted')),
    result                TEXT,
    spawned_session_label TEXT,
    started_at            INTEGER NOT NULL,
    completed_at          INTEGER,
    UNIQUE (message_id, sequence)
) STRICT;
CREATE INDEX tool_calls_by_turn ON tool_calls (turn_id);

-- What waits for a session, or has been taken by it. One item is one request. Its place in the queue is
-- its row, because clocks repeat themselves and go back.
CREATE TABLE queue_items (
    id                TEXT PRIMARY KEY,
    session_label     TEXT NOT NULL REFERENCES sessions (label),
    request_id        TEXT NOT NULL UNIQUE,
    parent_request_id TEXT,
    root_request_id   TEXT NOT NULL,
    source_event_id   TEXT,
    kind              TEXT NOT NULL CHECK (kind IN ('message', 'task', 'worker_result', 'agent_message', 'system')),
    mode              TEXT NOT NULL CHECK (mode IN ('interrupt', 'followup', 'collect')),
    frame_json        TEXT NOT NULL,
    content           TEXT NOT NULL,
    permissions_json  TEXT NOT NULL,
    status            TEXT NOT NULL CHECK (status IN ('pending', 'processing', 'done')),
    outcome           TEXT CHECK (outcome IN ('completed', 'failed', 'aborted', 'merged', 'rejected', 'cancelled')),
    attempt           INTEGER NOT NULL DEFAULT 0,
    boot_id           TEXT,
    turn_id           TEXT,
    error             TEXT,
    enqueued_at       INTEGER NOT NULL,
    finished_at       INTEGER,
    projected_at      INTEGER
) STRICT;
-- What a session looks at for every turn. SQLite takes such an index only for queries that repeat its
-- condition word for word.
CREATE INDEX queue_items_open ON queue_items (session_label) WHERE status <> 'done';
CREATE INDEX queue_items_said ON queue_items (session_label, enqueued_at) WHERE kind = 'message';
CREATE INDEX queue_items_by_root ON queue_items (root_request_id, status);
CREATE INDEX queue_items_by_turn ON queue_items (turn_id) WHERE turn_id IS NOT NULL;
CREATE INDEX queue_items_unprojected ON queue_items (enqueued_at) WHERE status = 'done' AND projected_at IS NULL;

-- What must be said to a person. `{turn}:{n}`; delivered means readable in the conversation's history.
CREATE TABLE outbox (
    id              TEXT PRIMARY KEY,
    turn_id         TEXT,
    session_label   TEXT NOT NULL,
    request_id      TEXT NOT NULL,
    root_request_id TEXT NOT NULL,
    message_id      TEXT NOT NULL,
    state           TEXT NOT NULL CHECK (state IN ('final', 'aborted', 'error')),
    text            TEXT NOT NULL,
    status          TEXT NOT NULL CHECK (status IN ('pending', 'sending', 'delivered')),
    attempts        INTEGER NOT NULL DEFAULT 0,
    created_at      INTEGER NOT NULL,
    delivered_at    INTEGER
) STRICT;
CREATE INDEX outbox_undelivered ON outbox (created_at) WHERE status <> 'delivered';
CREATE INDEX outbox_by_request ON outbox (request_id);
CREATE INDEX outbox_by_root ON outbox (root_request_id, status);
CREATE INDEX outbox_by_session ON outbox (session_label, created_at);
