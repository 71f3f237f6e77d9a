-- bench_outcome: what became of the orders whose ids begin with a prefix. Late is from the deadline to the commit where the
-- server keeps commit times, and otherwise to the statement that closed the order.
-- $1 text prefix, $2 boolean whether the server keeps commit times (track_commit_timestamp)
-- -> orders, closed, early, not_once (not exactly one closure) bigint, p50_us, p99_us, max_us bigint (NULL where none is closed)
WITH closed AS (
    SELECT order_id, count(*) AS closures FROM closures WHERE starts_with(order_id, $1) GROUP BY order_id
), judged AS (
    SELECT status, due_at, coalesce(closures, 0) AS closures,
           CASE WHEN status = 'closed' THEN coalesce(CASE WHEN $2 THEN pg_xact_commit_timestamp(orders.xmin) END, closed_at) END AS final_at
    FROM orders LEFT JOIN closed ON closed.order_id = orders.id WHERE starts_with(orders.id, $1)
), late AS (
    SELECT status, closures, (extract(epoch FROM final_at - due_at) * 1000000)::bigint AS us FROM judged
)
SELECT count(*) AS orders, count(*) FILTER (WHERE status = 'closed') AS closed, count(*) FILTER (WHERE us < 0) AS early,
       count(*) FILTER (WHERE closures <> 1) AS not_once,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY us) AS p50_us,
       percentile_disc(0.99) WITHIN GROUP (ORDER BY us) AS p99_us,
       max(us) AS max_us
FROM late
