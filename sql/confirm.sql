-- confirm: the buyer confirms, in the reference order service; refused unless the order is shipped.
-- $1 text order id -> one row if it was completed.
UPDATE orders SET status = 'completed', completed_at = clock_timestamp()
WHERE id = $1 AND status = 'shipped'
RETURNING id
