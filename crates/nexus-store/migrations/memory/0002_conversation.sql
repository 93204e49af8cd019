-- Where a fact was learnt: whoever takes part in that conversation may be told it again.
ALTER TABLE facts ADD COLUMN conversation TEXT;
