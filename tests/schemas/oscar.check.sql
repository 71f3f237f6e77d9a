-- 1 2 3 4 5
SELECT string_agg(id::text, ' ' ORDER BY id) FROM order_order WHERE status = 'Cancelled' AND id <> 10;
-- 10
SELECT num_allocated::text FROM partner_stockrecord;
