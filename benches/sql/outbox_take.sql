-- bench_outbox_take: what most outbox relays ask; whoever asks keeps the rows locked until the end of the transaction.
-- $1 bigint events at the most -> id bigint, event text, order_id text, created_at timestamptz
SELECT id, event, order_id, created_at FROM outbox ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
