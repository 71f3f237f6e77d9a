-- schedule_waiting: number of notices to publish, age and timeout of the oldest one, and refused notices.
-- $1 bigint most rows to count
-- -> notices bigint, oldest_ms bigint, refused bigint, reason text (of one of these), timeout text (of the oldest)
SELECT (SELECT count(*) FROM (SELECT FROM {own}.scheduled_notices LIMIT $1) AS waiting) AS notices,
       coalesce((SELECT extract(epoch FROM clock_timestamp() - scheduled_at) * 1000.0
                 FROM {own}.scheduled_notices WHERE isfinite(scheduled_at) ORDER BY id LIMIT 1), 0)::bigint AS oldest_ms,
       (SELECT count(*) FROM (SELECT FROM {own}.scheduled_notices_refused LIMIT $1) AS set_aside) AS refused,
       (SELECT reason FROM {own}.scheduled_notices_refused ORDER BY refused_id LIMIT 1) AS reason,
       (SELECT left(timeout, 200) FROM {own}.scheduled_notices ORDER BY id LIMIT 1) AS timeout
