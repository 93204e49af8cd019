-- Channels and how they stand, imports, and bus events where they are kept.

CREATE TABLE adapter_instances (
    adapter TEXT NOT NULL,
    account TEXT NOT NULL,
    platform TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'stopped' CHECK (status IN ('stopped', 'starting', 'running', 'error', 'backfilling')),
    pid INTEGER,
    backfill_pid INTEGER,
    health_status TEXT NOT NULL DEFAULT 'unknown'
        CHECK (health_status IN ('healthy', 'degraded', 'disconnected', 'unknown')),
    last_event_at INTEGER,
    last_health_check_at INTEGER,
    error_message TEXT,
    restart_count INTEGER NOT NULL DEFAULT 0,
    last_restart_at INTEGER,
    events_received INTEGER NOT NULL DEFAULT 0,
    events_sent INTEGER NOT NULL DEFAULT 0,
    events_backfilled INTEGER NOT NULL DEFAULT 0,
    backfill_status TEXT CHECK (backfill_status IN ('pending', 'running', 'completed', 'failed')),
    backfill_since INTEGER,
    backfill_cursor TEXT,
    backfill_completed_at INTEGER,
    capabilities_json TEXT,
    started_at INTEGER,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (adapter, account)
) STRICT, WITHOUT ROWID;

CREATE TABLE import_jobs (
    id TEXT PRIMARY KEY,
    source TEXT NOT NULL,
    mode TEXT NOT NULL,
    status TEXT NOT NULL,
    requested_at INTEGER NOT NULL,
    started_at INTEGER,
    completed_at INTEGER,
    error_code TEXT,
    error_message TEXT,
    stats_json TEXT
) STRICT;

CREATE TABLE bus_events (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    properties_json TEXT,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX bus_events_by_time ON bus_events (created_at);
