-- What a day has come to is asked before and after every call of a model; adding its calls up anew takes
-- longer with each of them. The ledger stays the truth, and the trigger keeps the sums beside it.
CREATE TABLE usage_days (
    day TEXT PRIMARY KEY,
    tokens INTEGER NOT NULL,
    cost_micro_usd INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO usage_days (day, tokens, cost_micro_usd)
SELECT day, sum(input_tokens + output_tokens + cached_input_tokens + cache_write_tokens), sum(cost_micro_usd)
FROM usage_ledger GROUP BY day;

CREATE TRIGGER usage_ledger_adds_to_its_day AFTER INSERT ON usage_ledger BEGIN
    INSERT INTO usage_days (day, tokens, cost_micro_usd)
    VALUES (
        new.day,
        new.input_tokens + new.output_tokens + new.cached_input_tokens + new.cache_write_tokens,
        new.cost_micro_usd
    )
    ON CONFLICT (day) DO UPDATE SET
        tokens = tokens + excluded.tokens,
        cost_micro_usd = cost_micro_usd + excluded.cost_micro_usd;
END;
