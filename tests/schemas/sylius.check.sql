-- 1 2 3 4 5 9
SELECT string_agg(id::text, ' ' ORDER BY id) FROM sylius_order WHERE state = 'cancelled' AND payment_state = 'cancelled';
-- A 10, B 0
SELECT string_agg(code || ' ' || on_hold, ', ' ORDER BY code) FROM sylius_product_variant;
