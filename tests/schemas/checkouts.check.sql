-- 01 02 03 04 05
SELECT string_agg(right(id::text, 2), ' ' ORDER BY id) FROM checkouts WHERE status = 'expired';
-- 5
SELECT count(modified_at)::text FROM checkouts WHERE status = 'expired';
