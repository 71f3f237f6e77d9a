-- doctor_schedule: how many notices wait to be published, for how long the oldest has and for which timeout, and what was set aside.
-- -> notices bigint, oldest_ms bigint, refused bigint, reason text (of one of these), timeout text (of the oldest)
SELECT count(*) AS notices,
       coalesce(extract(epoch FROM clock_timestamp() - min(scheduled_at) FILTER (WHERE isfinite(scheduled_at))) * 1000.0, 0)::bigint
           AS oldest_ms,
       (SELECT count(*) FROM scheduled_notices_refused) AS refused,
       (SELECT reason FROM scheduled_notices_refused ORDER BY refused_id LIMIT 1) AS reason,
       (SELECT left(timeout, 200) FROM scheduled_notices ORDER BY id LIMIT 1) AS timeout
FROM scheduled_notices
