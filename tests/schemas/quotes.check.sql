-- 1 2 3 4 5 10
SELECT string_agg(id::text, ' ' ORDER BY id) FROM sale_order WHERE state = 'cancel';
