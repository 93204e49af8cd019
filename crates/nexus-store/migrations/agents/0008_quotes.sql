-- The message of a platform, or the event, that a reply quotes.
ALTER TABLE outbox ADD COLUMN reply_to TEXT;
