-- 1/A1 1/A2 1/A3 2/A10 2/A4 2/A5 2/A9
SELECT string_agg(screening_id || '/' || seat_no, ' ' ORDER BY screening_id, seat_no) FROM seat WHERE state = 'free' AND held_by IS NULL AND held_until IS NULL;
-- 2
SELECT count(held_by)::text FROM seat;
