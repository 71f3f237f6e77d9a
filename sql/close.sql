-- close: unpaid orders that are overdue become closed, and their reserved stock is available again.
-- $1 text[] order ids, $2 text path
-- -> order_id text, outcome text (closed | already_final | not_due | busy), due_at timestamptz, decided_at timestamptz
WITH asked AS MATERIALIZED (
    -- In id order, so that whoever takes them one after the other does not deadlock with it. What somebody else holds is
    -- passed over: it is busy, and nobody waits for it.
    SELECT id, status, due_at FROM orders WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), closed AS (
    UPDATE orders SET status = 'closed', closed_at = clock_timestamp()
    FROM asked
    WHERE orders.id = asked.id AND asked.status = 'unpaid' AND asked.due_at <= now()
    RETURNING orders.id, orders.due_at
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at) SELECT id, 'close', $2, due_at FROM closed
), announced AS (
    INSERT INTO outbox (event, order_id) SELECT 'order.closed', id FROM closed
), back AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty FROM order_items JOIN closed ON closed.id = order_id GROUP BY sku
), shelves AS MATERIALIZED (
    -- The hot rows: one per SKU, last, and in SKU order. It waits for them, because others hold them for an instant;
    -- after the lock time-out close_contended.sql closes what it can.
    SELECT stock.sku, back.qty FROM stock JOIN back USING (sku) ORDER BY stock.sku FOR NO KEY UPDATE OF stock
), released AS (
    UPDATE stock SET available = stock.available + shelves.qty, reserved = stock.reserved - shelves.qty
    FROM shelves WHERE stock.sku = shelves.sku
)
SELECT asked.id AS order_id,
       CASE WHEN closed.id IS NOT NULL THEN 'closed'
            WHEN asked.status <> 'unpaid' THEN 'already_final'
            ELSE 'not_due' END AS outcome,
       asked.due_at,
       now() AS decided_at
FROM asked LEFT JOIN closed ON closed.id = asked.id
UNION ALL
SELECT id, 'busy', due_at, now() FROM orders
WHERE (SELECT count(*) FROM asked) < cardinality($1)
  AND id = ANY ($1) AND NOT EXISTS (SELECT FROM asked WHERE asked.id = orders.id)
