-- watch_outbox: how many events wait, and for how long the oldest has; what was set aside; the time. For metrics, so that
-- it costs the same however much there is.
-- $1 bigint where counting ends, $2 bigint[] ids that are passed over: they are published, $3 bigint the id after which to read
-- -> events bigint, oldest_ms bigint, refused bigint (tried again and again), unpublishable bigint, now timestamptz
SELECT (SELECT count(*) FROM (SELECT FROM outbox WHERE id > $3 AND id <> ALL ($2) LIMIT $1) AS waiting) AS events,
       coalesce((SELECT extract(epoch FROM clock_timestamp() - created_at) * 1000.0
                 FROM outbox WHERE id > $3 AND id <> ALL ($2) AND isfinite(created_at) ORDER BY id LIMIT 1), 0)::bigint AS oldest_ms,
       (SELECT count(*) FROM (SELECT FROM outbox_refused WHERE waits_for IS NOT NULL LIMIT $1) AS tried) AS refused,
       (SELECT count(*) FROM (SELECT FROM outbox_refused WHERE waits_for IS NULL LIMIT $1) AS given_up) AS unpublishable,
       clock_timestamp() AS now
