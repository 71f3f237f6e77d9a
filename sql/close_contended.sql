-- close_contended: as close, and it waits for nothing. An order is closed if its row and all of its stock are free;
-- otherwise it is busy.
-- $1 text[] order ids, $2 text path
-- -> order_id text, outcome text (closed | already_final | not_due | busy), due_at timestamptz, decided_at timestamptz
WITH asked AS MATERIALIZED (
    SELECT id, status, due_at FROM orders WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), items AS MATERIALIZED (
    SELECT order_id, sku, qty FROM order_items JOIN asked ON asked.id = order_id
    WHERE asked.status = 'unpaid' AND asked.due_at <= now()
), shelves AS MATERIALIZED (
    SELECT stock.sku FROM stock WHERE sku IN (SELECT items.sku FROM items)
    ORDER BY stock.sku FOR NO KEY UPDATE SKIP LOCKED
), held AS MATERIALIZED (
    SELECT DISTINCT order_id FROM items WHERE NOT EXISTS (SELECT FROM shelves WHERE shelves.sku = items.sku)
), closed AS (
    UPDATE orders SET status = 'closed', closed_at = clock_timestamp()
    FROM asked
    WHERE orders.id = asked.id AND asked.status = 'unpaid' AND asked.due_at <= now()
      AND NOT EXISTS (SELECT FROM held WHERE held.order_id = asked.id)
    RETURNING orders.id, orders.due_at
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at) SELECT id, 'close', $2, due_at FROM closed
), announced AS (
    INSERT INTO outbox (event, order_id) SELECT 'order.closed', id FROM closed
    WHERE current_setting('overdue.events', true) IS DISTINCT FROM 'off'
), back AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty FROM items JOIN closed ON closed.id = order_id GROUP BY sku
), released AS (
    UPDATE stock SET available = stock.available + back.qty, reserved = stock.reserved - back.qty
    FROM back WHERE stock.sku = back.sku
)
SELECT asked.id AS order_id,
       CASE WHEN closed.id IS NOT NULL THEN 'closed'
            WHEN asked.status <> 'unpaid' THEN 'already_final'
            WHEN asked.due_at <= now() THEN 'busy'
            ELSE 'not_due' END AS outcome,
       asked.due_at,
       now() AS decided_at
FROM asked LEFT JOIN closed ON closed.id = asked.id
UNION ALL
SELECT id, 'busy', due_at, now() FROM orders
WHERE (SELECT count(*) FROM asked) < cardinality($1)
  AND id = ANY ($1) AND NOT EXISTS (SELECT FROM asked WHERE asked.id = orders.id)
