-- close: unpaid orders that are overdue become closed, and their reserved stock is available again.
-- $1 text[] order ids, $2 text path, $3 jsonb traces of their notices, by order id; NULL: none
-- -> order_id text, outcome text (closed | already_final | not_due | busy), due_at timestamptz, decided_at timestamptz
WITH asked AS MATERIALIZED (
    -- In id order, so that whoever takes them one after the other does not deadlock with it. What somebody else holds is
    -- passed over: it is busy, and nobody waits for it.
    SELECT id, status, due_at, ctid AS place FROM orders WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), changed AS (
    -- By the place of the locked row, without another look into the index. One that was changed since the statement began
    -- is not found there: it is busy, and closed the next time.
    UPDATE orders SET status = 'closed', closed_at = clock_timestamp()
    FROM asked
    WHERE orders.id = asked.id AND orders.ctid = asked.place AND asked.status = 'unpaid' AND asked.due_at <= now()
    RETURNING orders.id, orders.due_at, orders.status
), closed AS (
    -- Nothing has become of what a BEFORE trigger has kept unpaid.
    SELECT * FROM changed WHERE status <> 'unpaid'
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at) SELECT id, 'close', $2, due_at FROM closed
), announced AS (
    -- Off in the sessions of a worker that publishes no events.
    INSERT INTO outbox (event, order_id, traceparent, tracestate)
    SELECT 'order.closed', id, $3::jsonb -> id::text ->> 'traceparent', $3::jsonb -> id::text ->> 'tracestate' FROM closed
    WHERE current_setting('overdue.events', true) IS DISTINCT FROM 'off'
), back AS MATERIALIZED (
    -- OFFSET 0: order after order, by index, also where the tables were empty when this was planned.
    SELECT sku, sum(qty)::bigint AS qty
    FROM closed CROSS JOIN LATERAL (SELECT sku, qty FROM order_items WHERE order_id = closed.id OFFSET 0) AS items
    GROUP BY sku ORDER BY sku
), released AS (
    -- The hot rows: one per SKU, last, and in SKU order: `= ANY` leaves PostgreSQL no other join than to look for them one
    -- after the other. It waits for them, because others hold them for an instant; after the lock time-out
    -- close_contended.sql closes what it can.
    UPDATE stock SET available = stock.available + back.qty, reserved = stock.reserved - back.qty
    FROM back WHERE stock.sku = ANY (ARRAY[back.sku])
)
SELECT id AS order_id, 'closed' AS outcome, due_at, now() AS decided_at FROM closed
UNION ALL
-- Not looked at where all were closed. NOT IN looks into a hash table, however few rows are expected; a join would compare each
-- with each.
SELECT id,
       CASE WHEN status <> 'unpaid' THEN 'already_final'
            -- OFFSET 0: row by row, by its place; never a hash of the whole table, whatever its size is taken to be.
            WHEN NOT EXISTS (SELECT FROM orders AS there WHERE there.ctid = asked.place AND there.id = asked.id OFFSET 0)
                 AND due_at <= now() THEN 'busy'
            ELSE 'not_due' END,
       due_at,
       now()
FROM asked WHERE (SELECT count(*) FROM closed) < pg_catalog.cardinality($1) AND id NOT IN (SELECT id FROM closed)
UNION ALL
SELECT id, 'busy', due_at, now() FROM orders
WHERE (SELECT count(*) FROM asked) < pg_catalog.cardinality($1) AND id = ANY ($1) AND id NOT IN (SELECT id FROM asked)
