-- pay: a payment arrives, in the reference order service; refused unless the order is unpaid. The parcel must be shipped within 30 days,
-- or `cancel` cancels the order.
-- $1 text order id -> one row if the payment was taken. Locks in the same order as close: the order, then stock by SKU.
WITH asked AS MATERIALIZED (
    SELECT id, status FROM orders WHERE id = $1 FOR NO KEY UPDATE
), paid AS (
    UPDATE orders SET status = 'paid', paid_at = clock_timestamp(), ship_by = clock_timestamp() + interval '30 days'
    FROM asked WHERE orders.id = asked.id AND asked.status = 'unpaid'
    RETURNING orders.id
), items AS MATERIALIZED (
    SELECT sku, qty FROM order_items JOIN paid ON paid.id = order_id
), shelves AS MATERIALIZED (
    SELECT stock.sku, items.qty FROM stock JOIN items USING (sku) ORDER BY stock.sku FOR NO KEY UPDATE OF stock
), sold AS (
    UPDATE stock SET reserved = stock.reserved - shelves.qty, sold = stock.sold + shelves.qty
    FROM shelves WHERE stock.sku = shelves.sku
)
SELECT id FROM paid
