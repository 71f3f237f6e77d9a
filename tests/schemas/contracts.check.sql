-- 01 02 03 04 05
SELECT string_agg(right(id::text, 2), ' ' ORDER BY id) FROM contracts WHERE doc ->> 'state' = 'lapsed' AND doc ->> 'party' LIKE 'p%';
