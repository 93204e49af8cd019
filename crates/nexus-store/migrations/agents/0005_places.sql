-- Where a line stands in its conversation: behind the item that was the newest when the line was written.
-- Clocks are set back; rows are not, so history is put in order by rows alone.
ALTER TABLE outbox ADD COLUMN after_item INTEGER;
UPDATE outbox SET after_item = (SELECT queue_items.rowid FROM queue_items WHERE queue_items.request_id = outbox.request_id);

DROP INDEX outbox_by_session;
CREATE INDEX outbox_by_session ON outbox (session_label);
DROP INDEX queue_items_said;
CREATE INDEX queue_items_said ON queue_items (session_label) WHERE kind = 'message';
DROP INDEX queue_items_unprojected;
CREATE INDEX queue_items_unprojected ON queue_items (projected_at) WHERE status = 'done' AND projected_at IS NULL;
