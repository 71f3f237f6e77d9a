-- bench_paths: how many orders were closed in which way. $1 text prefix of the order ids -> path text, orders bigint
SELECT path, count(*) AS orders FROM closures WHERE starts_with(order_id, $1) GROUP BY path ORDER BY orders DESC, path
