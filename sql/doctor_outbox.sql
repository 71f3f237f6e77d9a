-- doctor_outbox: how many events wait, for how long the oldest has, and what was set aside.
-- -> events bigint, oldest_ms bigint, refused bigint (tried again and again), refused_name text (one of their event names),
--    unpublishable bigint, unpublishable_reason text (of one of them)
SELECT count(*) AS events,
       coalesce(extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE isfinite(created_at))) * 1000, 0)::bigint
           AS oldest_ms,
       (SELECT count(*) FROM outbox_refused WHERE waits_for IS NOT NULL) AS refused,
       (SELECT event FROM outbox_retries ORDER BY since LIMIT 1) AS refused_name,
       (SELECT count(*) FROM outbox_refused WHERE waits_for IS NULL) AS unpublishable,
       (SELECT reason FROM outbox_refused WHERE waits_for IS NULL ORDER BY refused_id LIMIT 1) AS unpublishable_reason
FROM outbox
