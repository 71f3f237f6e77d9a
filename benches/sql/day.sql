-- bench_day: lateness of the orders of each part of the run, and errors; `d0-1` belongs to part 0. Lateness is from the
-- deadline to the commit if the server keeps commit times, otherwise to the statement that closed the order.
-- $1 boolean whether the server keeps commit times (track_commit_timestamp)
-- -> part bigint, closures, open, early bigint, p50_ms, p99_ms, max_ms double precision
WITH looked_at AS (
    SELECT split_part(substr(orders.id, 2), '-', 1)::bigint AS part, order_id IS NULL AS open, closures.closed_at < orders.due_at AS early,
           extract(epoch FROM coalesce(CASE WHEN $1 THEN pg_xact_commit_timestamp(orders.xmin) END, closures.closed_at) - orders.due_at)
               ::double precision * 1000 AS ms
    FROM orders LEFT JOIN closures ON order_id = orders.id
)
SELECT part, count(*) FILTER (WHERE NOT open) AS closures, count(*) FILTER (WHERE open) AS open, count(*) FILTER (WHERE early) AS early,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY ms) AS p50_ms, percentile_disc(0.99) WITHIN GROUP (ORDER BY ms) AS p99_ms, max(ms) AS max_ms
FROM looked_at GROUP BY part ORDER BY part
