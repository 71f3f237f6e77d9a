-- bench_poll: a poll of a poller: closes the orders that are overdue, the oldest first, with their audit rows, events and
-- stock.
-- $1 bigint most orders -> orders bigint, closed now
WITH due AS MATERIALIZED (
    SELECT id FROM orders WHERE status = 'unpaid' AND due_at <= now() ORDER BY due_at LIMIT $1 FOR UPDATE SKIP LOCKED
), closed AS (
    UPDATE orders SET status = 'closed', closed_at = clock_timestamp()
    FROM due WHERE orders.id = due.id
    RETURNING orders.id, orders.due_at
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at) SELECT id, 'close', 'bench', due_at FROM closed
), announced AS (
    INSERT INTO outbox (event, order_id) SELECT 'order.closed', id FROM closed
), back AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty FROM order_items JOIN closed ON closed.id = order_id GROUP BY sku
), shelves AS MATERIALIZED (
    SELECT stock.sku, back.qty FROM stock JOIN back USING (sku) ORDER BY stock.sku FOR NO KEY UPDATE OF stock
), released AS (
    UPDATE stock SET available = stock.available + shelves.qty, reserved = stock.reserved - shelves.qty
    FROM shelves WHERE stock.sku = shelves.sku
)
SELECT count(*) AS orders FROM closed
