-- runtime.db: what happened and when. It explains; it never decides whether something runs.

CREATE TABLE nexus_requests (
    id TEXT PRIMARY KEY,
    parent_request_id TEXT,
    root_request_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    event_type TEXT NOT NULL,
    event_source TEXT NOT NULL,
    stage TEXT NOT NULL,
    status TEXT NOT NULL CHECK (status IN (
        'processing', 'completed', 'skipped', 'denied', 'handled_by_automation', 'failed', 'interrupted')),
    principal_id TEXT,
    principal_type TEXT,
    principal_is_user INTEGER,
    access_decision TEXT,
    access_policy TEXT,
    session_key TEXT,
    session_persona TEXT,
    permissions TEXT,
    hooks_matched TEXT,
    hooks_fired TEXT,
    hooks_handled TEXT,
    hooks_context TEXT,
    turn_id TEXT,
    agent_model TEXT,
    agent_tokens_prompt INTEGER,
    agent_tokens_completion INTEGER,
    agent_tokens_total INTEGER,
    agent_tool_calls TEXT,
    delivery_channel TEXT,
    delivery_message_ids TEXT,
    delivery_success INTEGER,
    delivery_error TEXT,
    started_at INTEGER NOT NULL,
    completed_at INTEGER,
    stage_timings TEXT NOT NULL DEFAULT '[]',
    error_stage TEXT,
    error_message TEXT,
    error_stack TEXT,
    request_snapshot TEXT
) STRICT;

CREATE INDEX nexus_requests_by_root ON nexus_requests (root_request_id, started_at);
CREATE INDEX nexus_requests_by_event ON nexus_requests (event_id);
CREATE INDEX nexus_requests_by_time ON nexus_requests (started_at DESC);
CREATE INDEX nexus_requests_by_session ON nexus_requests (session_key, started_at);
CREATE INDEX nexus_requests_open ON nexus_requests (started_at) WHERE status = 'processing';

CREATE TABLE automations (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    description TEXT,
    mode TEXT NOT NULL CHECK (mode IN ('persistent', 'one-shot')),
    status TEXT NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'disabled', 'errored')),
    script_path TEXT,
    script_hash TEXT,
    triggers_json TEXT,
    config_json TEXT,
    created_by_agent TEXT,
    created_by_session TEXT,
    created_by_thread TEXT,
    version INTEGER NOT NULL DEFAULT 1,
    previous_version_id TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    disabled_at INTEGER,
    disabled_reason TEXT,
    last_triggered INTEGER,
    trigger_count INTEGER NOT NULL DEFAULT 0,
    last_error TEXT,
    consecutive_errors INTEGER NOT NULL DEFAULT 0,
    circuit_state TEXT NOT NULL DEFAULT 'closed' CHECK (circuit_state IN ('closed', 'open', 'half-open')),
    circuit_opened_at INTEGER,
    hook_point TEXT,
    workspace_dir TEXT,
    peer_workspaces TEXT,
    self_improvement INTEGER NOT NULL DEFAULT 0 CHECK (self_improvement IN (0, 1)),
    timeout_ms INTEGER,
    blocking INTEGER NOT NULL DEFAULT 1 CHECK (blocking IN (0, 1)),
    bundled INTEGER NOT NULL DEFAULT 0 CHECK (bundled IN (0, 1)),
    seed_version INTEGER
) STRICT;

CREATE INDEX automations_by_hook ON automations (hook_point, name) WHERE status = 'active';

CREATE TABLE hook_invocations (
    id TEXT PRIMARY KEY,
    hook_id TEXT NOT NULL,
    automation_name TEXT NOT NULL,
    hook_point TEXT NOT NULL,
    request_id TEXT,
    event_id TEXT,
    session_label TEXT,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    latency_ms INTEGER,
    fired INTEGER NOT NULL DEFAULT 0 CHECK (fired IN (0, 1)),
    outcome TEXT CHECK (outcome IN ('ok', 'error', 'timeout', 'skipped_circuit')),
    result_json TEXT,
    llm_calls INTEGER,
    llm_tokens_in INTEGER,
    llm_tokens_out INTEGER,
    search_calls INTEGER,
    error TEXT,
    stack_trace TEXT
) STRICT;

CREATE INDEX hook_invocations_by_automation ON hook_invocations (automation_name, started_at DESC);
CREATE INDEX hook_invocations_by_request ON hook_invocations (request_id) WHERE request_id IS NOT NULL;

CREATE TABLE usage_ledger (
    id TEXT PRIMARY KEY,
    at INTEGER NOT NULL,
    day TEXT NOT NULL,
    provider TEXT NOT NULL,
    model TEXT NOT NULL,
    request_id TEXT,
    turn_id TEXT,
    session_label TEXT,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cached_input_tokens INTEGER NOT NULL DEFAULT 0,
    cost_micro_usd INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE INDEX usage_ledger_by_day ON usage_ledger (day, provider, model);

CREATE TABLE boots (
    id TEXT PRIMARY KEY,
    started_at INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    ended_at INTEGER,
    clean INTEGER NOT NULL DEFAULT 0 CHECK (clean IN (0, 1))
) STRICT;

CREATE INDEX boots_by_time ON boots (started_at DESC);

CREATE TABLE kv (
    key TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
