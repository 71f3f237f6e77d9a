-- 1 2 3 4 5
SELECT string_agg(id::text, ' ' ORDER BY id) FROM pretixbase_order WHERE status = 'e';
