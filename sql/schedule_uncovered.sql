-- schedule_uncovered: notices past their deadline that the broker never confirmed: no message is queued for their orders.
-- $1 text[] timeouts, $2 bigint grace in milliseconds, $3 bigint after this id, $4 bigint most notices
-- -> id bigint, order_id text
SELECT id, order_id FROM {own}.scheduled_notices
WHERE id > $3 AND timeout = ANY ($1) AND due_at <= now() - $2::bigint::float8 * interval '1 millisecond' AND octet_length(order_id) <= 200
ORDER BY id LIMIT $4
