-- reserve: stock with the part that is reserved by orders to be inserted.
-- $1 text[] SKUs, $2 bigint[] pieces to reserve, $3 bigint pieces of every new SKU
INSERT INTO stock (sku, available, reserved)
SELECT sku, $3::bigint - reserved, reserved FROM unnest($1::text[], $2::bigint[]) AS shelf (sku, reserved)
ON CONFLICT (sku) DO UPDATE SET available = stock.available - excluded.reserved, reserved = stock.reserved + excluded.reserved
