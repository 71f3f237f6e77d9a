-- deadlines: when orders are due, asked before their time. Locks nothing.
-- $1 text[] order ids -> order_id text, due_at timestamptz (NULL: final, nothing is left to be done)
SELECT id AS order_id, CASE WHEN status = 'unpaid' THEN due_at END AS due_at FROM orders WHERE id = ANY ($1)
