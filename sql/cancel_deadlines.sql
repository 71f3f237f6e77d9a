-- cancel_deadlines: as deadlines, for paid orders that were not shipped in time.
-- $1 text[] order ids -> order_id text, due_at timestamptz (NULL: final, nothing is left to be done)
SELECT id AS order_id, CASE WHEN status = 'paid' THEN ship_by END AS due_at FROM orders WHERE id = ANY ($1)
