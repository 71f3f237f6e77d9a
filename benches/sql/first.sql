-- bench_first: when the first order was closed, by its commit if the server keeps commit times.
-- $1 boolean whether the server keeps them (track_commit_timestamp) -> microseconds since 1970, bigint (NULL if none is
-- closed)
SELECT (extract(epoch FROM min(coalesce(CASE WHEN $1 THEN pg_xact_commit_timestamp(xmin) END, closed_at))) * 1000000)::bigint
FROM orders WHERE status = 'closed'
