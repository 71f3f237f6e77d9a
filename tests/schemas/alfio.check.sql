-- 01 02 03 04 05 10
SELECT string_agg(right(id::text, 2), ' ' ORDER BY id) FROM tickets_reservation WHERE status = 'CANCELLED';
-- 12 12
SELECT concat_ws(' ', count(*) FILTER (WHERE status = 'FREE'), count(*) FILTER (WHERE tickets_reservation_id IS NULL)) FROM ticket;
