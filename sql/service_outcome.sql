-- service_outcome: final states of the orders whose ids begin with a prefix. An order is final when its closure is committed if the
-- server keeps commit times (track_commit_timestamp), otherwise when the closure was written.
-- $1 text prefix
-- -> orders, paid, paid_late (after the deadline), paid_late_us (the last of these), closed, by_message, by_burst, by_sweep,
--    unpaid, p50_us, p99_us, max_us (from deadline to final), closing_us (from the first final to the last) bigint,
--    commit_times boolean
WITH settings AS MATERIALIZED (
    SELECT current_setting('track_commit_timestamp')::boolean AS commit_times
), closed AS (
    SELECT order_id, min(path) AS path,
           min(coalesce(CASE WHEN commit_times THEN pg_xact_commit_timestamp(closures.xmin) END, closed_at)) AS final_at
    FROM {own}.closures, settings WHERE starts_with(order_id, $1) GROUP BY order_id
), judged AS (
    SELECT status, path, final_at, (extract(epoch FROM final_at - due_at) * 1000000.0)::bigint AS us,
           CASE WHEN paid_at > due_at THEN (extract(epoch FROM paid_at - due_at) * 1000000.0)::bigint END AS paid_late_us
    FROM orders LEFT JOIN closed ON order_id = id WHERE starts_with(id, $1)
)
SELECT count(*) AS orders, count(*) FILTER (WHERE status = 'paid') AS paid,
       pg_catalog.count(paid_late_us) AS paid_late, coalesce(max(paid_late_us), 0) AS paid_late_us,
       count(*) FILTER (WHERE status = 'closed') AS closed,
       count(*) FILTER (WHERE path = 'message') AS by_message,
       count(*) FILTER (WHERE path = 'burst') AS by_burst,
       count(*) FILTER (WHERE path = 'sweep') AS by_sweep,
       count(*) FILTER (WHERE status = 'unpaid') AS unpaid,
       pg_catalog.percentile_disc(0.5) WITHIN GROUP (ORDER BY us) AS p50_us,
       pg_catalog.percentile_disc(0.99) WITHIN GROUP (ORDER BY us) AS p99_us,
       max(us) AS max_us,
       coalesce((extract(epoch FROM max(final_at) - min(final_at)) * 1000000.0)::bigint, 0) AS closing_us,
       (SELECT commit_times FROM settings) AS commit_times
FROM judged
