-- cancel_contended: as cancel, and it waits for nothing. An order is cancelled if its row and all of its stock are free;
-- otherwise it is busy.
-- $1 text[] order ids, $2 text path, $3 jsonb traces of their notices, by order id; NULL: none
-- -> order_id text, outcome text (done:cancelled | already_final | not_due | busy), due_at timestamptz, decided_at timestamptz
WITH asked AS MATERIALIZED (
    SELECT id, status, coalesce(ship_by, 'infinity') AS due_at, ctid AS place FROM orders WHERE id = ANY ($1)
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), items AS MATERIALIZED (
    -- OFFSET 0, and the arrays and NOT IN below: no join that compares each with each, however few rows are expected.
    SELECT asked.id AS order_id, sku, qty
    FROM asked CROSS JOIN LATERAL (SELECT sku, qty FROM order_items WHERE order_id = asked.id OFFSET 0) AS items
    WHERE asked.status = 'paid' AND asked.due_at <= now()
), shelves AS MATERIALIZED (
    SELECT stock.sku FROM stock WHERE sku = ANY (ARRAY(SELECT DISTINCT items.sku FROM items))
    ORDER BY stock.sku FOR NO KEY UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT DISTINCT order_id FROM items WHERE sku NOT IN (SELECT sku FROM shelves)
), changed AS (
    UPDATE orders SET status = 'cancelled', cancelled_at = clock_timestamp()
    FROM asked
    WHERE orders.id = ANY (ARRAY[asked.id]) AND orders.ctid IS NOT DISTINCT FROM asked.place AND asked.status = 'paid' AND asked.due_at <= now()
      AND asked.id NOT IN (SELECT order_id FROM held)
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
    SELECT sku, sum(qty)::bigint AS qty FROM items
    WHERE (order_id IN (SELECT id FROM cancelled)) IS TRUE GROUP BY sku
), released AS (
    UPDATE stock SET available = stock.available + back.qty, sold = stock.sold - back.qty
    FROM back WHERE stock.sku = ANY (ARRAY[back.sku])
)
SELECT id AS order_id,
       CASE WHEN (id IN (SELECT id FROM cancelled)) IS TRUE THEN 'done:cancelled'
            WHEN status <> 'paid' THEN 'already_final'
            WHEN due_at <= now() AND (id IN (SELECT id FROM changed)) IS NOT TRUE THEN 'busy'
            ELSE 'not_due' END AS outcome,
       due_at,
       now() AS decided_at
FROM asked
UNION ALL
SELECT id, 'busy', coalesce(ship_by, 'infinity'), now() FROM orders
WHERE (SELECT count(*) FROM asked) < pg_catalog.cardinality($1)
  AND id = ANY ($1) AND id NOT IN (SELECT id FROM asked)
