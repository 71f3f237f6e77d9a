-- service_fill_stock: the stock of a run.
-- $1 text[] SKUs, $2 bigint[] quantities
INSERT INTO stock (sku, available) SELECT * FROM unnest($1::text[], $2::bigint[])
