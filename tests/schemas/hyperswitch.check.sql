-- shop_a/pay_1 shop_a/pay_2 shop_a/pay_3 shop_a/pay_4 shop_a/pay_5
SELECT string_agg(merchant_id || '/' || payment_id, ' ' ORDER BY merchant_id, payment_id) FROM payment_intent WHERE status = 'expired';
