-- confirm: what the reference order service does when the buyer confirms; refused unless the order is shipped.
-- $1 text order id -> one row where it was completed.
UPDATE orders SET status = 'completed', completed_at = clock_timestamp()
WHERE id = $1 AND status = 'shipped'
RETURNING id
