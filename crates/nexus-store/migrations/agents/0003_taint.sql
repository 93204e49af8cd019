-- What a turn read that nobody vouches for, one source a line; written before the model sees any of it.
ALTER TABLE turns ADD COLUMN taint TEXT;
CREATE INDEX turns_tainted ON turns (session_label, depth) WHERE taint IS NOT NULL;
