-- status_closures: closures of the last minutes, from the index by time.
-- $1 bigint most rows, $2 bigint seconds to look back
-- -> clock text, closed bigint, window_s float8, last_minute bigint, due_last_minute bigint, p50_s, p99_s, max_s float8,
--    by_message, by_burst, by_sweep, swept_last_minute bigint, best_per_s bigint, looked_at bigint, last_s float8 (NULL if none)
WITH newest AS MATERIALIZED (
    SELECT path, due_at, closed_at FROM {own}.closures WHERE closed_at > now() - $2::bigint::float8 * interval '1 second'
    ORDER BY closed_at DESC LIMIT $1
), recent AS MATERIALIZED (
    SELECT path, due_at, closed_at,
           CASE WHEN isfinite(due_at) THEN greatest(extract(epoch FROM closed_at - due_at), 0)::float8 END AS late_s
    FROM newest
)
SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"') AS clock,
       count(*) AS closed,
       coalesce(extract(epoch FROM now() - min(closed_at)), 0)::float8 AS window_s,
       count(*) FILTER (WHERE closed_at > now() - interval '1 minute') AS last_minute,
       count(*) FILTER (WHERE closed_at > now() - interval '1 minute' AND due_at > now() - interval '1 minute') AS due_last_minute,
       coalesce(pg_catalog.percentile_disc(0.5) WITHIN GROUP (ORDER BY late_s), 0)::float8 AS p50_s,
       coalesce(pg_catalog.percentile_disc(0.99) WITHIN GROUP (ORDER BY late_s), 0)::float8 AS p99_s,
       coalesce(max(late_s), 0)::float8 AS max_s,
       count(*) FILTER (WHERE path = 'message') AS by_message,
       count(*) FILTER (WHERE path = 'burst') AS by_burst,
       count(*) FILTER (WHERE path = 'sweep') AS by_sweep,
       count(*) FILTER (WHERE path = 'sweep' AND closed_at > now() - interval '1 minute') AS swept_last_minute,
       (SELECT coalesce(max(orders), 0) FROM (SELECT count(*) AS orders FROM newest GROUP BY date_trunc('second', closed_at)) AS seconds)
           AS best_per_s,
       (SELECT count(*) FROM newest) AS looked_at,
       extract(epoch FROM now() - max(closed_at))::float8 AS last_s
FROM recent
