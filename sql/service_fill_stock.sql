-- service_fill_stock: creates the stock of a run, a hundred SKUs.
-- $1 text run, $2 bigint units of each SKU
INSERT INTO stock (sku, available) SELECT $1 || '-sku-' || n::text, $2 FROM generate_series(0, 99) AS n
