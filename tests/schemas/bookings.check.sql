-- 1 2 3 4 5
SELECT string_agg(id::text, ' ' ORDER BY id) FROM bookings WHERE status = 'expired' AND updated_at IS NOT NULL;
-- IDLE 0, SPRING 1
SELECT string_agg(code || ' ' || used, ', ' ORDER BY code) FROM coupons;
-- 10
SELECT count(*)::text FROM booking_seats WHERE NOT is_held;
