-- ship: a parcel leaves, in the reference order service; refused unless the order is paid.
-- $1 text order id -> one row if it was shipped. The buyer has 14 days to confirm; then `complete` completes the order.
UPDATE orders SET status = 'shipped', shipped_at = clock_timestamp(), confirm_by = clock_timestamp() + interval '14 days'
WHERE id = $1 AND status = 'paid'
RETURNING id
