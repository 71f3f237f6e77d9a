-- bench_count: how often orders were closed, and what is on the shelves.
-- -> closed, closures, orders_in_closures, events, orders_in_events, available, elsewhere bigint
SELECT (SELECT count(*) FROM orders WHERE status = 'closed' AND closed_at >= due_at) AS closed,
       closures.rows AS closures, closures.orders AS orders_in_closures,
       events.rows AS events, events.orders AS orders_in_events,
       shelves.available, shelves.elsewhere
FROM (SELECT count(*) AS rows, count(DISTINCT order_id) AS orders FROM closures) AS closures,
     (SELECT count(*) AS rows, count(DISTINCT order_id) AS orders FROM outbox) AS events,
     (SELECT sum(available)::bigint AS available, sum(reserved + sold)::bigint AS elsewhere FROM stock) AS shelves
