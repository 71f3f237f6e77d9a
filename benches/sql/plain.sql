-- bench_plain: the floor of a batch: closes orders, with their audit rows, events and stock, and returns nothing.
-- $1 text[] order ids
WITH closed AS (
    UPDATE orders SET status = 'closed', closed_at = clock_timestamp()
    WHERE id = ANY ($1) AND status = 'unpaid' AND due_at <= now()
    RETURNING orders.id, orders.due_at
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at) SELECT id, 'close', 'bench', due_at FROM closed
), announced AS (
    INSERT INTO outbox (event, order_id) SELECT 'order.closed', id FROM closed
), back AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty FROM order_items JOIN closed ON closed.id = order_id GROUP BY sku
), shelves AS MATERIALIZED (
    -- In SKU order: two such statements at once do not deadlock.
    SELECT stock.sku, back.qty FROM stock JOIN back USING (sku) ORDER BY stock.sku FOR NO KEY UPDATE OF stock
)
UPDATE stock SET available = stock.available + shelves.qty, reserved = stock.reserved - shelves.qty
FROM shelves WHERE stock.sku = shelves.sku
