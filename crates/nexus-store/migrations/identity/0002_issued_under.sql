-- The owner's token, as its SHA-256, that a token was given out under. A token is good only while that is the
-- owner's token. Rows from before this column are bound at the next start, if the owner's token is still the one
-- that start before knew, and are ended otherwise.
ALTER TABLE auth_tokens ADD COLUMN issued_under TEXT;
