-- bench_hold_orders: locks orders until the transaction ends. $1 text[] order ids
SELECT id FROM orders WHERE id = ANY ($1) FOR UPDATE
