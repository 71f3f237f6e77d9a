-- bench_tutorial_stock: returns the stock of one order, after locking it in SKU order. $1 text order id
WITH shelves AS MATERIALIZED (
    SELECT stock.sku, order_items.qty FROM stock JOIN order_items USING (sku)
    WHERE order_items.order_id = $1 ORDER BY stock.sku FOR NO KEY UPDATE OF stock
)
UPDATE stock SET available = stock.available + shelves.qty, reserved = stock.reserved - shelves.qty
FROM shelves WHERE stock.sku = shelves.sku
