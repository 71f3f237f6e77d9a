-- outbox_waiting: how many events wait, and for how long the oldest has; what was set aside.
-- $1 bigint where counting ends, $2 bigint[] ids that are passed over: they are published, $3 bigint the id after which to read
-- -> events bigint, oldest_ms bigint, refused bigint (tried again and again), refused_name text (the event name that has been for
--    the longest time), refused_ms bigint (for how long), refused_order text, refused_reason text (of the oldest with that name),
--    unpublishable bigint, unpublishable_reason text (of one of them)
SELECT (SELECT count(*) FROM (SELECT FROM {own}.outbox WHERE id > $3 AND id <> ALL ($2) LIMIT $1) AS waiting) AS events,
       coalesce((SELECT extract(epoch FROM clock_timestamp() - created_at) * 1000.0
                 FROM {own}.outbox WHERE id > $3 AND id <> ALL ($2) AND isfinite(created_at) ORDER BY id LIMIT 1), 0)::bigint AS oldest_ms,
       (SELECT count(*) FROM (SELECT FROM {own}.outbox_refused WHERE waits_for IS NOT NULL LIMIT $1) AS tried) AS refused,
       longest.waits_for AS refused_name,
       (extract(epoch FROM clock_timestamp() - longest.refused_at) * 1000.0)::bigint AS refused_ms,
       first.order_id AS refused_order,
       first.reason AS refused_reason,
       (SELECT count(*) FROM (SELECT FROM {own}.outbox_refused WHERE waits_for IS NULL LIMIT $1) AS given_up) AS unpublishable,
       (SELECT reason FROM {own}.outbox_refused WHERE waits_for IS NULL ORDER BY refused_id LIMIT 1) AS unpublishable_reason
FROM (SELECT) AS one
LEFT JOIN (SELECT waits_for, refused_at FROM {own}.outbox_refused WHERE waits_for IS NOT NULL ORDER BY refused_id LIMIT 1) AS longest ON true
LEFT JOIN LATERAL (SELECT order_id, reason FROM {own}.outbox_refused WHERE waits_for = longest.waits_for ORDER BY id LIMIT 1) AS first ON true
