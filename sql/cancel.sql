-- cancel: paid orders that were not shipped by `ship_by` become cancelled, and their stock is available again.
-- The money is given back by whoever subscribes to order.cancelled.
-- $1 text[] order ids, $2 text path
-- -> order_id text, outcome text (done:cancelled | already_final | not_due | busy), due_at timestamptz, decided_at timestamptz
WITH asked AS MATERIALIZED (
    -- In id order, so that whoever takes them one after the other does not deadlock with it. What somebody else holds is
    -- passed over: it is busy, and nobody waits for it.
    SELECT id, status, coalesce(ship_by, 'infinity') AS due_at FROM orders WHERE id = ANY ($1)
    ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
), cancelled AS (
    UPDATE orders SET status = 'cancelled', cancelled_at = clock_timestamp()
    FROM asked
    WHERE orders.id = asked.id AND asked.status = 'paid' AND asked.due_at <= now()
    RETURNING orders.id, asked.due_at
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at, outcome) SELECT id, 'cancel', $2, due_at, 'cancelled' FROM cancelled
), announced AS (
    INSERT INTO outbox (event, order_id) SELECT 'order.cancelled', id FROM cancelled
    WHERE current_setting('overdue.events', true) IS DISTINCT FROM 'off'
), back AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty FROM order_items JOIN cancelled ON cancelled.id = order_id GROUP BY sku
), shelves AS MATERIALIZED (
    -- The hot rows: one per SKU, last, and in SKU order. It waits for them, because others hold them for an instant;
    -- after the lock time-out cancel_contended.sql cancels what it can.
    SELECT stock.sku, back.qty FROM stock JOIN back USING (sku) ORDER BY stock.sku FOR NO KEY UPDATE OF stock
), released AS (
    UPDATE stock SET available = stock.available + shelves.qty, sold = stock.sold - shelves.qty
    FROM shelves WHERE stock.sku = shelves.sku
)
SELECT asked.id AS order_id,
       CASE WHEN cancelled.id IS NOT NULL THEN 'done:cancelled'
            WHEN asked.status <> 'paid' THEN 'already_final'
            ELSE 'not_due' END AS outcome,
       asked.due_at,
       now() AS decided_at
FROM asked LEFT JOIN cancelled ON cancelled.id = asked.id
UNION ALL
SELECT id, 'busy', coalesce(ship_by, 'infinity'), now() FROM orders
WHERE (SELECT count(*) FROM asked) < cardinality($1)
  AND id = ANY ($1) AND NOT EXISTS (SELECT FROM asked WHERE asked.id = orders.id)
