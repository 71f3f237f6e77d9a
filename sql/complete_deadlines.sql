-- complete_deadlines: as deadlines, for shipped orders that were not confirmed in time.
-- $1 text[] order ids -> order_id text, due_at timestamptz (NULL: final, nothing is left to be done)
SELECT id AS order_id, CASE WHEN status = 'shipped' THEN confirm_by END AS due_at FROM orders WHERE id = ANY ($1)
