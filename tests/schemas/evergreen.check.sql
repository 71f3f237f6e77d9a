-- 1 2 3 4 5
SELECT string_agg(id::text, ' ' ORDER BY id) FROM action.hold_request WHERE cancel_time IS NOT NULL AND cancel_cause = 2;
-- 5
SELECT count(*)::text FROM asset.copy WHERE status = 7;
