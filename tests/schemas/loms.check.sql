-- 1 2 3 4 5
SELECT string_agg(id::text, ' ' ORDER BY id) FROM orders WHERE status = 'cancelled';
-- 10
SELECT reserved::text FROM stocks;
