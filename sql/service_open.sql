-- service_open: how far a run is.
-- $1 text prefix of the run's ids, $2 text the id of its last order
-- -> unpaid bigint orders, last_path text what made overdue close the last order (NULL: it did not)
SELECT (SELECT count(*) FROM orders WHERE status = 'unpaid' AND starts_with(id, $1)) AS unpaid,
       (SELECT min(path) FROM {own}.closures WHERE order_id = $2) AS last_path
