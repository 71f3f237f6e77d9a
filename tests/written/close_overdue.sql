-- overdue_ids: orders past their deadline that nobody closed, oldest first, page by page. The literal status lets the
-- partial index serve it; with a parameter the generic plan reads the whole table.
-- $1 bigint orders at the most, $2 bigint grace in milliseconds, $3 timestamptz and $4 text: after this order
-- -> order_id text, due_at timestamptz
SELECT id AS order_id, due_at FROM orders
WHERE status = 'unpaid' AND due_at <= now() - $2::bigint::float8 * interval '1 millisecond' AND (due_at, id) > ($3, $4)
ORDER BY due_at, id LIMIT $1
