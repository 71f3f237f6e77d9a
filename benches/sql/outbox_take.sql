-- bench_outbox_take: the query of most outbox relays; the rows are locked until the end of the transaction.
-- $1 bigint most events -> id bigint, event text, order_id text, created_at timestamptz
SELECT id, event, order_id, created_at FROM outbox ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED
