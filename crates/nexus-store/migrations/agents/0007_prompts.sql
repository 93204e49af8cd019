-- System prompts and tools as models were sent them, by what they are made of; many turns share one. The newest few
-- hundred are kept, for people who look.
CREATE TABLE prompts (
    id         TEXT PRIMARY KEY,
    parts_json TEXT NOT NULL
) STRICT;
