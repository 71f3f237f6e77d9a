-- service_stock: the stock of a run, beside what its orders say, in one snapshot.
-- $1 text[] SKUs -> sku text, available, reserved, sold, in_unpaid, in_paid bigint
SELECT stock.sku, stock.available, stock.reserved, stock.sold,
       coalesce(wanted.in_unpaid, 0) AS in_unpaid, coalesce(wanted.in_paid, 0) AS in_paid
FROM stock LEFT JOIN (
    SELECT sku,
           (sum(qty) FILTER (WHERE status = 'unpaid'))::bigint AS in_unpaid,
           (sum(qty) FILTER (WHERE status IN ('paid', 'shipped', 'completed')))::bigint AS in_paid
    FROM order_items JOIN orders ON orders.id = order_items.order_id
    WHERE sku = ANY ($1) GROUP BY sku
) AS wanted USING (sku)
WHERE stock.sku = ANY ($1)
