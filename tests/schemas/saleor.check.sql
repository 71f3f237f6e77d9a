-- 1 2 3 4 5 10
SELECT string_agg(number::text, ' ' ORDER BY number) FROM order_order WHERE status = 'expired' AND expired_at IS NOT NULL;
-- 8 4
SELECT concat_ws(' ', (SELECT quantity_allocated FROM warehouse_stock), (SELECT count(*) FROM warehouse_allocation));
