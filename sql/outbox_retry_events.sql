-- outbox_retry_events: the oldest events that wait for each of these event names.
-- $1 text[] event names, $2 bigint events of each at the most, $3 bigint[] refused_ids that are passed over,
-- $4 bigint the id up to which the outbox is not read now, $5 bigint the id from which on events may be left there: the later ones of
-- their orders wait for them
-- -> refused_id bigint, id bigint, event text, order_id text, created_at timestamptz, waits_for text,
--    traceparent text, tracestate text (NULL if they are too long)
SELECT events.* FROM pg_catalog.unnest($1::text[]) AS asked (name), LATERAL (
    SELECT refused_id, id, event, order_id, created_at, waits_for,
           CASE WHEN octet_length(traceparent) = 55 THEN traceparent END AS traceparent,
           CASE WHEN octet_length(tracestate) <= 512 THEN tracestate END AS tracestate
    FROM {own}.outbox_refused AS refused
    WHERE waits_for = asked.name AND refused_id <> ALL ($3)
      AND octet_length(event) BETWEEN 1 AND 255 AND octet_length(order_id) BETWEEN 1 AND 255
      AND created_at BETWEEN '0001-01-01 00:00Z' AND '9999-12-30 00:00Z'
      AND NOT EXISTS (SELECT FROM {own}.outbox_refused AS earlier WHERE earlier.order_id = refused.order_id
                      AND earlier.id < refused.id AND earlier.waits_for <> refused.waits_for
                      AND earlier.refused_id <> ALL ($3))
      AND order_id NOT IN (SELECT order_id FROM {own}.outbox WHERE id >= $5 AND id <= $4 AND order_id IS NOT NULL)
    ORDER BY id LIMIT $2
) AS events
ORDER BY events.id
