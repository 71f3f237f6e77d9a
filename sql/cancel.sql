-- cancel: paid orders that were not shipped by `ship_by` become cancelled, and their stock is available again.
-- The money is given back by whoever subscribes to order.cancelled.
-- $1 text[] order ids, $2 text path, $3 jsonb traces of their notices, by order id; NULL: none
-- -> order_id text, outcome text (done:cancelled | already_final | not_due | busy), due_at timestamptz, decided_at timestamptz
WITH asked AS MATERIALIZED (
    -- In id order, so that whoever takes them one after the other does not deadlock with it. What somebody else holds is
    -- passed over: it is busy, and nobody waits for it.
    SELECT id, status, coalesce(ship_by, 'infinity') AS due_at, ctid AS place FROM orders WHERE id = ANY ($1)
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    UPDATE orders SET status = 'cancelled', cancelled_at = clock_timestamp()
    FROM asked
    -- One after the other, by index: a join may compare each with each where few rows are expected.
    -- One that was changed since the statement began is not found at its place, as its items may have been: it is busy.
    WHERE orders.id = ANY (ARRAY[asked.id]) AND orders.ctid IS NOT DISTINCT FROM asked.place AND asked.status = 'paid' AND asked.due_at <= now()
    RETURNING orders.id, asked.due_at, orders.status
), cancelled AS (
    -- Nothing has become of what a BEFORE trigger has kept paid.
    SELECT * FROM changed WHERE status <> 'paid'
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at, outcome) SELECT id, 'cancel', $2, due_at, 'cancelled' FROM cancelled
), announced AS (
    INSERT INTO outbox (event, order_id, traceparent, tracestate)
    SELECT 'order.cancelled', id, $3::jsonb -> id::text ->> 'traceparent', $3::jsonb -> id::text ->> 'tracestate' FROM cancelled
    WHERE current_setting('overdue.events', true) IS DISTINCT FROM 'off'
), back AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty
    FROM cancelled CROSS JOIN LATERAL (SELECT sku, qty FROM order_items WHERE order_id = cancelled.id OFFSET 0) AS items
    GROUP BY sku ORDER BY sku
), released AS (
    -- The hot rows: one per SKU, last, and in SKU order. It waits for them, because others hold them for an instant;
    -- after the lock time-out cancel_contended.sql cancels what it can.
    UPDATE stock SET available = stock.available + back.qty, sold = stock.sold - back.qty
    FROM back WHERE stock.sku = ANY (ARRAY[back.sku])
)
SELECT id AS order_id,
       CASE WHEN (id IN (SELECT id FROM cancelled)) IS TRUE THEN 'done:cancelled'
            WHEN status <> 'paid' THEN 'already_final'
            -- OFFSET 0: row by row, by its place.
            WHEN NOT EXISTS (SELECT FROM orders AS there WHERE there.ctid = asked.place AND there.id = asked.id OFFSET 0)
                 AND due_at <= now() THEN 'busy'
            ELSE 'not_due' END AS outcome,
       due_at,
       now() AS decided_at
FROM asked
UNION ALL
SELECT id, 'busy', coalesce(ship_by, 'infinity'), now() FROM orders
WHERE (SELECT count(*) FROM asked) < pg_catalog.cardinality($1)
  AND id = ANY ($1) AND id NOT IN (SELECT id FROM asked)
