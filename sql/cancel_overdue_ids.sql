-- cancel_overdue_ids: as overdue_ids, for paid orders that were not shipped in time.
-- $1 bigint orders at the most, $2 bigint grace in milliseconds, $3 timestamptz and $4 text: after this order
-- -> order_id text, due_at timestamptz
SELECT id AS order_id, ship_by AS due_at FROM orders
WHERE status = 'paid' AND ship_by <= now() - $2::bigint::float8 * interval '1 millisecond' AND (ship_by, id) > ($3, $4)
ORDER BY ship_by, id LIMIT $1
