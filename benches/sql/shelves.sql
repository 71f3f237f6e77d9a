-- bench_shelves: stock of which a part is reserved by orders that are about to be made.
-- $1 text[] SKUs, $2 bigint[] pieces reserved, $3 bigint pieces that every SKU has besides
INSERT INTO stock (sku, available, reserved)
SELECT sku, $3::bigint, reserved FROM unnest($1::text[], $2::bigint[]) AS shelf (sku, reserved)
ON CONFLICT (sku) DO UPDATE SET reserved = stock.reserved + excluded.reserved
