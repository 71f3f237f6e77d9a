-- 01 02 03 04 05 10
SELECT string_agg(right(id::text, 2), ' ' ORDER BY id) FROM reservations WHERE status = 'EXPIRED';
-- aa 56, bb 19
SELECT string_agg(right(id::text, 2) || ' ' || remaining_quantity, ', ' ORDER BY id) FROM tickets;
