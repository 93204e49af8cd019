-- embeddings.db: vectors of what the other files hold; all of it can be computed again.

CREATE TABLE embeddings (
    id TEXT PRIMARY KEY,
    target_type TEXT NOT NULL
        CHECK (target_type IN ('fact', 'observation', 'entity', 'episode', 'mental_model', 'event')),
    target_id TEXT NOT NULL,
    model TEXT NOT NULL,
    dimension INTEGER NOT NULL,
    embedding BLOB NOT NULL,
    content_hash TEXT,
    created_at INTEGER NOT NULL,
    UNIQUE (target_type, target_id, model)
) STRICT;
