-- service_open: progress of a run.
-- $1 text prefix of the run's ids, $2 text the id of its last order
-- -> unpaid bigint orders, last_path text path by which overdue closed the last order (NULL: it did not)
SELECT (SELECT count(*) FROM orders WHERE status = 'unpaid' AND starts_with(id, $1)) AS unpaid,
       (SELECT min(path) FROM {own}.closures WHERE order_id = $2) AS last_path
