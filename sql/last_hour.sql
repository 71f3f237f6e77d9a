-- last_hour: closures of the last hour, from the index by time.
-- -> kind text (all | path | minute | second | late_second), key text (path; whole minutes ago), orders bigint (second kinds:
--    the most in one second), p50_s, p99_s, max_s float8 (0 for minutes and seconds)
WITH recent AS MATERIALIZED (
    SELECT path, closed_at, floor(extract(epoch FROM now() - closed_at) / 60.0)::bigint AS minute,
           CASE WHEN isfinite(due_at) THEN greatest(extract(epoch FROM closed_at - due_at), 0)::float8 END AS late_s
    FROM {own}.closures WHERE closed_at > now() - interval '1 hour'
), seconds AS (
    SELECT count(*) AS orders, max(late_s) AS late_s FROM recent GROUP BY date_trunc('second', closed_at)
)
SELECT CASE WHEN path IS NULL THEN 'all' ELSE 'path' END AS kind, coalesce(path, '') AS key, count(*) AS orders,
       coalesce(pg_catalog.percentile_disc(0.5) WITHIN GROUP (ORDER BY late_s), 0)::float8 AS p50_s,
       coalesce(pg_catalog.percentile_disc(0.99) WITHIN GROUP (ORDER BY late_s), 0)::float8 AS p99_s,
       coalesce(max(late_s), 0)::float8 AS max_s
FROM recent GROUP BY GROUPING SETS ((path), ())
UNION ALL
SELECT 'minute', minute::text, count(*), 0::float8, 0::float8, 0::float8 FROM recent GROUP BY minute
UNION ALL
SELECT 'second', '', coalesce(max(orders), 0), 0::float8, 0::float8, 0::float8 FROM seconds
UNION ALL
-- Seconds with late orders: more orders were due than were closed.
SELECT 'late_second', '', coalesce(max(orders), 0), 0::float8, 0::float8, 0::float8 FROM seconds WHERE late_s >= 1::float8
