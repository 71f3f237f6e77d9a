-- overdue_ids: orders past their deadline that nobody closed, oldest first. The literal status lets the
-- partial index serve it; with a parameter the generic plan reads the whole table.
-- $1 bigint orders at the most, $2 bigint grace in milliseconds -> order_id text
SELECT id AS order_id FROM orders
WHERE status = 'unpaid' AND due_at <= now() - $2::bigint * interval '1 millisecond'
ORDER BY due_at, id LIMIT $1
