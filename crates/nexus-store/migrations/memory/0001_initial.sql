-- memory.db: facts as sentences, whom they are about, what caused what, and the episodes they came from.

CREATE TABLE facts (
    row INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    text TEXT NOT NULL,
    -- SHA-256 of the text: the same sentence is stored once, and the index does not hold it again.
    text_hash TEXT NOT NULL UNIQUE,
    context TEXT,
    as_of INTEGER NOT NULL,
    ingested_at INTEGER NOT NULL,
    source_event_id TEXT,
    is_consolidated INTEGER NOT NULL DEFAULT 0 CHECK (is_consolidated IN (0, 1)),
    access_count INTEGER NOT NULL DEFAULT 0,
    metadata TEXT NOT NULL DEFAULT '{}',
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX facts_by_time ON facts (as_of);
CREATE INDEX facts_by_ingestion ON facts (ingested_at);
CREATE INDEX facts_by_event ON facts (source_event_id) WHERE source_event_id IS NOT NULL;
CREATE INDEX facts_unconsolidated ON facts (ingested_at) WHERE is_consolidated = 0;

-- This junction is the knowledge graph. Entities live in another file, so there is no foreign key.
CREATE TABLE fact_entities (
    fact_id TEXT NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    entity_id TEXT NOT NULL,
    PRIMARY KEY (fact_id, entity_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX fact_entities_by_entity ON fact_entities (entity_id, fact_id);

CREATE TABLE causal_links (
    from_fact_id TEXT NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    to_fact_id TEXT NOT NULL REFERENCES facts (id) ON DELETE CASCADE,
    strength REAL NOT NULL CHECK (strength BETWEEN 0 AND 1),
    created_at INTEGER NOT NULL,
    PRIMARY KEY (from_fact_id, to_fact_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX causal_links_backwards ON causal_links (to_fact_id);

CREATE TABLE episodes (
    id TEXT PRIMARY KEY,
    strategy TEXT NOT NULL,
    platform TEXT,
    thread_id TEXT,
    start_time INTEGER NOT NULL,
    end_time INTEGER NOT NULL,
    event_count INTEGER NOT NULL,
    first_event_id TEXT,
    last_event_id TEXT,
    parent_id TEXT REFERENCES episodes (id),
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX episodes_by_time ON episodes (end_time);

CREATE TABLE episode_events (
    episode_id TEXT NOT NULL REFERENCES episodes (id) ON DELETE CASCADE,
    event_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    PRIMARY KEY (episode_id, event_id)
) STRICT, WITHOUT ROWID;

CREATE INDEX episode_events_by_event ON episode_events (event_id);

CREATE TABLE memory_processing_log (
    event_id TEXT PRIMARY KEY,
    processed_at INTEGER NOT NULL,
    writer_run_id TEXT,
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE VIRTUAL TABLE facts_fts USING fts5 (
    text, content = 'facts', content_rowid = 'row', tokenize = 'porter unicode61 remove_diacritics 2'
);
-- For scripts without spaces between words, and for parts of words.
CREATE VIRTUAL TABLE facts_trigrams USING fts5 (
    text, content = 'facts', content_rowid = 'row', tokenize = 'trigram remove_diacritics 1'
);

CREATE TRIGGER facts_search_added AFTER INSERT ON facts BEGIN
    INSERT INTO facts_fts (rowid, text) VALUES (new.row, new.text);
    INSERT INTO facts_trigrams (rowid, text) VALUES (new.row, new.text);
END;
CREATE TRIGGER facts_search_removed AFTER DELETE ON facts BEGIN
    INSERT INTO facts_fts (facts_fts, rowid, text) VALUES ('delete', old.row, old.text);
    INSERT INTO facts_trigrams (facts_trigrams, rowid, text) VALUES ('delete', old.row, old.text);
END;
CREATE TRIGGER facts_search_changed AFTER UPDATE OF text ON facts BEGIN
    INSERT INTO facts_fts (facts_fts, rowid, text) VALUES ('delete', old.row, old.text);
    INSERT INTO facts_fts (rowid, text) VALUES (new.row, new.text);
    INSERT INTO facts_trigrams (facts_trigrams, rowid, text) VALUES ('delete', old.row, old.text);
    INSERT INTO facts_trigrams (rowid, text) VALUES (new.row, new.text);
END;
