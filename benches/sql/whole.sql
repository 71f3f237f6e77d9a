-- bench_whole: the floor of closing: every overdue order in one statement, found by index, without ids from outside.
WITH closed AS (
    UPDATE orders SET status = 'closed', closed_at = clock_timestamp()
    WHERE status = 'unpaid' AND due_at <= now()
    RETURNING orders.id, orders.due_at
), recorded AS (
    INSERT INTO closures (order_id, effect, path, due_at) SELECT id, 'close', 'bench', due_at FROM closed
), announced AS (
    INSERT INTO outbox (event, order_id) SELECT 'order.closed', id FROM closed
), returned AS MATERIALIZED (
    SELECT sku, sum(qty)::bigint AS qty FROM order_items JOIN closed ON closed.id = order_id GROUP BY sku
)
UPDATE stock SET available = stock.available + returned.qty, reserved = stock.reserved - returned.qty
FROM returned WHERE stock.sku = returned.sku
