-- cancel_contended: as cancel, and it waits for nothing. An order is cancelled if its row and all of its stock are free;
-- otherwise it is busy.
-- $1 text[] order ids, $2 text path
-- -> order_id text, outcome text (done:cancelled | already_final | not_due | busy), due_at timestamptz, decided_at timestamptz
WITH asked AS MATERIALIZED (
    SELECT id, status, coalesce(ship_by, 'infinity') AS due_at FROM orders WHERE id = ANY ($1)
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), items AS MATERIALIZED (
    SELECT order_id, sku, qty FROM order_items JOIN asked ON asked.id = order_id
    WHERE asked.status = 'paid' AND asked.due_at <= now()
), shelves AS MATERIALIZED (
    SELECT stock.sku FROM stock WHERE sku IN (SELECT items.sku FROM items)
    ORDER BY stock.sku FOR NO KEY UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT DISTINCT order_id FROM items WHERE NOT EXISTS (SELECT FROM shelves WHERE shelves.sku = items.sku)
), cancelled AS (
    UPDATE orders SET status = 'cancelled', cancelled_at = clock_timestamp()
    FROM asked
    WHERE orders.id = asked.id AND asked.status = 'paid' AND asked.due_at <= now()
      AND NOT EXISTS (SELECT FROM held WHERE held.order_id = asked.id)
    RETURNING orders.id, asked.due_at
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at, outcome) SELECT id, 'cancel', $2, due_at, 'cancelled' FROM cancelled
), announced AS (
    INSERT INTO outbox (event, order_id) SELECT 'order.cancelled', id FROM cancelled
    WHERE current_setting('overdue.events', true) IS DISTINCT FROM 'off'
), back AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty FROM items JOIN cancelled ON cancelled.id = order_id GROUP BY sku
), released AS (
    UPDATE stock SET available = stock.available + back.qty, sold = stock.sold - back.qty
    FROM back WHERE stock.sku = back.sku
)
SELECT asked.id AS order_id,
       CASE WHEN cancelled.id IS NOT NULL THEN 'done:cancelled'
            WHEN asked.status <> 'paid' THEN 'already_final'
            WHEN asked.due_at <= now() THEN 'busy'
            ELSE 'not_due' END AS outcome,
       asked.due_at,
       now() AS decided_at
FROM asked LEFT JOIN cancelled ON cancelled.id = asked.id
UNION ALL
SELECT id, 'busy', coalesce(ship_by, 'infinity'), now() FROM orders
WHERE (SELECT count(*) FROM asked) < cardinality($1)
  AND id = ANY ($1) AND NOT EXISTS (SELECT FROM asked WHERE asked.id = orders.id)
