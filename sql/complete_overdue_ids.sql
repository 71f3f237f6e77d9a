-- complete_overdue_ids: as overdue_ids, for shipped orders that were not confirmed in time.
-- $1 bigint orders at the most, $2 bigint grace in milliseconds, $3 timestamptz and $4 text: after this order
-- -> order_id text, due_at timestamptz
SELECT id AS order_id, confirm_by AS due_at FROM orders
WHERE status = 'shipped' AND confirm_by <= now() - $2::bigint::float8 * interval '1 millisecond' AND (confirm_by, id) > ($3, $4)
ORDER BY confirm_by, id LIMIT $1
