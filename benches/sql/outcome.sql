-- outcome: lateness of the orders whose ids begin with a prefix, and the ways in which they were closed. Lateness is from
-- the deadline to the commit if the server keeps commit times, otherwise to the statement that closed the order.
-- $1 text prefix, $2 boolean whether the server keeps commit times (track_commit_timestamp)
-- -> closed bigint, p50_ms, p99_ms, max_ms double precision (NULL if none is closed),
--    paths text, e.g. `190 by burst, 10 by message`; empty for a single way
WITH late AS (
    SELECT extract(epoch FROM coalesce(CASE WHEN $2 THEN pg_xact_commit_timestamp(orders.xmin) END, closed_at) - due_at)::double precision
           * 1000 AS ms
    FROM orders WHERE starts_with(id, $1) AND status = 'closed'
), paths AS (
    SELECT path, count(*) AS orders FROM closures WHERE starts_with(order_id, $1) GROUP BY path
)
SELECT count(*) AS closed,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY ms) AS p50_ms,
       percentile_disc(0.99) WITHIN GROUP (ORDER BY ms) AS p99_ms,
       max(ms) AS max_ms,
       (SELECT CASE WHEN count(*) > 1 THEN string_agg(orders || ' by ' || path, ', ' ORDER BY orders DESC) ELSE '' END FROM paths) AS paths
FROM late
