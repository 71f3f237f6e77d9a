-- 2025-1 2026-2 2026-3 2026-4 2026-5
SELECT string_agg(no, ' ' ORDER BY no) FROM lots WHERE state = 3 AND winner IS NULL AND updated_at IS NOT NULL;
-- 5
SELECT count(winner)::text FROM lots;
-- 2, 6
SELECT string_agg(failed_sales::text, ', ' ORDER BY id) FROM consignors;
