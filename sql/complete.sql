-- complete: shipped orders whose buyer did not confirm them by `confirm_by` become completed. Their stock was sold before.
-- $1 text[] order ids, $2 text path, $3 jsonb traces of their notices, by order id; NULL: none
-- -> order_id text, outcome text (done:completed | already_final | not_due | busy), due_at timestamptz, decided_at timestamptz
WITH asked AS MATERIALIZED (
    SELECT id, status, coalesce(confirm_by, 'infinity') AS due_at FROM orders WHERE id = ANY ($1)
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    UPDATE orders SET status = 'completed', completed_at = clock_timestamp()
    FROM asked
    -- One after the other, by index: a join may compare each with each where few rows are expected.
    WHERE orders.id = ANY (ARRAY[asked.id]) AND asked.status = 'shipped' AND asked.due_at <= now()
    RETURNING orders.id, asked.due_at, orders.status
), completed AS (
    -- Nothing has become of what a BEFORE trigger has kept shipped.
    SELECT * FROM changed WHERE status <> 'shipped'
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at, outcome) SELECT id, 'complete', $2, due_at, 'completed' FROM completed
), announced AS (
    INSERT INTO outbox (event, order_id, traceparent, tracestate)
    SELECT 'order.completed', id, $3::jsonb -> id::text ->> 'traceparent', $3::jsonb -> id::text ->> 'tracestate' FROM completed
    WHERE current_setting('overdue.events', true) IS DISTINCT FROM 'off'
)
SELECT id AS order_id,
       CASE WHEN (id IN (SELECT id FROM completed)) IS TRUE THEN 'done:completed'
            WHEN status <> 'shipped' THEN 'already_final'
            ELSE 'not_due' END AS outcome,
       due_at,
       now() AS decided_at
FROM asked
UNION ALL
SELECT id, 'busy', coalesce(confirm_by, 'infinity'), now() FROM orders
WHERE (SELECT count(*) FROM asked) < pg_catalog.cardinality($1)
  AND id = ANY ($1) AND id NOT IN (SELECT id FROM asked)
