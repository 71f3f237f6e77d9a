-- service_remove_orders: the orders of a run with their items, and their closures. Events are the relay's.
-- $1 text prefix of the run's ids -> orders bigint
WITH removed AS (
    DELETE FROM orders WHERE starts_with(id, $1) RETURNING id
), removed_closures AS (
    DELETE FROM closures WHERE starts_with(order_id, $1)
)
SELECT count(*) AS orders FROM removed
