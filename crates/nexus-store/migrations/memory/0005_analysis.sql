-- What is made of episodes later: analyses, what they observed, and models of people and things.

CREATE TABLE analysis_types (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    output_type TEXT NOT NULL,
    prompt_template TEXT,
    created_at INTEGER NOT NULL
) STRICT;

INSERT INTO analysis_types (id, name, version, output_type, created_at)
VALUES ('observation_v1', 'observation', '1', 'freeform', 0);

CREATE TABLE analysis_runs (
    id TEXT PRIMARY KEY,
    analysis_type_id TEXT NOT NULL REFERENCES analysis_types (id),
    episode_id TEXT NOT NULL REFERENCES episodes (id),
    parent_id TEXT REFERENCES analysis_runs (id),
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'completed', 'failed', 'blocked')),
    started_at INTEGER,
    completed_at INTEGER,
    output_text TEXT,
    error_message TEXT,
    blocked_reason TEXT,
    retry_count INTEGER NOT NULL DEFAULT 0,
    access_count INTEGER NOT NULL DEFAULT 0,
    is_stale INTEGER NOT NULL DEFAULT 0 CHECK (is_stale IN (0, 1)),
    created_at INTEGER NOT NULL,
    UNIQUE (analysis_type_id, episode_id)
) STRICT;

CREATE TABLE facets (
    id TEXT PRIMARY KEY,
    analysis_run_id TEXT NOT NULL REFERENCES analysis_runs (id),
    episode_id TEXT NOT NULL REFERENCES episodes (id),
    facet_type TEXT NOT NULL,
    value TEXT NOT NULL,
    entity_id TEXT,
    confidence REAL,
    metadata_json TEXT,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX facets_by_episode ON facets (episode_id);

CREATE TABLE observation_facts (
    analysis_run_id TEXT NOT NULL REFERENCES analysis_runs (id),
    fact_id TEXT NOT NULL REFERENCES facts (id),
    PRIMARY KEY (analysis_run_id, fact_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX observation_facts_by_fact ON observation_facts (fact_id);

CREATE TABLE mental_models (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    description TEXT NOT NULL,
    subtype TEXT CHECK (subtype IN ('structural', 'emergent', 'pinned')),
    entity_id TEXT,
    tags TEXT,
    parent_id TEXT REFERENCES mental_models (id),
    is_stale INTEGER NOT NULL DEFAULT 0 CHECK (is_stale IN (0, 1)),
    refresh_trigger TEXT,
    last_refreshed INTEGER,
    access_count INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
