-- doctor_outbox: how many events wait, for how long the oldest has, and what was set aside.
-- -> events bigint, oldest_ms bigint, refused bigint (tried again and again), refused_name text (the event name that has been for
--    the longest time), refused_ms bigint (for how long), refused_order text, refused_reason text (of the oldest with that name),
--    unpublishable bigint, unpublishable_reason text (of one of them)
SELECT waiting.events,
       waiting.oldest_ms,
       (SELECT count(*) FROM outbox_refused WHERE waits_for IS NOT NULL) AS refused,
       longest.waits_for AS refused_name,
       (extract(epoch FROM clock_timestamp() - longest.refused_at) * 1000.0)::bigint AS refused_ms,
       first.order_id AS refused_order,
       first.reason AS refused_reason,
       (SELECT count(*) FROM outbox_refused WHERE waits_for IS NULL) AS unpublishable,
       (SELECT reason FROM outbox_refused WHERE waits_for IS NULL ORDER BY refused_id LIMIT 1) AS unpublishable_reason
FROM (SELECT count(*) AS events,
             coalesce(extract(epoch FROM clock_timestamp() - min(created_at) FILTER (WHERE isfinite(created_at))) * 1000.0, 0)::bigint
                 AS oldest_ms
      FROM outbox) AS waiting
LEFT JOIN (SELECT waits_for, refused_at FROM outbox_refused WHERE waits_for IS NOT NULL ORDER BY refused_id LIMIT 1) AS longest ON true
LEFT JOIN LATERAL (SELECT order_id, reason FROM outbox_refused WHERE waits_for = longest.waits_for ORDER BY id LIMIT 1) AS first ON true
