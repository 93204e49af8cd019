-- Budgets count what one message led to and what one day cost, for every model call.
ALTER TABLE usage_ledger ADD COLUMN root_request_id TEXT;
ALTER TABLE usage_ledger ADD COLUMN cache_write_tokens INTEGER NOT NULL DEFAULT 0;
CREATE INDEX usage_ledger_by_run ON usage_ledger (root_request_id) WHERE root_request_id IS NOT NULL;
