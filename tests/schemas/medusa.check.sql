-- 01 02 03 04 05
SELECT string_agg(right(id, 2), ' ' ORDER BY id) FROM "order" WHERE status = 'canceled';
-- 5 10 5
SELECT concat_ws(' ', (SELECT count(canceled_at) FROM "order"), (SELECT reserved_quantity FROM inventory_level), (SELECT count(*) FROM reservation_item WHERE deleted_at IS NULL));
