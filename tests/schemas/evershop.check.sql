-- 1 2 3 4 5
SELECT string_agg(order_id::text, ' ' ORDER BY order_id) FROM "order" WHERE payment_status = 'canceled' AND order_id <> 9;
-- A 90, B 0
SELECT string_agg(sku || ' ' || qty, ', ' ORDER BY sku) FROM product;
