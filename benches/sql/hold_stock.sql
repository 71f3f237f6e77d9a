-- bench_hold_stock: locks stock until the transaction ends. $1 text[] SKUs
SELECT sku FROM stock WHERE sku = ANY ($1) FOR UPDATE
