-- bench_wrong_stock: SKUs whose stock is not what it has to be once every order is closed.
-- $1 bigint pieces that each SKU began with beside the reserved ones
-- -> wrong bigint, example text (NULL where none is wrong)
-- What was reserved has come back, so `available` has grown by what all orders had in them.
WITH ordered AS (
    SELECT sku, sum(qty)::bigint AS qty FROM order_items GROUP BY sku
), wrong AS (
    SELECT stock.sku FROM stock LEFT JOIN ordered USING (sku)
    WHERE stock.available <> $1::bigint + coalesce(ordered.qty, 0) OR stock.reserved <> 0 OR stock.sold <> 0
)
SELECT count(*) AS wrong, min(sku) AS example FROM wrong
