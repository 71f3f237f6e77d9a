-- service_remove: deletes the orders of a run with their items, stock and closures. The relay deletes the events.
-- $1 text run -> orders bigint
WITH removed_items AS (
    DELETE FROM order_items WHERE starts_with(order_id, $1)
), removed_stock AS (
    DELETE FROM stock WHERE starts_with(sku, $1)
), removed_closures AS (
    DELETE FROM {own}.closures WHERE starts_with(order_id, $1)
), removed AS (
    DELETE FROM orders WHERE starts_with(id, $1) RETURNING id
)
SELECT count(*) AS orders FROM removed
